//! Spans: a trace for each round, and for what is done between rounds. Whoever exports traces listens to
//! [`TARGET`]; while nobody does, a span costs nothing.

use tracing::{Span, field::Empty};

use crate::domain::config::Config;
use crate::domain::reason::Reason;

/// The target of every span that belongs into a trace.
pub const TARGET: &str = "multinic::trace";

/// A round, from its begin until what it came to is delivered.
pub fn round(config: &Config, round: u64) -> Span {
    tracing::debug_span!(
        target: TARGET,
        parent: None,
        "round",
        config = %config.id.name,
        round,
        reason = Empty,
        otel.status_code = Empty,
        otel.status_description = Empty,
    )
}

/// What a round came to; `failure` is its message.
pub fn round_ended(span: &Span, reason: Reason, failure: Option<&str>) {
    span.record("reason", tracing::field::display(reason));
    if let Some(message) = failure {
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", message);
    }
}

/// A token is renewed before a round needs it.
pub fn renewal(config: &Config) -> Span {
    tracing::debug_span!(target: TARGET, parent: None, "renewal", config = %config.id.name)
}

/// Node configs are posted: within the trace of the round that wants them, else (a retry, a re-send) in one of
/// its own.
pub fn delivery(config: &Config, nodes: usize, round: &Span) -> Span {
    let name = &config.id.name;
    match round.is_none() {
        true => tracing::debug_span!(target: TARGET, parent: None, "delivery", config = %name, nodes),
        false => tracing::debug_span!(target: TARGET, parent: round, "delivery", config = %name, nodes),
    }
}
