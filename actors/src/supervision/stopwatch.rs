//! How long actors take for one message.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who is told how long an actor took. Called after each message: it must not wait.
pub trait Stopwatch: Send + Sync + 'static {
    /// An actor of this kind took so long for one message, on the machine's clock.
    fn handled(&self, kind: &'static str, took: Duration);
}

/// One message being handled.
#[must_use = "it ends when it is dropped"]
pub struct Handling {
    running: Option<(Arc<dyn Stopwatch>, Instant)>,
    kind: &'static str,
}

impl Handling {
    pub(super) fn begin(stopwatch: Option<&Arc<dyn Stopwatch>>, kind: &'static str) -> Self {
        Self { running: stopwatch.map(|stopwatch| (Arc::clone(stopwatch), Instant::now())), kind }
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        if let Some((stopwatch, begun)) = &self.running {
            stopwatch.handled(self.kind, begun.elapsed());
        }
    }
}

impl fmt::Debug for Handling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handling({})", self.kind)
    }
}
