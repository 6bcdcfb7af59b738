//! One request and its answer, as the services see them: plain data, no sockets.

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::Value;

/// A request that was read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub method: Method,
    /// Path and query as they stood in the request line.
    pub target: String,
    /// The decoded query, in order.
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Call {
    pub fn new(method: Method, target: String, headers: HeaderMap, body: Bytes) -> Self {
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Self { method, target, query, headers, body }
    }

    /// The path as sent.
    pub fn path(&self) -> &str {
        self.target.split_once('?').map_or(&self.target, |(path, _)| path)
    }

    /// The raw query string.
    pub fn raw_query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// The path's segments, percent-decoded, without empty ones.
    pub fn segments(&self) -> Vec<String> {
        let parts = self.path().split('/').filter(|part| !part.is_empty());
        parts.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect()
    }

    /// All values of a query parameter, in order.
    pub fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// `http://host:port` as the client addressed it.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.header("host").unwrap_or("127.0.0.1"))
    }

    /// Bytes of all header lines.
    pub fn header_bytes(&self) -> usize {
        self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
    }

    /// The same request without its query string.
    pub fn without_query(mut self) -> Self {
        self.target = self.path().to_owned();
        self.query.clear();
        self
    }
}

/// An answer before it goes to the wire.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub status: StatusCode,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// The connection ends without an answer.
    pub is_closed: bool,
    /// Which page of a list this is, from 1.
    pub page: Option<usize>,
}

impl Answer {
    pub fn json(status: u16, body: &Value) -> Self {
        Self::text(status, "application/json", body.to_string())
    }

    pub fn html(status: u16, body: impl Into<String>) -> Self {
        Self::text(status, "text/html; charset=utf-8", body.into())
    }

    pub fn text(status: u16, content_type: &str, body: String) -> Self {
        Self { body: body.into_bytes(), ..Self::empty(status) }.header("Content-Type", content_type)
    }

    pub fn empty(status: u16) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, headers: Vec::new(), body: Vec::new(), is_closed: false, page: None }
    }

    /// No answer: the connection is closed.
    pub fn closed() -> Self {
        Self { is_closed: true, ..Self::empty(500) }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn on_page(mut self, page: usize) -> Self {
        self.page = Some(page);
        self
    }
}
