use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::lock;
use super::watch::{Watch, Watcher};
use crate::boundary::StatusSink;
use crate::domain::ids::ConfigId;
use crate::domain::reason::Reason;
use crate::domain::status::ConfigStatus;

/// Keeps the newest state of every config, and the reasons it went through. Clones are one board.
#[derive(Clone, Default)]
pub struct StatusBoard(Arc<Mutex<Inner>>, Watcher);

type Echo = Arc<dyn Fn(&ConfigId) + Send + Sync>;

#[derive(Default)]
struct Inner {
    newest: BTreeMap<ConfigId, Arc<ConfigStatus>>,
    reasons: BTreeMap<ConfigId, Vec<Reason>>,
    /// Every skip that was ever shown.
    skips: BTreeMap<ConfigId, BTreeSet<String>>,
    publications: usize,
    echo: Option<Echo>,
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

    /// Who sees every state that is shown from now on.
    pub fn watched_by(&self, watch: Arc<dyn Watch>) {
        self.1.set(watch);
    }

    /// How often anything was shown.
    pub fn publications(&self) -> usize {
        lock(&self.0).publications
    }

    /// Calls `echo` whenever a state is shown, as a watch that sees every status that is written.
    pub fn echoes(&self, echo: impl Fn(&ConfigId) + Send + Sync + 'static) {
        lock(&self.0).echo = Some(Arc::new(echo));
    }

    /// Everything, to be shown when a test fails.
    pub fn all(&self) -> Vec<Arc<ConfigStatus>> {
        lock(&self.0).newest.values().map(Arc::clone).collect()
    }
}

impl StatusSink for StatusBoard {
    fn publish(&self, id: &ConfigId, status: Arc<ConfigStatus>) {
        self.1.tell(|watch| watch.shown(id, &status));
        let mut inner = lock(&self.0);
        let reasons = inner.reasons.entry(id.clone()).or_default();
        if reasons.last() != Some(&status.reason) {
            reasons.push(status.reason);
        }
        let skips = status.skipped.iter().map(|skip| format!("{}: {}", skip.vm, skip.reason));
        inner.skips.entry(id.clone()).or_default().extend(skips);
        inner.newest.insert(id.clone(), status);
        inner.publications += 1;
        let echo = inner.echo.clone();
        drop(inner);
        if let Some(echo) = echo {
            echo(id);
        }
    }

    fn forget(&self, id: &ConfigId) {
        lock(&self.0).newest.remove(id);
    }
}
