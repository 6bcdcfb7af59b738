//! A TCP proxy before the API server, whose cable can be cut.

use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::cluster::kubeconfig;

/// Passes everything on until it is cut: then nothing comes through, and nobody is told.
pub struct Proxy {
    cut: CancellationToken,
    end: CancellationToken,
    kubeconfig: PathBuf,
}

impl Proxy {
    /// Before the API server of `KUBECONFIG`; `None` where that is not on this machine.
    pub async fn start(folder: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(kubeconfig()).unwrap();
        let (_, rest) = text.split_once("https://127.0.0.1:")?;
        let port: u16 = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let kubeconfig = folder.join("through-the-proxy");
        let through = text.replace(&format!("https://127.0.0.1:{port}"), &format!("https://127.0.0.1:{own}"));
        std::fs::write(&kubeconfig, through).unwrap();
        let (cut, end) = (CancellationToken::new(), CancellationToken::new());
        tokio::spawn(accept(listener, port, cut.clone(), end.clone()));
        Some(Self { cut, end, kubeconfig })
    }

    /// The kubeconfig that leads through it.
    pub fn flag(&self) -> String {
        format!("--kubeconfig={}", self.kubeconfig.display())
    }

    pub fn cut(&self) {
        self.cut.cancel();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

async fn accept(listener: TcpListener, port: u16, cut: CancellationToken, end: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = end.cancelled() => return,
        };
        let (client, _) = accepted.unwrap();
        let (cut, end) = (cut.clone(), end.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = pass_on(client, port, cut) => {}
                () = end.cancelled() => {}
            }
        });
    }
}

async fn pass_on(client: TcpStream, port: u16, cut: CancellationToken) {
    if cut.is_cancelled() {
        // Held, as a packet filter that drops everything holds it.
        let _held = client;
        return std::future::pending().await;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::select! {
        () = copy(&mut from_client, &mut to_server, &cut) => {}
        () = copy(&mut from_server, &mut to_client, &cut) => {}
    }
}

async fn copy(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    cut: &CancellationToken,
) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = tokio::select! {
            biased;
            () = cut.cancelled() => return std::future::pending().await,
            read = from.read(&mut buffer) => read,
        };
        match read {
            Ok(count) if count > 0 && to.write_all(&buffer[..count]).await.is_ok() => {}
            _ => return,
        }
    }
}
