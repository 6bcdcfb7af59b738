//! One-shot timers that can be armed again, and whose late messages are recognised.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ractor::{ActorRef, Message};
use tokio::time::Instant;

use super::task::AbortOnDrop;

/// Marks one arming of a timer, or one run of a task. No two in this process are equal, so a message of a
/// replaced timer, slot or actor is never taken for a current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

impl Ticket {
    pub(super) fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A one-shot timer on tokio's time. Arming it again, cancelling or dropping it ends the earlier arming; a
/// message that had already left is refused by [`TimerSlot::accept`].
#[derive(Debug, Default)]
pub struct TimerSlot {
    armed: Option<Armed>,
}

#[derive(Debug)]
struct Armed {
    ticket: Ticket,
    due: Instant,
    _task: AbortOnDrop,
}

impl TimerSlot {
    /// A timer that is not armed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends `message(ticket)` to `actor` after `delay`, in place of whatever was armed before.
    pub fn arm<M: Message>(
        &mut self,
        delay: Duration,
        actor: &ActorRef<M>,
        message: impl FnOnce(Ticket) -> M + Send + 'static,
    ) {
        let actor = actor.clone();
        self.arm_with(delay, move |ticket| {
            // An actor that is gone needs no timer.
            let _ = actor.send_message(message(ticket));
        });
    }

    /// Calls `fire(ticket)` after `delay`, in place of whatever was armed before.
    pub fn arm_with(&mut self, delay: Duration, fire: impl FnOnce(Ticket) + Send + 'static) {
        let ticket = Ticket::fresh();
        let due = Instant::now() + delay;
        let task = AbortOnDrop::spawn(async move {
            tokio::time::sleep_until(due).await;
            fire(ticket);
        });
        self.armed = Some(Armed { ticket, due, _task: task });
    }

    /// Whether `ticket` is of the current arming. The first true answer disarms the timer.
    pub fn accept(&mut self, ticket: Ticket) -> bool {
        let is_current = self.armed.as_ref().is_some_and(|armed| armed.ticket == ticket);
        if is_current {
            self.armed = None;
        }
        is_current
    }

    /// Disarms the timer.
    pub fn cancel(&mut self) {
        self.armed = None;
    }

    /// When the timer fires; `None` once its message is accepted, or if it is not armed.
    pub fn due(&self) -> Option<Instant> {
        self.armed.as_ref().map(|armed| armed.due)
    }
}

/// The monotonic time: Tokio's, which tests can pause.
pub fn now() -> std::time::Instant {
    Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Collects the tickets that fired.
    #[derive(Clone, Default)]
    struct Fired(Arc<Mutex<Vec<Ticket>>>);

    impl Fired {
        fn arm(&self, timer: &mut TimerSlot, delay: Duration) {
            let fired = self.clone();
            timer.arm_with(delay, move |ticket| fired.0.lock().unwrap().push(ticket));
        }

        fn tickets(&self) -> Vec<Ticket> {
            self.0.lock().unwrap().clone()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_fires_once_at_its_moment() {
        let (fired, mut timer) = (Fired::default(), TimerSlot::new());
        fired.arm(&mut timer, 10 * SECOND);
        assert_eq!(timer.due(), Some(Instant::now() + 10 * SECOND));
        tokio::time::sleep(9 * SECOND).await;
        assert!(fired.tickets().is_empty());
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(fired.tickets().len(), 1);
        assert!(timer.due().is_some(), "until its message is accepted");
        assert!(timer.accept(fired.tickets()[0]));
        assert!(!timer.accept(fired.tickets()[0]), "a doubled message is refused");
        assert_eq!(timer.due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn arming_again_ends_the_earlier_arming() {
        let (fired, mut timer) = (Fired::default(), TimerSlot::new());
        fired.arm(&mut timer, SECOND);
        fired.arm(&mut timer, 5 * SECOND);
        tokio::time::sleep(2 * SECOND).await;
        assert!(fired.tickets().is_empty());
        tokio::time::sleep(10 * SECOND).await;
        assert_eq!(fired.tickets().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_left_before_the_timer_was_armed_again_is_refused() {
        let (fired, mut timer) = (Fired::default(), TimerSlot::new());
        fired.arm(&mut timer, SECOND);
        tokio::time::sleep(2 * SECOND).await;
        fired.arm(&mut timer, SECOND);
        assert!(!timer.accept(fired.tickets()[0]));
        assert!(timer.due().is_some(), "the new arming stays");
        tokio::time::sleep(2 * SECOND).await;
        assert!(timer.accept(fired.tickets()[1]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_or_dropped_timer_does_not_fire() {
        let fired = Fired::default();
        let mut cancelled = TimerSlot::new();
        fired.arm(&mut cancelled, SECOND);
        cancelled.cancel();
        let mut dropped = TimerSlot::new();
        fired.arm(&mut dropped, SECOND);
        drop(dropped);
        tokio::time::sleep(5 * SECOND).await;
        assert!(fired.tickets().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn tickets_of_different_timers_are_not_mixed_up() {
        let (fired, mut one, mut two) = (Fired::default(), TimerSlot::new(), TimerSlot::new());
        fired.arm(&mut one, SECOND);
        fired.arm(&mut two, 10 * SECOND);
        tokio::time::sleep(2 * SECOND).await;
        assert!(!two.accept(fired.tickets()[0]));
        assert!(one.accept(fired.tickets()[0]));
    }
}
