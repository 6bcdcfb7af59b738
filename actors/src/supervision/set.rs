//! The children of one kind that an actor has by key: a config's ports, the root's configs.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use ractor::{ActorCell, ActorId, ActorRef, Message, SupervisionEvent};

use super::exit::{ChildExit, Outcome};
use super::node::Node;
use super::slot::{ChildSlot, ChildSpec, Spawned};
use super::timer::Ticket;
use crate::domain::restart::RestartPolicy;

/// Slots of one kind, by key.
pub struct ChildSet<K, M> {
    kind: &'static str,
    policy: RestartPolicy,
    seed: u64,
    inherits_giving_up: bool,
    parent: Node,
    slots: BTreeMap<K, ChildSlot<M>>,
    /// Whose actor it is, so that an event among ten thousand children costs one look-up.
    by_actor: HashMap<ActorId, K>,
    on_due: Arc<dyn Fn(K, Ticket) + Send + Sync>,
}

impl<K, M> ChildSet<K, M>
where
    K: Ord + Clone + fmt::Display + Send + Sync + 'static,
    M: Message,
{
    /// An empty set; its children register below `parent` under their key's text. `on_due` casts the
    /// restart message of a child to the parent.
    pub fn new(
        kind: &'static str,
        policy: RestartPolicy,
        seed: u64,
        parent: &Node,
        on_due: impl Fn(K, Ticket) + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind,
            policy,
            seed,
            inherits_giving_up: false,
            parent: parent.clone(),
            slots: BTreeMap::new(),
            by_actor: HashMap::new(),
            on_due: Arc::new(on_due),
        }
    }

    /// The same for children that give up when a child of their own did.
    pub fn inheriting_giving_up(self) -> Self {
        Self { inherits_giving_up: true, ..self }
    }

    /// Starts the child of `key`, as [`ChildSlot::start`] does; the slot is made when there is none.
    ///
    /// # Errors
    ///
    /// The start was refused; the slot has treated it like a crash.
    pub async fn start<F, Fut>(&mut self, key: &K, spawn: F) -> Result<ActorRef<M>, ChildExit>
    where
        F: FnOnce(Node) -> Fut,
        Fut: Future<Output = Spawned<M>>,
    {
        let slot = match self.slots.remove(key) {
            Some(slot) => slot,
            None => self.new_slot(key),
        };
        let slot = self.slots.entry(key.clone()).or_insert(slot);
        let child = slot.start(spawn).await?;
        self.by_actor.insert(child.get_id(), key.clone());
        Ok(child)
    }

    fn new_slot(&self, key: &K) -> ChildSlot<M> {
        let spec = ChildSpec::new(self.kind, key.to_string())
            .policy(self.policy)
            .seed(self.seed)
            .inherits_giving_up(self.inherits_giving_up);
        let (on_due, owned_key) = (Arc::clone(&self.on_due), key.clone());
        ChildSlot::new(spec, &self.parent, move |ticket| on_due(owned_key.clone(), ticket))
    }

    /// Takes an event of the parent's `handle_supervisor_evt`. `None` if it is not the end of one of these
    /// children. A child that was removed leaves the set here, with [`Outcome::Stopped`].
    pub fn on_event(&mut self, event: &SupervisionEvent) -> Option<(K, ChildExit)> {
        let id = event.actor_id()?;
        let key = self.by_actor.get(&id)?.clone();
        let exit = self.slots.get_mut(&key)?.on_event(event)?;
        self.by_actor.remove(&id);
        if exit.outcome == Outcome::Stopped {
            self.slots.remove(&key);
        }
        Some((key, exit))
    }

    /// Whether the restart message of `key` with this ticket still holds: then call [`Self::start`].
    pub fn is_due(&mut self, key: &K, ticket: Ticket) -> bool {
        self.slots.get_mut(key).is_some_and(|slot| slot.is_due(ticket))
    }

    /// Sends to the child of `key`. False, and the message is gone, if it is down or unknown.
    pub fn cast(&self, key: &K, message: M) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.cast(message))
    }

    /// Stops the child of `key` for good. Its slot goes at once if nothing runs (then `None`), else with
    /// the event of its end; until then the key is taken. Returns the actor to wait for.
    pub fn remove(&mut self, key: &K) -> Option<ActorCell> {
        let child = self.slots.get_mut(key)?.stop();
        if child.is_none() {
            self.slots.remove(key);
        }
        child
    }

    /// Removes every child, but leaves the telling to [`super::stop_children_in_order`]. Returns the
    /// actors for it.
    pub fn expect_stop_all(&mut self) -> Vec<ActorCell> {
        let mut children = Vec::new();
        self.slots.retain(|_, slot| {
            let child = slot.expect_stop();
            let runs = child.is_some();
            children.extend(child);
            runs
        });
        children
    }

    /// The slot of `key`.
    pub fn get(&self, key: &K) -> Option<&ChildSlot<M>> {
        self.slots.get(key)
    }

    /// The slot of `key`, to decide about a child that gave up.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut ChildSlot<M>> {
        self.slots.get_mut(key)
    }

    /// All slots, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &ChildSlot<M>)> {
        self.slots.iter()
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.slots.keys()
    }

    /// How many slots there are, whatever state they are in.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no slot.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

impl<K: fmt::Debug, M> fmt::Debug for ChildSet<K, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSet")
            .field("kind", &self.kind)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}
