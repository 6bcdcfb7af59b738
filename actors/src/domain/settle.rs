//! All VMs of a config together: who gets which node, what may be sent, and who is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::{Release, release};
use super::config::ChangePolicy;
use super::ids::{NodeName, PortId, VmId};
use super::machines::Machines;
use super::node::NodeConfig;
use super::port::Verdict;
use super::reason::SkipReason;
use super::status::PendingChange;
use super::vm::{Decision, Outcome};

/// What was delivered before, as far as it concerns this config.
pub trait History {
    /// What the node was sent.
    fn at_node(&self, node: &NodeName) -> Option<Arc<NodeConfig>>;
    /// What the VM was sent, under whichever node name.
    fn of_vm(&self, vm: &VmId) -> Option<Arc<NodeConfig>>;
}

/// A node that should have exactly this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its VM.
    pub vm: VmId,
    /// The interface list to send.
    pub node: Arc<NodeConfig>,
    /// Ports of it that are DOWN.
    pub down: BTreeSet<PortId>,
}

/// The outcome for a whole config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// What each node should have.
    pub wanted: BTreeMap<NodeName, Wanted>,
    /// Who is left out, and why.
    pub skipped: BTreeMap<VmId, (SkipReason, String)>,
    /// What the change policy holds back.
    pub pending: Vec<PendingChange>,
    /// The interface lists as the cloud has them, before the change policy.
    pub desired: BTreeMap<NodeName, Arc<NodeConfig>>,
    /// VMs with at least one selected port.
    pub desired_vms: u32,
}

/// What settling needs to know beside the decisions.
pub struct Context<'a> {
    /// The config's change policy.
    pub policy: ChangePolicy,
    /// The approved change ids.
    pub approvals: &'a BTreeSet<String>,
    /// What was delivered.
    pub history: &'a dyn History,
    /// VMs that had no interfaces in the look before this one too.
    pub empty_before: &'a BTreeSet<VmId>,
    /// The workload cluster's nodes, where they are known.
    pub machines: Option<&'a Machines>,
    /// Asks for a node; the other config's name when it is refused.
    pub claim: &'a mut dyn FnMut(&NodeName, &VmId) -> Result<(), String>,
}

/// A VM that resolves to a node, with the list it should get and its DOWN ports.
type Contender<'a> = (&'a VmId, &'a Arc<NodeConfig>, &'a BTreeSet<PortId>);

/// Settles the newest decision of every VM of the config.
pub fn settle(decisions: &BTreeMap<VmId, Decision>, context: Context<'_>) -> Settled {
    let mut settled = Settled {
        desired_vms: decisions.values().filter(|d| has_selected(d)).count() as u32,
        ..Settled::default()
    };
    let mut by_node: BTreeMap<NodeName, Vec<Contender<'_>>> = BTreeMap::new();
    for (vm, decision) in decisions {
        match &decision.outcome {
            Outcome::Deliver { node, down } => {
                by_node.entry(node.node_name.clone()).or_default().push((vm, node, down));
            }
            Outcome::Skipped { reason, message } => {
                settled.skipped.insert(vm.clone(), (*reason, message.clone()));
            }
            Outcome::Empty => note_if_stale(vm, &context, &mut settled),
        }
    }
    for (name, group) in by_node {
        let keeper = keeper(&name, &group, decisions, context.history);
        for (vm, node, down) in group {
            match &keeper {
                Ok(winner) if *winner == vm => {}
                Ok(other) => {
                    let message = format!("node {name} is VM {other}'s");
                    settled.skipped.insert(vm.clone(), (SkipReason::NodeConflict, message));
                    continue;
                }
                Err(message) => {
                    settled.skipped.insert(vm.clone(), (SkipReason::NodeConflict, message.clone()));
                    continue;
                }
            }
            // Before the claim: a node that is not the VM's is to be left to whose it is.
            if let Some(message) = context.machines.and_then(|machines| machines.mismatch(&name, vm)) {
                settled.skipped.insert(vm.clone(), (SkipReason::NodeMismatch, message));
                continue;
            }
            if let Err(other) = (context.claim)(&name, vm) {
                let message = format!("node {name} belongs to {other}");
                settled.skipped.insert(vm.clone(), (SkipReason::NodeConflict, message));
                continue;
            }
            settle_node(vm, node, down, &context, &mut settled);
        }
    }
    settled
}

fn has_selected(decision: &Decision) -> bool {
    decision.verdicts.iter().any(|port| port.verdict == Verdict::Selected)
}

/// A delivered node whose last interface is gone is believed at the second look.
fn note_if_stale(vm: &VmId, context: &Context<'_>, settled: &mut Settled) {
    if !context.empty_before.contains(vm) {
        return;
    }
    if let Some(delivered) = context.history.of_vm(vm) {
        let message = format!(
            "node {} was delivered {} interfaces and has none now; its delivered config stays",
            delivered.node_name,
            delivered.interfaces.len()
        );
        settled.skipped.insert(vm.clone(), (SkipReason::StaleNode, message));
    }
}

/// Which VM of a group keeps the node; an error when none may have it.
fn keeper<'a>(
    name: &NodeName,
    group: &[Contender<'a>],
    decisions: &'a BTreeMap<VmId, Decision>,
    history: &dyn History,
) -> Result<&'a VmId, String> {
    let holder = history.at_node(name).map(|delivered| delivered.instance_id.clone());
    let holder = holder.and_then(|holder| decisions.get_key_value(&holder));
    if let Some((holder, decision)) = holder {
        let has_moved = matches!(&decision.outcome, Outcome::Deliver { node, .. } if &node.node_name != name);
        if !has_moved {
            return Ok(holder);
        }
    }
    match group {
        [(only, ..)] => Ok(only),
        _ => {
            let vms: Vec<_> = group.iter().map(|(vm, ..)| vm.to_string()).collect();
            Err(format!("VMs {} are all named {name}: give each its own name", vms.join(", ")))
        }
    }
}

fn settle_node(
    vm: &VmId,
    node: &Arc<NodeConfig>,
    down: &BTreeSet<PortId>,
    context: &Context<'_>,
    settled: &mut Settled,
) {
    let name = &node.node_name;
    let delivered = context.history.of_vm(vm);
    let Release { send, pending } = release(context.policy, delivered.as_deref(), node, context.approvals);
    settled.desired.insert(name.clone(), Arc::clone(node));
    if let Some(pending) = pending {
        let message = format!("change {} waits: {}", pending.change_id, pending.what);
        settled.skipped.insert(vm.clone(), (SkipReason::ChangeHeld, message));
        settled.pending.push(pending);
    }
    if let Some(send) = send {
        let sent: BTreeSet<_> = send.interfaces.iter().filter_map(|i| i.port_id.as_ref()).collect();
        let down = down.iter().filter(|port| sent.contains(port)).cloned().collect();
        settled.wanted.insert(name.clone(), Wanted { vm: vm.clone(), node: send, down });
    }
}

#[cfg(test)]
mod tests;
