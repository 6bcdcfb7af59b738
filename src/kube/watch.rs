//! `OpenstackConfig` objects from a cluster: a list, then a watch from there on, for ever.
//!
//! Own code and not `kube::runtime`'s watcher, so that one place decides about every ending of a watch: what is
//! listed anew, how long to wait, what people are told, and when silence is no longer normal.

mod follower;
mod health;
#[cfg(test)]
#[path = "watch/watch_tests.rs"]
mod tests;
mod tracker;

use std::fmt;
use std::sync::{Arc, Mutex};

use kube::Client;
use tokio::task::JoinHandle;

pub use health::{WatchCheck, WatchHealth};

use super::observed::ObservedStatuses;
use super::validate::Defaults;
use crate::settings::KubeSettings;
use crate::source::{SourceEvents, channel};
use follower::Follower;
use tracker::Tracker;

/// Whose objects one watch brings: those of a namespace, or all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope(Option<String>);

impl Scope {
    fn covers(&self, namespace: &str) -> bool {
        self.0.as_deref().is_none_or(|own| own == namespace)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("all namespaces"),
            Some(namespace) => write!(f, "namespace {namespace}"),
        }
    }
}

/// A watched cluster. It is watched until this is dropped.
pub struct KubeSource {
    tasks: Vec<JoinHandle<()>>,
    health: Arc<WatchHealth>,
    observed: Arc<ObservedStatuses>,
}

impl KubeSource {
    /// Watches the objects of the namespaces that `wanted` names, or of all, that its selector selects. Does not wait: what does not work is in the log and in
    /// [`KubeSource::health`], and is tried again.
    pub fn start(
        client: &Client,
        wanted: &KubeSettings,
        defaults: Defaults,
        seed: u64,
    ) -> (Self, SourceEvents) {
        let scopes: Vec<Scope> = match wanted.namespaces.is_empty() {
            true => vec![Scope(None)],
            false => wanted.namespaces.iter().map(|namespace| Scope(Some(namespace.clone()))).collect(),
        };
        let (sender, events) = channel();
        let sender = Arc::new(sender);
        let tracker = Arc::new(Mutex::new(Tracker::new(defaults, scopes.iter().cloned().collect())));
        let health = Arc::new(WatchHealth::new(scopes.iter().cloned()));
        let observed = Arc::new(ObservedStatuses::default());
        let follow = |scope: Scope| {
            let follower = Follower {
                client: client.clone(),
                scope,
                selector: wanted.selector.clone(),
                tracker: Arc::clone(&tracker),
                sender: Arc::clone(&sender),
                health: Arc::clone(&health),
                observed: Arc::clone(&observed),
            };
            tokio::spawn(follower.run(seed))
        };
        let tasks = scopes.into_iter().map(follow).collect();
        (Self { tasks, health, observed }, events)
    }

    /// How the watches are.
    pub fn health(&self) -> Arc<WatchHealth> {
        Arc::clone(&self.health)
    }

    /// What the objects' status says.
    pub fn observed(&self) -> Arc<ObservedStatuses> {
        Arc::clone(&self.observed)
    }
}

impl Drop for KubeSource {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
