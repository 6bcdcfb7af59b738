//! In front of every route: requests that no route should see, and an answer when one fails.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use futures::FutureExt;

use super::error::ApiError;
use super::query::is_well_encoded;

/// The longest path and query: several times what any route takes.
const MAX_TARGET: usize = 4096;

/// What the routes of one server allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardLimits {
    /// The longest body that is announced.
    pub(crate) body: u64,
    /// The longest that a route may take.
    pub(crate) deadline: Duration,
}

impl Default for GuardLimits {
    /// For routes that only tell.
    fn default() -> Self {
        Self {
            // None takes a body; clients that send a small one anyway are forgiven.
            body: 16 * 1024,
            // Every answer comes from memory; what takes longer than this is stuck.
            deadline: Duration::from_secs(30),
        }
    }
}

pub(super) async fn guard(
    State(limits): State<GuardLimits>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    check(&request, limits.body)?;
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
    match tokio::time::timeout(limits.deadline, answer).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(_panic)) => {
            tracing::error!("a route panicked");
            Err(ApiError::internal("the request could not be answered"))
        }
        Err(_) => Err(ApiError::timeout("the answer took too long")),
    }
}

fn check(request: &Request, max_body: u64) -> Result<(), ApiError> {
    let uri = request.uri();
    let query = uri.query().unwrap_or_default();
    if uri.path().len() + query.len() > MAX_TARGET {
        let text = format!("path and query are longer than {MAX_TARGET} bytes");
        return Err(ApiError::uri_too_long(text));
    }
    if !is_well_encoded(uri.path()) || !is_well_encoded(query) {
        let text = "path or query is not well percent-encoded UTF-8";
        return Err(ApiError::bad_request(text));
    }
    if body_length(request.headers()) > max_body {
        let text = format!("the body is longer than {max_body} bytes");
        return Err(ApiError::payload_too_large(text));
    }
    Ok(())
}

/// A body without a length is not read by any route, so it costs nothing.
fn body_length(headers: &HeaderMap) -> u64 {
    let length = headers.get(header::CONTENT_LENGTH);
    length.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or_default()
}
