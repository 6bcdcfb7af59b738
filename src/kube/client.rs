//! The connection to the API server, and what its refusals mean.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::Status;
use kube::{Client, Config};
use secrecy::SecretString;

/// A connection that does not come about within this time does not come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The deadline of a call that is answered at once: all but watches.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no connection at all. Later failures are a [`CallError`] each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(String);

/// A client for the cluster that `kubeconfig` names (the first of several files wins, as with kubectl); without
/// one for the cluster this process is a pod of, else for the one of the user's own kubeconfig. Nothing is sent
/// yet.
///
/// # Errors
/// When no cluster is named, or what names it cannot be used.
pub async fn connect(kubeconfig: &[PathBuf]) -> Result<Client, ConnectError> {
    let (config, own_proxy) = match kubeconfig {
        [] => infer().await?,
        files => from_files(files).await?,
    };
    client_of(config, own_proxy)
}

/// A client for the cluster of a kubeconfig that is at hand as such. Nothing is sent yet.
///
/// # Errors
/// When it cannot be used.
pub async fn connect_with(kubeconfig: Kubeconfig) -> Result<Client, ConnectError> {
    let (config, own_proxy) = from_kubeconfig(kubeconfig).await?;
    client_of(config, own_proxy)
}

/// A cluster that is named by the address of its API server rather than by a kubeconfig.
#[derive(Clone, Debug)]
pub struct Server {
    /// `https://host:port`.
    pub url: String,
    /// A bearer token; none: as nobody.
    pub token: Option<SecretString>,
    /// A file with PEM certificates to trust instead of the system's. It is read again when it changes.
    pub ca_file: Option<PathBuf>,
}

/// A client for one API server. Nothing is sent yet.
///
/// # Errors
/// When the address or the certificates cannot be used.
pub fn connect_to(server: &Server) -> Result<Client, ConnectError> {
    let url = server.url.parse().map_err(|error| ConnectError(format!("{}: {error}", server.url)))?;
    let mut config = Config::new(url);
    if let Some(file) = &server.ca_file {
        std::fs::metadata(file).map_err(|error| ConnectError(format!("{}: {error}", file.display())))?;
        config.root_cert_file = Some(file.clone());
    }
    config.auth_info = AuthInfo { token: server.token.clone(), ..AuthInfo::default() };
    client_of(config, None)
}

fn client_of(mut config: Config, own_proxy: Option<String>) -> Result<Client, ConnectError> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Whoever calls retries, with a back-off of its own and a log line that says so.
    config.default_retry = false;
    if own_proxy.is_none() {
        // kube 5.0 compares NO_PROXY with the proxy's address instead of the cluster's, and knows no variables
        // in a pod.
        config.proxy_url =
            Matcher::from_env().intercept(&config.cluster_url).map(|proxy| proxy.uri().clone());
    }
    let agent = concat!("multinic-operator/", env!("CARGO_PKG_VERSION"));
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(agent)));
    Client::try_from(config).map_err(|error| ConnectError(format!("no client for Kubernetes: {error}")))
}

async fn infer() -> Result<(Config, Option<String>), ConnectError> {
    // In this order, as in controller-runtime: a pod may well have a home with a kubeconfig in it.
    let in_pod = match Config::incluster() {
        Ok(config) => return Ok((config, None)),
        Err(error) => error,
    };
    let own = Kubeconfig::read().map_err(|error| {
        ConnectError(format!(
            "no cluster to read OpenstackConfig objects from: this is no pod ({in_pod}) and the kubeconfig of \
             this user cannot be used ({}); give --kubeconfig FILE, or --config-dir DIR to read the objects \
             from a folder",
            said(&error)
        ))
    })?;
    from_kubeconfig(own).await
}

/// What is wrong with a kubeconfig. The parser's own words show the lines around, and those hold tokens.
fn said(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => match error.location() {
            Some(place) => format!("no kubeconfig in YAML: line {} column {}", place.line(), place.column()),
            None => "no kubeconfig in YAML".to_owned(),
        },
        error => error.to_string(),
    }
}

async fn from_files(files: &[PathBuf]) -> Result<(Config, Option<String>), ConnectError> {
    let mut merged: Option<Kubeconfig> = None;
    for file in files {
        let bad = |error| ConnectError(format!("kubeconfig {}: {}", file.display(), said(&error)));
        let read = Kubeconfig::read_from(file).map_err(bad)?;
        merged = Some(match merged {
            None => read,
            Some(merged) => merged.merge(read).map_err(bad)?,
        });
    }
    from_kubeconfig(merged.unwrap_or_default()).await
}

/// The configuration, and the proxy that the kubeconfig itself names.
async fn from_kubeconfig(kubeconfig: Kubeconfig) -> Result<(Config, Option<String>), ConnectError> {
    let own_proxy = own_proxy(&kubeconfig);
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config =
        config.map_err(|error| ConnectError(format!("the kubeconfig cannot be used: {}", said(&error))))?;
    Ok((config, own_proxy))
}

fn own_proxy(kubeconfig: &Kubeconfig) -> Option<String> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == *current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster)?;
    cluster.cluster.as_ref()?.proxy_url.clone().filter(|url| !url.is_empty())
}

/// Why a call to the API server failed. Its text is stable: it may stand in a status.
#[derive(Clone, Debug, PartialEq)]
pub enum CallError {
    /// No answer within the deadline.
    TimedOut,
    /// It was answered with an error.
    Refused(Box<Status>),
    /// There was no answer; the details may vary from one time to the next.
    Unreachable(String),
    /// There was an answer, and it is not what it should be.
    Unreadable(String),
}

impl CallError {
    /// The HTTP status of the answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.code),
            Self::TimedOut | Self::Unreachable(_) | Self::Unreadable(_) => None,
        }
    }

    /// Everything there is to know, for a log.
    pub fn detail(&self) -> String {
        match self {
            Self::TimedOut => self.to_string(),
            Self::Refused(status) => format!("{self}: {}", status.message),
            Self::Unreachable(detail) | Self::Unreadable(detail) => format!("{self}: {detail}"),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the API server does not answer in time"),
            Self::Unreachable(_) => f.write_str("the API server cannot be reached"),
            Self::Unreadable(_) => f.write_str("the API server's answer cannot be read"),
            Self::Refused(status) => match status.code {
                401 => f.write_str("the API server does not accept the operator's token or certificate"),
                403 => f.write_str(
                    "the API server does not allow it (a role is missing, or it is just starting)",
                ),
                code => write!(f, "the API server answered {code} {}", status.reason),
            },
        }
    }
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        use kube::Error::{
            Api, FromUtf8, HyperError, LinesCodecMaxLineLengthExceeded, ReadEvents, SerdeError, Service,
        };
        match error {
            // kube tries to read a watch event that it cannot read as an error, of which every field is optional.
            Api(status) if status.code == 0 => Self::Unreadable("it is not what was asked for".to_owned()),
            Api(status) => Self::Refused(status),
            HyperError(_) | Service(_) | ReadEvents(_) => Self::Unreachable(chain(&error)),
            FromUtf8(_) | SerdeError(_) | LinesCodecMaxLineLengthExceeded => Self::Unreadable(chain(&error)),
            other => Self::Unreachable(chain(&other)),
        }
    }
}

/// An error with its causes: the outermost often says no more than that something failed.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// A call with its deadline.
///
/// # Errors
/// When it fails or is not answered within `limit`.
pub async fn call<T>(limit: Duration, call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer.map_err(CallError::from),
        Err(_) => Err(CallError::TimedOut),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, reason: &str, message: &str) -> CallError {
        let mut status = Status::failure(message, reason);
        status.code = code;
        CallError::Refused(Box::new(status))
    }

    #[test]
    fn the_text_of_an_error_holds_nothing_that_varies() {
        let unreachable = CallError::Unreachable("from 127.0.0.1:40123".to_owned());
        assert_eq!(unreachable.to_string(), "the API server cannot be reached");
        assert_eq!(unreachable.detail(), "the API server cannot be reached: from 127.0.0.1:40123");
        let expired = refused(410, "Expired", "too old resource version: 7 (9)");
        assert_eq!(expired.to_string(), "the API server answered 410 Expired");
        assert!(expired.detail().ends_with(": too old resource version: 7 (9)"));
        assert_eq!((expired.code(), unreachable.code()), (Some(410), None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_not_answered_ends() {
        let never = std::future::pending::<kube::Result<()>>();
        assert_eq!(call(CALL_TIMEOUT, never).await, Err(CallError::TimedOut));
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_no_yaml_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        for text in
            ["users:\n- name: a\n  user: {token: \"hunter2\nkind: Config\n", "hunter2", "users: hunter2"]
        {
            std::fs::write(&file, text).unwrap();
            let error = connect(std::slice::from_ref(&file)).await.err().unwrap().to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("config: no kubeconfig in YAML"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none");
        let error = connect(std::slice::from_ref(&missing)).await.err().unwrap().to_string();
        assert!(error.starts_with(&format!("kubeconfig {}: ", missing.display())), "{error}");
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "apiVersion: v1\nkind: Config\n").unwrap();
        let error = connect(&[empty]).await.err().unwrap().to_string();
        assert!(error.starts_with("the kubeconfig cannot be used: "), "{error}");
    }
}
