//! A JSON answer that is written piece by piece from shared entries.
//!
//! An answer is gone through twice: once for its `ETag` and length, once to send it. That costs some
//! processor time, but an answer of thousands of nodes never stands in memory as a whole, however many
//! readers there are.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::error::ApiError;

/// How much is written at once: a few socket buffers' worth.
const CHUNK: usize = 32 * 1024;
/// How many entries are hashed before others get a turn.
const TURN: usize = 256;

/// Where the continuation of a list without room for it in the body stands.
pub(super) const CONTINUE: HeaderName = HeaderName::from_static("x-continue");

/// Writes one entry.
pub(super) type Write<T> = fn(&T, &mut Vec<u8>) -> serde_json::Result<()>;

/// `head`, the entries with commas between them, `tail`.
pub(super) struct Answer<T> {
    head: &'static str,
    entries: Vec<T>,
    write: Write<T>,
    tail: String,
    headers: HeaderMap,
}

impl<T: Send + Sync + 'static> Answer<T> {
    /// `[…]`; the continuation goes into a header.
    pub(super) fn array(entries: Vec<T>, write: Write<T>, more: Option<String>) -> Self {
        let mut headers = HeaderMap::new();
        if let Some(more) = more.and_then(|more| HeaderValue::try_from(more).ok()) {
            headers.insert(CONTINUE, more);
        }
        Self { head: "[", entries, write, tail: "]".to_owned(), headers }
    }

    /// `{"name":[…]}` with the continuation in `continue`. `head` is `{"name":[`.
    pub(super) fn object(head: &'static str, entries: Vec<T>, write: Write<T>, more: Option<String>) -> Self {
        let mut answer = Self::array(entries, write, more.clone());
        answer.head = head;
        answer.tail = match more {
            // Base64 needs no escaping.
            Some(more) => format!("],\"continue\":\"{more}\"}}"),
            None => "]}".to_owned(),
        };
        answer
    }

    /// One value.
    pub(super) fn single(value: T) -> Self
    where
        T: Serialize,
    {
        let mut answer = Self::array(vec![value], |value, out| serde_json::to_writer(out, value), None);
        answer.head = "";
        answer.tail = String::new();
        answer
    }

    /// The answer, or 304 if the reader has it.
    pub(super) async fn respond(mut self, request: &HeaderMap) -> Result<Response, ApiError> {
        let (tag, length) = self.measure().await?;
        let mut headers = std::mem::take(&mut self.headers);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if let Ok(tag) = HeaderValue::try_from(&tag) {
            headers.insert(header::ETAG, tag);
        }
        if is_known(request, &tag) {
            return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
        }
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        let body = Body::from_stream(stream::iter(Chunks { answer: self, next: Some(0) }));
        Ok((headers, body).into_response())
    }

    async fn measure(&self) -> Result<(String, usize), ApiError> {
        let mut hash = Sha256::new();
        let mut length = 0;
        let mut piece = Vec::new();
        for index in 0..=self.entries.len() {
            piece.clear();
            self.write_piece(index, &mut piece)
                .map_err(|error| ApiError::internal(format!("the answer cannot be written: {error}")))?;
            hash.update(&piece);
            length += piece.len();
            if index % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
        let digits: String = hash.finalize()[..12].iter().map(|b| format!("{b:02x}")).collect();
        Ok((format!("\"{digits}\""), length))
    }

    /// Entry `index` with what stands before it; after the last one, the tail.
    fn write_piece(&self, index: usize, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let before = if index == 0 { self.head } else { "," };
        match self.entries.get(index) {
            Some(entry) => {
                out.extend_from_slice(before.as_bytes());
                (self.write)(entry, out)?;
            }
            None => {
                if index == 0 {
                    out.extend_from_slice(self.head.as_bytes());
                }
                out.extend_from_slice(self.tail.as_bytes());
            }
        }
        Ok(())
    }
}

/// `If-None-Match`: a list of tags or `*`, compared weakly (RFC 9110, 13.1.2).
fn is_known(request: &HeaderMap, tag: &str) -> bool {
    let lists = request.get_all(header::IF_NONE_MATCH).iter();
    let mut tags =
        lists.filter_map(|list| list.to_str().ok()).flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

struct Chunks<T> {
    answer: Answer<T>,
    next: Option<usize>,
}

impl<T: Send + Sync + 'static> Iterator for Chunks<T> {
    type Item = io::Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut index = self.next.take()?;
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK && index <= self.answer.entries.len() {
            if let Err(error) = self.answer.write_piece(index, &mut chunk) {
                return Some(Err(error.into()));
            }
            index += 1;
        }
        self.next = (index <= self.answer.entries.len()).then_some(index);
        Some(Ok(Bytes::from(chunk)))
    }
}
