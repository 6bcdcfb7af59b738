//! Objects that are gone: their nodes are free, and their records go if they said so. And objects that are
//! somebody else's: their nodes are too, and nothing of them goes.

use std::collections::BTreeSet;

use super::{PRUNE_DELAY, RootMsg, State};
use crate::domain::config::RemovalPolicy;
use crate::domain::ids::{ConfigId, ConfigName};
use crate::domain::inventory::Event;
use crate::supervision::Ticket;

impl State {
    /// Every object is known and so is what was delivered: nodes of objects that are gone are free.
    pub(super) fn forget_absent(&mut self) {
        if !self.is_loaded || !self.is_synced {
            return;
        }
        self.spreads_first_polls = false;
        if !self.knows_all {
            return;
        }
        self.shared.claims.retain_configs(&self.declared.keys().cloned().collect());
        let snapshot = self.shared.inventory.snapshot();
        for (name, state) in &snapshot.configs {
            if state.removal_policy == RemovalPolicy::Prune && !self.declared.contains_key(name) {
                self.doom(name.clone());
            }
        }
    }

    /// Ends the work on an object that is somebody else's now. Its nodes are not free for others here.
    pub(super) fn let_go(&mut self, id: &ConfigId) {
        if self.declared.get(&id.name).is_some_and(|declared| declared.id() == id) {
            tracing::info!("{}: let go: it is not selected here any more", id.name);
            self.declared.remove(&id.name);
            self.elsewhere.insert(id.name.clone());
            self.end(&id.name);
            self.forget_status(id);
        }
    }

    pub(super) fn doom(&mut self, name: ConfigName) {
        self.doomed.insert(name);
        self.prune.arm(PRUNE_DELAY, &self.me, RootMsg::PruneDue);
    }

    /// Who has not come back is really gone.
    pub(super) fn prune_due(&mut self, ticket: Ticket) {
        if !self.prune.accept(ticket) || !self.is_synced {
            return;
        }
        for name in std::mem::take(&mut self.doomed) {
            if !self.declared.contains_key(&name) {
                tracing::info!("{name}: the object is gone, its records are pruned");
                let event = Event::Pruned { name, keep: BTreeSet::new() };
                // Not kept means: seen again at the next start.
                self.shared.inventory.record(event, Box::new(|_| {}));
            }
        }
    }
}
