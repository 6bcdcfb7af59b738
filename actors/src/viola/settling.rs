//! Gathering a round's decisions and settling them together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Gathering, State, Viola, owner_of};
use crate::config::ConfigMsg;
use crate::domain::claims::Claimed;
use crate::domain::config::Config;
use crate::domain::ids::{NodeName, VmId};
use crate::domain::inventory::{Event, Owner, RecordKey};
use crate::domain::port::Verdict;
use crate::domain::progress::RoundReport;
use crate::domain::reason::SkipReason;
use crate::domain::settle::{self, Settled, settle};
use crate::domain::status::VmReport;
use crate::domain::vm::{Decision, Outcome};
use crate::planted::{self, Bug};
use crate::supervision::now;

impl Viola {
    pub(super) fn round(&self, state: &mut State, gathering: Gathering, config: Arc<Config>) {
        self.take_config(state, config);
        state.gathering = Some(gathering);
        self.settle_if_complete(state);
    }

    pub(super) fn settle_if_complete(&self, state: &mut State) {
        // A node that is another machine is to be known as such before anything is applied.
        let is_cluster_known = state.followed.as_ref().is_none_or(|followed| followed.is_known());
        if is_cluster_known && state.gathering.as_ref().is_some_and(|gathering| gathering.missing.is_empty())
        {
            self.settle(state);
        }
    }

    pub(super) fn decided(&self, state: &mut State, round: u64, decision: Decision) {
        let Some(gathering) = &mut state.gathering else {
            return;
        };
        // A late decision of an earlier round, or a second one for the same VM.
        if gathering.round != round || !gathering.missing.remove(&decision.vm) {
            return;
        }
        state.decisions.insert(decision.vm.clone(), decision);
        self.settle_if_complete(state);
    }

    /// All decisions are in: settle who gets what, remember allocations, tell the config, send.
    pub(super) fn settle(&self, state: &mut State) {
        let Some(gathering) = state.gathering.take() else {
            return;
        };
        state.awaits_round = false;
        state.span = gathering.span;
        self.learn(state);
        let config = Arc::clone(&state.config);
        let owner = owner_of(&config);
        let (mut lost, mut nodes) = (Vec::new(), BTreeMap::new());
        let mut claim = |node: &NodeName, vm: &VmId| {
            let key = RecordKey { provider: config.provider.clone(), node: node.clone() };
            let claimed = self.claims.claim(&key, &owner, vm);
            if !matches!(claimed, Claimed::Refused(_)) {
                nodes.insert(vm.clone(), node.clone());
            }
            match claimed {
                Claimed::Granted => Ok(()),
                Claimed::TakenOver(loser) => {
                    tracing::warn!("{}: node {node} taken over from the younger {loser}", config.id.name);
                    Ok(())
                }
                Claimed::Refused(_) if planted::is(Bug::ClaimNotChecked) => Ok(()),
                Claimed::Refused(other) => {
                    lost.push(node.clone());
                    Err(other.to_string())
                }
            }
        };
        let machines = state.machines();
        let settled = settle(
            &state.decisions,
            settle::Context {
                policy: config.change_policy,
                approvals: &config.approvals,
                history: &state.outbox,
                empty_before: &state.empty_before,
                machines: machines.as_deref(),
                claim: &mut claim,
            },
        );
        self.claims.retain_nodes(&config.id.name, &nodes);
        lost.iter().for_each(|node| state.outbox.forget(node));
        let is_changed = self.is_changed(state, &settled);
        let came_up = came_up(&state.settled, &settled);
        state.outbox.want(&settled.wanted);
        if config.delivery.direct().is_none() {
            came_up.iter().for_each(|node| state.outbox.resend(node));
        }
        state.settled = settled;
        state.note_waiting();
        state.note_empty();
        self.remember_allocations(state, &owner);
        if !state.config.paused {
            // With the allocations, in one write.
            let changes: Vec<_> = state.outbox.changes().cloned().collect();
            self.announce(state, &changes);
        }
        self.observe_down_ports(state);
        // What is outstanding is told before what the round came to: it is not done before it is delivered.
        self.report(state);
        let report = state.round_report(gathering.round, is_changed);
        let _ = state.owner.send_message(ConfigMsg::RoundDone(Box::new(report)));
        self.pump(state);
        self.look_soon(state);
        self.report(state);
    }

    /// Fills in what the inventory knows of the nodes and VMs at hand.
    pub(super) fn learn(&self, state: &mut State) {
        let (name, provider) = (&state.config.id.name, &state.config.provider);
        let applied = self.inventory.applied();
        let at_node = |node: &NodeName| {
            applied.records.get(&RecordKey { provider: provider.clone(), node: node.clone() })
        };
        let of_vms = state.decisions.keys().flat_map(|vm| applied.records_of(vm, provider));
        let at_nodes = state.decisions.values().filter_map(|decision| at_node(decision.node.as_ref()?));
        for record in of_vms.chain(at_nodes) {
            let delivered = Arc::clone(&record.config);
            match &record.owner {
                Some(owner) if &owner.id.name != name => {
                    state.outbox.learn_foreign(delivered, record.in_doubt);
                }
                _ => state.outbox.learn(delivered, record.in_doubt),
            }
        }
    }

    /// Whether this look wants something else than the one before, or shows a node's last port gone.
    pub(super) fn is_changed(&self, state: &State, settled: &Settled) -> bool {
        let differs = settled.wanted.iter().any(|(name, wanted)| {
            let before = state.settled.wanted.get(name).map(|before| &before.node);
            let has = before.or_else(|| state.outbox.delivered_at(name));
            !has.is_some_and(|has| has.is_same(&wanted.node))
        });
        let is_newly_empty = |(vm, decision): (&VmId, &Decision)| {
            matches!(decision.outcome, Outcome::Empty)
                && !state.empty_before.contains(vm)
                && state.outbox.delivered_to(vm).is_some()
        };
        differs || state.decisions.iter().any(is_newly_empty)
    }

    /// Allocations and ownership are stored before the first POST that relies on them.
    pub(super) fn remember_allocations(&self, state: &mut State, owner: &Owner) {
        let config = &state.config;
        // What readers see is persisted. What is only applied may be of a predecessor that died waiting for
        // the store, and holds back this one's POSTs too.
        let persisted = self.inventory.snapshot();
        let kept = persisted.configs.get(&config.id.name);
        let known = kept.map(|kept| &kept.allocations);
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
            persisted.records.get(&key).is_some_and(|record| record.owner.as_ref() != Some(owner))
        };
        let nodes: Vec<_> = state.settled.desired.keys().filter(is_foreign).cloned().collect();
        let cluster = config.delivery.direct();
        let is_same_policy = kept.is_some_and(|kept| {
            kept.removal_policy == config.removal_policy
                && kept.uid == config.id.uid
                && kept.cluster.as_ref() == cluster
        });
        if allocations.is_empty() && nodes.is_empty() && is_same_policy {
            return;
        }
        let event = Event::Allocated {
            owner: owner.clone(),
            removal_policy: config.removal_policy,
            cluster: cluster.cloned(),
            allocations,
            provider: config.provider.clone(),
            nodes,
        };
        self.remember(state, event, true);
    }
}

impl State {
    pub(super) fn note_empty(&mut self) {
        let empty = self.decisions.iter().filter(|(_, decision)| matches!(decision.outcome, Outcome::Empty));
        self.empty_before = empty.map(|(vm, _)| vm.clone()).collect();
    }

    /// Ports that should be delivered and are not. Those of a change that is held back wait for a person.
    fn note_waiting(&mut self) {
        let is_held = |vm: &VmId| {
            let skipped = self.settled.skipped.get(vm);
            skipped.is_some_and(|(reason, _)| *reason == SkipReason::ChangeHeld)
        };
        let decisions = self.decisions.iter().filter(|(vm, _)| !is_held(vm));
        let undelivered = decisions.flat_map(|(vm, decision)| {
            let interfaces = self.outbox.delivered_to(vm).into_iter().flat_map(|node| &node.interfaces);
            let delivered: BTreeSet<_> =
                interfaces.filter_map(|interface| interface.port_id.as_ref()).collect();
            decision
                .verdicts
                .iter()
                .filter(move |port| port.verdict == Verdict::Selected && !delivered.contains(&port.port))
        });
        self.waiting.keep(undelivered.map(|port| port.port.clone()), now());
    }

    pub(super) fn round_report(&self, round: u64, is_changed: bool) -> RoundReport {
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
            down_ports: self.decisions.values().map(down_ports).sum(),
            skipped: self.settled.skipped.clone(),
            pending: self.settled.pending.clone(),
            vms: self.decisions.iter().map(vm_report).collect(),
        }
    }
}

fn down_ports(decision: &Decision) -> u32 {
    match &decision.outcome {
        Outcome::Deliver { down, .. } => down.len() as u32,
        Outcome::Empty | Outcome::Skipped { .. } => 0,
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
