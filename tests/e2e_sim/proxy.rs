//! Proxies from the environment. The binary runs as a process of its own, so that no other test sees them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::e2e_support::{Spec, delivered, until};
use crate::process::{Process, binary, stdout};
use crate::world::{BIZ, World, says};

/// A proxy for plain HTTP that finds every host on loopback, and refuses tunnels.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<BTreeSet<String>>>,
}

impl Proxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, Arc::clone(&log)));
            }
        });
        Self { address, asked }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The hosts that it was asked for, with their ports; `CONNECT ` before those of tunnels.
    fn asked(&self) -> BTreeSet<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// A connection of a client is for one host: it pools them by host.
async fn pass_on(mut client: TcpStream, asked: Arc<Mutex<BTreeSet<String>>>) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match client.read_buf(&mut head).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
    let target = line.split(' ').nth(1).unwrap_or_default();
    let authority = target.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned();
    if line.starts_with("CONNECT ") {
        asked.lock().unwrap().insert(format!("CONNECT {authority}"));
        let _ = client.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await;
        return;
    }
    let port = authority.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).unwrap_or(80);
    asked.lock().unwrap().insert(authority);
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    if server.write_all(&head).await.is_ok() {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}

/// Under a name that only the proxy can find.
fn renamed(url: &str, host: &str) -> String {
    let renamed = url.replace("127.0.0.1", host);
    assert_ne!(renamed, url);
    renamed
}

fn authority(url: &str) -> String {
    url.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned()
}

async fn delivers(world: &World, spec: &Spec, environment: &[(&str, &str)]) {
    world.operator.declare(spec);
    let _process = Process::start_as(&world.operator, &[], environment).await;
    let is_right = || delivered(&world.viola, BIZ) == world.expected(spec);
    until("viola has what the cloud has", is_right, || format!("{:#?}", delivered(&world.viola, BIZ))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_the_cloud_and_to_viola_go_through_the_proxy() {
    let (world, proxy) = (World::new(), Proxy::start().await);
    let spec = Spec {
        contrabass: renamed(&world.cloud.contrabass_url(), "contrabass.test"),
        viola: renamed(&world.viola.url(), "viola.test"),
        ..world.spec("a", &world.vms(2))
    };
    delivers(&world, &spec, &[("HTTP_PROXY", &proxy.url())]).await;
    let asked = proxy.asked();
    for url in [&spec.contrabass, &spec.viola] {
        assert!(asked.contains(&authority(url)), "{asked:?}");
    }
    assert!(asked.iter().any(|host| host.starts_with("127.0.0.1:")), "OpenStack as well: {asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_proxy_names_is_reached_without_it() {
    let (world, proxy) = (World::new(), Proxy::start().await);
    let spec = Spec {
        contrabass: renamed(&world.cloud.contrabass_url(), "contrabass.test"),
        ..world.spec("a", &world.vms(2))
    };
    let environment = [("http_proxy", &*proxy.url()), ("NO_PROXY", "viola.example, 127.0.0.0/8")];
    delivers(&world, &spec, &environment).await;
    assert_eq!(proxy.asked(), BTreeSet::from([authority(&spec.contrabass)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_goes_through_a_tunnel_of_the_proxy_and_a_refused_one_is_told() {
    let (world, proxy) = (World::new(), Proxy::start().await);
    let spec =
        Spec { contrabass: "https://contrabass.test:8443/base".to_owned(), ..world.spec("a", &world.vms(1)) };
    world.operator.declare(&spec);
    let mut command = binary();
    command.args(["plan", "--all", &format!("--config-dir={}", world.operator.dir().display())]);
    command.env("HTTPS_PROXY", proxy.url());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(proxy.asked(), BTreeSet::from(["CONNECT contrabass.test:8443".to_owned()]));
    assert_eq!(output.status.code(), Some(1));
    says(&stdout(&output), &["ContrabassError", "contrabass.test:8443"]);
}
