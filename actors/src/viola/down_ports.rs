//! The DOWN-port retry: nodes with DOWN ports are sent again until none is DOWN.

use std::collections::BTreeSet;

use super::{State, Viola, ViolaMsg, owner_of};
use crate::domain::down_port;
use crate::domain::ids::NodeName;
use crate::domain::inventory::Event;
use crate::domain::outbox::Finished;
use crate::supervision::Ticket;

impl Viola {
    pub(super) fn observe_down_ports(&self, state: &mut State) {
        let mut down: BTreeSet<_> =
            state.settled.wanted.values().flat_map(|wanted| wanted.down.clone()).collect();
        if state.config.delivery.direct().is_some() {
            // What stands in the cluster is known: there is nothing to repeat.
            down.clear();
        }
        let kept = state.down_retry.as_ref().filter(|_| std::mem::take(&mut state.had_down_ports));
        if kept.is_some_and(|kept| kept.hash != down_port::hash_of(&down)) {
            // Some came up while nobody looked: which they were is not known, so all are sent once more.
            state.outbox.resend_all();
        }
        let has_down = |name: &NodeName| state.settled.wanted.get(name).is_some_and(|w| !w.down.is_empty());
        state.down_sent.retain(has_down);
        let before = state.down_retry.take();
        state.down_retry = down_port::observe(before.clone(), &down, self.clock.now());
        if state.down_retry != before {
            self.remember_down_ports(state);
            state.down_timer.cancel();
        }
        self.arm_down(state);
    }

    pub(super) fn remember_down_ports(&self, state: &mut State) {
        let event = Event::DownPorts { owner: owner_of(&state.config), retry: state.down_retry.clone() };
        self.remember(state, event, false);
    }

    /// Arms the timer of the next re-send, or leaves it if it fires before.
    pub(super) fn arm_down(&self, state: &mut State) {
        match &state.down_retry {
            // A re-send under way is followed by its answer, not by the timer.
            Some(retry) if state.down_sent.is_empty() => {
                let wait = down_port::due_in(retry, state.down_rule(), self.clock.now());
                // Looks come more often than re-sends: a wall clock that was put back must not let each of
                // them put the re-send off.
                let due = tokio::time::Instant::now() + wait;
                if state.down_timer.due().is_none_or(|armed| due < armed) {
                    state.down_timer.arm(wait, &state.me, ViolaMsg::DownDue);
                }
            }
            Some(_) => {}
            None => state.down_timer.cancel(),
        }
    }

    pub(super) fn down_due(&self, state: &mut State, ticket: Ticket) {
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
        // What is under way already is the re-send.
        let asked: Vec<_> = nodes.iter().filter(|node| !state.outbox.is_under_way(node)).collect();
        asked.into_iter().for_each(|node| state.outbox.resend(node));
        state.down_sent = nodes;
        self.pump(state);
    }

    /// A node with a DOWN port was delivered by itself just now: the re-send follows an interval later.
    fn wait_after_a_delivery(&self, state: &mut State, finished: &Finished) {
        let has_down = |node: &NodeName| state.settled.wanted.get(node).is_some_and(|w| !w.down.is_empty());
        if !finished.accepted.iter().any(|accepted| has_down(&accepted.node.node_name)) {
            return;
        }
        if let Some(retry) = &mut state.down_retry {
            retry.last_attempt = Some(self.clock.now());
            state.down_timer.cancel();
            self.arm_down(state);
        }
    }

    /// A re-send counts once all its nodes were answered; a failed POST counts no attempt.
    pub(super) fn count_down_attempt(&self, state: &mut State, finished: &Finished) {
        if state.down_sent.is_empty() {
            self.wait_after_a_delivery(state, finished);
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
}

impl State {
    pub(super) fn down_rule(&self) -> down_port::Rule {
        let polling = &self.config.polling;
        down_port::Rule {
            fast: polling.fast,
            slow: polling.slow,
            fast_retry_max: self.config.down_port_fast_retry_max,
        }
    }
}
