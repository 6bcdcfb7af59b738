use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::lock;
use crate::boundary::StatusSink;
use crate::domain::ids::ConfigId;
use crate::domain::reason::Reason;
use crate::domain::status::ConfigStatus;

/// Keeps the newest state of every config, and the reasons it went through. Clones are one board.
#[derive(Clone, Default)]
pub struct StatusBoard(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    newest: BTreeMap<ConfigId, Arc<ConfigStatus>>,
    reasons: BTreeMap<ConfigId, Vec<Reason>>,
    /// Every skip that was ever shown.
    skips: BTreeMap<ConfigId, BTreeSet<String>>,
}

impl StatusBoard {
    /// The newest state of the object `default/<name>`, whichever life of it.
    pub fn of(&self, name: &str) -> Option<Arc<ConfigStatus>> {
        let inner = lock(&self.0);
        let found = inner.newest.iter().find(|(id, _)| &*id.name.name == name);
        found.map(|(_, status)| Arc::clone(status))
    }

    /// The newest state of this life of an object.
    pub fn of_life(&self, id: &ConfigId) -> Option<Arc<ConfigStatus>> {
        lock(&self.0).newest.get(id).map(Arc::clone)
    }

    /// The reason of its `Ready`.
    pub fn reason(&self, name: &str) -> Option<Reason> {
        self.of(name).map(|status| status.reason)
    }

    /// The reasons that the object went through, doubles in a row left out.
    pub fn reasons(&self, name: &str) -> Vec<Reason> {
        let inner = lock(&self.0);
        let of_name = inner.reasons.iter().filter(|(id, _)| &*id.name.name == name);
        of_name.flat_map(|(_, reasons)| reasons).copied().collect()
    }

    /// Every skip that was ever shown of the object, as `vm: reason`.
    pub fn skips(&self, name: &str) -> Vec<String> {
        let inner = lock(&self.0);
        let of_name = inner.skips.iter().filter(|(id, _)| &*id.name.name == name);
        of_name.flat_map(|(_, skips)| skips).cloned().collect()
    }

    /// Everything, to be shown when a test fails.
    pub fn all(&self) -> Vec<Arc<ConfigStatus>> {
        lock(&self.0).newest.values().map(Arc::clone).collect()
    }
}

impl StatusSink for StatusBoard {
    fn publish(&self, id: &ConfigId, status: Arc<ConfigStatus>) {
        let mut inner = lock(&self.0);
        let reasons = inner.reasons.entry(id.clone()).or_default();
        if reasons.last() != Some(&status.reason) {
            reasons.push(status.reason);
        }
        let skips = status.skipped.iter().map(|skip| format!("{}: {}", skip.vm, skip.reason));
        inner.skips.entry(id.clone()).or_default().extend(skips);
        inner.newest.insert(id.clone(), status);
    }

    fn forget(&self, id: &ConfigId) {
        lock(&self.0).newest.remove(id);
    }
}
