//! One POST at a time: what goes out next, and what its answer means.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tracing::{Instrument as _, Span};

use super::{Flight, PostResult, State, Viola, ViolaMsg, owner_of};
use crate::boundary::{ChangedNode, ChangesDelivered, PostError};
use crate::domain::config::Config;
use crate::domain::ids::NodeName;
use crate::domain::inventory::{Event, RecordKey};
use crate::domain::node::NodeConfig;
use crate::domain::outbox::{Accepted, Finished, Next};
use crate::domain::post::PostFailure;
use crate::domain::reason::Reason;
use crate::planted::{self, Bug};
use crate::supervision::{TaskPanicked, Ticket, now};
use crate::trace;

/// The receiver's adapter has a shorter deadline of its own (the settings allow no longer one): only a
/// defect reaches this one.
pub const POST_DEADLINE: Duration = Duration::from_secs(600);

impl Viola {
    /// Sends the next batch, if there is one and nothing stands against it.
    pub(super) fn pump(&self, state: &mut State) {
        state.wake.cancel();
        let is_paused = state.config.paused && !planted::is(Bug::PausedStillSends);
        let is_held_back = is_paused || state.awaits_round || state.ledger.holds_back_posts();
        if is_held_back || state.flight.is_some() {
            return;
        }
        loop {
            match state.outbox.next(now()) {
                Next::Idle => {
                    state.span = Span::none();
                    break state.node.set_phase("idle");
                }
                Next::Wait(moment) => {
                    let wait = moment.saturating_duration_since(now());
                    state.wake.arm(wait, &state.me, ViolaMsg::WakeDue);
                    // A retry is no part of the round any more, which would last as long as the outage.
                    state.span = Span::none();
                    break state.node.set_phase("waiting");
                }
                Next::Post { id, nodes } => {
                    let key = |node: &NodeName| RecordKey {
                        provider: state.config.provider.clone(),
                        node: node.clone(),
                    };
                    let keys: Vec<_> = nodes.iter().map(|node| key(&node.node_name)).collect();
                    let mut lost = self.claims.begin_post(&keys, &state.config.id.name);
                    if planted::is(Bug::ClaimNotChecked) {
                        lost.clear();
                    }
                    if lost.is_empty() && !self.announce(state, &nodes) {
                        self.depart(state, id, nodes);
                        break;
                    }
                    self.claims.end_post(&state.config.id.name);
                    // Taken over since the round: the next round tells why.
                    lost.iter().for_each(|node| state.outbox.forget(node));
                    state.outbox.abandon(id);
                    if state.ledger.holds_back_posts() {
                        break;
                    }
                }
            }
        }
    }

    /// Has kept that these nodes may get something else than their records say: a process that ends amid a POST
    /// hears no answer, and the next one must not take the records' word for it. Whether that is still to be kept.
    pub(super) fn announce(&self, state: &mut State, nodes: &[Arc<NodeConfig>]) -> bool {
        if planted::is(Bug::NoDoubt) {
            return false;
        }
        let provider = &state.config.provider;
        let persisted = self.inventory.snapshot();
        let is_new = |node: &&Arc<NodeConfig>| {
            let name = &node.node_name;
            let key = RecordKey { provider: provider.clone(), node: name.clone() };
            let recorded = persisted.records.get(&key).map(|record| &record.config);
            let known = recorded.into_iter().chain(state.outbox.delivered_at(name));
            !state.announced.contains(name) && known.into_iter().any(|has| !has.is_same(node))
        };
        let nodes: Vec<_> = nodes.iter().filter(is_new).map(|node| node.node_name.clone()).collect();
        if nodes.is_empty() {
            return false;
        }
        state.announced.extend(nodes.iter().cloned());
        let owner = owner_of(&state.config);
        self.remember(state, Event::Departing { owner, provider: provider.clone(), nodes }, true);
        true
    }

    pub(super) fn depart(&self, state: &mut State, id: u64, nodes: Vec<Arc<NodeConfig>>) {
        state.node.set_phase("posting");
        let (delivery, config) = (Arc::clone(&self.delivery), Arc::clone(&state.config));
        let count = nodes.len();
        let post = async move {
            let answer = tokio::time::timeout(POST_DEADLINE, delivery.post(config, nodes)).await;
            answer.unwrap_or_else(|_| Err(unknown_outcome("the POST did not end in time".to_owned())))
        };
        let span = trace::delivery(&state.config, count, &state.span);
        let answer: BoxFuture<'static, PostResult> = post.instrument(span).boxed();
        let answer = answer.shared();
        state.post.start(&state.me, answer.clone(), ViolaMsg::PostDone);
        state.flight = Some(Flight { id, config: Arc::clone(&state.config), former: None, answer });
    }

    pub(super) fn post_done(
        &self,
        state: &mut State,
        ticket: Ticket,
        result: Result<PostResult, TaskPanicked>,
    ) {
        if !state.post.accept(ticket) {
            return;
        }
        let Some(flight) = state.flight.take() else { return };
        self.claims.end_post(&state.config.id.name);
        self.retain_claims(&state.config);
        let answer = result
            .unwrap_or_else(|panicked| Err(unknown_outcome(format!("the POST failed inside: {panicked}"))));
        let finished = self.land(state, flight, answer);
        state.log_failure(&finished);
        state.node.set_last_error(finished.failure.clone());
        self.count_down_attempt(state, &finished);
        self.pump(state);
        self.look_soon(state);
        self.report(state);
    }

    /// Takes in the answer to a POST, and has remembered what was taken.
    pub(super) fn land(&self, state: &mut State, flight: Flight, answer: PostResult) -> Finished {
        let finished = match flight.former {
            Some(mut former) => former.finish(flight.id, answer, now()),
            None => state.outbox.finish(flight.id, answer, now()),
        };
        self.record_deliveries(state, &flight.config, &finished);
        // The answer may be for a VM that was taken out meanwhile.
        state.forget_pruned();
        finished
    }

    fn record_deliveries(&self, state: &mut State, config: &Arc<Config>, finished: &Finished) {
        if finished.accepted.is_empty() {
            return;
        }
        for accepted in &finished.accepted {
            state.announced.remove(&accepted.node.node_name);
        }
        state.changes += finished.accepted.iter().filter(|accepted| accepted.is_change).count() as u64;
        self.tell_changes(state, config, finished);
        let event = Event::Delivered {
            owner: owner_of(config),
            provider: config.provider.clone(),
            nodes: finished.accepted.iter().map(|accepted| Arc::clone(&accepted.node)).collect(),
            at: self.clock.now(),
        };
        self.remember(state, event, false);
    }
}

impl Viola {
    fn tell_changes(&self, state: &mut State, config: &Arc<Config>, finished: &Finished) {
        let changes: Vec<_> = finished.accepted.iter().filter(|accepted| accepted.is_change).collect();
        if changes.is_empty() {
            return;
        }
        let waits = changes.iter().flat_map(|change| state.waiting.delivered(&change.node, now())).collect();
        let node = |change: &&Accepted| ChangedNode {
            before: change.before.clone(),
            after: Arc::clone(&change.node),
        };
        self.witness.changes_delivered(&ChangesDelivered {
            config: Arc::clone(config),
            at: self.clock.now(),
            nodes: changes.iter().map(node).collect(),
            waits,
        });
    }
}

impl State {
    /// One line when a receiver begins to fail, or fails otherwise, and one when it takes nodes again.
    fn log_failure(&mut self, finished: &Finished) {
        let name = &self.config.id.name;
        match &finished.failure {
            Some(failure) if self.logged_failure.as_ref() != Some(failure) => {
                tracing::warn!(config = %name, reason = %Reason::ViolaPostError, "{name}: {failure}");
                self.logged_failure = Some(failure.clone());
            }
            None if !finished.accepted.is_empty() && self.logged_failure.take().is_some() => {
                tracing::info!(config = %name, "{name}: node configs are taken again");
            }
            Some(_) | None => {}
        }
    }
}

fn unknown_outcome(message: String) -> PostError {
    PostError { failure: PostFailure::UnknownOutcome, message, retry_after: None }
}
