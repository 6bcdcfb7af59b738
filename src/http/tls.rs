//! TLS for a server: a listener whose connections shake hands while they are served, and a certificate that
//! is read again when its files change.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How often the files are looked at, at most.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// The certificate or its key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct TlsError {
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
}

/// A certificate chain and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Certificate {
    fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let of = |path: &PathBuf, problem: String| TlsError { path: path.display().to_string(), problem };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&self.cert)
            .and_then(Iterator::collect)
            .map_err(|error| of(&self.cert, error.to_string()))?;
        if chain.is_empty() {
            return Err(of(&self.cert, "there is no PEM certificate in it".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| {
            of(
                &self.key,
                match error {
                    pem::Error::NoItemsFound => "there is no PEM private key in it".to_owned(),
                    error => error.to_string(),
                },
            )
        })?;
        server_config(chain, key).map_err(|error| of(&self.cert, error.to_string()))
    }

    fn changed_at(&self) -> [Option<SystemTime>; 2] {
        [&self.cert, &self.key].map(|path| std::fs::metadata(path).and_then(|file| file.modified()).ok())
    }
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A listener that speaks TLS.
pub struct TlsListener<L> {
    inner: L,
    /// None: self-made.
    certificate: Option<Certificate>,
    config: Arc<ServerConfig>,
    changed_at: [Option<SystemTime>; 2],
    looked_at: Instant,
}

impl<L> TlsListener<L> {
    /// Reads the files once.
    ///
    /// # Errors
    /// When they cannot be read, or do not belong together.
    pub fn new(inner: L, certificate: Certificate) -> Result<Self, TlsError> {
        let (config, changed_at) = (certificate.config()?, certificate.changed_at());
        let certificate = Some(certificate);
        Ok(Self { inner, certificate, config, changed_at, looked_at: Instant::now() })
    }

    /// With a certificate that is made now and signed by nobody: it keeps listeners out, and tells nobody who
    /// answers.
    ///
    /// # Errors
    /// When none can be made.
    pub fn self_made(inner: L, host: &str) -> Result<Self, TlsError> {
        let problem = |problem: String| TlsError { path: "a self-made certificate".to_owned(), problem };
        let names = vec!["localhost".to_owned(), host.to_owned()];
        let made = rcgen::generate_simple_self_signed(names).map_err(|error| problem(error.to_string()))?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let config = server_config(vec![made.cert.der().clone()], key);
        let config = config.map_err(|error| problem(error.to_string()))?;
        Ok(Self { inner, certificate: None, config, changed_at: [None, None], looked_at: Instant::now() })
    }

    /// A certificate that was renewed on disk serves the next connection; a broken one changes nothing.
    fn look_again(&mut self) {
        if self.looked_at.elapsed() < LOOK_AGAIN {
            return;
        }
        self.looked_at = Instant::now();
        let Some(certificate) = &self.certificate else { return };
        let changed_at = certificate.changed_at();
        if changed_at == self.changed_at {
            return;
        }
        match certificate.config() {
            Ok(config) => {
                self.config = config;
                self.changed_at = changed_at;
                tracing::info!("{}: the certificate was read anew", certificate.cert.display());
            }
            Err(error) => tracing::warn!("the certificate in use stays: {error}"),
        }
    }
}

impl<L: Listener<Io = TcpStream>> Listener for TlsListener<L> {
    type Io = TlsIo;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (TlsIo, L::Addr) {
        let (io, address) = self.inner.accept().await;
        self.look_again();
        let handshake = TlsAcceptor::from(Arc::clone(&self.config)).accept(io);
        (TlsIo::Handshake(Box::new(handshake)), address)
    }

    fn local_addr(&self) -> io::Result<L::Addr> {
        self.inner.local_addr()
    }
}

/// A connection: the handshake is done by whoever serves it, so that a slow client holds up nobody.
pub enum TlsIo {
    /// Not yet a TLS connection.
    Handshake(Box<tokio_rustls::Accept<TcpStream>>),
    /// One.
    Stream(Box<TlsStream<TcpStream>>),
    /// It was no TLS, or the handshake failed.
    Failed,
}

impl TlsIo {
    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut TlsStream<TcpStream>>> {
        if let Self::Handshake(handshake) = self {
            // The end of a handshake comes once; who serves the connection may ask again after a failure.
            let ended = ready!(Pin::new(handshake.as_mut()).poll(cx));
            *self = Self::Failed;
            *self = Self::Stream(Box::new(ended?));
        }
        match self {
            Self::Stream(stream) => Poll::Ready(Ok(stream)),
            Self::Handshake(_) => Poll::Pending,
            Self::Failed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for TlsIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = ready!(self.get_mut().poll_stream(cx))?;
        Pin::new(stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for TlsIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let stream = ready!(self.get_mut().poll_stream(cx))?;
        Pin::new(stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = ready!(self.get_mut().poll_stream(cx))?;
        Pin::new(stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Stream(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
            // There is nothing to say goodbye to.
            Self::Handshake(_) | Self::Failed => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{ServeLimits, serve};
    use axum::{Router, routing::get};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_util::sync::CancellationToken;

    fn write_certificate(folder: &std::path::Path) -> (Certificate, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let cert = params.self_signed(&key).unwrap();
        let certificate = Certificate { cert: folder.join("tls.crt"), key: folder.join("tls.key") };
        std::fs::write(&certificate.cert, cert.pem()).unwrap();
        std::fs::write(&certificate.key, key.serialize_pem()).unwrap();
        (certificate, cert.pem())
    }

    #[tokio::test]
    async fn the_api_is_served_over_tls_while_another_client_never_shakes_hands() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let (certificate, pem) = write_certificate(folder.path());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let listener = TlsListener::new(listener, certificate).unwrap();
        let stop = CancellationToken::new();
        let router = Router::new().route("/healthz", get(|| async { "ok" }));
        let server = tokio::spawn(serve(listener, router, ServeLimits::default(), stop.clone()));
        let _silent = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([reqwest::Certificate::from_pem(pem.as_bytes()).unwrap()])
            .build()
            .unwrap();
        let answer = client.get(format!("https://localhost:{port}/healthz")).send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), "ok");
        stop.cancel();
        server.await.unwrap();
    }

    #[tokio::test]
    async fn who_speaks_no_tls_is_let_go_quietly() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut listener = TlsListener::self_made(listener, "pod-1").unwrap();
        for said in ["GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n", "x", ""] {
            let mut client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let (mut served, _) = listener.accept().await;
            client.write_all(said.as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            let mut bytes = [0; 8];
            // As the server does: it reads, and at an error flushes and shuts down.
            for _ in 0..3 {
                assert!(served.read(&mut bytes).await.is_err(), "{said:?}");
                assert!(served.flush().await.is_err(), "{said:?}");
            }
            served.shutdown().await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_self_made_certificate_encrypts_and_vouches_for_nobody() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let listener = TlsListener::self_made(listener, "pod-1").unwrap();
        let stop = CancellationToken::new();
        let router = Router::new().route("/metrics", get(|| async { "ok" }));
        let server = tokio::spawn(serve(listener, router, ServeLimits::default(), stop.clone()));
        let client = |is_careless: bool| {
            reqwest::Client::builder()
                .no_proxy()
                .tls_danger_accept_invalid_certs(is_careless)
                .build()
                .unwrap()
        };
        let url = format!("https://localhost:{port}/metrics");
        assert!(client(false).get(&url).send().await.is_err());
        assert_eq!(client(true).get(&url).send().await.unwrap().text().await.unwrap(), "ok");
        stop.cancel();
        server.await.unwrap();
    }

    #[tokio::test]
    async fn a_file_that_is_no_certificate_is_named() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let (certificate, _) = write_certificate(folder.path());
        std::fs::write(&certificate.key, "nonsense").unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let error = TlsListener::new(listener, certificate.clone()).err().unwrap();
        let expect = format!("{}: there is no PEM private key in it", certificate.key.display());
        assert_eq!(error.to_string(), expect);
        std::fs::write(&certificate.cert, "nonsense").unwrap();
        let error = certificate.config().err().unwrap();
        let expect = format!("{}: there is no PEM certificate in it", certificate.cert.display());
        assert_eq!(error.to_string(), expect);
    }
}
