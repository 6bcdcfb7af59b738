use crate::upstream::{Answer, Call, Limiter, Turn, Upstream, UpstreamError};
use reqwest::Request;

/// Requests to a cloud: in turn, and not while it wants to be left alone.
#[derive(Debug)]
pub(super) struct Http {
    pub(super) upstream: Upstream,
    pub(super) limiter: Limiter,
}

impl Http {
    /// Waits for the turn, sends, and keeps what the service says about waiting.
    pub(super) async fn send(
        &self,
        turn: &Turn,
        call: &Call,
        request: Request,
    ) -> Result<Answer, UpstreamError> {
        let permit = self.limiter.acquire(turn).await.map_err(|resting| UpstreamError {
            service: call.service,
            operation: call.operation,
            kind: resting.kind,
            request_id: None,
            retry_after: Some(resting.remaining),
        })?;
        let outcome = self.upstream.send(call, request).await;
        drop(permit);
        if let Err(error) = &outcome
            && let (Some(code @ (429 | 503)), Some(wait)) = (error.kind.status(), error.retry_after)
        {
            self.limiter.pause(turn, code, wait);
        }
        outcome
    }
}
