//! What a new interface list does to a node that was delivered before, and what the change policy allows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::config::ChangePolicy;
use super::ids::Mac;
use super::node::{Interface, MAX_INTERFACES, NodeConfig};
use super::status::PendingChange;
use crate::planted::{self, Bug};

/// The difference between two interface lists of one VM. A NIC is known by its MAC, as to the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// NICs that were not there.
    pub added: Vec<Mac>,
    /// NICs that are gone.
    pub removed: Vec<Mac>,
    /// NICs that get another index, and so another name.
    pub renamed: Vec<Mac>,
    /// NICs whose address, cidr or mtu changes.
    pub readdressed: Vec<Mac>,
}

impl Change {
    /// Nothing but additions.
    pub fn is_only_additions(&self) -> bool {
        self.removed.is_empty() && self.renamed.is_empty() && self.readdressed.is_empty()
    }

    /// No difference at all.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.is_only_additions()
    }
}

fn by_mac(node: &NodeConfig) -> BTreeMap<Mac, &Interface> {
    node.interfaces.iter().map(|interface| (interface.mac_address, interface)).collect()
}

fn is_readdressed(before: &Interface, after: &Interface) -> bool {
    (before.address, before.cidr, before.mtu) != (after.address, after.cidr, after.mtu)
}

/// The agent knows a NIC by its name too.
fn is_renamed(before: &Interface, after: &Interface) -> bool {
    (before.id, &before.name) != (after.id, &after.name)
}

/// What `desired` changes on a node that has `delivered`.
pub fn diff(delivered: &NodeConfig, desired: &NodeConfig) -> Change {
    let (before, after) = (by_mac(delivered), by_mac(desired));
    let both = || before.iter().filter_map(|(mac, old)| after.get(mac).map(|new| (*mac, *old, *new)));
    Change {
        added: after.keys().filter(|mac| !before.contains_key(mac)).copied().collect(),
        removed: before.keys().filter(|mac| !after.contains_key(mac)).copied().collect(),
        renamed: both().filter(|(_, old, new)| is_renamed(old, new)).map(|(mac, ..)| mac).collect(),
        readdressed: both().filter(|(_, old, new)| is_readdressed(old, new)).map(|(mac, ..)| mac).collect(),
    }
}

/// What may be sent now, and what waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The list to deliver; `None`: nothing at all.
    pub send: Option<Arc<NodeConfig>>,
    /// What is held back.
    pub pending: Option<PendingChange>,
}

/// Applies the change policy to one node.
///
/// `delivered` is what this VM's node was sent before; a rebuilt VM is another machine and counts as new.
pub fn release(
    policy: ChangePolicy,
    delivered: Option<&NodeConfig>,
    desired: &Arc<NodeConfig>,
    approvals: &BTreeSet<String>,
) -> Release {
    let all = || Release { send: Some(Arc::clone(desired)), pending: None };
    let delivered = delivered.filter(|delivered| delivered.instance_id == desired.instance_id);
    let change_id = change_id(desired);
    let pending = |what: String| {
        Some(PendingChange { node: desired.node_name.clone(), change_id: change_id.clone(), what })
    };
    match (policy, delivered) {
        (ChangePolicy::Observe, None) => {
            let what = format!("deliver {} interfaces for the first time", desired.interfaces.len());
            Release { send: None, pending: pending(what) }
        }
        (ChangePolicy::Observe, Some(delivered)) if delivered.is_same(desired) => {
            Release { send: None, pending: None }
        }
        (ChangePolicy::Observe, Some(delivered)) => {
            Release { send: None, pending: pending(describe(delivered, desired)) }
        }
        (ChangePolicy::Auto, _) | (_, None) => all(),
        (ChangePolicy::AddOnly | ChangePolicy::Approve, Some(delivered)) => {
            let change = diff(delivered, desired);
            let is_approved = policy == ChangePolicy::Approve && approvals.contains(&change_id);
            if change.is_only_additions() || is_approved || planted::is(Bug::HeldChangeSent) {
                return all();
            }
            let what = describe(delivered, desired);
            // What the previous operator delivered may be invalid: the agent must not be given it once more.
            let merged = Some(with_additions(delivered, desired)).filter(NodeConfig::is_valid);
            Release { send: merged.map(Arc::new), pending: pending(what) }
        }
    }
}

/// Names the interface list a change leads to: who approves it gets exactly this list.
pub fn change_id(desired: &NodeConfig) -> String {
    desired.hash().as_str().chars().take(12).collect()
}

/// `delivered` as it is, and what is new in `desired` at its index, or the lowest free one; not what would
/// take an address that a kept interface has.
fn with_additions(delivered: &NodeConfig, desired: &NodeConfig) -> NodeConfig {
    let known: BTreeSet<Mac> = delivered.interfaces.iter().map(|i| i.mac_address).collect();
    let mut by_index: BTreeMap<u8, Interface> =
        delivered.interfaces.iter().map(|interface| (interface.id, interface.clone())).collect();
    let is_new = |interface: &&Interface| !known.contains(&interface.mac_address);
    for added in desired.interfaces.iter().filter(is_new) {
        // One address on two NICs breaks both: who takes over an address waits with the change it belongs to.
        if by_index.values().any(|kept| (kept.address, kept.cidr) == (added.address, added.cidr)) {
            continue;
        }
        let free = (0..MAX_INTERFACES as u8).find(|index| !by_index.contains_key(index));
        let wanted = Some(added.id).filter(|index| !by_index.contains_key(index));
        let Some(index) = wanted.or(free) else { continue };
        let interface = Interface { id: index, name: Interface::name_of(index), ..added.clone() };
        by_index.insert(index, interface);
    }
    NodeConfig {
        node_name: desired.node_name.clone(),
        instance_id: desired.instance_id.clone(),
        interfaces: by_index.into_values().collect(),
    }
}

/// The change in words, NIC by NIC, in a stable order.
pub fn describe(delivered: &NodeConfig, desired: &NodeConfig) -> String {
    let (before, after) = (by_mac(delivered), by_mac(desired));
    let macs: BTreeSet<&Mac> = before.keys().chain(after.keys()).collect();
    let mut parts: Vec<String> = Vec::new();
    if delivered.node_name != desired.node_name {
        parts.push(format!("move from node {} to {}", delivered.node_name, desired.node_name));
    }
    for mac in macs {
        match (before.get(mac), after.get(mac)) {
            (None, Some(new)) => parts.push(format!("add {mac} as {} ({})", new.name, new.address)),
            (Some(old), None) => parts.push(format!("remove {mac} ({}, {})", old.name, old.address)),
            (Some(old), Some(new)) => {
                if is_renamed(old, new) {
                    parts.push(format!("rename {mac} from {} to {}", old.name, new.name));
                }
                if is_readdressed(old, new) {
                    parts.push(format!("change {mac} from {} to {}", facts(old), facts(new)));
                }
            }
            (None, None) => {}
        }
    }
    parts.join("; ")
}

fn facts(interface: &Interface) -> String {
    format!("{} in {} mtu {}", interface.address, interface.cidr, interface.mtu)
}

#[cfg(test)]
mod tests;
