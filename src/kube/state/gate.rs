//! Lets an object through to the tree when it is known what its state in the cluster tells.
//!
//! Stands between the source of objects and the tree. The first objects go on together, when all of their
//! states were asked for once: so who owns which node is known before anybody sends. An object whose state
//! cannot be read, or that another release holds, goes on as one that waits, with the reason; it is looked at
//! again until it may go. An object that is gone from here is let go: its state then names no holder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use multinic_actors::claim_table::ClaimTable;
use multinic_actors::domain::backoff::{Backoff, BackoffPolicy, seed_for};
use multinic_actors::domain::config::{Declared, InvalidConfig};
use multinic_actors::domain::ids::ConfigName;
use multinic_actors::domain::reason::Reason;
use multinic_actors::inventory::InventoryHandle;
use multinic_actors::supervision::Tree;
use tokio::task::{JoinHandle, JoinSet};

use super::look::{Looked, look};
use super::maps::{StateMaps, now};
use super::release::release;
use crate::source::{SourceEvent, SourceEvents, SourceSender, channel};

/// Looks at the same time.
const MAX_LOOKS: usize = 16;
/// Pauses between looks at the state of an object that has to wait.
const LOOK_AGAIN: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(15),
    multiplier: 2.0,
    jitter: 0.3,
};

/// What the gate works with.
#[derive(Clone)]
pub struct GateParts {
    /// The states in the cluster.
    pub maps: Arc<StateMaps>,
    /// Learns what they tell.
    pub inventory: InventoryHandle,
    /// Learns whose nodes those are.
    pub claims: ClaimTable,
    /// Tells when a config's actors have ended.
    pub tree: Tree,
    /// For the jitter of looks.
    pub seed: u64,
}

/// The events of `events`, each object held back until its state is known; until `events` ends.
pub fn gate(events: SourceEvents, parts: GateParts) -> SourceEvents {
    let (sender, gated) = channel();
    let limit = Arc::new(tokio::sync::Semaphore::new(MAX_LOOKS));
    let gate = Gate {
        parts,
        out: sender,
        limit,
        through: BTreeMap::new(),
        waiting: BTreeMap::new(),
        first: Some(First::default()),
        looks: JoinSet::new(),
        releases: BTreeMap::new(),
        lives: 0,
    };
    // Ends with the source.
    tokio::spawn(gate.run(events));
    gated
}

struct Gate {
    parts: GateParts,
    out: SourceSender,
    limit: Arc<tokio::sync::Semaphore>,
    /// Objects that went on, and as which life.
    through: BTreeMap<ConfigName, Through>,
    waiting: BTreeMap<ConfigName, Waiting>,
    /// Until the first objects have gone on.
    first: Option<First>,
    looks: JoinSet<(ConfigName, u64, Looked)>,
    /// What lets go of objects that are gone from here.
    releases: BTreeMap<ConfigName, AbortOnDrop>,
    lives: u64,
}

struct Through {
    declared: Declared,
}

struct Waiting {
    declared: Declared,
    /// Of this wait: a look that was begun for an earlier one says nothing any more.
    life: u64,
    backoff: Backoff,
    /// Why, if a look has ended.
    reason: Option<String>,
}

#[derive(Default)]
struct First {
    is_synced: bool,
    /// Not looked at yet.
    unseen: BTreeSet<ConfigName>,
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Gate {
    async fn run(mut self, mut events: SourceEvents) {
        let maps = Arc::clone(&self.parts.maps);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.take(event),
                    None => return,
                },
                Some(looked) = self.looks.join_next() => match looked {
                    Ok((name, life, looked)) => self.looked(&name, life, looked),
                    Err(error) => tracing::error!("a look at a state failed: {error}"),
                },
                lost = maps.lost() => lost.into_iter().for_each(|name| self.lost(&name)),
            }
        }
    }

    fn take(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Apply(declared) => self.apply(declared),
            SourceEvent::Delete(_) | SourceEvent::LetGo(_) => self.gone(event),
            SourceEvent::Synced => {
                match &mut self.first {
                    Some(first) => first.is_synced = true,
                    None => self.out.send(SourceEvent::Synced),
                }
                self.end_of_first();
            }
            other @ (SourceEvent::FirstSeen { .. }
            | SourceEvent::FileProblem { .. }
            | SourceEvent::FileRecovered { .. }) => self.out.send(other),
        }
    }

    fn apply(&mut self, declared: Declared) {
        let id = declared.id().clone();
        if let Some(through) = self.through.get_mut(&id.name)
            && through.declared.id() == &id
        {
            through.declared = declared.clone();
            self.out.send(SourceEvent::Apply(declared));
            return;
        }
        if let Some(waiting) = self.waiting.get_mut(&id.name)
            && waiting.declared.id() == &id
        {
            waiting.declared = declared;
            return;
        }
        // It is back before it was let go of, or another life of it: what it was let go for is void.
        self.releases.remove(&id.name);
        self.through.remove(&id.name);
        self.wait(declared);
    }

    fn wait(&mut self, declared: Declared) {
        let name = declared.id().name.clone();
        self.lives += 1;
        let life = self.lives;
        let seed = seed_for(self.parts.seed, &name.to_string());
        let backoff = Backoff::new(LOOK_AGAIN, seed, now());
        self.waiting.insert(name.clone(), Waiting { declared, life, backoff, reason: None });
        if let Some(first) = &mut self.first {
            first.unseen.insert(name.clone());
        }
        self.look(name, life, Duration::ZERO);
    }

    fn look(&mut self, name: ConfigName, life: u64, pause: Duration) {
        let (parts, limit) = (self.parts.clone(), Arc::clone(&self.limit));
        self.looks.spawn(async move {
            tokio::time::sleep(pause).await;
            let _permit = limit.acquire_owned().await;
            let looked = look(&parts, &name).await;
            (name, life, looked)
        });
    }

    fn looked(&mut self, name: &ConfigName, life: u64, looked: Looked) {
        let Some(waiting) = self.waiting.get_mut(name).filter(|waiting| waiting.life == life) else { return };
        match looked {
            Looked::Known => {
                let Some(waiting) = self.waiting.remove(name) else { return };
                if waiting.reason.is_some() {
                    tracing::info!("{name}: its state is known, it goes on");
                }
                let declared = waiting.declared;
                self.through.insert(name.clone(), Through { declared: declared.clone() });
                if self.first.is_none() {
                    self.out.send(SourceEvent::Apply(declared));
                }
            }
            Looked::Not(reason) => {
                let pause = waiting.backoff.next(now());
                if waiting.reason.as_ref() != Some(&reason) {
                    waiting.reason = Some(reason);
                    if self.first.is_none() {
                        self.tell_waiting(name);
                    }
                }
                self.look(name.clone(), life, pause);
            }
        }
        if let Some(first) = &mut self.first {
            first.unseen.remove(name);
        }
        self.end_of_first();
    }

    /// All of the first objects were looked at: they go on together.
    fn end_of_first(&mut self) {
        let is_over = self.first.as_ref().is_some_and(|first| first.is_synced && first.unseen.is_empty());
        if !is_over {
            return;
        }
        self.first = None;
        for through in self.through.values() {
            self.out.send(SourceEvent::Apply(through.declared.clone()));
        }
        let waiting: Vec<_> = self.waiting.keys().cloned().collect();
        waiting.iter().for_each(|name| self.tell_waiting(name));
        self.out.send(SourceEvent::Synced);
    }

    /// The object is there, so that nobody takes it for gone, but nothing is done for it.
    fn tell_waiting(&self, name: &ConfigName) {
        let Some(Waiting { declared, reason: Some(reason), .. }) = self.waiting.get(name) else { return };
        let generation = match declared {
            Declared::Valid(config) => config.generation,
            Declared::Invalid(invalid) => invalid.generation,
        };
        self.out.send(SourceEvent::Apply(Declared::Invalid(InvalidConfig {
            id: declared.id().clone(),
            generation,
            reason: Reason::Pending,
            message: reason.clone(),
        })));
    }

    fn lost(&mut self, name: &ConfigName) {
        if let Some(through) = self.through.remove(name) {
            self.wait(through.declared);
        }
    }

    fn gone(&mut self, event: SourceEvent) {
        let (SourceEvent::Delete(id) | SourceEvent::LetGo(id)) = event.clone() else { return };
        let is_life = |declared: &Declared| declared.id() == &id;
        if self.waiting.get(&id.name).is_some_and(|waiting| is_life(&waiting.declared)) {
            self.waiting.remove(&id.name);
            if let Some(first) = &mut self.first {
                first.unseen.remove(&id.name);
            }
        }
        if self.through.get(&id.name).is_some_and(|through| is_life(&through.declared)) {
            self.through.remove(&id.name);
            self.let_go(&id.name);
        }
        self.out.send(event);
        self.end_of_first();
    }

    /// Only who shares a fleet with other releases has anybody to let it go for.
    fn let_go(&mut self, name: &ConfigName) {
        if !self.parts.maps.holder().is_empty() {
            let task = tokio::spawn(release(self.parts.clone(), name.clone()));
            self.releases.insert(name.clone(), AbortOnDrop(task));
        }
    }
}
