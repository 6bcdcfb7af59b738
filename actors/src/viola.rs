//! The viola actor: delivers one config's nodes.
//!
//! Owned by its config, no children. Waits for the decisions of a round, settles them together, keeps the
//! outbox (newest state per node, one POST in flight) and the DOWN-port retry. A crash loses no delivery:
//! what was delivered comes back from the inventory, and its config starts a round, so that the ports
//! offer again what is wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tracing::Span;

use crate::boundary::{Clock, Delivery, PostAnswer, PostError, Witness, Workload};
use crate::claim_table::ClaimTable;
use crate::config::{ConfigMsg, ConfigRef};
use crate::domain::backoff::seed_for;
use crate::domain::config::{Config, RemovalPolicy};
use crate::domain::ids::{NodeName, VmId};
use crate::domain::inventory::Owner;
use crate::domain::node::NodeConfig;
use crate::domain::outbox::Outbox;
use crate::domain::progress::DeliveryReport;
use crate::domain::settle::Settled;
use crate::domain::status::DownPortRetry;
use crate::domain::vm::Decision;
use crate::domain::waiting::Waiting;
use crate::inventory::{InventoryHandle, Kept};
use crate::supervision::{Hook, Node, TaskPanicked, TaskSlot, Ticket, TimerSlot, now};

mod down_ports;
mod ledger;
mod posting;
mod remembering;
mod settling;
mod workload;

use ledger::Ledger;
pub use posting::POST_DEADLINE;
use workload::Followed;

/// How long a POST that is under way at a stop may still take.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How often an event that is not acknowledged is sent to the inventory again.
const LEDGER_RETRY: Duration = Duration::from_secs(2);

/// Reference to a viola actor.
pub type ViolaRef = ActorRef<ViolaMsg>;

/// Messages of a viola actor.
#[derive(Debug)]
pub enum ViolaMsg {
    /// A round began: these VMs' decisions will come (from the config).
    Round {
        /// The round.
        round: u64,
        /// Whom to wait for.
        expected: BTreeSet<VmId>,
        /// The spec the round was started with.
        config: Arc<Config>,
        /// Its trace.
        span: Span,
    },
    /// One VM's decision (from its port actor, or from the config for one that died).
    Decided {
        /// The round.
        round: u64,
        /// What should become of the VM's node.
        decision: Box<Decision>,
    },
    /// The config's spec changed.
    Apply(Arc<Config>),
    /// A POST ended.
    PostDone(Ticket, Result<PostResult, TaskPanicked>),
    /// It is time to look for something to send.
    WakeDue(Ticket),
    /// DOWN ports are due for a re-send.
    DownDue(Ticket),
    /// Everything is due for a re-send (`resyncInterval`).
    ResyncDue(Ticket),
    /// Something in the workload cluster is another (from its view).
    WorkloadChanged,
    /// A look into the workload cluster is due.
    LookDue(Ticket),
    /// The node configs of these VMs were taken out of the workload cluster (from the config).
    Withdrawn(BTreeSet<VmId>),
    /// The inventory keeps an event.
    Kept(u64, Kept),
    /// Events that are not acknowledged are due once more.
    LedgerDue(Ticket),
}

impl ViolaMsg {
    fn word(&self) -> &'static str {
        match self {
            Self::Round { .. } => "Round",
            Self::Decided { .. } => "Decided",
            Self::Apply(_) => "Apply",
            Self::PostDone(..) => "PostDone",
            Self::WakeDue(_) => "WakeDue",
            Self::DownDue(_) => "DownDue",
            Self::ResyncDue(_) => "ResyncDue",
            Self::WorkloadChanged => "WorkloadChanged",
            Self::LookDue(_) => "LookDue",
            Self::Withdrawn(_) => "Withdrawn",
            Self::Kept(..) => "Kept",
            Self::LedgerDue(_) => "LedgerDue",
        }
    }
}

type PostResult = Result<PostAnswer, PostError>;

/// What a viola actor is started with.
pub struct ViolaArgs {
    /// Its place in the tree.
    pub node: Node,
    /// The config's spec.
    pub config: Arc<Config>,
    /// Its owner.
    pub owner: ConfigRef,
}

/// The viola actor.
pub struct Viola {
    /// Where node configs go.
    pub delivery: Arc<dyn Delivery>,
    /// What stands in the workload clusters.
    pub workload: Arc<dyn Workload>,
    /// What is delivered, and who keeps it.
    pub inventory: InventoryHandle,
    /// Whose node is whose.
    pub claims: ClaimTable,
    /// For the times of deliveries.
    pub clock: Arc<dyn Clock>,
    /// Who is told what was delivered.
    pub witness: Arc<dyn Witness>,
    /// For the jitter of retries.
    pub seed: u64,
}

/// A round whose decisions are coming in.
struct Gathering {
    round: u64,
    missing: BTreeSet<VmId>,
    span: Span,
}

/// A POST under way. Shared, so that a stop can wait for its answer.
struct Flight {
    id: u64,
    /// The spec that it left under.
    config: Arc<Config>,
    /// The outbox that it left from, when the delivery target is another one by now.
    former: Option<Outbox>,
    answer: Shared<BoxFuture<'static, PostResult>>,
}

/// State of a viola actor.
pub struct State {
    me: ViolaRef,
    node: Node,
    owner: ConfigRef,
    config: Arc<Config>,
    gathering: Option<Gathering>,
    decisions: BTreeMap<VmId, Decision>,
    empty_before: BTreeSet<VmId>,
    settled: Settled,
    /// The change policy is another one now: what may be sent is known after the next round.
    awaits_round: bool,
    outbox: Outbox,
    waiting: Waiting,
    /// The trace of the round whose outcome is to be sent.
    span: Span,
    flight: Option<Flight>,
    /// Nodes whose departure the inventory was told of, until they have arrived.
    announced: BTreeSet<NodeName>,
    post: TaskSlot,
    wake: TimerSlot,
    down_retry: Option<DownPortRetry>,
    /// Nodes of the DOWN-port re-send that is not answered yet.
    down_sent: BTreeSet<NodeName>,
    down_timer: TimerSlot,
    resync: TimerSlot,
    /// The workload cluster, where it is looked at.
    followed: Option<Followed>,
    ledger: Ledger,
    ledger_timer: TimerSlot,
    changes: u64,
    /// What the config was told last. A predecessor's report does not count.
    last_report: Option<DeliveryReport>,
    /// The failure that was logged last; the same one again is no news.
    logged_failure: Option<String>,
    /// Ports were DOWN when the predecessor, or the process before, ended.
    had_down_ports: bool,
}

impl Actor for Viola {
    type Msg = ViolaMsg;
    type State = State;
    type Arguments = ViolaArgs;

    async fn pre_start(&self, me: ViolaRef, args: ViolaArgs) -> Result<State, ActorProcessingErr> {
        args.node.fault_point(Hook::PreStart).await?;
        let seed = seed_for(self.seed, &args.config.id.to_string());
        let kept = self.inventory.config_state(&args.config.id.name);
        let mut state = State {
            me,
            node: args.node,
            owner: args.owner,
            outbox: Outbox::new(args.config.polling.slow, seed, now()),
            gathering: None,
            decisions: BTreeMap::new(),
            empty_before: BTreeSet::new(),
            settled: Settled::default(),
            awaits_round: false,
            waiting: Waiting::default(),
            span: Span::none(),
            flight: None,
            announced: BTreeSet::new(),
            post: TaskSlot::new(),
            wake: TimerSlot::new(),
            down_retry: kept.as_ref().and_then(|kept| kept.down_port_retry.clone()),
            down_sent: BTreeSet::new(),
            down_timer: TimerSlot::new(),
            resync: TimerSlot::new(),
            followed: None,
            ledger: Ledger::default(),
            ledger_timer: TimerSlot::new(),
            changes: 0,
            last_report: None,
            logged_failure: None,
            had_down_ports: kept.as_ref().is_some_and(|kept| kept.down_port_retry.is_some()),
            config: args.config,
        };
        self.claims.renew(&owner_of(&state.config));
        // A predecessor that died posting heard no answer, and its nodes are nobody's to wait for.
        for posted in self.claims.end_post(&state.config.id.name) {
            if posted.provider == state.config.provider {
                state.outbox.doubt(posted.node);
            }
        }
        state.arm_resync();
        self.follow(&mut state);
        Ok(state)
    }

    async fn handle(
        &self,
        _me: ViolaRef,
        msg: ViolaMsg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let _timed = state.node.time_handling();
        state.node.fault_point(Hook::Handle(msg.word())).await?;
        match msg {
            ViolaMsg::Round { round, expected, config, span } => {
                self.round(state, Gathering { round, missing: expected, span }, config);
            }
            ViolaMsg::Decided { round, decision } => self.decided(state, round, *decision),
            ViolaMsg::Apply(config) => self.apply(state, config),
            ViolaMsg::PostDone(ticket, result) => self.post_done(state, ticket, result),
            ViolaMsg::WakeDue(ticket) => {
                if state.wake.accept(ticket) {
                    self.pump(state);
                }
            }
            ViolaMsg::DownDue(ticket) => self.down_due(state, ticket),
            ViolaMsg::ResyncDue(ticket) => self.resync_due(state, ticket),
            ViolaMsg::WorkloadChanged => self.workload_changed(state),
            ViolaMsg::LookDue(ticket) => self.look_due(state, ticket),
            ViolaMsg::Withdrawn(vms) => state.outbox.withdrawn(&vms),
            ViolaMsg::Kept(number, kept) => self.kept(state, number, kept),
            ViolaMsg::LedgerDue(ticket) => {
                if state.ledger_timer.accept(ticket) {
                    self.send_ledger(state);
                }
            }
        }
        state.node.note_size("outbox", state.outbox.size());
        state.node.note_size("ledger", state.ledger.size());
        Ok(())
    }

    async fn post_stop(&self, _me: ViolaRef, state: &mut State) -> Result<(), ActorProcessingErr> {
        if let Some(flight) = state.flight.take() {
            let answer = flight.answer.clone();
            // The answer decides whether the nodes count as delivered: worth a few seconds. Without one
            // the claims stay marked, so that a successor sends the nodes once more.
            if let Ok(answer) = tokio::time::timeout(STOP_GRACE, answer).await {
                self.land(state, flight, answer);
                self.claims.end_post(&state.config.id.name);
            }
        }
        // The inventory ends last: what it lost by a crash of its own reaches it now or never.
        self.send_ledger(state);
        Ok(())
    }
}

impl Viola {
    fn apply(&self, state: &mut State, config: Arc<Config>) {
        self.take_config(state, config);
        self.settle_if_complete(state);
        // A pause ended, or the intervals are others.
        self.arm_down(state);
        self.pump(state);
    }

    fn take_config(&self, state: &mut State, config: Arc<Config>) {
        let before = std::mem::replace(&mut state.config, config);
        let config = Arc::clone(&state.config);
        if before.provider != config.provider {
            self.change_target(state);
        } else if before.viola_endpoint != config.viola_endpoint
            || before.polling.slow != config.polling.slow
            || before.delivery != config.delivery
        {
            state.outbox.start_over(config.polling.slow, self.seed_of(&config), now());
        }
        if before.delivery != config.delivery || before.provider != config.provider {
            self.follow(state);
        }
        state.awaits_round |= before.change_policy != config.change_policy;
        if before.polling.resync != config.polling.resync {
            state.arm_resync();
        }
        let listed: BTreeSet<_> = config.vms.iter().cloned().collect();
        state.decisions.retain(|vm, _| listed.contains(vm));
        if let Some(gathering) = &mut state.gathering {
            gathering.missing.retain(|vm| listed.contains(vm));
        }
        state.forget_pruned();
        self.retain_claims(&config);
        if config.paused {
            state.node.set_phase("paused");
        }
    }

    /// Gives up claims on nodes of VMs that are not listed any more.
    fn retain_claims(&self, config: &Config) {
        let listed = config.vms.iter().cloned().collect();
        self.claims.retain_vms(&config.id.name, &config.provider, &listed);
    }

    /// Nothing is known of the new target; the answer of a POST under way still belongs to the old one.
    fn change_target(&self, state: &mut State) {
        let config = &state.config;
        let fresh = Outbox::new(config.polling.slow, self.seed_of(config), now());
        let former = std::mem::replace(&mut state.outbox, fresh);
        if let Some(flight) = &mut state.flight {
            flight.former.get_or_insert(former);
        }
        state.settled = Settled::default();
        state.announced.clear();
        state.down_sent.clear();
    }

    fn seed_of(&self, config: &Config) -> u64 {
        seed_for(self.seed, &config.id.to_string())
    }

    fn resync_due(&self, state: &mut State, ticket: Ticket) {
        if state.resync.accept(ticket) {
            state.arm_resync();
            if !state.config.paused {
                state.outbox.resend_all();
                self.pump(state);
            }
        }
    }

    /// Tells the config where the deliveries stand, when that changed.
    fn report(&self, state: &mut State) {
        if self.inventory.health().problem.is_none() {
            state.ledger.store_works();
        }
        let report = state.delivery_report();
        if state.last_report.as_ref() != Some(&report) {
            state.last_report = Some(report.clone());
            let _ = state.owner.send_message(ConfigMsg::DeliveryChanged(Box::new(report)));
        }
    }
}

impl State {
    /// The records of VMs that are not listed any more go: one that is put back is sent anew.
    fn forget_pruned(&mut self) {
        if self.config.removal_policy == RemovalPolicy::Prune {
            self.outbox.retain_vms(&self.config.vms.iter().cloned().collect());
        }
    }

    fn arm_resync(&mut self) {
        match self.config.polling.resync {
            Some(interval) => self.resync.arm(interval, &self.me, ViolaMsg::ResyncDue),
            None => self.resync.cancel(),
        }
    }

    fn delivery_report(&self) -> DeliveryReport {
        let unkept = self.ledger.nodes();
        let is_delivered = |(name, node): &(&NodeName, &Arc<NodeConfig>)| {
            let has = self.outbox.delivered_at(name);
            has.is_some_and(|has| has.is_same(node)) && !unkept.contains(*name)
        };
        DeliveryReport {
            delivered: self.settled.desired.iter().filter(is_delivered).count() as u32,
            outstanding: (self.outbox.outstanding().count() + unkept.len()) as u32,
            failure: self.outbox.failure().map(str::to_owned),
            refused: self
                .outbox
                .refused()
                .map(|(name, vm, words)| (name.clone(), vm.clone(), words.to_owned()))
                .collect(),
            down_port_retry: self.down_retry.clone(),
            changes: self.changes,
            store_problem: self.ledger.problem().map(str::to_owned),
            workload: self.workload_report(),
        }
    }
}

fn owner_of(config: &Config) -> Owner {
    Owner { id: config.id.clone(), created: config.created }
}
