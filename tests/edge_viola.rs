//! The Viola client against small servers on loopback.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests

mod edge_support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use edge_support::{Server, viola::*};
use multinic_actors::boundary::{BoxFuture, Delivery};
use multinic_actors::domain::config::{Config, SecretKeyRef};
use multinic_actors::domain::node::NodeConfig;
use multinic_actors::domain::post::{PostAnswer, PostError, PostFailure};
use multinic_operator::http::TokenFile;
use multinic_operator::secrets::{SecretData, SecretError, SecretSource};
use multinic_operator::upstream::{Upstream, UpstreamSettings};
use multinic_operator::viola::{ViolaClient, ViolaSettings};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// Long enough for any loaded machine.
const PATIENT: Duration = Duration::from_secs(60);

struct Secrets(Result<BTreeMap<String, SecretData>, String>);

impl SecretSource for Secrets {
    fn get(&self, namespace: &str, name: &str) -> BoxFuture<'_, Result<Option<SecretData>, SecretError>> {
        let answer = match &self.0 {
            Ok(secrets) => Ok(secrets.get(&format!("{namespace}/{name}")).cloned()),
            Err(problem) => Err(SecretError {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                problem: problem.clone(),
            }),
        };
        Box::pin(async move { answer })
    }
}

fn no_secrets() -> Secrets {
    Secrets(Ok(BTreeMap::new()))
}

fn client_with(secrets: Secrets, change: impl FnOnce(&mut ViolaSettings)) -> ViolaClient {
    // Whoever installs first wins; all tests install the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut settings = ViolaSettings { timeout: PATIENT, insecure_tls: false, token: None };
    change(&mut settings);
    let upstream = Upstream::new(&UpstreamSettings::default()).unwrap();
    ViolaClient::new(Arc::new(upstream), Arc::new(secrets), settings)
}

fn client() -> ViolaClient {
    client_with(no_secrets(), |_| {})
}

async fn post(client: &ViolaClient, config: Config) -> Result<PostAnswer, PostError> {
    client.post(Arc::new(config), vec![node("worker-1"), node("worker-2")]).await
}

fn node(name: &str) -> Arc<NodeConfig> {
    let record =
        edge_support::record("p", name, "a3c1c0de-0000-4000-8000-000000000001", 2, "2026-01-01T00:00:00Z");
    record.config
}

/// What a server saw of a request.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(String, HeaderMap, Value)>>>);

impl Seen {
    /// A server that notes each request and answers as `answer` says.
    async fn server<R: IntoResponse>(
        &self,
        answer: impl Fn() -> R + Clone + Send + Sync + 'static,
    ) -> Server {
        let seen = self.clone();
        let router = axum::Router::new().fallback(
            async move |uri: Uri, headers: HeaderMap, body: Bytes| -> Response {
                let body = serde_json::from_slice(&body).unwrap();
                seen.0.lock().unwrap().push((uri.to_string(), headers, body));
                answer().into_response()
            },
        );
        Server::start(router).await
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn last(&self) -> (String, HeaderMap, Value) {
        self.0.lock().unwrap().last().unwrap().clone()
    }
}

#[tokio::test]
async fn the_request_is_the_documented_one() {
    let seen = Seen::default();
    let server = seen.server(|| "").await;
    let answer = post(&client(), config(&format!("http://{}/", server.address))).await;
    assert_eq!(answer, Ok(PostAnswer::AllAccepted));

    let (path, headers, body) = seen.last();
    assert_eq!(path, "/v1/k8s/multinic/node-configs");
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["x-provider-id"], "5d1f8a52-6a0e-4b53-9f0d-0f6f1f3f5a01");
    assert!(headers["user-agent"].to_str().unwrap().starts_with("multinic-operator/"));
    assert_eq!(headers.get("authorization"), None);
    let interface = |id: u8| {
        json!({
            "id": id, "name": format!("multinic{id}"), "macAddress": format!("fa:16:3e:00:00:{id:02x}"),
            "address": format!("192.0.2.{}", 10 + id), "cidr": "192.0.2.0/24", "mtu": 1450,
        })
    };
    let node = |name: &str| {
        json!({
            "nodeName": name, "instanceId": "a3c1c0de-0000-4000-8000-000000000001",
            "interfaces": [interface(0), interface(1)],
        })
    };
    assert_eq!(body, json!([node("worker-1"), node("worker-2")]));
}

#[tokio::test]
async fn every_answer_has_its_meaning_and_its_text() {
    use PostFailure::{Refused, Rejected, ServerError, Unavailable, UnknownOutcome};
    let cases = [
        (408, UnknownOutcome),
        (429, Unavailable),
        (502, UnknownOutcome),
        (503, UnknownOutcome),
        (504, UnknownOutcome),
        (400, Refused),
        (409, Refused),
        (413, Refused),
        (422, Refused),
        (500, ServerError),
        (302, Rejected),
        (401, Rejected),
        (403, Rejected),
        (404, Rejected),
        (405, Rejected),
        (418, Rejected),
    ];
    let client = client();
    for (code, failure) in cases {
        let status = StatusCode::from_u16(code).unwrap();
        let seen = Seen::default();
        let server = seen
            .server(move || {
                (status, [("location", "/elsewhere"), ("retry-after", "7")], "mtu is missing\nin worker-1")
            })
            .await;
        let error = post(&client, config(&server.url())).await.unwrap_err();
        assert_eq!(error.failure, failure, "{code}");
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)), "{code}");
        let expected = format!("viola: post node configs: {status} \"mtu is missing in worker-1\"");
        assert_eq!(error.message, expected);
        assert_eq!(seen.count(), 1, "{code}: redirects are not followed, nothing is repeated");
    }
}

#[tokio::test]
async fn any_2xx_is_a_success_and_results_are_read_node_by_node() {
    for code in [200, 201, 202, 204] {
        let status = StatusCode::from_u16(code).unwrap();
        let server = Seen::default().server(move || status).await;
        assert_eq!(post(&client(), config(&server.url())).await, Ok(PostAnswer::AllAccepted), "{code}");
    }
    let body = r#"{"applied":1,"results":[{"nodeName":"worker-1","status":"applied"},
        {"nodeName":"worker-2","status":"failed","message":"no such node"}]}"#;
    let server = Seen::default().server(move || (StatusCode::MULTI_STATUS, body)).await;
    let Ok(PostAnswer::PerNode(results)) = post(&client(), config(&server.url())).await else {
        panic!("not node by node")
    };
    let results: Vec<_> = results.iter().map(|r| (r.node.as_str(), r.result.clone())).collect();
    assert_eq!(results, [("worker-1", Ok(())), ("worker-2", Err("no such node".to_owned()))]);
}

#[tokio::test]
async fn the_outcome_of_a_timeout_or_a_lost_connection_is_unknown() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config_of = |listener: &TcpListener| config(&format!("http://{}", listener.local_addr().unwrap()));
    let hasty = client_with(no_secrets(), |settings| settings.timeout = Duration::from_millis(50));
    let error = post(&hasty, config_of(&silent)).await.unwrap_err();
    assert_eq!(error.failure, PostFailure::UnknownOutcome);
    assert_eq!(error.message, "viola: post node configs: no answer within 50ms");

    let closing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = config_of(&closing);
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = closing.accept().await.unwrap();
            // The whole request, or closing would be a reset.
            let mut request = Vec::new();
            while !request.ends_with(b"}]}]") && connection.read_buf(&mut request).await.unwrap() > 0 {}
        }
    });
    let error = post(&client(), config).await.unwrap_err();
    assert_eq!(error.failure, PostFailure::UnknownOutcome);
    assert_eq!(error.message, "viola: post node configs: the connection was closed without an answer");
}

#[tokio::test]
async fn without_a_connection_nothing_was_carried_out() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let error = post(&client(), config(&format!("http://{address}"))).await.unwrap_err();
    assert_eq!(error.failure, PostFailure::Unavailable);
    let expected = format!("viola: post node configs: no connection to {address}: connection refused");
    assert_eq!(error.message, expected);
}

#[tokio::test]
async fn an_endpoint_that_is_no_url_is_rejected() {
    let error = post(&client(), config("viola")).await.unwrap_err();
    assert_eq!(error.failure, PostFailure::Rejected);
    assert!(error.message.contains("the endpoint is no URL"), "{}", error.message);
}

#[tokio::test]
async fn the_token_is_read_anew_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let client = client_with(no_secrets(), |settings| settings.token = Some(TokenFile::new(&path)));
    let seen = Seen::default();
    let server = seen.server(|| StatusCode::FORBIDDEN).await;

    let error = post(&client, config(&server.url())).await.unwrap_err();
    assert_eq!(error.failure, PostFailure::Unavailable, "the file may come back");
    assert!(error.message.contains("token file"), "{}", error.message);
    assert_eq!(seen.count(), 0, "not sent without its token");

    for token in ["first-token", "second-token"] {
        std::fs::write(&path, format!("{token}\n")).unwrap();
        let error = post(&client, config(&server.url())).await.unwrap_err();
        assert_eq!(seen.last().1["authorization"], format!("Bearer {token}"));
        assert!(!format!("{error:?} {client:?}").contains(token));
    }
}

#[tokio::test]
async fn a_certificate_is_verified_unless_the_settings_say_otherwise() {
    let server = TlsServer::start().await;
    let error = post(&client(), config(&server.url)).await.unwrap_err();
    assert_eq!(error.failure, PostFailure::Unavailable);
    assert!(error.message.contains("unknown issuer"), "{}", error.message);

    let insecure = client_with(no_secrets(), |settings| settings.insecure_tls = true);
    assert_eq!(post(&insecure, config(&server.url)).await, Ok(PostAnswer::AllAccepted));
}

#[tokio::test]
async fn a_config_brings_its_own_ca_bundle() {
    let server = TlsServer::start().await;
    let with_bundle = |key: &str| {
        let mut config = config(&server.url);
        config.cloud.ca_bundle = Some(SecretKeyRef { name: "ca".to_owned(), key: key.to_owned() });
        config
    };
    let secrets = || {
        let mut data = SecretData::from([("ca.crt", server.ca_pem.as_str()), ("bad", "not PEM")]);
        data.insert_bytes("bytes", vec![0xff]);
        Secrets(Ok([("ns/ca".to_owned(), data)].into()))
    };
    let client = client_with(secrets(), |_| {});
    assert_eq!(post(&client, with_bundle("ca.crt")).await, Ok(PostAnswer::AllAccepted));

    for (client, key, failure, text) in [
        (client_with(secrets(), |_| {}), "bad", PostFailure::Rejected, "no usable PEM certificate"),
        (client_with(secrets(), |_| {}), "other", PostFailure::Rejected, "it has no key other"),
        (client_with(secrets(), |_| {}), "bytes", PostFailure::Rejected, "it has no UTF-8 text in key bytes"),
        (client_with(no_secrets(), |_| {}), "ca.crt", PostFailure::Rejected, "there is no such secret"),
        (
            client_with(Secrets(Err("away".to_owned())), |_| {}),
            "ca.crt",
            PostFailure::Unavailable,
            "secret ns/ca: away",
        ),
    ] {
        let error = post(&client, with_bundle(key)).await.unwrap_err();
        assert_eq!(error.failure, failure, "{key}");
        assert!(error.message.contains(text), "{key}: {}", error.message);
    }
}
