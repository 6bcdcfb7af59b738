//! The HTTP layer against servers that misbehave in every way we have seen.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use multinic_operator::upstream::{
    Body, Call, ErrorKind, MAX_BODY, Repeat, Tls, Upstream, UpstreamError, UpstreamSettings,
};
use reqwest::{Method, Request, Url};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a connection does with the next request.
#[derive(Clone)]
enum Do {
    Answer(&'static str),
    Bytes(Vec<u8>),
    Close,
    Hang,
    /// A body without end.
    Flood,
}

struct Server {
    addr: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

impl Server {
    async fn start(script: impl IntoIterator<Item = Do>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(script.into_iter().collect::<VecDeque<_>>()));
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (seen, log) = (Arc::clone(&connections), Arc::clone(&requests));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                seen.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, Arc::clone(&script), Arc::clone(&log)));
            }
        });
        Self { addr, connections, requests }
    }

    fn url(&self, path: &str) -> Url {
        format!("http://{}{path}", self.addr).parse().unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn requests(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Mutex<VecDeque<Do>>>, log: Arc<Mutex<Vec<String>>>) {
    let mut got = Vec::new();
    loop {
        while !got.windows(4).any(|w| w == b"\r\n\r\n") {
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(n) => got.extend_from_slice(&buffer[..n]),
            }
        }
        log.lock().unwrap().push(String::from_utf8_lossy(&got).into_owned());
        got.clear();
        let next = script.lock().unwrap().pop_front().unwrap_or(Do::Answer(OK));
        match next {
            Do::Answer(answer) => {
                stream.write_all(answer.as_bytes()).await.unwrap();
                if answer.contains("Connection: close") {
                    return;
                }
            }
            Do::Bytes(answer) => drop(stream.write_all(&answer).await),
            Do::Close => return,
            Do::Hang => std::future::pending().await,
            Do::Flood => {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).await.unwrap();
                let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
                while stream.write_all(chunk.as_bytes()).await.is_ok() {}
                return;
            }
        }
    }
}

fn upstream() -> Upstream {
    rustls::crypto::ring::default_provider().install_default().ok();
    Upstream::new(&UpstreamSettings::default()).unwrap()
}

fn call(repeat: Repeat) -> Call {
    Call {
        namespace: "n".into(),
        service: "neutron",
        operation: "list ports",
        cloud: Arc::from("provider"),
        timeout: Duration::from_secs(20),
        repeat,
        tls: Tls::default(),
    }
}

async fn get(upstream: &Upstream, url: Url) -> Result<(), UpstreamError> {
    let request = Request::new(Method::GET, url);
    upstream.send(&call(Repeat::OnceIfClosed), request).await.map(drop)
}

/// `{"ports": []}` as gzip makes it.
const GZIPPED: [u8; 33] = [
    31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 86, 42, 200, 47, 42, 41, 86, 178, 82, 136, 142, 173, 5, 0, 174, 55,
    205, 19, 13, 0, 0, 0,
];

fn gzip_answer(body: &[u8]) -> Do {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", body.len());
    Do::Bytes([head.as_bytes(), body].concat())
}

/// Gzip of one letter, so many times (a multiple of 258, and one more): RFC 1951, one block with fixed codes.
fn gzip_bomb(size: usize) -> Vec<u8> {
    let mut bits = vec![true, true, false]; // the last block, fixed Huffman codes
    let mut code = |code: u16, length: u16| bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
    code(0x30 + u16::from(b'x'), 8);
    for _ in 0..size / 258 {
        code(0b1100_0101, 8); // 258 letters
        code(0, 5); // from one letter back
    }
    code(0, 7);
    let byte = |bits: &[bool]| bits.iter().enumerate().fold(0, |byte, (at, bit)| byte | u8::from(*bit) << at);
    let deflated = bits.chunks(8).map(byte);
    [31, 139, 8, 0, 0, 0, 0, 0, 2, 3].into_iter().chain(deflated).chain([0; 8]).collect()
}

#[tokio::test]
async fn a_gzipped_answer_is_decoded() {
    let (server, upstream) = (Server::start([gzip_answer(&GZIPPED)]).await, upstream());
    let request = Request::new(Method::GET, server.url("/"));
    let answer = upstream.send(&call(Repeat::OnceIfClosed), request).await.unwrap();
    assert_eq!(answer.body, b"{\"ports\": []}");
}

#[tokio::test]
async fn the_bound_on_a_body_counts_what_it_decodes_to() {
    let bomb = gzip_bomb(MAX_BODY + 258);
    assert!(bomb.len() < MAX_BODY / 100, "{}", bomb.len());
    let small = gzip_bomb(258 * 1000);
    let (server, upstream) = (Server::start([gzip_answer(&bomb), gzip_answer(&small)]).await, upstream());
    let error = get(&upstream, server.url("/")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge(MAX_BODY));
    // The same without the right checksum at its end, but within the bound: it is decoded to the end.
    let error = get(&upstream, server.url("/")).await.unwrap_err();
    assert!(!matches!(error.kind, ErrorKind::TooLarge(_)), "{error}");
}

#[tokio::test]
async fn connections_are_reused() {
    let (server, upstream) = (Server::start([]).await, upstream());
    for _ in 0..5 {
        get(&upstream, server.url("/")).await.unwrap();
    }
    assert_eq!((server.requests(), server.connections()), (5, 1));
    let request = server.requests.lock().unwrap()[0].to_lowercase();
    assert!(request.contains("user-agent: multinic-operator/"), "{request}");
    assert!(request.contains("accept-encoding: gzip"), "{request}");
}

#[tokio::test]
async fn a_reused_connection_that_was_closed_is_tried_once_more() {
    let server = Server::start([Do::Answer(OK), Do::Close]).await;
    let upstream = upstream();
    get(&upstream, server.url("/")).await.unwrap();
    get(&upstream, server.url("/")).await.unwrap();
    assert_eq!((server.requests(), server.connections()), (3, 2));
}

#[tokio::test]
async fn a_fresh_connection_that_was_closed_is_an_error_at_once() {
    let (server, upstream) = (Server::start([Do::Close]).await, upstream());
    let error = get(&upstream, server.url("/v2.0/ports?device_id=secret")).await.unwrap_err();
    assert_eq!(error.to_string(), "neutron: list ports: the connection was closed without an answer");
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn what_must_not_happen_twice_is_sent_once() {
    let server = Server::start([Do::Answer(OK), Do::Close]).await;
    let upstream = upstream();
    get(&upstream, server.url("/")).await.unwrap();
    let post = Request::new(Method::POST, server.url("/"));
    let error = upstream.send(&call(Repeat::Never), post).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ConnectionLost { answer_began: false });
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn a_cut_off_answer_is_an_error() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{\"ports\":[";
    let (server, upstream) = (Server::start([Do::Answer(cut)]).await, upstream());
    let error = get(&upstream, server.url("/")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ConnectionLost { answer_began: true });
}

#[tokio::test]
async fn nobody_there_is_told_without_a_local_port() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = server.local_addr().unwrap();
    drop(server);
    let url = format!("http://{addr}/?token=secret").parse().unwrap();
    let error = get(&upstream(), url).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("neutron: list ports: no connection to {addr}: connection refused")
    );
}

#[tokio::test]
async fn an_unknown_host_is_told() {
    let url = "http://no-such-host.invalid/".parse().unwrap();
    let error = get(&upstream(), url).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "neutron: list ports: no connection to no-such-host.invalid:80: the host name cannot be resolved"
    );
}

#[tokio::test]
async fn a_hanging_service_ends_with_the_deadline() {
    let (server, upstream) = (Server::start([Do::Hang]).await, upstream());
    let call = Call { timeout: Duration::from_millis(50), ..call(Repeat::OnceIfClosed) };
    let request = Request::new(Method::GET, server.url("/"));
    let error = upstream.send(&call, request).await.unwrap_err();
    assert_eq!(error.to_string(), "neutron: list ports: no answer within 50ms");
}

#[tokio::test]
async fn an_endless_body_is_cut_off() {
    let (server, upstream) = (Server::start([Do::Flood]).await, upstream());
    let error = get(&upstream, server.url("/")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge(MAX_BODY));
}

#[tokio::test]
async fn a_redirect_is_an_error_and_not_followed() {
    let moved = "HTTP/1.1 308 Permanent Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n";
    let (server, upstream) = (Server::start([Do::Answer(moved)]).await, upstream());
    let error = get(&upstream, server.url("/")).await.unwrap_err();
    assert_eq!(error.to_string(), "neutron: list ports: 308 Permanent Redirect");
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn an_error_answer_gives_words_request_id_and_wait() {
    let away = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nx-openstack-request-id: req-1\r\n\
                Content-Length: 26\r\nContent-Type: application/json\r\n\r\n{\"message\": \"come later\"}\n";
    let (server, upstream) = (Server::start([Do::Answer(away)]).await, upstream());
    let error = get(&upstream, server.url("/")).await.unwrap_err();
    assert_eq!(error.to_string(), r#"neutron: list ports: 503 Service Unavailable "come later""#);
    assert_eq!(error.request_id.as_deref(), Some("req-1"));
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    assert!(matches!(error.kind, ErrorKind::Status { body: Body::Json, .. }));
}

#[tokio::test]
async fn what_is_no_http_is_told() {
    let (server, upstream) = (Server::start([Do::Answer("SSH-2.0-OpenSSH_9.2\r\n")]).await, upstream());
    let error = get(&upstream, server.url("/")).await.unwrap_err();
    assert_eq!(error.to_string(), "neutron: list ports: the answer is not HTTP");
}

mod tls {
    use super::*;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::{self, pki_types::PrivateKeyDer};

    /// A TLS server for the name `localhost`, and the PEM of its authority.
    async fn start() -> (SocketAddr, String) {
        rustls::crypto::ring::default_provider().install_default().ok();
        let mut authority = rcgen::CertificateParams::new(vec![]).unwrap();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let pem = authority.self_signed(&authority_key).unwrap().pem();
        let issuer = rcgen::Issuer::from_params(&authority, &authority_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut buffer = [0; 4096];
                    let _ = stream.read(&mut buffer).await;
                    let _ = stream.write_all(OK.as_bytes()).await;
                });
            }
        });
        (addr, pem)
    }

    async fn try_with(port: u16, host: &str, tls: Tls, operator_wide: Option<String>) -> Result<(), String> {
        let upstream =
            Upstream::new(&UpstreamSettings { ca_bundle: operator_wide, ..UpstreamSettings::default() })
                .unwrap();
        let call = Call { tls, ..call(Repeat::OnceIfClosed) };
        let url = format!("https://{host}:{port}/").parse().unwrap();
        match upstream.send(&call, Request::new(Method::GET, url)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[tokio::test]
    async fn an_unknown_authority_is_refused_until_a_bundle_vouches_for_it() {
        let (addr, pem) = start().await;
        let port = addr.port();
        assert_eq!(
            try_with(port, "localhost", Tls::default(), None).await.unwrap_err(),
            format!(
                "neutron: list ports: TLS with localhost:{port}: the certificate is signed by an unknown \
                 issuer; trust it with a CA bundle"
            )
        );
        let own = Tls::new(false, Some(&pem)).unwrap();
        assert_eq!(try_with(port, "localhost", own, None).await, Ok(()));
        assert_eq!(try_with(port, "localhost", Tls::default(), Some(pem)).await, Ok(()));
        assert_eq!(try_with(port, "localhost", Tls::new(true, None).unwrap(), None).await, Ok(()));
    }

    #[tokio::test]
    async fn a_certificate_for_another_name_is_refused() {
        let (addr, pem) = start().await;
        let own = Tls::new(false, Some(&pem)).unwrap();
        let error = try_with(addr.port(), "127.0.0.1", own, None).await.unwrap_err();
        assert!(error.ends_with("the certificate is for another name"), "{error}");
    }

    #[tokio::test]
    async fn plain_http_behind_an_https_url_is_told() {
        rustls::crypto::ring::default_provider().install_default().ok();
        let bad_request = "HTTP/1.1 400 Bad Request\r\n\r\n";
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(bad_request.as_bytes()).await;
            }
        });
        let error = try_with(port, "localhost", Tls::default(), None).await.unwrap_err();
        assert!(error.ends_with("the server does not speak TLS on this port"), "{error}");
    }

    #[test]
    fn a_bundle_without_a_certificate_is_refused() {
        assert!(Tls::new(false, Some("not a certificate")).is_err());
        assert!(Tls::new(false, Some("")).is_err());
    }
}
