//! The config actor: one `OpenstackConfig`.
//!
//! Owned by the root. Children: the token actor, the viola actor, and one port actor per VM. Owns the poll
//! timer, the round and the cadence, and says in which state the config is. A crash loses the round under
//! way: sessions, allocations and deliveries come back from where they are kept, and the first thing it
//! does is a round.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::boundary::{Clock, Cloud, CloudError, Delivery, Session, StatusSink, Urgency};
use crate::claim_table::ClaimTable;
use crate::domain::cadence::Cadence;
use crate::domain::config::Config;
use crate::domain::ids::VmId;
use crate::domain::port::Observation;
use crate::domain::progress::{DeliveryReport, Progress, RoundReport};
use crate::domain::reason::Reason;
use crate::domain::restart::RestartPolicy;
use crate::domain::vm::Decision;
use crate::inventory::InventoryHandle;
use crate::port::PortMsg;
use crate::supervision::{
    ChildSet, ChildSlot, Hook, Node, Outcome, TaskPanicked, TaskSlot, Ticket, TimerSlot,
    stop_children_in_order,
};
use crate::token::TokenMsg;
use crate::viola::ViolaMsg;

mod children;
mod rounds;

/// How long the children get to end: the viola actor may wait for a POST's answer.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// Reference to a config actor.
pub type ConfigRef = ActorRef<ConfigMsg>;

/// Messages of a config actor.
#[derive(Debug)]
pub enum ConfigMsg {
    /// The spec changed (from the root).
    Apply(Arc<Config>),
    /// It is time to look.
    PollDue(Ticket),
    /// The answer to [`TokenMsg::Obtain`] (from the token actor).
    SessionReady {
        /// The round it was asked for.
        round: u64,
        /// The session, or why there is none.
        result: Result<Session, CloudError>,
    },
    /// The look ended (from its task).
    Observed(Ticket, Result<Result<Observation, CloudError>, TaskPanicked>),
    /// Every VM has a decision (from the viola actor).
    RoundDone(Box<RoundReport>),
    /// The state of the deliveries changed (from the viola actor).
    DeliveryChanged(Box<DeliveryReport>),
    /// The token actor is due for a restart.
    TokenDue(Ticket),
    /// The viola actor is due for a restart.
    ViolaDue(Ticket),
    /// A port actor is due for a restart.
    PortDue(VmId, Ticket),
}

impl ConfigMsg {
    fn word(&self) -> &'static str {
        match self {
            Self::Apply(_) => "Apply",
            Self::PollDue(_) => "PollDue",
            Self::SessionReady { .. } => "SessionReady",
            Self::Observed(..) => "Observed",
            Self::RoundDone(_) => "RoundDone",
            Self::DeliveryChanged(_) => "DeliveryChanged",
            Self::TokenDue(_) => "TokenDue",
            Self::ViolaDue(_) => "ViolaDue",
            Self::PortDue(..) => "PortDue",
        }
    }
}

/// What every config of a tree shares.
#[derive(Clone)]
pub struct Shared {
    /// Credentials, tokens, ports, servers.
    pub cloud: Arc<dyn Cloud>,
    /// Where node configs go.
    pub delivery: Arc<dyn Delivery>,
    /// Where the state is shown.
    pub status: Arc<dyn StatusSink>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// What is delivered.
    pub inventory: InventoryHandle,
    /// Whose node is whose.
    pub claims: ClaimTable,
    /// How children are restarted.
    pub restart: RestartPolicy,
    /// For every jitter.
    pub seed: u64,
}

/// What a config actor is started with.
pub struct ConfigArgs {
    /// Its place in the tree.
    pub node: Node,
    /// The spec.
    pub config: Arc<Config>,
    /// When the first poll is due.
    pub first_poll: Duration,
    /// What is shown until the first round ends, if not that it is under way: why its predecessor gave up.
    pub verdict: Option<(Reason, String)>,
}

/// The config actor.
pub struct ConfigActor {
    /// What it shares with its siblings.
    pub shared: Shared,
}

/// What the round is doing right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No round: the poll timer runs, or the config is paused.
    Resting,
    /// A session was asked for.
    Session,
    /// The cloud is being looked at.
    Looking,
    /// The VMs are being decided.
    Deciding,
    /// The viola actor is down: a round starts when it is back.
    NoDelivery,
}

/// Why a round runs, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Demand {
    urgency: Urgency,
    drop_caches: bool,
}

impl Demand {
    const POLL: Self = Self { urgency: Urgency::Routine, drop_caches: false };
    const EVENT: Self = Self { urgency: Urgency::Event, drop_caches: false };

    fn and(self, other: Self) -> Self {
        Self { urgency: self.urgency.max(other.urgency), drop_caches: self.drop_caches || other.drop_caches }
    }
}

/// State of a config actor.
pub struct State {
    me: ConfigRef,
    node: Node,
    config: Arc<Config>,
    phase: Phase,
    round: u64,
    demand: Demand,
    /// The spec of the round under way.
    round_config: Arc<Config>,
    /// Asked for while a round was under way.
    next_demand: Option<Demand>,
    poll: TimerSlot,
    look: TaskSlot,
    cadence: Cadence,
    token: ChildSlot<TokenMsg>,
    viola: ChildSlot<ViolaMsg>,
    ports: ChildSet<VmId, PortMsg>,
    progress: Progress,
}

impl Actor for ConfigActor {
    type Msg = ConfigMsg;
    type State = State;
    type Arguments = ConfigArgs;

    async fn pre_start(&self, me: ConfigRef, args: ConfigArgs) -> Result<State, ActorProcessingErr> {
        args.node.fault_point(Hook::PreStart).await?;
        let mut state = self.new_state(me, args.node, args.config);
        state.progress.verdict = args.verdict;
        self.start_token(&mut state).await?;
        self.start_viola(&mut state).await?;
        self.start_ports(&mut state).await;
        state.publish(&self.shared);
        if !state.config.paused {
            state.arm_poll(args.first_poll, &self.shared);
        }
        Ok(state)
    }

    async fn handle(
        &self,
        _me: ConfigRef,
        msg: ConfigMsg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.node.fault_point(Hook::Handle(msg.word())).await?;
        match msg {
            ConfigMsg::Apply(config) => self.apply(state, config).await,
            ConfigMsg::PollDue(ticket) => {
                if state.poll.accept(ticket) {
                    self.demand(state, Demand::POLL);
                }
            }
            ConfigMsg::SessionReady { round, result } => self.session_ready(state, round, result),
            ConfigMsg::Observed(ticket, result) => self.observed(state, ticket, result),
            ConfigMsg::RoundDone(report) => self.round_done(state, *report),
            ConfigMsg::DeliveryChanged(report) => {
                state.progress.delivery = *report;
                state.publish(&self.shared);
            }
            ConfigMsg::TokenDue(ticket) => {
                if state.token.is_due(ticket) {
                    self.start_token(state).await?;
                    self.ask_for_session(state);
                }
            }
            ConfigMsg::ViolaDue(ticket) => {
                if state.viola.is_due(ticket) {
                    self.start_viola(state).await?;
                    self.viola_is_back(state);
                }
            }
            ConfigMsg::PortDue(vm, ticket) => {
                if state.ports.is_due(&vm, ticket) {
                    self.start_port(state, &vm).await;
                }
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _me: ConfigRef,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(exit) = state.token.on_event(&event) {
            return self.needed_child_ended(state, exit);
        }
        if let Some(exit) = state.viola.on_event(&event) {
            state.give_up_round();
            return self.needed_child_ended(state, exit);
        }
        if let Some((vm, exit)) = state.ports.on_event(&event) {
            self.port_ended(state, &vm, &exit);
            if exit.outcome == Outcome::Stopped {
                self.start_port_again(state, &vm).await;
            }
        }
        Ok(())
    }

    async fn post_stop(&self, _me: ConfigRef, state: &mut State) -> Result<(), ActorProcessingErr> {
        let groups = vec![
            state.ports.expect_stop_all(),
            state.token.expect_stop().into_iter().collect(),
            state.viola.expect_stop().into_iter().collect(),
        ];
        stop_children_in_order(groups, STOP_TIMEOUT).await;
        Ok(())
    }
}

impl State {
    fn arm_poll(&mut self, wait: Duration, shared: &Shared) {
        self.poll.arm(wait, &self.me, ConfigMsg::PollDue);
        let wait = jiff::SignedDuration::try_from(wait).unwrap_or_default();
        self.progress.next_poll_at = shared.clock.now().checked_add(wait).ok();
    }

    /// Nothing is decided yet, and the spec that it was for does not hold any more: ends the round, and
    /// gives back why it ran. The token actor may have dropped its login too.
    fn abandon_look(&mut self) -> Option<Demand> {
        if !matches!(self.phase, Phase::Session | Phase::Looking) {
            return None;
        }
        self.look.cancel();
        self.phase = Phase::Resting;
        Some(self.demand)
    }

    /// Nobody is there to deliver: whatever the round was doing is of no use. Why it ran still holds.
    fn give_up_round(&mut self) {
        if matches!(self.phase, Phase::Session | Phase::Looking | Phase::Deciding) {
            self.ask_for_another(self.demand);
        }
        self.look.cancel();
        self.poll.cancel();
        self.phase = Phase::NoDelivery;
        self.node.set_phase("waiting for viola");
    }

    /// A round more, after the one under way or once there can be one.
    fn ask_for_another(&mut self, demand: Demand) {
        self.next_demand = Some(self.next_demand.map_or(demand, |other| other.and(demand)));
    }

    /// In place of a port actor that cannot.
    fn answer_for(&self, vm: &VmId, why: &str) {
        let decision = Box::new(Decision::undecided(vm.clone(), why));
        self.viola.cast(ViolaMsg::Decided { round: self.round, decision });
    }

    fn publish(&mut self, shared: &Shared) {
        let status = self.progress.status(&self.config, shared.clock.now());
        shared.status.publish(&self.config.id, Arc::new(status));
    }
}
