use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::lock;
use crate::boundary::Clock;

/// The time of day at which every world begins: 2026-01-10T00:00:00Z.
pub const START: Timestamp = Timestamp::constant(1_768_003_200, 0);

/// A wall clock that follows tokio's time from [`START`] on, and may jump. Clones are one clock.
#[derive(Clone, Debug)]
pub struct TestClock {
    began: Instant,
    offset: Arc<Mutex<SignedDuration>>,
}

impl TestClock {
    /// A clock that shows [`START`] now.
    pub fn new() -> Self {
        Self { began: Instant::now(), offset: Arc::default() }
    }

    /// How long the world exists: what tests compare. Jumps of the wall clock do not show.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Puts the wall clock forward, or back.
    pub fn jump(&self, by: SignedDuration) {
        let mut offset = lock(&self.offset);
        *offset = offset.saturating_add(by);
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
        START.saturating_add(passed.saturating_add(*lock(&self.offset))).unwrap_or(Timestamp::MAX)
    }
}
