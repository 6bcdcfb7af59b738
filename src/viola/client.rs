//! Posts node configs to the Viola API.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use multinic_actors::boundary::{BoxFuture, Delivery};
use multinic_actors::domain::config::{Config, CredentialSource};
use multinic_actors::domain::node::NodeConfig;
use multinic_actors::domain::post::{PostAnswer, PostError, PostFailure};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};
use secrecy::ExposeSecret;
use zeroize::Zeroizing;

use super::answer;
use crate::http::TokenFile;
use crate::secrets::SecretSource;
use crate::upstream::{Call, ErrorKind, Repeat, Tls, Upstream};

const PATH: &str = "/v1/k8s/multinic/node-configs";
/// By this header Viola finds the workload cluster.
const PROVIDER_ID: HeaderName = HeaderName::from_static("x-provider-id");
/// What the receiver of node configs is called in errors and metrics.
pub const SERVICE: &str = "viola";
const OPERATION: &str = "post node configs";

/// Settings that hold for every config.
#[derive(Clone, Debug)]
pub struct ViolaSettings {
    /// Deadline of one POST.
    pub timeout: Duration,
    /// Do not verify Viola's certificate.
    pub insecure_tls: bool,
    /// The bearer token, where Viola wants one.
    pub token: Option<TokenFile>,
}

/// The Viola API of each config's endpoint.
#[derive(Clone)]
pub struct ViolaClient {
    upstream: Arc<Upstream>,
    secrets: Arc<dyn SecretSource>,
    settings: ViolaSettings,
}

impl fmt::Debug for ViolaClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViolaClient").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Delivery for ViolaClient {
    fn post(
        &self,
        config: Arc<Config>,
        nodes: Vec<Arc<NodeConfig>>,
    ) -> BoxFuture<'_, Result<PostAnswer, PostError>> {
        Box::pin(async move { self.post_batch(&config, &nodes).await })
    }
}

impl ViolaClient {
    /// A client that sends over `upstream` and reads a config's CA bundle from `secrets`.
    pub fn new(upstream: Arc<Upstream>, secrets: Arc<dyn SecretSource>, settings: ViolaSettings) -> Self {
        Self { upstream, secrets, settings }
    }

    async fn post_batch(&self, config: &Config, nodes: &[Arc<NodeConfig>]) -> Result<PostAnswer, PostError> {
        let request = self.request(config, nodes).await?;
        let call = Call {
            service: SERVICE,
            operation: OPERATION,
            namespace: Arc::from(&*config.id.name.namespace),
            cloud: cloud(config),
            timeout: self.settings.timeout,
            // A node config is the whole state of a node: taken twice, it is the same.
            repeat: Repeat::OnceIfClosed,
            tls: self.tls(config, request.url()).await?,
        };
        match self.upstream.send(&call, request).await {
            Ok(answer) => Ok(answer::accepted(&answer.body)),
            // Only a 2xx body is read that far, and one that is not understood means that all were taken.
            Err(error) if matches!(error.kind, ErrorKind::TooLarge(_)) => Ok(PostAnswer::AllAccepted),
            Err(error) => Err(answer::failed(&error)),
        }
    }

    async fn request(&self, config: &Config, nodes: &[Arc<NodeConfig>]) -> Result<Request, PostError> {
        let endpoint = format!("{}{PATH}", config.viola_endpoint.trim_end_matches('/'));
        let url =
            Url::parse(&endpoint).map_err(|error| rejected(format!("the endpoint is no URL: {error}")))?;
        let body = serde_json::to_vec(nodes)
            .map_err(|error| rejected(format!("the node configs cannot be written: {error}")))?;
        let mut request = Request::new(Method::POST, url);
        *request.headers_mut() = self.headers(config).await?;
        *request.body_mut() = Some(body.into());
        Ok(request)
    }

    async fn headers(&self, config: &Config) -> Result<HeaderMap, PostError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let provider = HeaderValue::from_bytes(config.provider.as_str().as_bytes())
            .map_err(|_| rejected("the k8sProviderID cannot stand in a header"))?;
        headers.insert(PROVIDER_ID, provider);
        if let Some(file) = &self.settings.token {
            // A mounted Secret may come back: another try helps.
            let token = file.token().await.map_err(|error| failed(PostFailure::Unavailable, error))?;
            let text = Zeroizing::new(format!("Bearer {}", token.expose_secret()));
            let mut value = HeaderValue::from_str(&text)
                .map_err(|_| rejected("the token in the token file cannot stand in a header"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    async fn tls(&self, config: &Config, url: &Url) -> Result<Tls, PostError> {
        let insecure = self.settings.insecure_tls;
        let bundle = match &config.cloud.ca_bundle {
            Some(bundle) if url.scheme() == "https" && !insecure => bundle,
            _ => return Tls::new(insecure, None).map_err(rejected),
        };
        let namespace = &config.id.name.namespace;
        let secret = self.secrets.get(namespace, &bundle.name).await;
        let text = |problem: &str| format!("CA bundle in secret {namespace}/{}: {problem}", bundle.name);
        let data = secret
            // The API server may be away: another try helps.
            .map_err(|error| failed(PostFailure::Unavailable, error))?
            .ok_or_else(|| rejected(text("there is no such secret")))?;
        let pem = data.text(&bundle.key).map_err(|problem| rejected(text(&format!("it {problem}"))))?;
        Tls::new(false, Some(pem.expose_secret())).map_err(|error| rejected(text(&error.to_string())))
    }
}

/// Whose account the request goes on in the metrics.
fn cloud(config: &Config) -> Arc<str> {
    match &config.cloud.source {
        CredentialSource::Contrabass { provider_id, .. } => Arc::from(provider_id.as_str()),
    }
}

/// Nothing of this config can be delivered until somebody mends it.
fn rejected(problem: impl fmt::Display) -> PostError {
    failed(PostFailure::Rejected, problem)
}

/// A POST that was not sent.
fn failed(failure: PostFailure, problem: impl fmt::Display) -> PostError {
    PostError { failure, message: format!("{SERVICE}: {OPERATION}: {problem}"), retry_after: None }
}
