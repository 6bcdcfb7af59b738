//! Nodes with DOWN ports are sent again until the ports are no longer DOWN.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::ids::PortId;
use super::status::DownPortRetry;

/// The rule's settings.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The first `fast_retry_max` re-sends go at this interval.
    pub fast: Duration,
    /// The later ones at this.
    pub slow: Duration,
    /// How many go fast.
    pub fast_retry_max: u32,
}

/// First 16 hex digits of the SHA-256 over the sorted port ids, one a line.
pub fn hash_of(ports: &BTreeSet<PortId>) -> String {
    let mut digest = Sha256::new();
    for port in ports {
        digest.update(port.as_str().as_bytes());
        digest.update(b"\n");
    }
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The retry state for the ports that are DOWN now: the earlier one if they are the same ports.
pub fn observe(
    state: Option<DownPortRetry>,
    down: &BTreeSet<PortId>,
    now: Timestamp,
) -> Option<DownPortRetry> {
    if down.is_empty() {
        return None;
    }
    let hash = hash_of(down);
    match state {
        Some(same) if same.hash == hash => Some(same),
        // The count starts with this look: the change itself is sent by itself.
        _ => Some(DownPortRetry { hash, last_attempt: Some(now), fast_attempts: 0 }),
    }
}

/// How long until the next re-send. A wall clock that jumped never makes it longer than the interval.
pub fn due_in(state: &DownPortRetry, rule: Rule, now: Timestamp) -> Duration {
    let interval = if state.fast_attempts < rule.fast_retry_max { rule.fast } else { rule.slow };
    let Some(last) = state.last_attempt else {
        return Duration::ZERO;
    };
    match Duration::try_from(now.duration_since(last)) {
        Ok(passed) => interval.saturating_sub(passed),
        Err(_) => interval,
    }
}

/// A re-send was answered with success.
pub fn attempted(state: &mut DownPortRetry, rule: Rule, now: Timestamp) {
    if state.fast_attempts < rule.fast_retry_max {
        state.fast_attempts += 1;
    }
    state.last_attempt = Some(now);
}
