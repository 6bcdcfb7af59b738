//! What everybody but the inventory actor holds of the inventory: the read view and the way to the actor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use jiff::Timestamp;
use ractor::ActorRef;

use super::{Ack, InventoryMsg};
use crate::domain::ids::ConfigName;
use crate::domain::inventory::{ConfigState, Event, Snapshot};

/// The inventory for readers and senders. Cheap to clone; survives restarts of the actor.
#[derive(Clone, Default)]
pub struct InventoryHandle(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// What readers see: persisted, or what memory holds while the store fails.
    published: RwLock<Arc<Snapshot>>,
    /// Everything applied so far; survives the actor.
    working: Mutex<Option<Arc<Snapshot>>>,
    actor: Mutex<Option<ActorRef<InventoryMsg>>>,
    health: Mutex<StoreHealth>,
}

/// How the store does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreHealth {
    /// The inventory has been read.
    pub is_loaded: bool,
    /// Why the store fails, if it does.
    pub problem: Option<String>,
    /// What was wrong with the file when it was read.
    pub warnings: Vec<String>,
    /// Writes that succeeded.
    pub persists: u64,
    /// Writes that failed.
    pub failed_persists: u64,
    /// The last write that succeeded.
    pub last_persist: Option<Timestamp>,
    /// Changes that no write has kept yet.
    pub unpersisted: u64,
}

impl InventoryHandle {
    /// Sends an event to the actor. False while the actor is down: send it again later.
    pub fn record(&self, event: Event, ack: Ack) -> bool {
        let actor = lock(&self.0.actor).clone();
        actor.is_some_and(|actor| actor.send_message(InventoryMsg::Record { event, ack }).is_ok())
    }

    /// The actor itself, for tests of failures.
    #[cfg(any(test, feature = "test-util"))]
    pub fn actor(&self) -> Option<ractor::ActorCell> {
        lock(&self.0.actor).as_ref().map(|actor| actor.get_cell())
    }

    /// What readers may see.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.published.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Everything that happened, persisted or not: what decisions are made from. Readers get
    /// [`Self::snapshot`].
    pub fn applied(&self) -> Arc<Snapshot> {
        self.working().unwrap_or_default()
    }

    /// What is kept of a config, persisted or not.
    pub fn config_state(&self, name: &ConfigName) -> Option<Arc<ConfigState>> {
        let working = self.working()?;
        working.configs.get(name).cloned()
    }

    /// How the store does.
    pub fn health(&self) -> StoreHealth {
        lock(&self.0.health).clone()
    }

    pub(super) fn set_actor(&self, actor: ActorRef<InventoryMsg>) {
        *lock(&self.0.actor) = Some(actor);
    }

    pub(super) fn working(&self) -> Option<Arc<Snapshot>> {
        lock(&self.0.working).clone()
    }

    pub(super) fn set_working(&self, snapshot: Arc<Snapshot>) {
        *lock(&self.0.working) = Some(snapshot);
    }

    pub(super) fn set_loaded(&self) {
        lock(&self.0.health).is_loaded = true;
    }

    pub(super) fn note_warnings(&self, warnings: Vec<String>) {
        lock(&self.0.health).warnings = warnings;
    }

    pub(super) fn note_unpersisted(&self) {
        lock(&self.0.health).unpersisted += 1;
    }

    pub(super) fn note_persisted(&self, at: Timestamp, is_all: bool) {
        let mut health = lock(&self.0.health);
        health.problem = None;
        health.persists += 1;
        health.last_persist = Some(at);
        if is_all {
            health.unpersisted = 0;
        }
    }

    pub(super) fn note_problem(&self, problem: &str) {
        let mut health = lock(&self.0.health);
        health.problem = Some(problem.to_owned());
        health.failed_persists += 1;
    }

    /// Makes `snapshot` what readers see.
    pub(super) fn publish(&self, snapshot: &Arc<Snapshot>) {
        let mut published = self.0.published.write().unwrap_or_else(PoisonError::into_inner);
        *published = Arc::clone(snapshot);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every critical section is one assignment or a few: nothing is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
