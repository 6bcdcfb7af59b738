//! How the API server is reached.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::timeout;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long any request but a watch may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// There is no way to an API server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig that was asked for cannot be used.
    #[error("--kubeconfig {}: {problem}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Nothing says where an API server is.
    #[error(
        "no Kubernetes to read the configs from: {0}. Run it in a cluster, give it --kubeconfig FILE or \
         KUBECONFIG, or read a folder with --config-dir DIR"
    )]
    Nowhere(String),
    /// What the kubeconfig says makes no client.
    #[error("the Kubernetes client cannot be made: {0}")]
    Client(String),
}

/// A client for the cluster of `kubeconfig`, else of `KUBECONFIG` or the user's own file, else for the cluster
/// that this runs in. Nothing is asked yet.
///
/// # Errors
/// When there is no usable configuration.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let mut config = match kubeconfig {
        Some(path) => read(path).await?,
        None => Config::infer().await.map_err(|error| ConnectError::Nowhere(chain(&error)))?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.write_timeout = Some(REQUEST_TIMEOUT);
    // A watch is silent for long; every other call has its deadline from `bounded`.
    config.read_timeout = None;
    config.default_retry = false;
    Client::try_from(config).map_err(|error| ConnectError::Client(chain(&error)))
}

async fn read(path: &Path) -> Result<Config, ConnectError> {
    let bad = |problem: String| ConnectError::Kubeconfig { path: path.to_owned(), problem };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| bad(chain(&error)))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.map_err(|error| bad(chain(&error)))
}

/// Why a call to the API server failed.
#[derive(Debug)]
pub(super) enum CallError {
    /// The API server said so: the code and its words.
    Refused { code: u16, message: String },
    /// It did not answer, or not in a way that can be understood.
    Away(String),
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { code, message } => write!(f, "the API server answers {code}: {message}"),
            Self::Away(problem) => write!(f, "the API server cannot be reached: {problem}"),
        }
    }
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused { code: status.code, message: status.message },
            // The parser's words may quote the answer, and that may be a Secret.
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
                Self::Away("its answer is not understood".to_owned())
            }
            error => Self::Away(chain(&error)),
        }
    }
}

/// A call with its deadline.
pub(super) async fn bounded<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CallError> {
    match timeout(REQUEST_TIMEOUT, call).await {
        Ok(answer) => answer.map_err(CallError::from),
        Err(_) => Err(CallError::Away(format!("no answer within {REQUEST_TIMEOUT:?}"))),
    }
}

/// An error and what it comes from.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kubeconfig_that_is_none_is_named() {
        let error = connect(Some(Path::new("/nowhere/kubeconfig"))).await.err().map(|e| e.to_string());
        assert!(error.as_deref().is_some_and(|text| text.starts_with("--kubeconfig /nowhere/kubeconfig: ")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_ends() {
        let ended = bounded(std::future::pending::<Result<(), kube::Error>>()).await;
        assert!(matches!(ended, Err(CallError::Away(problem)) if problem.contains("no answer within 30s")));
    }
}
