//! When to look again.

use std::time::{Duration, Instant};

use super::config::Polling;

/// How far an interval may be off: ±10 %.
const JITTER: f64 = 0.1;

/// What decides about the next poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cadence {
    fast_until: Option<Instant>,
    failures: u32,
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundEnd {
    /// Something changed.
    Changed,
    /// Nothing did.
    Unchanged,
    /// It failed; the service may have asked us to wait.
    Failed {
        /// `Retry-After`.
        retry_after: Option<Duration>,
    },
}

impl Cadence {
    /// Takes in how a round ended and gives the time to the next one.
    ///
    /// `dice` is evenly distributed in 0…1; equal inputs give equal outputs.
    pub fn next(&mut self, end: RoundEnd, polling: &Polling, now: Instant, dice: f64) -> Duration {
        let base = match end {
            RoundEnd::Failed { retry_after } => return self.next_after_failure(retry_after, polling, dice),
            RoundEnd::Changed => {
                self.fast_until = Some(now + polling.fast_window);
                polling.fast
            }
            RoundEnd::Unchanged => self.stable_interval(polling, now),
        };
        self.failures = 0;
        jittered(base, dice)
    }

    fn stable_interval(&self, polling: &Polling, now: Instant) -> Duration {
        match self.fast_until {
            Some(until) if now < until => polling.fast,
            _ => polling.slow,
        }
    }

    fn next_after_failure(
        &mut self,
        retry_after: Option<Duration>,
        polling: &Polling,
        dice: f64,
    ) -> Duration {
        let cap = polling.slow * 2;
        let grown = grown(polling.error, self.failures, cap);
        self.failures = self.failures.saturating_add(1);
        let wait = jittered(grown, dice).min(cap);
        // What the service asked for is kept, and nobody comes back in step with the others.
        retry_after.map_or(wait, |asked| {
            wait.max(asked.min(MAX_RETRY_AFTER).mul_f64(1.0 + JITTER * dice))
        })
    }
}

/// A `Retry-After` beyond this is taken for a mistake.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// `first`, doubled with every failure, at most `cap`.
pub fn grown(first: Duration, failures: u32, cap: Duration) -> Duration {
    first.saturating_mul(1 << failures.min(16)).min(cap)
}

/// `base` ±10 %.
pub fn jittered(base: Duration, dice: f64) -> Duration {
    base.mul_f64(1.0 - JITTER + 2.0 * JITTER * dice.clamp(0.0, 1.0))
}

/// When the first poll of the `n`th config is due after a start: 10 ms apart, at most over `fast`.
pub fn first_poll_delay(nth: u32, fast: Duration) -> Duration {
    const APART: Duration = Duration::from_millis(10);
    let delay = APART.saturating_mul(nth);
    if delay <= fast || fast.is_zero() {
        return delay.min(fast);
    }
    Duration::from_nanos((delay.as_nanos() % fast.as_nanos()) as u64)
}
