use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::client::Tls;

/// How one request is sent and counted.
#[derive(Clone, Debug)]
pub struct Call {
    /// `keystone`, `neutron`, `viola`, …: begins every error text, and is a metric label.
    pub service: &'static str,
    /// `list ports`, `log in`, …: what we wanted, in error texts and as a metric label.
    pub operation: &'static str,
    /// The namespace of the config on whose behalf it is sent: the policy may forbid it the host.
    pub namespace: Arc<str>,
    /// Whose account it goes on, as a metric label: the provider id.
    pub cloud: Arc<str>,
    /// From the first byte sent (connecting included) to the last byte of the body.
    pub timeout: Duration,
    /// When a request may be sent a second time.
    pub repeat: Repeat,
    /// How to judge the server's certificate.
    pub tls: Tls,
}

/// Whether a request may be repeated when a reused connection was closed before an answer began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Once: carrying it out twice does no harm.
    OnceIfClosed,
    /// Only if it surely never left.
    Never,
}

/// A 2xx answer, complete.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, decoded.
    pub body: Vec<u8>,
}
