//! Handing events to the inventory until it acknowledges them.

use super::{LEDGER_RETRY, State, Viola, ViolaMsg};
use crate::domain::inventory::Event;
use crate::inventory::Kept;

impl Viola {
    /// Hands an event to the inventory and keeps it until it is acknowledged.
    pub(super) fn remember(&self, state: &mut State, event: Event, holds_back_posts: bool) {
        state.ledger.add(event, holds_back_posts);
        self.send_ledger(state);
    }

    /// Sends everything that is not acknowledged, oldest first: an event that was lost must not arrive
    /// after one that replaced it.
    pub(super) fn send_ledger(&self, state: &mut State) {
        for (number, event) in state.ledger.open() {
            let me = state.me.clone();
            let ack = Box::new(move |kept| {
                let _ = me.send_message(ViolaMsg::Kept(number, kept));
            });
            self.inventory.record(event.clone(), ack);
        }
        if !state.ledger.is_empty() {
            state.ledger_timer.arm(LEDGER_RETRY, &state.me, ViolaMsg::LedgerDue);
        }
    }

    pub(super) fn kept(&self, state: &mut State, number: u64, kept: Kept) {
        state.ledger.settle(number, kept);
        if state.ledger.is_empty() {
            state.ledger_timer.cancel();
        }
        self.pump(state);
        self.report(state);
    }
}
