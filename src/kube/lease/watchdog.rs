//! The last resort: a process whose reign does not end in time ends itself.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A thread of its own, so that it works also when the runtime hangs, and right after a pause of the whole
/// process.
pub struct Watchdog {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    over_by: Option<Instant>,
    is_closed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watchdog {
    /// Calls `bite` once, when a deadline has passed.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(bite: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("lease-watchdog".to_owned());
        thread.spawn(move || {
            if has_passed(&watched) {
                bite();
            }
        })?;
        Ok(Self { shared })
    }

    /// By when everything must be over; `None`: it is.
    pub fn over_by(&self, deadline: Option<Instant>) {
        self.shared.state().over_by = deadline;
        self.shared.changed.notify_all();
    }
}

/// Waits until the deadline has passed; false when the watch is over before.
fn has_passed(shared: &Shared) -> bool {
    let mut state = shared.state();
    while !state.is_closed {
        let now = Instant::now();
        state = match state.over_by {
            Some(deadline) if deadline <= now => return true,
            Some(deadline) => {
                let waited = shared.changed.wait_timeout(state, deadline - now);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
    }
    false
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_bites_when_the_deadline_has_passed_and_not_before() {
        let (bitten, bites) = mpsc::channel();
        let watchdog = Watchdog::start(move || bitten.send(()).unwrap()).unwrap();
        watchdog.over_by(Some(Instant::now() + Duration::from_secs(3600)));
        watchdog.over_by(None);
        assert_eq!(bites.try_recv(), Err(mpsc::TryRecvError::Empty));
        watchdog.over_by(Some(Instant::now()));
        assert_eq!(bites.recv_timeout(Duration::from_secs(60)), Ok(()));
    }

    #[test]
    fn one_that_is_dropped_never_bites() {
        let (bitten, bites) = mpsc::channel::<()>();
        let watchdog = Watchdog::start(move || bitten.send(()).unwrap()).unwrap();
        watchdog.over_by(Some(Instant::now() + Duration::from_secs(3600)));
        drop(watchdog);
        // Its thread has ended: it cannot bite any more.
        assert_eq!(bites.recv_timeout(Duration::from_secs(60)), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
