//! The inventory actor: the only writer of the inventory.
//!
//! Owned by the root, no children. Applies events to the working snapshot, persists with group commit, and
//! publishes to readers only what is persisted. A crash loses nothing: the working snapshot lives in the
//! [`InventoryHandle`], and who sent an event keeps it until it is acknowledged.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::boundary::{Clock, Loaded, Saved, Store, StoreError};
use crate::domain::backoff::{Backoff, BackoffPolicy, seed_for};
use crate::domain::inventory::{Event, Snapshot, apply};
use crate::planted::{self, Bug};
use crate::supervision::{Hook, Node, TaskPanicked, TaskSlot, Ticket, TimerSlot, now};

mod handle;

pub use handle::{InventoryHandle, StoreHealth};

/// How long a write may take before it counts as refused and events are acknowledged from memory.
const WRITE_DEADLINE: Duration = Duration::from_secs(10);
/// Pauses between tries to read or write a store that fails.
const STORE_RETRY: BackoffPolicy = BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(60));

/// How an event is kept when it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Durably.
    Persisted,
    /// In memory only, because the store fails: with what.
    InMemory(String),
}

/// Called once an event is kept.
pub type Ack = Box<dyn FnOnce(Kept) + Send>;

/// Reference to the inventory actor.
pub type InventoryRef = ActorRef<InventoryMsg>;

/// Messages of the inventory actor.
pub enum InventoryMsg {
    /// Something happened (from a delivery actor, a config or the root).
    Record {
        /// What.
        event: Event,
        /// Told when it is kept.
        ack: Ack,
    },
    /// Answers when everything recorded so far is kept (from the root at shutdown). A store that failed is
    /// tried once more.
    Flush(RpcReplyPort<Kept>),
    /// The store was read.
    LoadDone(Ticket, Result<Result<Loaded, StoreError>, TaskPanicked>),
    /// The store was written.
    SaveDone(Ticket, Result<Result<Saved, StoreError>, TaskPanicked>),
    /// It is time to try the store again.
    RetryDue(Ticket),
    /// The write under way takes too long.
    WriteLate(Ticket),
}

#[cfg(feature = "test-util")]
impl InventoryMsg {
    fn word(&self) -> &'static str {
        match self {
            Self::Record { .. } => "Record",
            Self::Flush(_) => "Flush",
            Self::LoadDone(..) => "LoadDone",
            Self::SaveDone(..) => "SaveDone",
            Self::RetryDue(_) => "RetryDue",
            Self::WriteLate(_) => "WriteLate",
        }
    }
}

/// What the actor is started with.
pub struct InventoryArgs {
    /// Its place in the tree.
    pub node: Node,
    /// Called when the inventory is there: the root starts configs then.
    pub on_loaded: Arc<dyn Fn() + Send + Sync>,
}

/// The inventory actor.
pub struct Inventory {
    /// Where the inventory is kept.
    pub store: Arc<dyn Store>,
    /// What readers and senders hold.
    pub handle: InventoryHandle,
    /// For the time of the last write.
    pub clock: Arc<dyn Clock>,
    /// For the jitter of retries.
    pub seed: u64,
}

/// What the actor is doing right now.
enum Phase {
    /// The store is being read, or read again after a failure.
    Loading,
    /// Everything recorded is kept.
    Idle,
    /// A write is under way.
    Saving,
    /// The store refuses writes; memory counts as kept.
    Failing(String),
}

/// State of the inventory actor.
pub struct State {
    node: Node,
    on_loaded: Arc<dyn Fn() + Send + Sync>,
    phase: Phase,
    working: Arc<Snapshot>,
    /// Changed since the snapshot of the write under way, or of the last one.
    is_dirty: bool,
    /// Why one of several stores did not take the last write.
    partial: Option<String>,
    /// What the write under way keeps.
    saving: Option<Arc<Snapshot>>,
    /// Acknowledged with the write under way.
    acks_of_write: Vec<Ack>,
    /// Acknowledged with the next write.
    acks: Vec<Ack>,
    /// Events that came before the inventory was read.
    early: Vec<(Event, Ack)>,
    task: TaskSlot,
    retry: TimerSlot,
    deadline: TimerSlot,
    backoff: Backoff,
}

impl Actor for Inventory {
    type Msg = InventoryMsg;
    type State = State;
    type Arguments = InventoryArgs;

    async fn pre_start(&self, me: InventoryRef, args: InventoryArgs) -> Result<State, ActorProcessingErr> {
        args.node.fault_point(Hook::PreStart).await?;
        let mut state = State {
            node: args.node,
            on_loaded: args.on_loaded,
            phase: Phase::Loading,
            working: Arc::default(),
            is_dirty: false,
            partial: None,
            saving: None,
            acks_of_write: Vec::new(),
            acks: Vec::new(),
            early: Vec::new(),
            task: TaskSlot::new(),
            retry: TimerSlot::new(),
            deadline: TimerSlot::new(),
            backoff: Backoff::new(STORE_RETRY, seed_for(self.seed, "inventory"), now()),
        };
        match self.handle.working() {
            // A restart: what the predecessor had applied is all there, and may not be persisted.
            Some(working) => {
                state.working = working;
                state.is_dirty = true;
                self.loaded(&me, &mut state);
            }
            None => self.load(&me, &mut state),
        }
        self.handle.set_actor(me);
        Ok(state)
    }

    async fn handle(
        &self,
        me: InventoryRef,
        msg: InventoryMsg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let _timed = state.node.time_handling();
        #[cfg(feature = "test-util")]
        state.node.fault_point(Hook::Handle(msg.word())).await?;
        match msg {
            InventoryMsg::Record { event, ack } => self.record(&me, state, event, ack),
            InventoryMsg::Flush(reply) => self.flush(&me, state, reply),
            InventoryMsg::LoadDone(ticket, result) => self.load_done(&me, state, ticket, result),
            InventoryMsg::SaveDone(ticket, result) => self.save_done(&me, state, ticket, result),
            InventoryMsg::RetryDue(ticket) => self.retry_due(&me, state, ticket),
            InventoryMsg::WriteLate(ticket) => self.write_late(state, ticket),
        }
        Ok(())
    }
}

impl Inventory {
    fn load(&self, me: &InventoryRef, state: &mut State) {
        state.phase = Phase::Loading;
        state.node.set_phase("loading");
        let store = Arc::clone(&self.store);
        state.task.start(me, async move { store.load().await }, InventoryMsg::LoadDone);
    }

    fn load_done(
        &self,
        me: &InventoryRef,
        state: &mut State,
        ticket: Ticket,
        result: Result<Result<Loaded, StoreError>, TaskPanicked>,
    ) {
        if !state.task.accept(ticket) {
            return;
        }
        match flatten(result) {
            Ok(loaded) => {
                for warning in &loaded.warnings {
                    tracing::warn!("inventory: {warning}");
                }
                self.handle.note_warnings(loaded.warnings);
                state.working = Arc::new(loaded.snapshot);
                self.handle.set_working(Arc::clone(&state.working));
                self.handle.publish(&state.working);
                state.backoff.reset(now());
                self.loaded(me, state);
            }
            // To go on with nothing could rename interfaces that are in use: wait, and say so.
            Err(problem) => self.store_failed(me, state, &format!("cannot be read: {problem}")),
        }
    }

    /// The inventory is there: takes in what came before, and lets the root know.
    fn loaded(&self, me: &InventoryRef, state: &mut State) {
        state.phase = Phase::Idle;
        state.node.set_phase("running");
        self.handle.set_loaded();
        for (event, ack) in std::mem::take(&mut state.early) {
            self.record(me, state, event, ack);
        }
        self.save_if_dirty(me, state);
        (state.on_loaded)();
    }

    fn record(&self, me: &InventoryRef, state: &mut State, event: Event, ack: Ack) {
        if matches!(state.phase, Phase::Loading) {
            state.early.push((event, ack));
            return;
        }
        if apply(Arc::make_mut(&mut state.working), &event) {
            state.is_dirty = true;
            self.handle.set_working(Arc::clone(&state.working));
            self.handle.note_unpersisted();
        }
        match &state.phase {
            Phase::Failing(problem) => {
                self.handle.publish(&state.working);
                ack(Kept::InMemory(problem.clone()));
            }
            _ if !state.is_dirty && state.saving.is_none() => {
                ack(state.partial.clone().map_or(Kept::Persisted, Kept::InMemory));
            }
            _ if planted::is(Bug::AcknowledgedBeforeWritten) => {
                ack(Kept::Persisted);
                self.save_if_dirty(me, state);
            }
            _ => {
                state.acks.push(ack);
                self.save_if_dirty(me, state);
            }
        }
    }

    fn flush(&self, me: &InventoryRef, state: &mut State, reply: RpcReplyPort<Kept>) {
        if matches!(state.phase, Phase::Loading) {
            let _ = reply.send(Kept::Persisted);
            return;
        }
        if !state.is_dirty && state.partial.is_none() && state.saving.is_none() {
            let _ = reply.send(Kept::Persisted);
            return;
        }
        state.acks.push(Box::new(move |kept| {
            let _ = reply.send(kept);
        }));
        if matches!(state.phase, Phase::Failing(_)) && state.saving.is_none() {
            // The last chance before the process ends: the store may work again.
            state.retry.cancel();
            state.acks_of_write.append(&mut state.acks);
            self.save(me, state);
        }
        self.save_if_dirty(me, state);
    }

    /// One write at a time; what comes meanwhile goes with the next one.
    fn save_if_dirty(&self, me: &InventoryRef, state: &mut State) {
        if state.saving.is_some() || matches!(state.phase, Phase::Failing(_) | Phase::Loading) {
            return;
        }
        if !state.is_dirty && state.acks.is_empty() {
            state.phase = Phase::Idle;
            return;
        }
        state.acks_of_write.append(&mut state.acks);
        self.save(me, state);
    }

    fn save(&self, me: &InventoryRef, state: &mut State) {
        let (store, snapshot) = (Arc::clone(&self.store), Arc::clone(&state.working));
        state.saving = Some(Arc::clone(&snapshot));
        state.is_dirty = false;
        if !matches!(state.phase, Phase::Failing(_)) {
            state.phase = Phase::Saving;
        }
        state.task.start(me, async move { store.save(snapshot).await }, InventoryMsg::SaveDone);
        state.deadline.arm(WRITE_DEADLINE, me, InventoryMsg::WriteLate);
    }

    fn save_done(
        &self,
        me: &InventoryRef,
        state: &mut State,
        ticket: Ticket,
        result: Result<Result<Saved, StoreError>, TaskPanicked>,
    ) {
        if !state.task.accept(ticket) {
            return;
        }
        state.deadline.cancel();
        let Some(saved) = state.saving.take() else { return };
        match flatten(result) {
            Ok(kept) => {
                // Readers saw what memory held while the store failed: that is not taken back.
                let was_failing = matches!(state.phase, Phase::Failing(_));
                self.handle.publish(if was_failing { &state.working } else { &saved });
                state.phase = Phase::Idle;
                state.node.set_last_error(None);
                match kept {
                    Saved::Everywhere => self.kept_everywhere(state),
                    Saved::InPart(problem) => self.kept_in_part(me, state, &problem),
                }
                self.save_if_dirty(me, state);
            }
            Err(problem) => {
                state.is_dirty = true;
                self.store_failed(me, state, &format!("cannot be written: {problem}"));
            }
        }
    }

    fn kept_everywhere(&self, state: &mut State) {
        if state.partial.take().is_some() {
            tracing::info!("inventory: every store takes it again");
        }
        state.retry.cancel();
        state.backoff.reset(now());
        self.handle.note_persisted(self.clock.now(), !state.is_dirty);
        acknowledge(&mut state.acks_of_write, &Kept::Persisted);
    }

    /// One store has it, another refuses: memory counts as kept there, the others are not held back, and the
    /// whole is written again later.
    fn kept_in_part(&self, me: &InventoryRef, state: &mut State, problem: &str) {
        state.node.set_last_error(Some(problem.to_owned()));
        self.handle.note_problem(problem);
        acknowledge(&mut state.acks_of_write, &Kept::InMemory(problem.to_owned()));
        if state.partial.replace(problem.to_owned()).is_none() || state.retry.due().is_none() {
            let wait = state.backoff.next(now());
            tracing::error!("inventory: {problem}, trying again in {wait:.0?}");
            state.retry.arm(wait, me, InventoryMsg::RetryDue);
        }
    }

    /// The store fails: memory counts as kept, readers see it, and the store is tried again later.
    fn store_failed(&self, me: &InventoryRef, state: &mut State, problem: &str) {
        let wait = state.backoff.next(now());
        state.node.set_last_error(Some(problem.to_owned()));
        self.handle.note_problem(problem);
        tracing::error!("inventory: {problem}, trying again in {wait:.0?}");
        if !matches!(state.phase, Phase::Loading) {
            self.count_memory_as_kept(state, problem);
        }
        state.retry.arm(wait, me, InventoryMsg::RetryDue);
    }

    fn count_memory_as_kept(&self, state: &mut State, problem: &str) {
        state.phase = Phase::Failing(problem.to_owned());
        self.handle.publish(&state.working);
        let kept = Kept::InMemory(problem.to_owned());
        acknowledge(&mut state.acks_of_write, &kept);
        acknowledge(&mut state.acks, &kept);
    }

    fn retry_due(&self, me: &InventoryRef, state: &mut State, ticket: Ticket) {
        if !state.retry.accept(ticket) {
            return;
        }
        match state.phase {
            Phase::Loading => self.load(me, state),
            _ if state.saving.is_none() => self.save(me, state),
            _ => {}
        }
    }

    /// A write that hangs must not hold back deliveries. Its own end is still waited for: two writers
    /// would be worse.
    fn write_late(&self, state: &mut State, ticket: Ticket) {
        if !state.deadline.accept(ticket) || state.saving.is_none() {
            return;
        }
        let problem = format!("a write takes longer than {WRITE_DEADLINE:?}");
        state.node.set_last_error(Some(problem.clone()));
        self.handle.note_problem(&problem);
        tracing::error!("inventory: {problem}");
        self.count_memory_as_kept(state, &problem);
    }
}

fn acknowledge(acks: &mut Vec<Ack>, kept: &Kept) {
    for ack in acks.drain(..) {
        ack(kept.clone());
    }
}

fn flatten<T>(result: Result<Result<T, StoreError>, TaskPanicked>) -> Result<T, String> {
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panicked) => Err(panicked.to_string()),
    }
}
