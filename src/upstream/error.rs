//! Why a request has no usable answer. The text goes into conditions, so it is stable: no local port, no
//! request id, no query string, no secret. What varies stands in fields of its own.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::{message, retry_after};

/// A request without a usable answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamError {
    /// Whom we asked: `neutron`.
    pub service: &'static str,
    /// For what: `list ports`.
    pub operation: &'static str,
    /// What happened.
    pub kind: ErrorKind,
    /// OpenStack's request id; for logs and REST.
    pub request_id: Option<Box<str>>,
    /// What the service asked us to wait.
    pub retry_after: Option<Duration>,
}

impl StdError for UpstreamError {}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.service, self.operation, self.kind)
    }
}

/// What happened to a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// No complete answer within the deadline. It may have been carried out.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// No connection. It was not carried out.
    #[error("no connection to {to}: {problem}")]
    Connect {
        /// Host and port we called.
        to: String,
        /// `connection refused`, …
        problem: String,
    },
    /// The connection was closed. It may have been carried out.
    #[error("{}", if *.answer_began { "the connection was closed in the middle of the answer" } else { "the connection was closed without an answer" })]
    ConnectionLost {
        /// Status and headers had come.
        answer_began: bool,
    },
    /// The TLS handshake failed: above all the certificate. It was not carried out.
    #[error("TLS with {to}: {problem}")]
    Tls {
        /// Host and port we called.
        to: String,
        /// What is wrong with the certificate or the handshake.
        problem: String,
    },
    /// The decoded body is larger than we read.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// Not HTTP, or a body that is not what was asked for.
    #[error("{0}")]
    Invalid(String),
    /// An answer other than 2xx.
    #[error("{}", status_text(*.code, .message))]
    Status {
        /// The status.
        code: u16,
        /// The service's own words, shortened.
        message: String,
        /// What kind of body it was.
        body: Body,
        /// Neutron's name for the error: `PortNotFound`.
        error_type: Option<Box<str>>,
    },
    /// Not sent: the policy does not let the config's namespace reach this host.
    #[error("not asked: {0}")]
    NotPermitted(String),
    /// Not sent: the service asked us earlier, with this status, to wait, and that is not over.
    #[error("not asked: it answered {} and wants to be left alone for a while", status_text(*.code, ""))]
    Paused {
        /// The status with which it asked.
        code: u16,
    },
}

/// What kind of body an error answer had: OpenStack answers in JSON, front ends in HTML.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// None at all.
    Empty,
    /// JSON.
    Json,
    /// HTML.
    Html,
    /// Anything else.
    Other,
}

impl Body {
    fn of(body: &[u8]) -> Self {
        let text = body.trim_ascii_start();
        match text.first() {
            None => Self::Empty,
            Some(b'<') => Self::Html,
            Some(_) if serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok() => Self::Json,
            Some(_) => Self::Other,
        }
    }
}

fn status_text(code: u16, message: &str) -> String {
    let reason = StatusCode::from_u16(code).ok().and_then(|status| status.canonical_reason());
    let status = reason.map_or_else(|| code.to_string(), |reason| format!("{code} {reason}"));
    let says_more = !message.is_empty() && reason != Some(message) && message != status;
    if says_more { format!("{status} {message:?}") } else { status }
}

impl ErrorKind {
    /// The value of the metric label `code`.
    pub fn label(&self) -> String {
        match self {
            Self::Timeout(_) => "timeout".to_owned(),
            Self::Connect { .. } => "connect".to_owned(),
            Self::ConnectionLost { .. } => "closed".to_owned(),
            Self::Tls { .. } => "tls".to_owned(),
            Self::TooLarge(_) => "too_large".to_owned(),
            Self::Invalid(_) => "invalid".to_owned(),
            Self::Status { code, .. } => code.to_string(),
            Self::NotPermitted(_) => "not_permitted".to_owned(),
            Self::Paused { .. } => "paused".to_owned(),
        }
    }

    /// The status, if an answer came.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Reads a complete answer that is no 2xx.
    pub(super) fn of_status(status: StatusCode, body: &[u8]) -> Self {
        Self::Status {
            code: status.as_u16(),
            message: message::of_body(body),
            body: Body::of(body),
            error_type: message::error_type(body),
        }
    }

    /// Reads what the HTTP client reports. `answer_began`: status and headers had come.
    pub(super) fn of_client(error: &reqwest::Error, to: &str, timeout: Duration, answer_began: bool) -> Self {
        if let Some(problem) = tls_problem(error) {
            return Self::Tls { to: to.to_owned(), problem };
        }
        if error.is_connect() {
            return Self::Connect { to: to.to_owned(), problem: connect_problem(error) };
        }
        if error.is_timeout() {
            return Self::Timeout(timeout);
        }
        if is_closed(error) || error.is_body() {
            return Self::ConnectionLost { answer_began };
        }
        if error.is_decode() {
            return Self::Invalid("the answer cannot be decoded".to_owned());
        }
        if error.is_builder() {
            return Self::Invalid("the request cannot be built: check the endpoint's URL".to_owned());
        }
        Self::Invalid("the answer is not HTTP".to_owned())
    }
}

impl UpstreamError {
    /// What an answer's headers add to an error.
    pub(super) fn with_headers(mut self, headers: &HeaderMap, now: Timestamp) -> Self {
        self.request_id = ["x-openstack-request-id", "x-compute-request-id", "x-request-id"]
            .iter()
            .find_map(|name| headers.get(*name)?.to_str().ok())
            .map(Box::from);
        self.retry_after = retry_after::parse(headers, now);
        self
    }
}

/// The chain of causes. An `io::Error` hides what it wraps from `source()`, so it is opened here.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        match io_cause(*error).and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn StdError + 'static)),
            None => (**error).source(),
        }
    })
}

fn io_cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a io::Error> {
    error.downcast_ref::<io::Error>()
}

fn tls_problem(error: &reqwest::Error) -> Option<String> {
    let tls = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>())?;
    Some(match tls {
        rustls::Error::InvalidCertificate(problem) => certificate_problem(problem),
        rustls::Error::InvalidMessage(_) => "the server does not speak TLS on this port".to_owned(),
        rustls::Error::AlertReceived(alert) => format!("the server refused the handshake ({alert:?})"),
        _ => "the handshake failed".to_owned(),
    })
}

/// rustls' own texts hold the time of day.
fn certificate_problem(problem: &rustls::CertificateError) -> String {
    use rustls::CertificateError as E;
    match problem {
        E::UnknownIssuer => "the certificate is signed by an unknown issuer; trust it with a CA bundle",
        E::Expired | E::ExpiredContext { .. } => "the certificate has expired",
        E::NotValidYet | E::NotValidYetContext { .. } => "the certificate is not valid yet",
        E::NotValidForName | E::NotValidForNameContext { .. } => "the certificate is for another name",
        E::Revoked => "the certificate was revoked",
        _ => "the certificate cannot be used",
    }
    .to_owned()
}

fn connect_problem(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer to the connection attempt".to_owned();
    }
    let by_kind = causes(error).filter_map(io_cause).find_map(|io| match io.kind() {
        io::ErrorKind::ConnectionRefused => Some("connection refused"),
        io::ErrorKind::HostUnreachable => Some("host unreachable"),
        io::ErrorKind::NetworkUnreachable => Some("network unreachable"),
        io::ErrorKind::TimedOut => Some("no answer to the connection attempt"),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::UnexpectedEof => {
            Some("the connection was closed at once")
        }
        _ => None,
    });
    let says = |text: &str| causes(error).any(|cause| cause.to_string().contains(text));
    match by_kind {
        Some(problem) => problem,
        None if says("dns error") => "the host name cannot be resolved",
        None if says("tunnel") => "the proxy refused to pass it on",
        None => "it failed",
    }
    .to_owned()
}

fn is_closed(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| {
        let by_hyper = cause
            .downcast_ref::<hyper::Error>()
            .is_some_and(|e| e.is_incomplete_message() || e.is_closed() || e.is_canceled());
        let by_io = io_cause(cause).is_some_and(|io| {
            matches!(
                io.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::NotConnected
            )
        });
        by_hyper || by_io
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, body: &str) -> String {
        let error = UpstreamError {
            service: "neutron",
            operation: "list ports",
            kind: ErrorKind::of_status(StatusCode::from_u16(code).unwrap(), body.as_bytes()),
            request_id: None,
            retry_after: None,
        };
        error.to_string()
    }

    #[test]
    fn an_error_says_who_what_and_why() {
        assert_eq!(
            of(503, r#"{"message": "away"}"#),
            r#"neutron: list ports: 503 Service Unavailable "away""#
        );
    }

    #[test]
    fn a_message_that_repeats_the_status_is_left_out() {
        assert_eq!(of(404, r#"{"title": "Not Found"}"#), "neutron: list ports: 404 Not Found");
        assert_eq!(
            of(414, "<html><title>414 URI Too Long</title></html>"),
            "neutron: list ports: 414 URI Too Long"
        );
    }

    #[test]
    fn the_kind_of_body_tells_front_ends_from_openstack() {
        assert_eq!(Body::of(b""), Body::Empty);
        assert_eq!(Body::of(b" {\"a\": 1}"), Body::Json);
        assert_eq!(Body::of(b"\n<html>"), Body::Html);
        assert_eq!(Body::of(b"nope"), Body::Other);
    }
}
