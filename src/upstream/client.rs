use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Certificate, Client, Request, Response, Url};
use tracing::Instrument as _;

use super::answer::{Answer, Call, Repeat};
use super::connection::{self, NoticeLayer};
use super::error::{ErrorKind, UpstreamError};
use super::secrecy::Secrets;
use super::span;
use crate::policy::PolicyHandle;
use crate::telemetry::names;
use crate::viola;

/// The largest decoded body that is read. A page of 1,000 ports is about 1 MiB.
pub const MAX_BODY: usize = 16 << 20;
/// How much of an error answer's body is read: only its message matters.
const MAX_ERROR_BODY: usize = 64 << 10;
/// A connection that does not come about in this time will not.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How many sets of TLS settings keep their client. A config with a bundle of its own needs one.
const MAX_CLIENTS: usize = 128;
const USER_AGENT: &str = concat!("multinic-operator/", env!("CARGO_PKG_VERSION"));

/// How the server's certificate is judged. Requests with equal settings share connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    insecure: bool,
    ca_bundle: Option<Arc<str>>,
}

/// A PEM text without a usable certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no usable PEM certificate in it")]
pub struct BadCaBundle;

impl Tls {
    /// `insecure`: any certificate will do. `ca_bundle`: PEM that is trusted beside the system's roots and
    /// the operator-wide bundle.
    ///
    /// # Errors
    /// When the bundle has no certificate.
    pub fn new(insecure: bool, ca_bundle: Option<&str>) -> Result<Self, BadCaBundle> {
        // What is not looked at must not split the pool.
        let ca_bundle = ca_bundle.filter(|_| !insecure);
        if let Some(pem) = ca_bundle {
            certificates(pem)?;
        }
        Ok(Self { insecure, ca_bundle: ca_bundle.map(Arc::from) })
    }
}

fn certificates(pem: &str) -> Result<Vec<Certificate>, BadCaBundle> {
    match Certificate::from_pem_bundle(pem.as_bytes()) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(BadCaBundle),
    }
}

/// Settings that hold for every request.
#[derive(Clone, Debug)]
pub struct UpstreamSettings {
    /// PEM that is trusted for every endpoint beside the system's roots.
    pub ca_bundle: Option<String>,
    /// How long an unused connection is kept: longer than the slow interval, or every poll opens its own.
    pub keep_idle: Duration,
    /// Which namespace may reach which host.
    pub policy: PolicyHandle,
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self { ca_bundle: None, keep_idle: Duration::from_secs(15 * 60), policy: PolicyHandle::default() }
    }
}

/// Sends requests over connections that all configs share.
#[derive(Debug)]
pub struct Upstream {
    ca_bundle: Vec<Certificate>,
    keep_idle: Duration,
    policy: PolicyHandle,
    clients: Mutex<HashMap<Tls, Client>>,
}

impl Upstream {
    /// A pool without connections.
    ///
    /// # Errors
    /// When the operator-wide CA bundle has no certificate.
    pub fn new(settings: &UpstreamSettings) -> Result<Self, BadCaBundle> {
        Ok(Self {
            ca_bundle: settings.ca_bundle.as_deref().map_or(Ok(Vec::new()), certificates)?,
            keep_idle: settings.keep_idle,
            policy: settings.policy.clone(),
            clients: Mutex::default(),
        })
    }

    /// Sends one request and reads its whole answer.
    ///
    /// # Errors
    /// When no complete 2xx answer came, or the policy forbids to ask. Redirects are not followed, and so are
    /// errors too.
    pub async fn send(&self, call: &Call, request: Request) -> Result<Answer, UpstreamError> {
        // Here, and not only where a config is read: hosts come from answers, too.
        self.permits(call, request.url())?;
        let started = tokio::time::Instant::now();
        let outcome = self.send_repeated(call, request).await;
        metrics::histogram!(
            names::UPSTREAM_REQUEST_DURATION,
            "service" => call.service,
            "operation" => call.operation,
        )
        .record(started.elapsed().as_secs_f64());
        outcome
    }

    /// Whether a request may be sent to a host.
    ///
    /// # Errors
    /// When the policy does not let the config's namespace reach it.
    pub fn permits(&self, call: &Call, url: &Url) -> Result<(), UpstreamError> {
        let permitted = match call.service {
            viola::SERVICE => self.policy.permits_delivery(&call.namespace, url),
            _ => self.policy.permits(&call.namespace, url),
        };
        permitted.map_err(|problem| UpstreamError {
            service: call.service,
            operation: call.operation,
            kind: ErrorKind::NotPermitted(problem),
            request_id: None,
            retry_after: None,
        })
    }

    async fn send_repeated(&self, call: &Call, request: Request) -> Result<Answer, UpstreamError> {
        let client = self.client(call, request.url())?;
        let again = match call.repeat {
            Repeat::OnceIfClosed => request.try_clone(),
            Repeat::Never => None,
        };
        let (outcome, opened) = connection::observed(send_once(&client, call, request)).await;
        match (outcome, again) {
            // uWSGI and load balancers end idle connections whenever they like, also in the moment of use.
            (Err(error), Some(again)) if !opened && is_closed_early(&error) => {
                send_once(&client, call, again).await
            }
            (outcome, _) => outcome,
        }
    }

    fn client(&self, call: &Call, url: &Url) -> Result<Client, UpstreamError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&call.tls) {
            return Ok(client.clone());
        }
        let client = self.build(&call.tls).map_err(|_| UpstreamError {
            service: call.service,
            operation: call.operation,
            kind: ErrorKind::Tls {
                to: authority(url),
                problem: "the CA bundle has a certificate that cannot be used".to_owned(),
            },
            request_id: None,
            retry_after: None,
        })?;
        if clients.len() >= MAX_CLIENTS {
            // Requests under way hold their own handle; the others connect anew.
            clients.clear();
        }
        clients.insert(call.tls.clone(), client.clone());
        Ok(client)
    }

    fn build(&self, tls: &Tls) -> reqwest::Result<Client> {
        let own = tls.ca_bundle.as_deref().and_then(|pem| certificates(pem).ok());
        let trusted: Vec<Certificate> =
            self.ca_bundle.iter().cloned().chain(own.into_iter().flatten()).collect();
        let builder = || {
            Client::builder()
                .tls_backend_rustls()
                .connect_timeout(CONNECT_TIMEOUT)
                .pool_idle_timeout(self.keep_idle)
                .redirect(reqwest::redirect::Policy::none())
                .user_agent(USER_AGENT)
                .connector_layer(NoticeLayer)
        };
        if tls.insecure {
            return builder().tls_danger_accept_invalid_certs(true).build();
        }
        // A machine (or an empty image) without any root certificate still reaches http:// endpoints and
        // those that the bundles vouch for.
        builder()
            .tls_certs_merge(trusted.clone())
            .build()
            .or_else(|_| builder().tls_certs_only(trusted).build())
    }
}

async fn send_once(client: &Client, call: &Call, request: Request) -> Result<Answer, UpstreamError> {
    let span = span::of_request(call, &request);
    // Boxed: it is a part of every future that sends something.
    let outcome = Box::pin(attempt(client, call, request)).instrument(span.clone()).await;
    span::record(&span, &outcome);
    outcome
}

async fn attempt(client: &Client, call: &Call, request: Request) -> Result<Answer, UpstreamError> {
    let to = authority(request.url());
    let mut headers = None;
    let outcome =
        match tokio::time::timeout(call.timeout, exchange(client, call, request, &to, &mut headers)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ErrorKind::Timeout(call.timeout)),
        };
    let code = match &outcome {
        Ok(answer) => answer.status.as_u16().to_string(),
        Err(kind) => kind.label(),
    };
    metrics::counter!(
        names::UPSTREAM_REQUESTS,
        "cloud" => call.cloud.to_string(),
        "service" => call.service,
        "operation" => call.operation,
        "code" => code,
    )
    .increment(1);
    outcome.map_err(|kind| {
        let error = UpstreamError {
            service: call.service,
            operation: call.operation,
            kind,
            request_id: None,
            retry_after: None,
        };
        match headers {
            Some(headers) => error.with_headers(&headers, Timestamp::now()),
            None => error,
        }
    })
}

async fn exchange(
    client: &Client,
    call: &Call,
    request: Request,
    to: &str,
    seen: &mut Option<reqwest::header::HeaderMap>,
) -> Result<Answer, ErrorKind> {
    let secrets = Secrets::of(&request);
    let failed = |answer_began: bool| {
        move |error: reqwest::Error| ErrorKind::of_client(&error, to, call.timeout, answer_began)
    };
    let response = client.execute(request).await.map_err(failed(false))?;
    let status = response.status();
    *seen = Some(response.headers().clone());
    if status.is_success() {
        let headers = response.headers().clone();
        let body = match bounded(response, MAX_BODY).await.map_err(failed(true))? {
            Read::Whole(body) => body,
            Read::Cut(_) => return Err(ErrorKind::TooLarge(MAX_BODY)),
        };
        return Ok(Answer { status, headers, body });
    }
    // The status alone is an answer: a body that does not come does not change it.
    let body = match bounded(response, MAX_ERROR_BODY).await {
        Ok(Read::Whole(body) | Read::Cut(body)) => body,
        Err(_) => Vec::new(),
    };
    Err(ErrorKind::of_status(status, &secrets.taken_out_of(&body)))
}

enum Read {
    Whole(Vec<u8>),
    Cut(Vec<u8>),
}

async fn bounded(mut response: Response, most: usize) -> reqwest::Result<Read> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = most - body.len();
        if chunk.len() > room {
            body.extend_from_slice(&chunk[..room]);
            return Ok(Read::Cut(body));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Read::Whole(body))
}

fn is_closed_early(error: &UpstreamError) -> bool {
    matches!(error.kind, ErrorKind::ConnectionLost { answer_began: false })
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
