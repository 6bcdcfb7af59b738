//! The config actor: one `OpenstackConfig`.
//!
//! Owned by the root. Children: the token actor, the viola actor, and one port actor per VM. Owns the poll
//! timer, the round and the cadence, and says in which state the config is. A crash loses the round under
//! way: sessions, allocations and deliveries come back from where they are kept, and the first thing it
//! does is a round.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::boundary::{Clock, Cloud, CloudError, Delivery, ObserveRequest, Session, StatusSink, Urgency};
use crate::claim_table::ClaimTable;
use crate::domain::backoff::seed_for;
use crate::domain::cadence::{Cadence, RoundEnd};
use crate::domain::config::{Config, RemovalPolicy};
use crate::domain::ids::VmId;
use crate::domain::inventory::Event;
use crate::domain::port::{Observation, Server};
use crate::domain::progress::{DeliveryReport, Progress, RoundFailure, RoundReport};
use crate::domain::reason::Reason;
use crate::domain::restart::RestartPolicy;
use crate::domain::vm::Decision;
use crate::inventory::InventoryHandle;
use crate::port::{Observe, Port, PortArgs, PortMsg};
use crate::supervision::{
    ChildExit, ChildSet, ChildSlot, ChildSpec, Hook, Node, Outcome, TaskPanicked, TaskSlot, Ticket,
    TimerSlot, stop_children_in_order,
};
use crate::token::{Token, TokenArgs, TokenMsg};
use crate::viola::{Viola, ViolaArgs, ViolaMsg};

/// How long the children get to end: the viola actor may wait for a POST's answer.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);
/// A look has a deadline of its own, far beyond what its requests may take: only a defect reaches it.
const LOOK_TIMEOUTS: u32 = 20;
/// How long a VM whose actor failed too often is left out.
const PORT_PAUSE: Duration = Duration::from_secs(60);

/// Reference to a config actor.
pub type ConfigRef = ActorRef<ConfigMsg>;

/// Messages of a config actor.
#[derive(Debug)]
pub enum ConfigMsg {
    /// The spec changed (from the root).
    Apply(Arc<Config>),
    /// It is time to look.
    PollDue(Ticket),
    /// Something happened in the cloud: look now (from a listener).
    Look,
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
            Self::Look => "Look",
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
            ConfigMsg::Look => self.demand(state, Demand::EVENT),
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

/// Children.
impl ConfigActor {
    fn new_state(&self, me: ConfigRef, node: Node, config: Arc<Config>) -> State {
        let (policy, seed) = (self.shared.restart, seed_for(self.shared.seed, &config.id.to_string()));
        let (to_token, to_viola, to_port) = (me.clone(), me.clone(), me.clone());
        // A config that is gone restarts nobody.
        let token = ChildSlot::new(
            ChildSpec::new("token", "token").policy(policy).seed(seed),
            &node,
            move |ticket| drop(to_token.send_message(ConfigMsg::TokenDue(ticket))),
        );
        let viola = ChildSlot::new(
            ChildSpec::new("viola", "viola").policy(policy).seed(seed),
            &node,
            move |ticket| drop(to_viola.send_message(ConfigMsg::ViolaDue(ticket))),
        );
        let ports = ChildSet::new("port", policy, seed, &node, move |vm, ticket| {
            drop(to_port.send_message(ConfigMsg::PortDue(vm, ticket)));
        });
        State {
            me,
            node,
            phase: Phase::Resting,
            round: 0,
            demand: Demand::EVENT,
            round_config: Arc::clone(&config),
            next_demand: None,
            poll: TimerSlot::new(),
            look: TaskSlot::new(),
            cadence: Cadence::new(config.polling, seed, now()),
            token,
            viola,
            ports,
            progress: Progress::default(),
            config,
        }
    }

    async fn start_token(&self, state: &mut State) -> Result<(), ActorProcessingErr> {
        let actor = Token { cloud: Arc::clone(&self.shared.cloud), seed: self.shared.seed };
        let (me, config) = (state.me.clone(), Arc::clone(&state.config));
        let spawn = |node| {
            let args = TokenArgs { node, config, owner: me.clone() };
            Actor::spawn_linked(None, actor, args, me.get_cell())
        };
        match state.token.start(spawn).await {
            Ok(_) => Ok(()),
            Err(exit) => self.needed_child_ended(state, exit),
        }
    }

    async fn start_viola(&self, state: &mut State) -> Result<(), ActorProcessingErr> {
        let actor = Viola {
            delivery: Arc::clone(&self.shared.delivery),
            inventory: self.shared.inventory.clone(),
            claims: self.shared.claims.clone(),
            clock: Arc::clone(&self.shared.clock),
            seed: self.shared.seed,
        };
        let (me, config) = (state.me.clone(), Arc::clone(&state.config));
        let spawn = |node| {
            let args = ViolaArgs { node, config, owner: me.clone() };
            Actor::spawn_linked(None, actor, args, me.get_cell())
        };
        match state.viola.start(spawn).await {
            Ok(_) => Ok(()),
            Err(exit) => {
                state.give_up_round();
                self.needed_child_ended(state, exit)
            }
        }
    }

    /// One actor for each VM that is listed, none for others.
    async fn start_ports(&self, state: &mut State) {
        let listed: BTreeSet<_> = state.config.vms.iter().cloned().collect();
        let gone: Vec<_> = state.ports.keys().filter(|vm| !listed.contains(vm)).cloned().collect();
        for vm in &gone {
            state.ports.remove(vm);
        }
        for vm in &listed {
            if state.ports.get(vm).is_none() {
                self.start_port(state, vm).await;
            }
        }
    }

    async fn start_port(&self, state: &mut State, vm: &VmId) {
        let actor = Port { inventory: self.shared.inventory.clone() };
        let (me, config) = (state.me.get_cell(), Arc::clone(&state.config));
        let spawn = |node| {
            let args = PortArgs { node, vm: vm.clone(), config };
            Actor::spawn_linked(None, actor, args, me)
        };
        if let Err(exit) = state.ports.start(vm, spawn).await {
            self.port_ended(state, vm, &exit);
        }
    }

    /// The token or viola actor ended. Without it nothing works: too many failures end the config too.
    fn needed_child_ended(&self, state: &State, exit: ChildExit) -> Result<(), ActorProcessingErr> {
        match exit.outcome {
            Outcome::Stopped => Ok(()),
            Outcome::RestartIn(_) => {
                tracing::warn!("{}: {exit}", state.config.id.name);
                Ok(())
            }
            Outcome::GaveUp => Err(exit.into()),
        }
    }

    /// A port actor ended: its VM sits this round out, the others go on.
    fn port_ended(&self, state: &mut State, vm: &VmId, exit: &ChildExit) {
        match exit.outcome {
            // Taken out and put back in before it was gone.
            Outcome::Stopped if state.config.vms.contains(vm) => self.demand(state, Demand::EVENT),
            Outcome::Stopped => {}
            Outcome::RestartIn(_) => tracing::warn!("{}: {exit}", state.config.id.name),
            Outcome::GaveUp => {
                tracing::error!("{}: {exit}, trying again in {PORT_PAUSE:?}", state.config.id.name);
                if let Some(slot) = state.ports.get_mut(vm) {
                    slot.retry_after(PORT_PAUSE);
                }
            }
        }
        if state.phase == Phase::Deciding {
            state.answer_for(vm, &format!("its actor failed: {}", exit.error));
        }
    }
}

/// Rounds.
impl ConfigActor {
    async fn apply(&self, state: &mut State, config: Arc<Config>) {
        if config.revision == state.config.revision {
            return;
        }
        let before = std::mem::replace(&mut state.config, Arc::clone(&config));
        state.cadence.set_polling(config.polling, seed_for(self.shared.seed, &config.id.to_string()), now());
        state.token.cast(TokenMsg::Apply(Arc::clone(&config)));
        state.viola.cast(ViolaMsg::Apply(Arc::clone(&config)));
        self.start_ports(state).await;
        if config.paused {
            state.poll.cancel();
            state.next_demand = None;
            state.progress.next_poll_at = None;
            state.node.set_phase("paused");
            state.publish(&self.shared);
            return;
        }
        let drop_caches =
            before.force_reconcile != config.force_reconcile && config.force_reconcile.is_some();
        self.demand(state, Demand { urgency: Urgency::Event, drop_caches });
        state.publish(&self.shared);
    }

    /// A round is asked for: now, or right after the one under way.
    fn demand(&self, state: &mut State, demand: Demand) {
        if state.config.paused {
            return;
        }
        match state.phase {
            Phase::Resting => self.begin(state, demand),
            Phase::Session | Phase::Looking | Phase::Deciding | Phase::NoDelivery => {
                state.next_demand = Some(state.next_demand.map_or(demand, |other| other.and(demand)));
            }
        }
    }

    fn begin(&self, state: &mut State, demand: Demand) {
        state.poll.cancel();
        state.round += 1;
        state.demand = demand;
        state.round_config = Arc::clone(&state.config);
        state.phase = Phase::Session;
        state.node.set_phase("logging in");
        state.progress.next_poll_at = None;
        state.progress.last_poll_at = Some(self.shared.clock.now());
        self.ask_for_session(state);
    }

    /// Also after the token actor came back: what it was asked before is lost.
    fn ask_for_session(&self, state: &State) {
        if state.phase == Phase::Session {
            state.token.cast(TokenMsg::Obtain { round: state.round });
        }
    }

    fn session_ready(&self, state: &mut State, round: u64, result: Result<Session, CloudError>) {
        if state.phase != Phase::Session || round != state.round {
            return;
        }
        match result {
            Ok(session) => self.look(state, session),
            Err(error) => self.round_failed(state, error),
        }
    }

    fn look(&self, state: &mut State, session: Session) {
        state.phase = Phase::Looking;
        state.node.set_phase("looking");
        state.progress.token_expires_at = Some(session.expires_at);
        let config = Arc::clone(&state.round_config);
        let limit = config.cloud.timeout * LOOK_TIMEOUTS;
        let request = ObserveRequest {
            vms: config.vms.clone(),
            config,
            urgency: state.demand.urgency,
            drop_caches: state.demand.drop_caches,
        };
        let cloud = Arc::clone(&self.shared.cloud);
        let work = async move {
            let look = tokio::time::timeout(limit, cloud.observe(session, request));
            let late = |_| Err(CloudError::new(Reason::NeutronPortError, "the look did not end in time"));
            look.await.unwrap_or_else(late)
        };
        state.look.start(&state.me, work, ConfigMsg::Observed);
    }

    fn observed(
        &self,
        state: &mut State,
        ticket: Ticket,
        result: Result<Result<Observation, CloudError>, TaskPanicked>,
    ) {
        if !state.look.accept(ticket) || state.phase != Phase::Looking {
            return;
        }
        match result {
            Ok(Ok(observation)) => self.decide(state, observation),
            Ok(Err(error)) => self.round_failed(state, error),
            Err(panicked) => {
                let message = format!("the look failed inside: {panicked}");
                self.round_failed(state, CloudError::new(Reason::InternalError, message));
            }
        }
    }

    /// Hands each VM its part; viola is told first, so that it knows whom to wait for.
    fn decide(&self, state: &mut State, mut observation: Observation) {
        let config = Arc::clone(&state.round_config);
        // The spec may have changed since: whoever is no longer listed is not decided.
        let expected: BTreeSet<_> =
            config.vms.iter().filter(|vm| state.config.vms.contains(vm)).cloned().collect();
        let Some(viola) = state.viola.actor().cloned() else {
            state.give_up_round();
            return;
        };
        state.phase = Phase::Deciding;
        state.node.set_phase("deciding");
        state.progress.changes_before_round = state.progress.delivery.changes;
        let begun =
            ViolaMsg::Round { round: state.round, expected: expected.clone(), config: Arc::clone(&config) };
        if viola.send_message(begun).is_err() {
            return;
        }
        let records = config.vms.iter().map(|vm| self.shared.inventory.record_of_vm(&config.provider, vm));
        let delivered: Vec<_> =
            records.map(|record| record.map(|record| Arc::clone(&record.config))).collect();
        let interfaces = delivered.iter().flatten().flat_map(|node| &node.interfaces);
        let delivered_ports: Arc<HashSet<_>> =
            Arc::new(interfaces.filter_map(|i| i.port_id.clone()).collect());
        let subnets = Arc::new(observation.subnets);
        for (vm, delivered) in config.vms.iter().zip(delivered).filter(|(vm, _)| expected.contains(vm)) {
            let unknown = || Server::Unknown("nova was not asked for it".to_owned());
            let look = Observe {
                round: state.round,
                config: Arc::clone(&config),
                subnets: Arc::clone(&subnets),
                ports: observation.ports.remove(vm).unwrap_or_default(),
                server: observation.servers.remove(vm).unwrap_or_else(unknown),
                delivered,
                delivered_ports: Arc::clone(&delivered_ports),
                viola: viola.clone(),
            };
            if !state.ports.cast(vm, PortMsg::Observe(Box::new(look))) {
                state.answer_for(vm, "its actor is being restarted");
            }
        }
    }

    fn round_done(&self, state: &mut State, report: RoundReport) {
        if state.phase != Phase::Deciding || report.round != state.round {
            return;
        }
        let is_first = state.progress.round.is_none();
        if report.is_changed || is_first || state.progress.failure.is_some() {
            tracing::info!(
                round = report.round,
                "{}: {} of {} VMs have interfaces, {} skipped{}",
                state.config.id.name,
                report.desired,
                state.config.vms.len(),
                report.skipped.len(),
                if report.is_changed { ", something changed" } else { "" },
            );
        }
        let end = if report.is_changed { RoundEnd::Changed } else { RoundEnd::Unchanged };
        state.progress.failure = None;
        state.progress.observed_generation = state.round_config.generation;
        state.progress.round = Some(report);
        state.node.set_last_error(None);
        self.prune(state);
        self.end_round(state, end);
    }

    /// `removalPolicy: Prune`: this round was the second look at a list that the VMs are not in.
    fn prune(&self, state: &State) {
        let config = &state.config;
        if config.removal_policy != RemovalPolicy::Prune || config.revision != state.round_config.revision {
            return;
        }
        let keep: BTreeSet<_> = config.vms.iter().cloned().collect();
        let snapshot = self.shared.inventory.snapshot();
        let is_leftover = |record: &Arc<crate::domain::inventory::Record>| {
            let is_own = record.owner.as_ref().is_some_and(|owner| owner.id.name == config.id.name);
            is_own && !keep.contains(&record.instance_id)
        };
        if snapshot.records.values().any(is_leftover) {
            let event = Event::Pruned { name: config.id.name.clone(), keep };
            // Not kept, not lost: the next round sees the leftovers again.
            self.shared.inventory.record(event, Box::new(|_| {}));
        }
    }

    fn round_failed(&self, state: &mut State, error: CloudError) {
        let is_new = state.progress.failure.as_ref().is_none_or(|before| {
            (before.reason, before.message.as_str()) != (error.reason, error.message.as_str())
        });
        let wait = state.cadence.next(RoundEnd::Failed { retry_after: error.retry_after }, now());
        let request = error.request_id.as_ref().map_or(String::new(), |id| format!(" (request {id})"));
        let detail = format!("{}{request}, retrying in {:.0?}", error.message, wait);
        if is_new {
            tracing::warn!(reason = %error.reason, round = state.round, "{}: {detail}", state.config.id.name);
        }
        state.node.set_last_error(Some(error.message.clone()));
        state.progress.observed_generation = state.round_config.generation;
        state.progress.failure = Some(RoundFailure { reason: error.reason, message: error.message, detail });
        self.rest(state, wait);
    }

    fn end_round(&self, state: &mut State, end: RoundEnd) {
        let wait = state.cadence.next(end, now());
        self.rest(state, wait);
    }

    fn rest(&self, state: &mut State, wait: Duration) {
        state.phase = Phase::Resting;
        state.node.set_phase(if state.config.paused { "paused" } else { "resting" });
        match state.next_demand.take() {
            Some(demand) if !state.config.paused => {
                self.begin(state, demand);
            }
            _ if state.config.paused => {}
            _ => state.arm_poll(wait, &self.shared),
        }
        state.publish(&self.shared);
    }

    /// The viola actor came back with an empty outbox: a round fills it.
    fn viola_is_back(&self, state: &mut State) {
        if state.phase == Phase::NoDelivery {
            state.phase = Phase::Resting;
            let demand = state.next_demand.take().unwrap_or(Demand::POLL);
            self.demand(state, demand.and(Demand::EVENT));
        }
    }
}

impl State {
    fn arm_poll(&mut self, wait: Duration, shared: &Shared) {
        self.poll.arm(wait, &self.me, ConfigMsg::PollDue);
        let wait = jiff::SignedDuration::try_from(wait).unwrap_or_default();
        self.progress.next_poll_at = shared.clock.now().checked_add(wait).ok();
    }

    /// Nobody is there to deliver: whatever the round was doing is of no use.
    fn give_up_round(&mut self) {
        self.look.cancel();
        self.poll.cancel();
        self.phase = Phase::NoDelivery;
        self.node.set_phase("waiting for viola");
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

fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}
