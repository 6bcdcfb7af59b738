use multinic_actors::boundary::CloudError;
use multinic_actors::domain::reason::Reason;

use crate::upstream::{ErrorKind, UpstreamError};

/// Gives a failed request its reason. One that the policy forbids is the config's matter, whatever it was for.
pub(super) fn of(reason: Reason, error: UpstreamError) -> CloudError {
    let reason = match error.kind {
        ErrorKind::NotPermitted(_) => Reason::ConfigError,
        _ => reason,
    };
    CloudError {
        reason,
        message: error.to_string(),
        request_id: error.request_id.map(String::from),
        retry_after: error.retry_after,
    }
}

/// As [`of`], with what to do about it.
pub(super) fn with_hint(reason: Reason, error: UpstreamError, hint: &str) -> CloudError {
    let mut error = of(reason, error);
    error.message = format!("{}: {hint}", error.message);
    error
}

/// A complete answer that is not what was asked for.
pub(super) fn invalid(
    service: &'static str,
    operation: &'static str,
    problem: impl Into<String>,
) -> UpstreamError {
    UpstreamError {
        service,
        operation,
        kind: ErrorKind::Invalid(problem.into()),
        request_id: None,
        retry_after: None,
    }
}
