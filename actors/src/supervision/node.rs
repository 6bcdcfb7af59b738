//! One actor's place in the observable tree.

use std::borrow::Cow;
use std::sync::Arc;

use super::exit::Suspect;
use super::fault::Hook;
use super::stopwatch::Handling;
use super::tree::{Row, RowId, Tree};

/// An actor's handle on its own entry: it tells its phase and last error there, and its children register
/// below it. What a child of an earlier generation says is ignored. Dropping a `Node` changes nothing: the
/// entry belongs to the parent's slot.
#[derive(Clone, Debug)]
pub struct Node {
    tree: Tree,
    id: RowId,
    generation: u64,
    kind: &'static str,
    name: Arc<str>,
}

impl Node {
    pub(super) fn new(tree: Tree, id: RowId, generation: u64, kind: &'static str, name: Arc<str>) -> Self {
        Self { tree, id, generation, kind, name }
    }

    /// Says what the actor is doing, in one or two lower-case words.
    pub fn set_phase(&self, phase: impl Into<Cow<'static, str>>) {
        let phase = phase.into();
        self.tree.update(self.id, |row| {
            if row.generation == self.generation && row.phase != phase {
                row.phase = phase;
            }
        });
    }

    /// Says what went wrong last; `None` once it is no longer of interest.
    pub fn set_last_error(&self, error: Option<String>) {
        self.tree.update(self.id, |row| {
            if row.generation == self.generation {
                row.last_error = error;
            }
        });
    }

    /// What it is: `config`, `port`, …
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Which one of its kind.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which start of the actor this is; the first is 1 (and 0 the root's).
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The tree that the entry is in.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Times the handling of one message, until what this gives is dropped.
    pub fn time_handling(&self) -> Handling {
        Handling::begin(self.tree.stopwatch(), self.kind)
    }

    pub(super) fn id(&self) -> RowId {
        self.id
    }

    /// Tells tests how large something is that the actor keeps.
    pub fn note_size(&self, what: &'static str, size: usize) {
        #[cfg(feature = "test-util")]
        self.tree.probe().note_size(what, size);
        let _ = (what, size);
    }

    /// Where a test may make the actor fail. Actors call it with `?` in `pre_start` and `handle`.
    ///
    /// # Errors
    ///
    /// Only what a fault plan of a test orders; without the feature `test-util`, none.
    #[cfg_attr(not(feature = "test-util"), expect(clippy::unused_async, reason = "tests may hang here"))]
    pub async fn fault_point(&self, hook: Hook) -> Result<(), Suspect> {
        #[cfg(feature = "test-util")]
        if let Some(fault) = self.tree.probe().fault(self.kind, &self.name, hook) {
            return super::fault::suffer(fault).await;
        }
        let _ = hook;
        Ok(())
    }
}

/// Owns one entry of the tree: takes it, and what is below it, out when dropped.
#[derive(Debug)]
pub(super) struct Entry {
    node: Node,
}

impl Entry {
    pub(super) fn register(parent: &Node, kind: &'static str, name: &Arc<str>) -> Self {
        let tree = parent.tree().clone();
        // A parent of an earlier generation may still end its work; its children show nowhere.
        let id = tree.insert(parent, kind, name).unwrap_or(RowId::NOWHERE);
        Self { node: Node::new(tree, id, 0, kind, Arc::clone(name)) }
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.node.tree
    }

    /// The handle for the child of `generation`, which from now on is the one that may write.
    pub(super) fn hand_over(&mut self, generation: u64) -> Node {
        self.node.generation = generation;
        self.node.tree.update(self.node.id, |row| {
            row.generation = generation;
            row.phase = Cow::Borrowed("starting");
        });
        self.node.clone()
    }

    /// The child runs; it may have said so in words of its own already.
    pub(super) fn started(&self) {
        self.node.tree.update(self.node.id, |row| {
            if row.phase == "starting" {
                row.phase = Cow::Borrowed("running");
            }
        });
    }

    /// The child is gone: nothing below it remains, and a late word of it is ignored.
    pub(super) fn ended(&self, phase: &'static str, error: Option<&str>, is_restart: bool) {
        let tree = &self.node.tree;
        tree.update(self.node.id, |row| {
            row.generation = Row::ENDED;
            row.phase = Cow::Borrowed(phase);
            row.restarts += u64::from(is_restart);
            if let Some(error) = error {
                row.last_error = Some(error.to_owned());
            }
        });
        tree.remove_below(self.node.id);
    }

    pub(super) fn count_restart(&self) {
        self.node.tree.update(self.node.id, |row| row.restarts += 1);
    }

    /// Sets the phase over the child's own word.
    pub(super) fn set_phase(&self, phase: &'static str) {
        self.node.tree.update(self.node.id, |row| row.phase = Cow::Borrowed(phase));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.node.tree.remove(self.node.id);
    }
}
