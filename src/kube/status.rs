//! Writes the state of the configs into their objects' status.
//!
//! The tree publishes full states and never waits. Per object the newest counts; it is written when it says
//! something else than what stands there, one write at a time, and a failed one is tried again. A verdict that
//! becomes another is an Event, too.

mod convert;
mod event;
mod queue;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::Client;
use multinic_actors::boundary::StatusSink;
use multinic_actors::domain::ids::ConfigId;
use multinic_actors::domain::status::ConfigStatus;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

pub use convert::object_status;

use super::event::emit;
use super::observed::ObservedStatuses;
use queue::{Due, Queue, Task};
use write::Outcome;

/// The field manager of everything the operator applies.
pub const FIELD_MANAGER: &str = "multinic-operator";

/// Writes at the same time: a start with hundreds of objects must not be a burst on the API server.
const MAX_IN_FLIGHT: usize = 8;

/// How long the last states may take to be written when the operator ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// A sink that writes to the API server.
pub struct StatusWriter {
    shared: Arc<Shared>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
    abort: AbortHandle,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Notify,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StatusWriter {
    /// Starts to write what is published, to objects that `observed` knows.
    pub fn start(client: Client, observed: Arc<ObservedStatuses>, seed: u64) -> Self {
        let shared = Arc::new(Shared { queue: Mutex::new(Queue::new(seed)), changed: Notify::new() });
        let stop = CancellationToken::new();
        let worker = Worker { client, observed, shared: Arc::clone(&shared), writes: JoinSet::new() };
        let task = tokio::spawn(worker.run(stop.clone()));
        let abort = task.abort_handle();
        Self { shared, stop, task: Mutex::new(Some(task)), abort }
    }

    /// Writes what is due, within reason, and ends.
    pub async fn stop(&self) {
        self.stop.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut task) = task
            && tokio::time::timeout(DRAIN_TIMEOUT, &mut task).await.is_err()
        {
            task.abort();
        }
    }

    /// Ends at once, with what is under way.
    pub fn abort(&self) {
        self.abort.abort();
    }
}

impl Drop for StatusWriter {
    fn drop(&mut self) {
        self.abort();
    }
}

impl std::fmt::Debug for StatusWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StatusWriter")
    }
}

impl StatusSink for StatusWriter {
    fn publish(&self, id: &ConfigId, status: Arc<ConfigStatus>) {
        self.shared.queue().publish(id, status, Instant::now());
        self.shared.changed.notify_one();
    }

    fn forget(&self, id: &ConfigId) {
        self.shared.queue().forget(id);
    }
}

struct Worker {
    client: Client,
    observed: Arc<ObservedStatuses>,
    shared: Arc<Shared>,
    writes: JoinSet<(ConfigId, Outcome)>,
}

impl Worker {
    async fn run(mut self, stop: CancellationToken) {
        loop {
            let next = self.start_due();
            if stop.is_cancelled() && self.writes.is_empty() {
                return;
            }
            // While it stops, what is not due yet never becomes so.
            let wait = next.filter(|_| !stop.is_cancelled());
            tokio::select! {
                () = self.shared.changed.notified() => {}
                () = stop.cancelled(), if !stop.is_cancelled() => {}
                Some(done) = self.writes.join_next() => self.take(done),
                () = sleep_until(wait) => {}
            }
        }
    }

    /// Starts as many writes as may be; when there is more to do, if not before something happens.
    fn start_due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        loop {
            if self.writes.len() >= MAX_IN_FLIGHT {
                return None;
            }
            let due = self.shared.queue().next(now, &self.observed, Timestamp::now());
            match due {
                Due::Now(task) => self.start(*task),
                Due::At(at) => return Some(at),
                Due::Never => return None,
            }
        }
    }

    fn start(&mut self, task: Task) {
        let client = self.client.clone();
        self.writes.spawn(async move {
            let outcome = write::write(client.clone(), &task).await;
            if matches!(outcome, Outcome::Written(_))
                && let Some(transition) = event::transition(task.before.as_ref(), &task.status)
            {
                emit(client, event::reference(&task.id), "Deliver", transition).await;
            }
            (task.id, outcome)
        });
    }

    fn take(&mut self, done: Result<(ConfigId, Outcome), tokio::task::JoinError>) {
        match done {
            Ok((id, outcome)) => self.shared.queue().done(&id, outcome, Instant::now()),
            // Which one is not known: all that are marked as under way are tried again.
            Err(error) => {
                tracing::error!("writing a status failed: {error}");
                self.shared.queue().lost(Instant::now());
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
