//! The rounds of a config: session, look, decisions, and when the next one is due.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{ConfigActor, ConfigMsg, Demand, Phase, State};
use crate::boundary::{CloudError, ObserveRequest, Session, Urgency};
use crate::domain::backoff::seed_for;
use crate::domain::cadence::RoundEnd;
use crate::domain::config::{Config, RemovalPolicy};
use crate::domain::inventory::{Event, newest_of_vms, ports_of};
use crate::domain::port::Observation;
use crate::domain::progress::{RoundFailure, RoundReport};
use crate::domain::reason::Reason;
use crate::port::{Observe, PortMsg};
use crate::supervision::{TaskPanicked, Ticket, now};
use crate::token::TokenMsg;
use crate::viola::ViolaMsg;

/// A look has a deadline of its own, far beyond what its requests may take: only a defect reaches it.
const LOOK_TIMEOUTS: u32 = 20;
/// A look may wait for its turn at a busy cloud for longer than its requests take.
const LOOK_AT_LEAST: Duration = Duration::from_secs(600);

impl ConfigActor {
    pub(super) async fn apply(&self, state: &mut State, config: Arc<Config>) {
        if config.revision == state.config.revision {
            return;
        }
        let before = std::mem::replace(&mut state.config, Arc::clone(&config));
        state.cadence.set_polling(config.polling, seed_for(self.shared.seed, &config.id.to_string()), now());
        state.token.cast(TokenMsg::Apply(Arc::clone(&config)));
        state.viola.cast(ViolaMsg::Apply(Arc::clone(&config)));
        self.start_ports(state).await;
        let abandoned = state.abandon_look();
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
        let demand = Demand { urgency: Urgency::Event, drop_caches };
        self.demand(state, abandoned.map_or(demand, |abandoned| abandoned.and(demand)));
        state.publish(&self.shared);
    }

    /// A round is asked for: now, or right after the one under way.
    pub(super) fn demand(&self, state: &mut State, demand: Demand) {
        if state.config.paused {
            return;
        }
        match state.phase {
            Phase::Resting => self.begin(state, demand),
            Phase::Session | Phase::Looking | Phase::Deciding | Phase::NoDelivery => {
                state.ask_for_another(demand);
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
    pub(super) fn ask_for_session(&self, state: &State) {
        if state.phase == Phase::Session {
            state.token.cast(TokenMsg::Obtain { round: state.round });
        }
    }

    pub(super) fn session_ready(&self, state: &mut State, round: u64, result: Result<Session, CloudError>) {
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
        let limit = (config.cloud.timeout * LOOK_TIMEOUTS).max(LOOK_AT_LEAST);
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

    pub(super) fn observed(
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
        let Some(viola) = state.viola.actor().cloned() else {
            state.give_up_round();
            return;
        };
        state.phase = Phase::Deciding;
        state.node.set_phase("deciding");
        state.progress.changes_before_round = state.progress.delivery.changes;
        let expected = config.vms.iter().cloned().collect();
        let begun = ViolaMsg::Round { round: state.round, expected, config: Arc::clone(&config) };
        if viola.send_message(begun).is_err() {
            return;
        }
        let applied = self.shared.inventory.applied();
        let records = config.vms.iter().flat_map(|vm| applied.records_of(vm, &config.provider));
        let of_vms = newest_of_vms(records);
        let delivered_ports = Arc::new(ports_of(config.vms.iter().filter_map(|vm| of_vms.get(vm).copied())));
        let subnets = Arc::new(std::mem::take(&mut observation.subnets));
        for vm in &config.vms {
            let (ports, server) = observation.take(vm);
            let look = Observe {
                round: state.round,
                config: Arc::clone(&config),
                subnets: Arc::clone(&subnets),
                ports,
                server,
                delivered: of_vms.get(vm).copied().cloned(),
                delivered_ports: Arc::clone(&delivered_ports),
                viola: viola.clone(),
            };
            if !state.ports.cast(vm, PortMsg::Observe(Box::new(look))) {
                state.answer_for(vm, "its actor is being restarted");
            }
        }
    }

    pub(super) fn round_done(&self, state: &mut State, report: RoundReport) {
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

    /// `removalPolicy: Prune`: this round was the second look at a list that the VMs are not in. They may
    /// have moved to an object that is not known yet.
    fn prune(&self, state: &State) {
        let config = &state.config;
        let is_current = config.revision == state.round_config.revision;
        if config.removal_policy != RemovalPolicy::Prune || !is_current || !self.shared.claims.knows_all() {
            return;
        }
        let keep: BTreeSet<_> = config.vms.iter().cloned().collect();
        let snapshot = self.shared.inventory.snapshot();
        if snapshot.records.of_owner(&config.id.name).any(|record| !keep.contains(&record.instance_id)) {
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
    pub(super) fn viola_is_back(&self, state: &mut State) {
        if state.phase == Phase::NoDelivery {
            state.phase = Phase::Resting;
            let demand = state.next_demand.take().unwrap_or(Demand::POLL);
            self.demand(state, demand.and(Demand::EVENT));
        }
    }
}
