//! Work that an actor hands to a task, so that its handlers never wait for a network or a disk.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use ractor::{ActorRef, Message};
use tokio::task::AbortHandle;

use super::timer::Ticket;

/// A spawned task that ends with this guard.
#[derive(Debug)]
pub struct AbortOnDrop(AbortHandle);

impl AbortOnDrop {
    /// Spawns `work` on the current runtime.
    pub fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work).abort_handle())
    }

    /// Whether the work is done.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The work of a task panicked; the text is the panic's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task panicked: {0}")]
pub struct TaskPanicked(pub String);

/// At most one task in flight, whose result comes back as a message. Starting another, cancelling or
/// dropping it aborts the earlier one; a result that had already left is refused by [`TaskSlot::accept`].
#[derive(Debug, Default)]
pub struct TaskSlot {
    running: Option<(Ticket, AbortOnDrop)>,
}

impl TaskSlot {
    /// A slot with nothing in flight.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `work` in a task and sends `message(ticket, result)` to `actor`, also when `work` panics.
    pub fn start<M, T, F>(
        &mut self,
        actor: &ActorRef<M>,
        work: F,
        message: impl FnOnce(Ticket, Result<T, TaskPanicked>) -> M + Send + 'static,
    ) -> Ticket
    where
        M: Message,
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let ticket = Ticket::fresh();
        let actor = actor.clone();
        let task = AbortOnDrop::spawn(async move {
            let result = AssertUnwindSafe(work).catch_unwind().await;
            let result = result.map_err(|panic| TaskPanicked(panic_text(panic.as_ref())));
            // An actor that is gone needs no result.
            let _ = actor.send_message(message(ticket, result));
        });
        self.running = Some((ticket, task));
        ticket
    }

    /// Whether `ticket` is of the task in flight. The first true answer frees the slot.
    pub fn accept(&mut self, ticket: Ticket) -> bool {
        let is_current = self.running.as_ref().is_some_and(|(current, _)| *current == ticket);
        if is_current {
            self.running = None;
        }
        is_current
    }

    /// Aborts the task in flight.
    pub fn cancel(&mut self) {
        self.running = None;
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}
