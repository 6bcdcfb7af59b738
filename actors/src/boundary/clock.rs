use jiff::Timestamp;

/// The wall clock. Monotonic time is tokio's, which tests can pause.
pub trait Clock: Send + Sync + 'static {
    /// The time of day.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
