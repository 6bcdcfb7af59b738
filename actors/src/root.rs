//! The root actor: all configs and the inventory.
//!
//! Spawned by the application. Children: the inventory actor, and one config actor per object. Never ends
//! for one config: one that fails too often is marked InternalError and tried again later. What objects
//! there are is told by the source; a crash of the root ends the tree, and the application starts it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::boundary::Store;
use crate::config::{ConfigActor, ConfigArgs, ConfigMsg, Shared};
use crate::domain::cadence::first_poll_delay;
use crate::domain::config::{Config, Declared, Polling, RemovalPolicy};
use crate::domain::ids::{ConfigId, ConfigName};
use crate::domain::inventory::{Event, Owner};
use crate::domain::progress;
use crate::domain::reason::Reason;
use crate::inventory::{Inventory, InventoryArgs, InventoryMsg};
use crate::supervision::{
    ChildExit, ChildSet, ChildSlot, ChildSpec, Node, Outcome, Ticket, TimerSlot, stop_children_in_order,
};

mod absent;

/// How long configs and then the inventory get to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(12);
/// How long the inventory may take to write what it was told last.
const FLUSH_TIMEOUT_MS: u64 = 5_000;
/// How long a config that failed too often rests; doubled each time, at most sixteenfold.
const CONFIG_PAUSE: Duration = Duration::from_secs(60);
/// How long until the inventory actor is tried again after it failed too often.
const INVENTORY_PAUSE: Duration = Duration::from_secs(10);
/// How long an object must stay away before its records are pruned: the second look.
const PRUNE_DELAY: Duration = Duration::from_secs(120);

/// Reference to the root actor.
pub type RootRef = ActorRef<RootMsg>;

/// Messages of the root actor.
#[derive(Debug)]
pub enum RootMsg {
    /// An object exists and looks like this (from the source).
    Declare(Declared),
    /// An object is gone (from the source).
    Remove(ConfigId),
    /// An object is somebody else's now, or may be (from the source): what was delivered stays as it is.
    LetGo(ConfigId),
    /// The source has told every object there is.
    SourceSynced,
    /// The inventory has been read (from the inventory actor).
    InventoryLoaded,
    /// The inventory actor is due for a restart.
    InventoryDue(Ticket),
    /// A config actor is due for a restart.
    ConfigDue(ConfigName, Ticket),
    /// It is time for the second look at objects whose records are to be pruned.
    PruneDue(Ticket),
}

/// What the root is started with.
pub struct RootArgs {
    /// What the configs share.
    pub shared: Shared,
    /// Where the inventory is kept.
    pub store: Arc<dyn Store>,
    /// The root's entry in the tree.
    pub node: Node,
    /// First polls after a start are spread.
    pub spread_first_polls: bool,
    /// The source tells every object there is; else those that it does not tell may be somebody else's.
    pub knows_all: bool,
}

/// The root actor.
pub struct Root;

/// State of the root actor.
pub struct State {
    me: RootRef,
    shared: Shared,
    store: Arc<dyn Store>,
    node: Node,
    inventory: ChildSlot<InventoryMsg>,
    configs: ChildSet<ConfigName, ConfigMsg>,
    /// What the source told, whether it runs or not.
    declared: BTreeMap<ConfigName, Declared>,
    /// Which life of a config its actor was started for.
    running: BTreeMap<ConfigName, ConfigId>,
    /// What is shown of configs that gave up, until a round of theirs ends.
    gave_up: BTreeMap<ConfigName, (Reason, String)>,
    /// Lives that were told to end: until then they may still speak.
    ending: BTreeMap<ConfigName, ConfigId>,
    is_loaded: bool,
    is_synced: bool,
    /// First polls are spread until everything that there was at the start runs.
    spreads_first_polls: bool,
    first_polls: u32,
    prune: TimerSlot,
    /// Objects that are gone and whose records are to go.
    doomed: BTreeSet<ConfigName>,
    knows_all: bool,
    /// Objects that are somebody else's now, and with them their nodes.
    elsewhere: BTreeSet<ConfigName>,
}

impl Actor for Root {
    type Msg = RootMsg;
    type State = State;
    type Arguments = RootArgs;

    async fn pre_start(&self, me: RootRef, args: RootArgs) -> Result<State, ActorProcessingErr> {
        let (to_inventory, to_config) = (me.clone(), me.clone());
        let (policy, seed) = (args.shared.restart, args.shared.seed);
        // A root that is gone restarts nobody.
        let inventory = ChildSlot::new(
            ChildSpec::new("inventory", "inventory").policy(policy).seed(seed),
            &args.node,
            move |ticket| drop(to_inventory.send_message(RootMsg::InventoryDue(ticket))),
        );
        let configs = ChildSet::new("config", policy, seed, &args.node, move |name, ticket| {
            drop(to_config.send_message(RootMsg::ConfigDue(name, ticket)));
        })
        .inheriting_giving_up();
        let mut state = State {
            me,
            shared: args.shared,
            store: args.store,
            node: args.node,
            inventory,
            configs,
            declared: BTreeMap::new(),
            running: BTreeMap::new(),
            gave_up: BTreeMap::new(),
            ending: BTreeMap::new(),
            is_loaded: false,
            is_synced: false,
            spreads_first_polls: args.spread_first_polls,
            first_polls: 0,
            prune: TimerSlot::new(),
            doomed: BTreeSet::new(),
            knows_all: args.knows_all,
            elsewhere: BTreeSet::new(),
        };
        state.node.set_phase("loading");
        state.start_inventory().await;
        Ok(state)
    }

    async fn handle(&self, _me: RootRef, msg: RootMsg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            RootMsg::Declare(declared) => state.declare(declared).await,
            RootMsg::Remove(id) => state.remove(&id),
            RootMsg::LetGo(id) => state.let_go(&id),
            RootMsg::SourceSynced => {
                state.is_synced = true;
                state.forget_absent();
            }
            RootMsg::InventoryLoaded => state.inventory_loaded().await,
            RootMsg::InventoryDue(ticket) => {
                if state.inventory.is_due(ticket) {
                    state.start_inventory().await;
                }
            }
            RootMsg::ConfigDue(name, ticket) => {
                if state.configs.is_due(&name, ticket) {
                    state.start_config(&name, Duration::ZERO).await;
                }
            }
            RootMsg::PruneDue(ticket) => state.prune_due(ticket),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _me: RootRef,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(exit) = state.inventory.on_event(&event) {
            state.inventory_ended(&exit);
        } else if let Some((name, exit)) = state.configs.on_event(&event) {
            state.config_ended(&name, &exit).await;
        }
        Ok(())
    }

    async fn post_stop(&self, _me: RootRef, state: &mut State) -> Result<(), ActorProcessingErr> {
        state.node.set_phase("stopping");
        stop_children_in_order(vec![state.configs.expect_stop_all()], STOP_TIMEOUT).await;
        if let Some(inventory) = state.inventory.actor() {
            // What the configs told last must be on disk before the inventory ends.
            let _ = ractor::call_t!(inventory, InventoryMsg::Flush, FLUSH_TIMEOUT_MS);
        }
        let inventory = state.inventory.expect_stop().into_iter().collect();
        stop_children_in_order(vec![inventory], STOP_TIMEOUT).await;
        state.node.set_phase("stopped");
        Ok(())
    }
}

impl State {
    async fn start_inventory(&mut self) {
        let actor = Inventory {
            store: Arc::clone(&self.store),
            handle: self.shared.inventory.clone(),
            clock: Arc::clone(&self.shared.clock),
            seed: self.shared.seed,
        };
        let me = self.me.clone();
        let spawn = |node| {
            let (cell, to_root) = (me.get_cell(), me);
            let on_loaded = Arc::new(move || drop(to_root.send_message(RootMsg::InventoryLoaded)));
            Actor::spawn_linked(None, actor, InventoryArgs { node, on_loaded }, cell)
        };
        if let Err(exit) = self.inventory.start(spawn).await {
            self.inventory_ended(&exit);
        }
    }

    fn inventory_ended(&mut self, exit: &ChildExit) {
        match exit.outcome {
            Outcome::Stopped => {}
            Outcome::RestartIn(_) => tracing::error!("{exit}"),
            Outcome::GaveUp => {
                tracing::error!("{exit}, trying again in {INVENTORY_PAUSE:?}");
                self.inventory.retry_after(INVENTORY_PAUSE);
            }
        }
    }

    /// Configs start when it is known what was delivered: without that, interfaces could be renamed.
    async fn inventory_loaded(&mut self) {
        if self.is_loaded {
            return;
        }
        self.is_loaded = true;
        self.node.set_phase("running");
        // Persisted or not: what was delivered last decides.
        self.shared.claims.learn(&self.shared.inventory.applied());
        let names: Vec<_> = self.declared.keys().cloned().collect();
        for name in names {
            self.run(&name).await;
        }
        self.forget_absent();
    }

    async fn declare(&mut self, declared: Declared) {
        let name = declared.id().name.clone();
        self.doomed.remove(&name);
        if let Declared::Invalid(invalid) = &declared {
            if matches!(self.declared.get(&name), Some(Declared::Invalid(before)) if before == invalid) {
                return;
            }
            tracing::warn!("{name}: {}: {}", invalid.reason, invalid.message);
        }
        let is_new_spec = !self.declared.get(&name).is_some_and(|before| is_same_spec(before, &declared));
        self.elsewhere.remove(&name);
        self.declared.insert(name.clone(), declared);
        if self.is_loaded {
            if is_new_spec {
                self.end_pause(&name);
            }
            self.run(&name).await;
        }
    }

    /// A changed spec may be the cure: it does not wait for the pause of a config that gave up to end. The
    /// same one told again is none, or a watch that sees our own status would keep such a config busy.
    fn end_pause(&mut self, name: &ConfigName) {
        if let Some(slot) = self.configs.get_mut(name).filter(|slot| slot.has_given_up()) {
            slot.retry_after(Duration::ZERO);
        }
    }

    /// Brings what runs under `name` in line with what is declared.
    async fn run(&mut self, name: &ConfigName) {
        match self.declared.get(name) {
            None => self.end(name),
            Some(Declared::Invalid(invalid)) => {
                let status = progress::invalid(invalid);
                self.end(name);
                if self.configs.get(name).is_none() {
                    // Nobody is there any more who could hear an answer: an earlier root may have left marks.
                    self.shared.claims.doubt_post(name);
                }
                self.shared.status.publish(&status.id.clone(), Arc::new(status));
            }
            Some(Declared::Valid(config)) => {
                let config = Arc::clone(config);
                match self.running.get(name) {
                    Some(id) if *id == config.id => {
                        self.configs.cast(name, ConfigMsg::Apply(Arc::clone(&config)));
                    }
                    // Another life of the object: it starts when its predecessor has ended.
                    Some(_) => self.end(name),
                    None => {}
                }
                if self.configs.get(name).is_none() {
                    let delay = self.first_poll_delay(&config.polling);
                    self.start_config(name, delay).await;
                }
            }
        }
    }

    /// First polls are spread after a start; a new or changed object polls at once.
    fn first_poll_delay(&mut self, polling: &Polling) -> Duration {
        if !self.spreads_first_polls {
            return Duration::ZERO;
        }
        self.first_polls += 1;
        first_poll_delay(self.first_polls - 1, polling.fast)
    }

    fn end(&mut self, name: &ConfigName) {
        if let Some(id) = self.running.remove(name) {
            self.forget_status(&id);
            self.configs.remove(name);
            self.gave_up.remove(name);
            self.ending.insert(name.clone(), id);
        }
    }

    fn forget_status(&self, id: &ConfigId) {
        if self.declared.get(&id.name).is_none_or(|declared| declared.id() != id) {
            self.shared.status.forget(id);
        }
    }

    fn remove(&mut self, id: &ConfigId) {
        let is_current = self.declared.get(&id.name).is_some_and(|declared| declared.id() == id);
        if !is_current {
            return;
        }
        let declared = self.declared.remove(&id.name);
        self.end(&id.name);
        self.forget_status(id);
        if self.configs.get(&id.name).is_none() {
            self.shared.claims.release(&id.name);
        }
        if let Some(Declared::Valid(config)) = declared
            && config.removal_policy == RemovalPolicy::Prune
        {
            self.doom(id.name.clone());
        }
    }

    async fn start_config(&mut self, name: &ConfigName, first_poll: Duration) {
        let Some(Declared::Valid(config)) = self.declared.get(name) else {
            return;
        };
        let config = Arc::clone(config);
        self.running.insert(name.clone(), config.id.clone());
        self.note_first_seen(&config);
        let verdict = self.gave_up.remove(name);
        let actor = ConfigActor { shared: self.shared.clone() };
        let me = self.me.get_cell();
        let spawn = |node| {
            let args = ConfigArgs { node, config, first_poll, verdict };
            Actor::spawn_linked(None, actor, args, me)
        };
        if let Err(exit) = self.configs.start(name, spawn).await {
            Box::pin(self.config_ended(name, &exit)).await;
        }
    }

    fn note_first_seen(&self, config: &Config) {
        if self.shared.inventory.config_state(&config.id.name).is_none_or(|state| state.first_seen.is_none())
        {
            let owner = Owner { id: config.id.clone(), created: config.created };
            // Not kept means: noted again at the next start.
            self.shared.inventory.record(Event::FirstSeen { owner }, Box::new(|_| {}));
        }
    }

    async fn config_ended(&mut self, name: &ConfigName, exit: &ChildExit) {
        match exit.outcome {
            Outcome::Stopped => {
                if let Some(id) = self.ending.remove(name) {
                    self.forget_status(&id);
                }
                match self.declared.get(name) {
                    None if self.elsewhere.contains(name) => {}
                    None => self.shared.claims.release(name),
                    Some(Declared::Invalid(_)) => self.shared.claims.doubt_post(name),
                    Some(Declared::Valid(_)) => {}
                }
                self.run(name).await;
            }
            Outcome::RestartIn(_) => tracing::warn!("{exit}"),
            Outcome::GaveUp => self.config_gave_up(name, exit),
        }
    }

    fn config_gave_up(&mut self, name: &ConfigName, exit: &ChildExit) {
        let Some(slot) = self.configs.get_mut(name) else {
            return;
        };
        let pause = CONFIG_PAUSE * (1 << slot.escalations().saturating_sub(1).min(4));
        slot.retry_after(pause);
        // It may fail for long: no node waits for an answer that nobody hears.
        self.shared.claims.doubt_post(name);
        tracing::error!("{exit}, trying again in {pause:?}");
        if let Some(Declared::Valid(config)) = self.declared.get(name) {
            let status = progress::gave_up(config.id.clone(), config.generation, &exit.error);
            self.gave_up.insert(name.clone(), (status.reason, status.message.clone()));
            self.shared.status.publish(&config.id, Arc::new(status));
        }
    }
}

fn is_same_spec(before: &Declared, after: &Declared) -> bool {
    match (before, after) {
        (Declared::Valid(before), Declared::Valid(after)) => {
            before.id == after.id && before.revision == after.revision
        }
        _ => false,
    }
}
