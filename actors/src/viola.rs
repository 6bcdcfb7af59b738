//! The viola actor: delivers one config's nodes.
//!
//! Owned by its config, no children. Waits for the decisions of a round, settles them together, keeps the
//! outbox (newest state per node, one POST in flight) and the DOWN-port retry. A crash loses no delivery:
//! what was delivered comes back from the inventory, and its config starts a round, so that the ports
//! offer again what is wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::boundary::{Clock, Delivery, PostAnswer, PostError};
use crate::claim_table::ClaimTable;
use crate::config::{ConfigMsg, ConfigRef};
use crate::domain::backoff::seed_for;
use crate::domain::claims::Claimed;
use crate::domain::config::Config;
use crate::domain::down_port;
use crate::domain::ids::{NodeName, VmId};
use crate::domain::inventory::{Event, Owner, RecordKey};
use crate::domain::node::NodeConfig;
use crate::domain::outbox::{Finished, Next, Outbox};
use crate::domain::post::PostFailure;
use crate::domain::progress::{DeliveryReport, RoundReport};
use crate::domain::settle::{self, Settled, settle};
use crate::domain::status::{DownPortRetry, VmReport};
use crate::domain::vm::{Decision, Outcome};
use crate::inventory::{InventoryHandle, Kept};
use crate::supervision::{Hook, Node, TaskPanicked, TaskSlot, Ticket, TimerSlot};

mod history;
mod ledger;

use history::Delivered;
use ledger::Ledger;

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
    /// What is delivered, and who keeps it.
    pub inventory: InventoryHandle,
    /// Whose node is whose.
    pub claims: ClaimTable,
    /// For the times of deliveries.
    pub clock: Arc<dyn Clock>,
    /// For the jitter of retries.
    pub seed: u64,
}

/// A round whose decisions are coming in.
struct Gathering {
    round: u64,
    missing: BTreeSet<VmId>,
}

/// A POST under way. Shared, so that a stop can wait for its answer.
struct Flight {
    id: u64,
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
    outbox: Outbox,
    flight: Option<Flight>,
    post: TaskSlot,
    wake: TimerSlot,
    down_retry: Option<DownPortRetry>,
    /// Nodes of the DOWN-port re-send that is not answered yet.
    down_sent: BTreeSet<NodeName>,
    down_timer: TimerSlot,
    resync: TimerSlot,
    ledger: Ledger,
    ledger_timer: TimerSlot,
    changes: u64,
    last_report: DeliveryReport,
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
            flight: None,
            post: TaskSlot::new(),
            wake: TimerSlot::new(),
            down_retry: kept.and_then(|kept| kept.down_port_retry.clone()),
            down_sent: BTreeSet::new(),
            down_timer: TimerSlot::new(),
            resync: TimerSlot::new(),
            ledger: Ledger::default(),
            ledger_timer: TimerSlot::new(),
            changes: 0,
            last_report: DeliveryReport::default(),
            config: args.config,
        };
        state.arm_resync();
        Ok(state)
    }

    async fn handle(
        &self,
        _me: ViolaRef,
        msg: ViolaMsg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.node.fault_point(Hook::Handle(msg.word())).await?;
        match msg {
            ViolaMsg::Round { round, expected, config } => self.round(state, round, expected, config),
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
            ViolaMsg::Kept(number, kept) => self.kept(state, number, kept),
            ViolaMsg::LedgerDue(ticket) => {
                if state.ledger_timer.accept(ticket) {
                    self.send_ledger(state);
                }
            }
        }
        Ok(())
    }

    async fn post_stop(&self, _me: ViolaRef, state: &mut State) -> Result<(), ActorProcessingErr> {
        if let Some(flight) = state.flight.take() {
            // The answer decides whether the nodes count as delivered: worth a few seconds.
            if let Ok(answer) = tokio::time::timeout(STOP_GRACE, flight.answer).await {
                let finished = state.outbox.finish(flight.id, answer, now());
                self.record_deliveries(state, &finished);
            }
        }
        self.claims.end_post(&state.config.id.name);
        Ok(())
    }
}

impl Viola {
    fn round(&self, state: &mut State, round: u64, expected: BTreeSet<VmId>, config: Arc<Config>) {
        self.take_config(state, config);
        state.gathering = Some(Gathering { round, missing: expected });
        if state.gathering.as_ref().is_some_and(|gathering| gathering.missing.is_empty()) {
            self.settle(state);
        }
    }

    fn decided(&self, state: &mut State, round: u64, decision: Decision) {
        let Some(gathering) = &mut state.gathering else {
            return;
        };
        // A late decision of an earlier round, or a second one for the same VM.
        if gathering.round != round || !gathering.missing.remove(&decision.vm) {
            return;
        }
        let is_complete = gathering.missing.is_empty();
        state.decisions.insert(decision.vm.clone(), decision);
        if is_complete {
            self.settle(state);
        }
    }

    fn apply(&self, state: &mut State, config: Arc<Config>) {
        self.take_config(state, config);
        self.pump(state);
    }

    fn take_config(&self, state: &mut State, config: Arc<Config>) {
        let before = std::mem::replace(&mut state.config, config);
        let config = Arc::clone(&state.config);
        if before.provider != config.provider {
            state.outbox = Outbox::new(config.polling.slow, self.seed_of(&config), now());
        } else if before.viola_endpoint != config.viola_endpoint || before.polling.slow != config.polling.slow
        {
            state.outbox.start_over(config.polling.slow, self.seed_of(&config), now());
            state.outbox.want(&state.settled.wanted);
        }
        if before.polling.resync != config.polling.resync {
            state.arm_resync();
        }
        let listed: BTreeSet<_> = config.vms.iter().cloned().collect();
        state.decisions.retain(|vm, _| listed.contains(vm));
        self.claims.retain_vms(&config.id.name, &config.provider, &listed);
        if config.paused {
            state.node.set_phase("paused");
        }
    }

    fn seed_of(&self, config: &Config) -> u64 {
        seed_for(self.seed, &config.id.to_string())
    }

    /// All decisions are in: settle who gets what, remember allocations, tell the config, send.
    fn settle(&self, state: &mut State) {
        let Some(gathering) = state.gathering.take() else {
            return;
        };
        self.learn(state);
        let config = Arc::clone(&state.config);
        let owner = owner_of(&config);
        let mut lost = Vec::new();
        let mut claim = |node: &NodeName, vm: &VmId| {
            let key = RecordKey { provider: config.provider.clone(), node: node.clone() };
            match self.claims.claim(&key, &owner, vm) {
                Claimed::Granted => Ok(()),
                Claimed::TakenOver(loser) => {
                    tracing::warn!("{}: node {node} taken over from the younger {loser}", config.id.name);
                    Ok(())
                }
                Claimed::Refused(other) => {
                    lost.push(node.clone());
                    Err(other.to_string())
                }
            }
        };
        let settled = settle(
            &state.decisions,
            settle::Context {
                policy: config.change_policy,
                approvals: &config.approvals,
                history: &Delivered { outbox: &state.outbox },
                empty_before: &state.empty_before,
                claim: &mut claim,
            },
        );
        lost.iter().for_each(|node| state.outbox.forget(node));
        let is_changed = self.is_changed(state, &settled);
        let came_up = came_up(&state.settled, &settled);
        state.outbox.want(&settled.wanted);
        came_up.iter().for_each(|node| state.outbox.resend(node));
        state.settled = settled;
        state.note_empty();
        self.remember_allocations(state, &owner);
        self.observe_down_ports(state);
        let report = state.round_report(gathering.round, is_changed);
        let _ = state.owner.send_message(ConfigMsg::RoundDone(Box::new(report)));
        self.pump(state);
        self.report(state);
    }

    /// Fills in what the inventory knows of the nodes and VMs at hand.
    fn learn(&self, state: &mut State) {
        let provider = &state.config.provider;
        for (vm, decision) in &state.decisions {
            let of_vm = self.inventory.record_of_vm(provider, vm);
            let at_node = decision.node.as_ref().and_then(|node| {
                self.inventory.record_at(&RecordKey { provider: provider.clone(), node: node.clone() })
            });
            for record in of_vm.into_iter().chain(at_node) {
                state.outbox.learn(Arc::clone(&record.config));
            }
        }
    }

    /// Whether this look wants something else than the one before, or shows a node's last port gone.
    fn is_changed(&self, state: &State, settled: &Settled) -> bool {
        let differs = settled.wanted.iter().any(|(name, wanted)| {
            let before = state.settled.wanted.get(name).map(|before| &before.node);
            let has = before.or_else(|| state.outbox.delivered_at(name));
            !has.is_some_and(|has| has.is_same(&wanted.node))
        });
        let is_newly_empty = |(vm, decision): (&VmId, &Decision)| {
            matches!(decision.outcome, Outcome::Empty)
                && !state.empty_before.contains(vm)
                && state.outbox.delivered_of(vm).is_some()
        };
        differs || state.decisions.iter().any(is_newly_empty)
    }

    /// Allocations and ownership are stored before the first POST that relies on them.
    fn remember_allocations(&self, state: &mut State, owner: &Owner) {
        let config = &state.config;
        let kept = self.inventory.config_state(&config.id.name);
        let known = kept.as_ref().map(|kept| &kept.allocations);
        let allocations: BTreeMap<_, _> = state
            .decisions
            .iter()
            .filter(|(vm, decision)| {
                let before = known.and_then(|known| known.get(*vm)).map_or(&[][..], Vec::as_slice);
                !matches!(decision.outcome, Outcome::Skipped { .. }) && before != decision.held
            })
            .map(|(vm, decision)| (vm.clone(), decision.held.clone()))
            .collect();
        let is_foreign = |name: &&NodeName| {
            let key = RecordKey { provider: config.provider.clone(), node: (*name).clone() };
            self.inventory.record_at(&key).is_some_and(|record| record.owner.as_ref() != Some(owner))
        };
        let nodes: Vec<_> = state.settled.desired.keys().filter(is_foreign).cloned().collect();
        let is_same_policy = kept
            .as_ref()
            .is_some_and(|kept| kept.removal_policy == config.removal_policy && kept.uid == config.id.uid);
        if allocations.is_empty() && nodes.is_empty() && is_same_policy {
            return;
        }
        let event = Event::Allocated {
            owner: owner.clone(),
            removal_policy: config.removal_policy,
            allocations,
            provider: config.provider.clone(),
            nodes,
        };
        self.remember(state, event, true);
    }

    fn observe_down_ports(&self, state: &mut State) {
        let down: BTreeSet<_> =
            state.settled.wanted.values().flat_map(|wanted| wanted.down.clone()).collect();
        let has_down = |name: &NodeName| state.settled.wanted.get(name).is_some_and(|w| !w.down.is_empty());
        state.down_sent.retain(has_down);
        let before = state.down_retry.take();
        state.down_retry = down_port::observe(before.clone(), &down, self.clock.now());
        if state.down_retry != before {
            self.remember_down_ports(state);
        }
        self.arm_down(state);
    }

    fn remember_down_ports(&self, state: &mut State) {
        let event = Event::DownPorts { owner: owner_of(&state.config), retry: state.down_retry.clone() };
        self.remember(state, event, false);
    }

    fn arm_down(&self, state: &mut State) {
        match &state.down_retry {
            // A re-send under way is followed by its answer, not by the timer.
            Some(retry) if state.down_sent.is_empty() => {
                let due = down_port::due_in(retry, state.down_rule(), self.clock.now());
                state.down_timer.arm(due, &state.me, ViolaMsg::DownDue);
            }
            Some(_) => {}
            None => state.down_timer.cancel(),
        }
    }

    fn down_due(&self, state: &mut State, ticket: Ticket) {
        if !state.down_timer.accept(ticket) || state.config.paused {
            return;
        }
        let nodes: BTreeSet<_> = state
            .settled
            .wanted
            .iter()
            .filter(|(name, wanted)| !wanted.down.is_empty() && state.outbox.is_delivered(name))
            .map(|(name, _)| name.clone())
            .collect();
        if nodes.is_empty() {
            // Their first delivery is still under way: that is no re-send.
            state.down_timer.arm(state.down_rule().fast, &state.me, ViolaMsg::DownDue);
            return;
        }
        nodes.iter().for_each(|node| state.outbox.resend(node));
        state.down_sent = nodes;
        self.pump(state);
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

    /// Sends the next batch, if there is one and nothing stands against it.
    fn pump(&self, state: &mut State) {
        state.wake.cancel();
        if state.config.paused || state.ledger.holds_back_posts() || state.flight.is_some() {
            return;
        }
        loop {
            match state.outbox.next(now()) {
                Next::Idle => break state.node.set_phase("idle"),
                Next::Wait(moment) => {
                    let wait = moment.saturating_duration_since(now());
                    state.wake.arm(wait, &state.me, ViolaMsg::WakeDue);
                    break state.node.set_phase("waiting");
                }
                Next::Post { id, nodes } => {
                    let key = |node: &NodeName| RecordKey {
                        provider: state.config.provider.clone(),
                        node: node.clone(),
                    };
                    let keys: Vec<_> = nodes.iter().map(|node| key(&node.node_name)).collect();
                    let lost = self.claims.begin_post(&keys, &state.config.id.name);
                    if lost.is_empty() {
                        self.depart(state, id, nodes);
                        break;
                    }
                    // Taken over since the round: the next round tells why.
                    self.claims.end_post(&state.config.id.name);
                    lost.iter().for_each(|node| state.outbox.forget(node));
                    state.outbox.abandon(id);
                }
            }
        }
    }

    fn depart(&self, state: &mut State, id: u64, nodes: Vec<Arc<NodeConfig>>) {
        state.node.set_phase("posting");
        let (delivery, config) = (Arc::clone(&self.delivery), Arc::clone(&state.config));
        let answer: BoxFuture<'static, PostResult> =
            async move { delivery.post(config, nodes).await }.boxed();
        let answer = answer.shared();
        state.post.start(&state.me, answer.clone(), ViolaMsg::PostDone);
        state.flight = Some(Flight { id, answer });
    }

    fn post_done(&self, state: &mut State, ticket: Ticket, result: Result<PostResult, TaskPanicked>) {
        if !state.post.accept(ticket) {
            return;
        }
        let Some(flight) = state.flight.take() else { return };
        self.claims.end_post(&state.config.id.name);
        let answer = result.unwrap_or_else(|panicked| {
            Err(PostError {
                failure: PostFailure::UnknownOutcome,
                message: format!("the POST failed inside: {panicked}"),
                retry_after: None,
            })
        });
        let finished = state.outbox.finish(flight.id, answer, now());
        if let Some(failure) = &finished.failure {
            tracing::warn!("{}: {failure}", state.config.id.name);
        }
        state.node.set_last_error(finished.failure.clone());
        self.record_deliveries(state, &finished);
        self.count_down_attempt(state, &finished);
        self.pump(state);
        self.report(state);
    }

    fn record_deliveries(&self, state: &mut State, finished: &Finished) {
        if finished.accepted.is_empty() {
            return;
        }
        state.changes += finished.accepted.iter().filter(|accepted| accepted.is_change).count() as u64;
        let event = Event::Delivered {
            owner: owner_of(&state.config),
            provider: state.config.provider.clone(),
            nodes: finished.accepted.iter().map(|accepted| Arc::clone(&accepted.node)).collect(),
            at: self.clock.now(),
        };
        self.remember(state, event, false);
    }

    /// A re-send counts once all its nodes were answered; a failed POST counts no attempt.
    fn count_down_attempt(&self, state: &mut State, finished: &Finished) {
        if state.down_sent.is_empty() {
            return;
        }
        for accepted in &finished.accepted {
            state.down_sent.remove(&accepted.node.node_name);
        }
        let refused: BTreeSet<_> = state.outbox.refused().map(|(name, ..)| name.clone()).collect();
        state.down_sent.retain(|name| state.settled.wanted.contains_key(name) && !refused.contains(name));
        if !state.down_sent.is_empty() {
            return;
        }
        let rule = state.down_rule();
        if let Some(retry) = &mut state.down_retry {
            down_port::attempted(retry, rule, self.clock.now());
            self.remember_down_ports(state);
        }
        self.arm_down(state);
    }

    /// Hands an event to the inventory and keeps it until it is acknowledged.
    fn remember(&self, state: &mut State, event: Event, holds_back_posts: bool) {
        let number = state.ledger.add(event, holds_back_posts);
        self.send_event(state, number);
        if !state.ledger_timer.is_armed() {
            state.ledger_timer.arm(LEDGER_RETRY, &state.me, ViolaMsg::LedgerDue);
        }
    }

    fn send_event(&self, state: &State, number: u64) {
        if let Some(event) = state.ledger.event(number) {
            let me = state.me.clone();
            let ack = Box::new(move |kept| {
                let _ = me.send_message(ViolaMsg::Kept(number, kept));
            });
            self.inventory.record(event.clone(), ack);
        }
    }

    fn send_ledger(&self, state: &mut State) {
        let numbers: Vec<_> = state.ledger.numbers().collect();
        numbers.iter().for_each(|number| self.send_event(state, *number));
        if !numbers.is_empty() {
            state.ledger_timer.arm(LEDGER_RETRY, &state.me, ViolaMsg::LedgerDue);
        }
    }

    fn kept(&self, state: &mut State, number: u64, kept: Kept) {
        state.ledger.settle(number, kept);
        if state.ledger.is_empty() {
            state.ledger_timer.cancel();
        }
        self.pump(state);
        self.report(state);
    }

    /// Tells the config where the deliveries stand, when that changed.
    fn report(&self, state: &mut State) {
        let report = state.delivery_report();
        if report != state.last_report {
            state.last_report = report.clone();
            let _ = state.owner.send_message(ConfigMsg::DeliveryChanged(Box::new(report)));
        }
    }
}

impl State {
    fn down_rule(&self) -> down_port::Rule {
        let polling = &self.config.polling;
        down_port::Rule {
            fast: polling.fast,
            slow: polling.slow,
            fast_retry_max: self.config.down_port_fast_retry_max,
        }
    }

    fn arm_resync(&mut self) {
        match self.config.polling.resync {
            Some(interval) => self.resync.arm(interval, &self.me, ViolaMsg::ResyncDue),
            None => self.resync.cancel(),
        }
    }

    fn note_empty(&mut self) {
        let empty = self.decisions.iter().filter(|(_, decision)| matches!(decision.outcome, Outcome::Empty));
        self.empty_before = empty.map(|(vm, _)| vm.clone()).collect();
    }

    fn round_report(&self, round: u64, is_changed: bool) -> RoundReport {
        let vm_report = |(vm, decision): (&VmId, &Decision)| VmReport {
            vm: vm.clone(),
            node: decision.node.clone(),
            skipped: self.settled.skipped.get(vm).map(|(reason, _)| *reason),
            ports: decision.verdicts.clone(),
        };
        RoundReport {
            round,
            is_changed,
            desired: self.settled.desired_vms,
            skipped: self.settled.skipped.clone(),
            pending: self.settled.pending.clone(),
            vms: self.decisions.iter().map(vm_report).collect(),
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
        }
    }
}

/// Nodes of which a port was DOWN and is wanted still, but not DOWN any more.
fn came_up(before: &Settled, after: &Settled) -> Vec<NodeName> {
    let is_up = |(name, wanted): &(&NodeName, &settle::Wanted)| {
        let Some(old) = before.wanted.get(*name) else {
            return false;
        };
        old.down.iter().any(|port| {
            let is_wanted = wanted.node.interfaces.iter().any(|i| i.port_id.as_ref() == Some(port));
            is_wanted && !wanted.down.contains(port)
        })
    };
    after.wanted.iter().filter(is_up).map(|(name, _)| name.clone()).collect()
}

fn owner_of(config: &Config) -> Owner {
    Owner { id: config.id.clone(), created: config.created }
}

fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}
