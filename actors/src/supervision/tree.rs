//! The supervision tree as data: who runs, in which phase, how often restarted, with which last error.
//!
//! Written by the slots and the actors, read by REST, console, metrics and tests without any mailbox.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use dashmap::DashMap;
use serde::{Deserialize, Serialize};

use super::node::Node;
use super::stopwatch::Stopwatch;
use crate::domain::restart::ExitCause;

/// The observable tree of one root. Cheap to clone; all clones are one tree.
#[derive(Clone)]
pub struct Tree {
    shared: Arc<Shared>,
}

struct Shared {
    // No method holds two rows at a time: rows of one shard share a lock.
    rows: DashMap<RowId, Row>,
    next_id: AtomicU64,
    root: (&'static str, Arc<str>),
    restarts: Mutex<BTreeMap<(&'static str, ExitCause), u64>>,
    stopwatch: OnceLock<Arc<dyn Stopwatch>>,
    #[cfg(feature = "test-util")]
    probe: super::testing::Probe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RowId(u64);

impl RowId {
    /// The id of no row.
    pub(super) const NOWHERE: Self = Self(u64::MAX);
}

pub(super) struct Row {
    parent: Option<RowId>,
    children: BTreeSet<RowId>,
    kind: &'static str,
    name: Arc<str>,
    pub(super) phase: Cow<'static, str>,
    pub(super) restarts: u64,
    pub(super) last_error: Option<String>,
    /// Of the child that may write here; the words of an earlier one are ignored.
    pub(super) generation: u64,
}

/// One actor and those below it, as `/v1/actors` shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeNode {
    /// What it is: `config`, `port`, …
    pub kind: String,
    /// Which one of its kind; unique below its parent.
    pub name: String,
    /// What it is doing: the actor's own word, or `starting`, `running`, `restarting`, `gave-up`,
    /// `stopping`, `stopped`.
    pub phase: String,
    /// How often it was started again.
    pub restarts: u64,
    /// What went wrong last, if anything did.
    pub last_error: Option<String>,
    /// Its children, by kind and name.
    pub children: Vec<TreeNode>,
}

impl TreeNode {
    /// The first child of this kind and name.
    pub fn child(&self, kind: &str, name: &str) -> Option<&TreeNode> {
        self.children.iter().find(|child| child.kind == kind && child.name == name)
    }
}

impl Tree {
    /// A tree whose only entry is the root, in phase `starting`.
    pub fn new(root_kind: &'static str, root_name: &str) -> Self {
        Self::build(
            root_kind,
            root_name,
            #[cfg(feature = "test-util")]
            super::testing::Probe::default(),
        )
    }

    /// A tree whose actors ask `faults` at their fault points.
    #[cfg(feature = "test-util")]
    pub fn with_faults(
        root_kind: &'static str,
        root_name: &str,
        faults: Arc<dyn super::fault::FaultPlan>,
    ) -> Self {
        Self::build(root_kind, root_name, super::testing::Probe::with_faults(faults))
    }

    fn build(
        kind: &'static str,
        name: &str,
        #[cfg(feature = "test-util")] probe: super::testing::Probe,
    ) -> Self {
        let name: Arc<str> = Arc::from(name);
        let shared = Shared {
            rows: DashMap::new(),
            next_id: AtomicU64::new(Self::ROOT.0 + 1),
            root: (kind, Arc::clone(&name)),
            restarts: Mutex::default(),
            stopwatch: OnceLock::new(),
            #[cfg(feature = "test-util")]
            probe,
        };
        shared.rows.insert(Self::ROOT, Row::starting(None, kind, name));
        Self { shared: Arc::new(shared) }
    }

    pub(super) const ROOT: RowId = RowId(0);

    /// The root's entry.
    pub fn root(&self) -> Node {
        let (kind, name) = &self.shared.root;
        Node::new(self.clone(), Self::ROOT, 0, kind, Arc::clone(name))
    }

    /// The whole tree as it is now. What changes meanwhile shows in either state.
    pub fn snapshot(&self) -> TreeNode {
        self.node_at(Self::ROOT).unwrap_or_else(|| {
            let (kind, name) = &self.shared.root;
            Row::starting(None, kind, Arc::clone(name)).to_node(Vec::new())
        })
    }

    fn node_at(&self, id: RowId) -> Option<TreeNode> {
        let (mut node, children) = {
            let row = self.shared.rows.get(&id)?;
            (row.to_node(Vec::new()), row.children.clone())
        };
        node.children = children.into_iter().filter_map(|child| self.node_at(child)).collect();
        node.children.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
        Some(node)
    }

    /// The same tree, whose actors tell `stopwatch` how long they take. The first one stays.
    pub fn timed_by(self, stopwatch: Arc<dyn Stopwatch>) -> Self {
        let _ = self.shared.stopwatch.set(stopwatch);
        self
    }

    pub(super) fn stopwatch(&self) -> Option<&Arc<dyn Stopwatch>> {
        self.shared.stopwatch.get()
    }

    /// How many actors of each kind run.
    pub fn count_by_kind(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for row in self.shared.rows.iter().filter(|row| row.generation != Row::ENDED) {
            *counts.entry(row.kind).or_default() += 1;
        }
        counts
    }

    /// Restarts since the tree began, by kind and cause.
    pub fn restarts(&self) -> BTreeMap<(&'static str, ExitCause), u64> {
        self.shared.restarts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The root is started anew. It has no parent that was told why it ended: counted as an error.
    pub fn note_root_restart(&self) {
        self.count_restart(self.shared.root.0, ExitCause::Error);
    }

    /// Restarts of one kind for one cause since the tree began.
    pub fn restarts_by(&self, kind: &str, cause: ExitCause) -> u64 {
        let restarts = self.shared.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        restarts.iter().find(|((k, c), _)| *k == kind && *c == cause).map_or(0, |(_, count)| *count)
    }

    /// Adds a row below `parent`; `None` if that one is gone or belongs to another generation by now.
    pub(super) fn insert(&self, parent: &Node, kind: &'static str, name: &Arc<str>) -> Option<RowId> {
        let id = RowId(self.shared.next_id.fetch_add(1, Ordering::Relaxed));
        self.shared.rows.insert(id, Row::starting(Some(parent.id()), kind, Arc::clone(name)));
        let is_adopted = self.update(parent.id(), |row| {
            let is_current = row.generation == parent.generation();
            if is_current {
                row.children.insert(id);
            }
            is_current
        });
        if is_adopted != Some(true) {
            self.shared.rows.remove(&id);
            return None;
        }
        Some(id)
    }

    pub(super) fn update<T>(&self, id: RowId, change: impl FnOnce(&mut Row) -> T) -> Option<T> {
        self.shared.rows.get_mut(&id).map(|mut row| change(&mut row))
    }

    /// Takes out `id` and everything below it.
    pub(super) fn remove(&self, id: RowId) {
        if let Some((_, row)) = self.shared.rows.remove(&id) {
            if let Some(parent) = row.parent {
                self.update(parent, |parent| parent.children.remove(&id));
            }
            row.children.into_iter().for_each(|child| self.remove(child));
        }
    }

    /// Takes out everything below `id`: the child that owned it is gone.
    pub(super) fn remove_below(&self, id: RowId) {
        let children = self.update(id, |row| std::mem::take(&mut row.children));
        children.into_iter().flatten().for_each(|child| self.remove(child));
    }

    pub(super) fn count_restart(&self, kind: &'static str, cause: ExitCause) {
        let mut restarts = self.shared.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        *restarts.entry((kind, cause)).or_default() += 1;
    }

    #[cfg(feature = "test-util")]
    pub(super) fn probe(&self) -> &super::testing::Probe {
        &self.shared.probe
    }
}

impl Row {
    /// The generation of nobody: the child ended, and its successor did not start yet.
    pub(super) const ENDED: u64 = u64::MAX;

    fn starting(parent: Option<RowId>, kind: &'static str, name: Arc<str>) -> Self {
        Self {
            parent,
            children: BTreeSet::new(),
            kind,
            name,
            phase: Cow::Borrowed("starting"),
            restarts: 0,
            last_error: None,
            generation: 0,
        }
    }

    fn to_node(&self, children: Vec<TreeNode>) -> TreeNode {
        TreeNode {
            kind: self.kind.to_owned(),
            name: self.name.to_string(),
            phase: self.phase.to_string(),
            restarts: self.restarts,
            last_error: self.last_error.clone(),
            children,
        }
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("rows", &self.shared.rows.len()).finish_non_exhaustive()
    }
}
