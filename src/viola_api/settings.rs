//! What the Viola test API can be told.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use crate::kube::client::Server;
use crate::settings::TlsFiles;
use crate::settings::values::ListenAddress;

/// What the environment says, with every default resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `LISTEN_ADDR`.
    pub address: ListenAddress,
    /// `ROUTING_CONFIG`; none: everything goes to one cluster.
    pub routing_file: Option<PathBuf>,
    /// `TARGET_NAMESPACE`: for targets that name none.
    pub namespace: String,
    /// `KUBECTL_TIMEOUT`: how long the apply of one request may take.
    pub timeout: Duration,
    /// `KUBECTL_PATH`: on the bastion, for targets that name none.
    pub kubectl_path: String,
    /// `KUBE_API_SERVER` and its token and CA: the one cluster, where there is no routing file. None: that of
    /// `--kubeconfig`, else the one this is a pod of.
    pub server: Option<ServerSettings>,
}

/// One API server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSettings {
    /// Its address.
    pub url: String,
    /// A bearer token for it.
    pub token: Option<Secret>,
    /// PEM certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
}

impl From<ServerSettings> for Server {
    fn from(server: ServerSettings) -> Self {
        Self { url: server.url, token: server.token.map(|token| token.0), ca_file: server.ca_file }
    }
}

/// What the flags of all commands say to this one.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `--kubeconfig`.
    pub kubeconfig: Vec<PathBuf>,
    /// `--api-token-file`: who may post.
    pub token_file: Option<PathBuf>,
    /// `--api-tls-cert`, `--api-tls-key`.
    pub tls: Option<TlsFiles>,
}

/// A text that is never shown.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Hides it.
    pub fn new(text: &str) -> Self {
        Self(SecretString::from(text))
    }

    /// The text.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}
