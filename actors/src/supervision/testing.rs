//! For tests: every actor that a slot started can be found again, and faults be ordered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::{ActorCell, ActorStatus};

use super::fault::{Fault, FaultPlan, Hook};
use super::tree::Tree;

/// What a tree keeps for its tests.
#[derive(Default)]
pub(super) struct Probe {
    faults: Option<Arc<dyn FaultPlan>>,
    started: Mutex<Vec<StartedActor>>,
    sizes: Mutex<BTreeMap<&'static str, usize>>,
}

/// An actor that a slot of a tree started.
#[derive(Clone, Debug)]
pub struct StartedActor {
    /// What it is.
    pub kind: &'static str,
    /// Which one of its kind.
    pub name: Arc<str>,
    /// The actor, to stop or kill it from outside.
    pub actor: ActorCell,
}

impl Probe {
    pub(super) fn with_faults(faults: Arc<dyn FaultPlan>) -> Self {
        Self { faults: Some(faults), ..Self::default() }
    }

    pub(super) fn fault(&self, kind: &str, name: &str, hook: Hook) -> Option<Fault> {
        self.faults.as_ref()?.decide(kind, name, hook)
    }

    pub(super) fn note_size(&self, what: &'static str, size: usize) {
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        let largest = sizes.entry(what).or_default();
        *largest = size.max(*largest);
    }

    pub(super) fn started(&self, kind: &'static str, name: &Arc<str>, actor: ActorCell) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        // Long runs restart a lot: when the list would grow, forget who is gone.
        if started.len() == started.capacity() {
            started.retain(StartedActor::is_alive);
        }
        started.push(StartedActor { kind, name: Arc::clone(name), actor });
    }
}

impl StartedActor {
    fn is_alive(&self) -> bool {
        self.actor.get_status() != ActorStatus::Stopped
    }
}

/// The actors of `tree` that are not gone, in the order of their start. The root, which no slot started,
/// is not among them.
pub fn live_actors(tree: &Tree) -> Vec<StartedActor> {
    let started = tree.probe().started.lock().unwrap_or_else(PoisonError::into_inner);
    started.iter().filter(|started| started.is_alive()).cloned().collect()
}

/// How large what the actors of `tree` keep has been at most.
pub fn largest_sizes(tree: &Tree) -> BTreeMap<&'static str, usize> {
    tree.probe().sizes.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Actors that run while their parent is gone.
pub fn orphans(tree: &Tree) -> Vec<StartedActor> {
    let has_parent = |started: &StartedActor| {
        let parent = started.actor.try_get_supervisor();
        parent.is_some_and(|parent| parent.get_status() != ActorStatus::Stopped)
    };
    live_actors(tree).into_iter().filter(|started| !has_parent(started)).collect()
}

/// Waits until every actor of `tree` is gone and has left the tree.
///
/// # Panics
///
/// If one is left after a minute of (paused) time.
pub async fn assert_no_actor_left(tree: &Tree) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let (alive, entries) = (live_actors(tree), tree.snapshot().children);
        if alive.is_empty() && entries.is_empty() {
            return;
        }
        let is_late = tokio::time::Instant::now() >= deadline;
        assert!(!is_late, "actors left: {alive:#?}, entries left: {entries:#?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
