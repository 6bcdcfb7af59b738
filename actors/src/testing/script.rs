use std::collections::VecDeque;
use std::time::Duration;

/// How a boundary behaves: how long calls take, what goes wrong with the next ones, and with all others.
#[derive(Debug)]
pub(super) struct Script<T> {
    pub(super) takes: Duration,
    next: VecDeque<T>,
    standing: Option<T>,
}

impl<T> Default for Script<T> {
    fn default() -> Self {
        Self { takes: Duration::ZERO, next: VecDeque::new(), standing: None }
    }
}

impl<T: Clone> Script<T> {
    /// The next `times` calls.
    pub(super) fn push(&mut self, times: usize, trouble: T) {
        self.next.extend(std::iter::repeat_n(trouble, times));
    }

    /// Every call that nothing else was planned for, until [`Self::heal`].
    pub(super) fn stand(&mut self, trouble: T) {
        self.standing = Some(trouble);
    }

    pub(super) fn heal(&mut self) {
        *self = Self::default();
    }

    pub(super) fn take(&mut self) -> (Duration, Option<T>) {
        (self.takes, self.next.pop_front().or_else(|| self.standing.clone()))
    }
}

/// A panic inside a boundary, as a defect of an adapter would be.
#[expect(clippy::panic, reason = "that is what the test ordered")]
pub(super) fn defect() -> ! {
    std::panic::panic_any("the adapter has a defect")
}
