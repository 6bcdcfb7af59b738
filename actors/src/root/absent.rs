//! Objects that are gone: their nodes are free, and their records go if they said so. And objects that are
//! somebody else's: their nodes are too, and nothing of them goes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{PRUNE_DELAY, RootMsg, State};
use crate::boundary::Withdrawal;
use crate::domain::config::RemovalPolicy;
use crate::domain::ids::{ConfigId, ConfigName};
use crate::domain::inventory::Event;
use crate::supervision::{TaskPanicked, TaskSlot, Ticket};

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
            if self.declared.contains_key(&name) || self.withdrawing.contains_key(&name) {
                continue;
            }
            match self.order(&name) {
                Some(order) => self.withdraw(order),
                None => self.prune_records(name),
            }
        }
    }

    fn prune_records(&self, name: ConfigName) {
        tracing::info!("{name}: the object is gone, its records are pruned");
        let event = Event::Pruned { name, keep: BTreeSet::new() };
        // Not kept means: seen again at the next start.
        self.shared.inventory.record(event, Box::new(|_| {}));
    }

    /// What the object left in a workload cluster that it delivered straight into.
    fn order(&self, name: &ConfigName) -> Option<Withdrawal> {
        let cluster = self.shared.inventory.config_state(name)?.cluster.clone()?;
        let snapshot = self.shared.inventory.snapshot();
        let own = snapshot.records.of_owner(name);
        let nodes: Vec<_> =
            own.map(|record| (record.node_name.clone(), record.instance_id.clone())).collect();
        (!nodes.is_empty()).then(|| Withdrawal { name: name.clone(), cluster, nodes })
    }

    /// The records go when it is known that the node configs are gone.
    fn withdraw(&mut self, order: Withdrawal) {
        let (name, workload) = (order.name.clone(), Arc::clone(&self.shared.workload));
        let mut task = TaskSlot::new();
        let done = {
            let name = name.clone();
            move |ticket, result: Result<Result<(), String>, TaskPanicked>| {
                let result = result.unwrap_or_else(|panicked| Err(panicked.to_string()));
                RootMsg::Withdrawn(ticket, name, result)
            }
        };
        task.start(&self.me, async move { workload.withdraw(order).await }, done);
        self.withdrawing.insert(name, task);
    }

    pub(super) fn withdrawn(&mut self, ticket: Ticket, name: ConfigName, result: Result<(), String>) {
        if !self.withdrawing.get_mut(&name).is_some_and(|task| task.accept(ticket)) {
            return;
        }
        self.withdrawing.remove(&name);
        if self.declared.contains_key(&name) {
            // It is back, and puts back what is missing.
            return;
        }
        match result {
            Ok(()) => self.prune_records(name),
            Err(problem) => {
                tracing::warn!(
                    "{name}: the object is gone and its node configs are not yet: {problem}; tried again in \
                     {PRUNE_DELAY:?}"
                );
                self.doom(name);
            }
        }
    }
}
