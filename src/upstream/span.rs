//! The span of one request, for traces. It holds no query string and no header but the request id.

use multinic_actors::trace::TARGET;
use reqwest::Request;
use tracing::{Span, field::Empty};

use super::answer::{Answer, Call};
use super::error::{UpstreamError, request_id};

/// A request that is about to be sent.
pub(super) fn of_request(call: &Call, request: &Request) -> Span {
    tracing::debug_span!(
        target: TARGET,
        "call",
        otel.name = format!("{} {}", call.service, call.operation),
        otel.kind = "client",
        cloud = &*call.cloud,
        service = call.service,
        operation = call.operation,
        http.request.method = request.method().as_str(),
        server.address = request.url().host_str().unwrap_or_default(),
        server.port = request.url().port_or_known_default(),
        http.response.status_code = Empty,
        openstack.request_id = Empty,
        otel.status_code = Empty,
        otel.status_description = Empty,
    )
}

/// What came of it.
pub(super) fn record(span: &Span, outcome: &Result<Answer, UpstreamError>) {
    let (status, id) = match outcome {
        Ok(answer) => (Some(answer.status.as_u16()), request_id(&answer.headers)),
        Err(error) => (error.kind.status(), error.request_id.as_deref()),
    };
    if let Some(status) = status {
        span.record("http.response.status_code", status);
    }
    if let Some(id) = id {
        span.record("openstack.request_id", id);
    }
    if let Err(error) = outcome {
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", tracing::field::display(&error.kind));
    }
}
