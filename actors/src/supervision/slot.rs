//! One child of an actor: started, watched, started again after a back-off, stopped on purpose.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ractor::concurrency::JoinHandle;
use ractor::{ActorCell, ActorId, ActorRef, Message, SpawnErr, SupervisionEvent};

use super::exit::{ChildExit, Outcome, is_over_a_child, read_event, read_refusal};
use super::node::{Entry, Node};
use super::timer::{Ticket, TimerSlot, now};
use crate::domain::backoff::seed_for;
use crate::domain::restart::{self, ExitCause, RestartPolicy, RestartState, Verdict};

/// How long a child may take to start. `pre_start` does no IO, and its parent waits for it.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// What `Actor::spawn_linked` gives.
pub type Spawned<M> = Result<(ActorRef<M>, JoinHandle<()>), SpawnErr>;

/// What a slot calls when its child is due for a restart: it casts a message to the parent, no more.
pub type OnDue = Arc<dyn Fn(Ticket) + Send + Sync>;

/// What decides about a restart.
type Rule = fn(RestartState, std::time::Instant, ExitCause) -> (RestartState, Verdict);

/// Which child a slot is for, and how it is restarted.
#[derive(Clone, Debug)]
pub struct ChildSpec {
    /// What it is: `config`, `port`, …
    pub kind: &'static str,
    /// Which one of its kind; unique below its parent.
    pub name: Arc<str>,
    /// How often and how fast it is started again.
    pub policy: RestartPolicy,
    /// The run's base seed; the slot derives its jitter from it, kind and name.
    pub seed: u64,
    /// A child that ends over a child of its own ([`Outcome::GaveUp`]) gives up too, at once.
    pub inherits_giving_up: bool,
}

impl ChildSpec {
    /// A child with the default policy and seed 0.
    pub fn new(kind: &'static str, name: impl AsRef<str>) -> Self {
        let policy = RestartPolicy::default();
        Self { kind, name: Arc::from(name.as_ref()), policy, seed: 0, inherits_giving_up: false }
    }

    /// The same with another policy.
    pub fn policy(self, policy: RestartPolicy) -> Self {
        Self { policy, ..self }
    }

    /// The same with another base seed.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The same for a child that gives up when a child of its own did.
    pub fn inherits_giving_up(self, inherits_giving_up: bool) -> Self {
        Self { inherits_giving_up, ..self }
    }
}

/// A slot for one child with messages `M`. It lives in the parent's state.
pub struct ChildSlot<M> {
    spec: ChildSpec,
    entry: Entry,
    generation: u64,
    state: State<M>,
    restarts: RestartState,
    restart_timer: TimerSlot,
    on_due: OnDue,
}

enum State<M> {
    /// Never started, or stopped on purpose.
    Vacant,
    Running(ActorRef<M>),
    /// Told to stop; its end has not been reported yet.
    Stopping(ActorRef<M>),
    /// Ended; the restart timer runs.
    Restarting,
    /// Ended too often; only the parent starts it again.
    GaveUp,
}

impl<M: Message> ChildSlot<M> {
    /// An empty slot with an entry below `parent`. `on_due` casts the restart message to the parent.
    pub fn new(spec: ChildSpec, parent: &Node, on_due: impl Fn(Ticket) + Send + Sync + 'static) -> Self {
        let seed = seed_for(seed_for(spec.seed, spec.kind), &spec.name);
        Self {
            entry: Entry::register(parent, spec.kind, &spec.name),
            generation: 0,
            state: State::Vacant,
            restarts: RestartState::new(spec.policy, seed, now()),
            restart_timer: TimerSlot::new(),
            on_due: Arc::new(on_due),
            spec,
        }
    }

    /// Starts the child with `spawn`, which gets the child's [`Node`] and returns `Actor::spawn_linked(..)`.
    /// A slot whose child runs or is still stopping keeps it and does not call `spawn`.
    ///
    /// # Errors
    ///
    /// The start was refused: `pre_start` failed, panicked or took more than five seconds. The slot has
    /// treated it like a crash, as the exit's outcome says.
    pub async fn start<F, Fut>(&mut self, spawn: F) -> Result<ActorRef<M>, ChildExit>
    where
        F: FnOnce(Node) -> Fut,
        Fut: Future<Output = Spawned<M>>,
    {
        if let State::Running(child) | State::Stopping(child) = &self.state {
            return Ok(child.clone());
        }
        self.restart_timer.cancel();
        self.generation += 1;
        let node = self.entry.hand_over(self.generation);
        let spawning = Box::pin(tokio::time::timeout(START_TIMEOUT, spawn(node)));
        let refusal = match spawning.await {
            Ok(Ok((child, _))) => {
                #[cfg(feature = "test-util")]
                self.entry.tree().probe().started(self.spec.kind, &self.spec.name, child.get_cell());
                self.entry.started();
                self.restarts = restart::on_start(self.restarts.clone(), now());
                self.state = State::Running(child.clone());
                return Ok(child);
            }
            Ok(Err(error)) => read_refusal(&error),
            Err(_) => format!("did not start within {START_TIMEOUT:?}"),
        };
        Err(self.ended(ExitCause::StartRefused, refusal, restart::on_exit))
    }

    /// Whether the child is, or was until now, this actor.
    pub fn owns(&self, actor: &ActorCell) -> bool {
        self.actor_id() == Some(actor.get_id())
    }

    /// Takes an event of the parent's `handle_supervisor_evt`. `None` if it is not the end of this child;
    /// else the slot has armed the restart, or what else the outcome says.
    pub fn on_event(&mut self, event: &SupervisionEvent) -> Option<ChildExit> {
        let is_mine = event.actor_cell().is_some_and(|actor| self.owns(actor));
        let (cause, error) = if is_mine { read_event(event)? } else { return None };
        let is_inherited = self.spec.inherits_giving_up && is_over_a_child(event);
        Some(self.ended(
            cause,
            error,
            if is_inherited { restart::on_child_gave_up } else { restart::on_exit },
        ))
    }

    /// Whether the restart message with this ticket still holds: then call [`Self::start`].
    pub fn is_due(&mut self, ticket: Ticket) -> bool {
        self.restart_timer.accept(ticket)
    }

    /// Sends to the child. False, and the message is gone, if it is down.
    pub fn cast(&self, message: M) -> bool {
        self.actor().is_some_and(|child| child.send_message(message).is_ok())
    }

    /// The child, if it runs.
    pub fn actor(&self) -> Option<&ActorRef<M>> {
        if let State::Running(child) = &self.state { Some(child) } else { None }
    }

    /// Tells the child to stop, or drops its restart. It is not started again by itself; its exit, if it
    /// ran, comes with [`Outcome::Stopped`]. Returns the actor to wait for.
    pub fn stop(&mut self) -> Option<ActorCell> {
        let child = self.expect_stop()?;
        child.stop(None);
        Some(child)
    }

    /// As [`Self::stop`], but leaves the telling to [`super::stop_children_in_order`], which does it when
    /// the child's turn has come.
    pub fn expect_stop(&mut self) -> Option<ActorCell> {
        self.restart_timer.cancel();
        match std::mem::replace(&mut self.state, State::Vacant) {
            State::Running(child) | State::Stopping(child) => {
                self.entry.set_phase("stopping");
                let cell = child.get_cell();
                self.state = State::Stopping(child);
                Some(cell)
            }
            State::Vacant => None,
            State::Restarting | State::GaveUp => {
                self.entry.set_phase("stopped");
                None
            }
        }
    }

    /// After [`Outcome::GaveUp`]: sends the restart message after `delay`, with the full intensity granted
    /// anew. Does nothing in any other state.
    pub fn retry_after(&mut self, delay: Duration) {
        if matches!(self.state, State::GaveUp) {
            let cause = self.restarts.last_cause().unwrap_or(ExitCause::StartRefused);
            self.entry.count_restart();
            self.entry.tree().count_restart(self.spec.kind, cause);
            self.arm_restart(delay);
        }
    }

    /// Whether the child failed too often and the parent has not started it again.
    pub fn has_given_up(&self) -> bool {
        matches!(self.state, State::GaveUp)
    }

    /// Whether the child was told to stop and has not been reported gone.
    pub fn is_stopping(&self) -> bool {
        matches!(self.state, State::Stopping(_))
    }

    /// How many times in a row, without a calm spell, the child gave up.
    pub fn escalations(&self) -> u32 {
        self.restarts.escalations()
    }

    /// Which start of the child this is; 0 before the first.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The child's kind, name and policy.
    pub fn spec(&self) -> &ChildSpec {
        &self.spec
    }

    pub(super) fn actor_id(&self) -> Option<ActorId> {
        match &self.state {
            State::Running(child) | State::Stopping(child) => Some(child.get_id()),
            State::Vacant | State::Restarting | State::GaveUp => None,
        }
    }

    fn ended(&mut self, cause: ExitCause, error: String, rule: Rule) -> ChildExit {
        let outcome = if self.is_stopping() {
            self.state = State::Vacant;
            self.entry.ended("stopped", None, false);
            Outcome::Stopped
        } else {
            self.failed(cause, &error, rule)
        };
        let name = self.spec.name.to_string();
        ChildExit { kind: self.spec.kind, name, generation: self.generation, cause, error, outcome }
    }

    fn failed(&mut self, cause: ExitCause, error: &str, rule: Rule) -> Outcome {
        let (restarts, verdict) = rule(self.restarts.clone(), now(), cause);
        self.restarts = restarts;
        match verdict {
            Verdict::RestartAfter(delay) => {
                self.state = State::Restarting;
                self.entry.ended("restarting", Some(error), true);
                self.entry.tree().count_restart(self.spec.kind, cause);
                self.arm_restart(delay);
                Outcome::RestartIn(delay)
            }
            Verdict::Escalate => {
                self.state = State::GaveUp;
                self.entry.ended("gave-up", Some(error), false);
                Outcome::GaveUp
            }
        }
    }

    fn arm_restart(&mut self, delay: Duration) {
        let on_due = Arc::clone(&self.on_due);
        self.restart_timer.arm_with(delay, move |ticket| on_due(ticket));
    }
}

impl<M> fmt::Debug for ChildSlot<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Vacant => "vacant",
            State::Running(_) => "running",
            State::Stopping(_) => "stopping",
            State::Restarting => "restarting",
            State::GaveUp => "gave-up",
        };
        f.debug_struct("ChildSlot")
            .field("kind", &self.spec.kind)
            .field("name", &self.spec.name)
            .field("generation", &self.generation)
            .field("state", &state)
            .finish_non_exhaustive()
    }
}
