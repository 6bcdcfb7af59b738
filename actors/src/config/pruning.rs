//! `removalPolicy: Prune`: what the config delivered to VMs that it does not have any more goes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ConfigActor, ConfigMsg, State};
use crate::boundary::Withdrawal;
use crate::domain::config::{Config, RemovalPolicy, WorkloadCluster};
use crate::domain::ids::VmId;
use crate::domain::inventory::Event;
use crate::domain::reason::SkipReason;
use crate::supervision::{TaskPanicked, TaskSlot, Ticket};
use crate::viola::ViolaMsg;

/// Node configs that are being taken out of the workload cluster.
#[derive(Default)]
pub(super) struct Withdrawing {
    task: TaskSlot,
    vms: BTreeSet<VmId>,
    problem: Option<String>,
}

impl ConfigActor {
    /// This round was the second look at a list that the VMs are not in. They may have moved to an object that
    /// is not known yet.
    pub(super) fn prune(&self, state: &mut State) {
        let config = Arc::clone(&state.config);
        let is_current = config.revision == state.round_config.revision;
        if config.removal_policy != RemovalPolicy::Prune || !is_current || !self.shared.claims.knows_all() {
            return;
        }
        let keep: BTreeSet<_> = config.vms.iter().cloned().collect();
        if let Some(cluster) = config.delivery.direct() {
            return self.withdraw(state, &config, cluster, &keep);
        }
        let snapshot = self.shared.inventory.snapshot();
        if snapshot.records.of_owner(&config.id.name).any(|record| !keep.contains(&record.instance_id)) {
            let event = Event::Pruned { name: config.id.name.clone(), keep };
            // Not kept, not lost: the next round sees the leftovers again.
            self.shared.inventory.record(event, Box::new(|_| {}));
        }
    }

    /// The node configs go first, and their records when it is known that they are gone.
    fn withdraw(
        &self,
        state: &mut State,
        config: &Config,
        cluster: &WorkloadCluster,
        listed: &BTreeSet<VmId>,
    ) {
        if state.withdrawing.task.is_running() || config.paused {
            return;
        }
        let name = &config.id.name;
        let stale = stale_vms(state);
        let snapshot = self.shared.inventory.snapshot();
        let own = snapshot.records.of_owner(name).filter(|record| record.provider_id == config.provider);
        let gone =
            own.filter(|record| !listed.contains(&record.instance_id) || stale.contains(&record.instance_id));
        let nodes: Vec<_> =
            gone.map(|record| (record.node_name.clone(), record.instance_id.clone())).collect();
        if nodes.is_empty() {
            return;
        }
        state.withdrawing.vms = nodes.iter().map(|(_, vm)| vm.clone()).collect();
        let order = Withdrawal { name: name.clone(), cluster: cluster.clone(), nodes };
        let workload = Arc::clone(&self.shared.workload);
        let work = async move { workload.withdraw(order).await };
        state.withdrawing.task.start(&state.me, work, ConfigMsg::Withdrawn);
    }

    /// What failed is seen again by the next round.
    pub(super) fn withdrawn(
        &self,
        state: &mut State,
        ticket: Ticket,
        result: Result<Result<(), String>, TaskPanicked>,
    ) {
        if !state.withdrawing.task.accept(ticket) {
            return;
        }
        let vms = std::mem::take(&mut state.withdrawing.vms);
        let result = result.unwrap_or_else(|panicked| Err(panicked.to_string()));
        let name = state.config.id.name.clone();
        match result {
            Ok(()) => {
                state.withdrawing.problem = None;
                tracing::info!(
                    "{name}: the node configs of {} VMs are taken out of the workload cluster",
                    vms.len()
                );
                // Viola forgets them after the inventory: it learns from there what nodes have.
                let (viola, forgotten) = (state.viola.actor().cloned(), vms.clone());
                let ack = Box::new(move |_| {
                    if let Some(viola) = viola {
                        let _ = viola.send_message(ViolaMsg::Withdrawn(forgotten));
                    }
                });
                self.shared.inventory.record(Event::Withdrawn { name, vms }, ack);
            }
            Err(problem) => {
                if state.withdrawing.problem.as_ref() != Some(&problem) {
                    tracing::warn!(
                        "{name}: node configs are not taken out of the workload cluster: {problem}"
                    );
                }
                state.withdrawing.problem = Some(problem);
            }
        }
    }
}

/// VMs whose last interface is gone, by two looks.
fn stale_vms(state: &State) -> BTreeSet<VmId> {
    let round = state.progress.round.iter();
    let skipped = round.flat_map(|round| &round.skipped);
    let is_stale = |(_, (reason, _)): &(&VmId, &(SkipReason, String))| *reason == SkipReason::StaleNode;
    skipped.filter(is_stale).map(|(vm, _)| vm.clone()).collect()
}
