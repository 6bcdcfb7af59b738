//! When to look again.

use std::time::{Duration, Instant};

use super::backoff::{Backoff, BackoffPolicy, Jitter};
use super::config::Polling;

/// How far an interval may be off: ±10 %.
const JITTER: f64 = 0.1;

/// What decides about the next poll.
#[derive(Clone, Debug)]
pub struct Cadence {
    polling: Polling,
    fast_until: Option<Instant>,
    backoff: Backoff,
    jitter: Jitter,
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
    /// A config that was never polled. Equal seeds give equal intervals.
    pub fn new(polling: Polling, seed: u64, now: Instant) -> Self {
        let backoff = Backoff::new(BackoffPolicy::doubling(polling.error, polling.slow * 2), seed, now);
        Self { polling, fast_until: None, backoff, jitter: Jitter::new(seed) }
    }

    /// The intervals changed.
    pub fn set_polling(&mut self, polling: Polling, seed: u64, now: Instant) {
        if self.polling != polling {
            *self = Self { fast_until: self.fast_until, ..Self::new(polling, seed, now) };
        }
    }

    /// Takes in how a round ended and gives the time to the next one.
    pub fn next(&mut self, end: RoundEnd, now: Instant) -> Duration {
        match end {
            RoundEnd::Failed { retry_after } => return self.next_after_failure(retry_after, now),
            RoundEnd::Changed => self.fast_until = Some(now + self.polling.fast_window),
            RoundEnd::Unchanged => {}
        }
        self.backoff.reset(now);
        let is_fast = self.fast_until.is_some_and(|until| now < until);
        let base = if is_fast { self.polling.fast } else { self.polling.slow };
        self.jitter.spread(base, JITTER)
    }

    fn next_after_failure(&mut self, retry_after: Option<Duration>, now: Instant) -> Duration {
        let wait = self.backoff.next(now);
        retry_after.map_or(wait, |asked| wait.max(self.jitter.at_least(asked)))
    }
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
