//! One VM's ports, server and history → what its node should have.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;

use super::allocation::{Allocation, Claims, allocate};
use super::config::SelectionRules;
use super::ids::{Mac, NodeName, PortId, VmId};
use super::inventory::Held;
use super::node::{Interface, MTU_RANGE, NodeConfig};
use super::port::{ListedPort, PortVerdict, Server, TargetSubnet, Verdict};
use super::reason::SkipReason;
use super::selection::{self, Candidate, Selection, select};
use crate::planted::{self, Bug};

/// What a VM's actor remembers between rounds. A restart gets `held` back from the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmState {
    /// Indices that the VM's ports hold.
    pub held: Vec<Held>,
    /// Delivered ports that pass through BUILD, and since when.
    pub rewiring: BTreeMap<PortId, Instant>,
}

/// One look at one VM.
#[derive(Clone, Copy, Debug)]
pub struct VmInput<'a> {
    /// The VM.
    pub vm: &'a VmId,
    /// The config's rules.
    pub rules: &'a SelectionRules,
    /// Whether delivered indices must not be given away (any change policy but `Auto`).
    pub is_pinned: bool,
    /// The metadata key that holds the node name, if one is set.
    pub node_name_key: Option<&'a str>,
    /// The target subnets in order.
    pub subnets: &'a [TargetSubnet],
    /// The VM's ports.
    pub ports: &'a [ListedPort],
    /// What Nova says of it.
    pub server: &'a Server,
    /// What its node was delivered.
    pub delivered: Option<&'a NodeConfig>,
    /// All ports that the config's nodes were delivered.
    pub delivered_ports: &'a HashSet<PortId>,
    /// The monotonic clock.
    pub now: Instant,
}

/// What should become of a VM's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The VM.
    pub vm: VmId,
    /// Its node, when known and valid.
    pub node: Option<NodeName>,
    /// What to do.
    pub outcome: Outcome,
    /// Every port's verdict.
    pub verdicts: Vec<PortVerdict>,
    /// The indices to remember before anything that uses them is sent.
    pub held: Vec<Held>,
}

/// What to do for a VM's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node should have exactly this.
    Deliver {
        /// The interface list.
        node: Arc<NodeConfig>,
        /// Ports of it that are DOWN.
        down: BTreeSet<PortId>,
    },
    /// No port qualifies: nothing is sent.
    Empty,
    /// Something is wrong with it: nothing is sent, what was delivered stays.
    Skipped {
        /// Why.
        reason: SkipReason,
        /// In words, with what to do.
        message: String,
    },
}

impl Outcome {
    /// A skip with its message.
    pub fn skipped(reason: SkipReason, message: impl Into<String>) -> Self {
        Self::Skipped { reason, message: message.into() }
    }
}

impl Decision {
    /// A VM that could not be worked out in this round.
    pub fn undecided(vm: VmId, message: impl Into<String>) -> Self {
        let outcome = Outcome::skipped(SkipReason::NotDecided, message);
        Self { vm, node: None, outcome, verdicts: Vec::new(), held: Vec::new() }
    }
}

/// Decides one VM.
pub fn step(state: &VmState, input: VmInput<'_>) -> (VmState, Decision) {
    let macs: HashSet<Mac> =
        input.delivered.iter().flat_map(|node| &node.interfaces).map(|i| i.mac_address).collect();
    let mut selection = select(
        input.ports,
        selection::Context {
            rules: input.rules,
            subnets: input.subnets,
            delivered: input.delivered_ports,
            delivered_macs: &macs,
            held: &state.held,
            rewiring: &state.rewiring,
            now: input.now,
        },
    );
    let rewiring = std::mem::take(&mut selection.rewiring);
    let existing: Vec<_> = input.ports.iter().flatten().map(|port| (port.id.clone(), port.mac)).collect();
    let allocation = allocate(
        input.rules.order,
        std::mem::take(&mut selection.candidates),
        Claims {
            delivered: input.delivered,
            held: &state.held,
            existing: &existing,
            is_pinned: input.is_pinned,
        },
    );
    mark_allocation(&mut selection.verdicts, &allocation);
    let name = node_name(input);
    let node = name.as_ref().ok().cloned();
    let outcome = conclude(input, &selection, &allocation, name);
    // A VM that is skipped keeps what it holds: the ports it shows now may be a passing state.
    let held = match outcome {
        Outcome::Skipped { .. } => state.held.clone(),
        _ => allocation.held,
    };
    let decision =
        Decision { vm: input.vm.clone(), node, outcome, verdicts: selection.verdicts, held: held.clone() };
    (VmState { held, rewiring }, decision)
}

fn mark_allocation(verdicts: &mut [PortVerdict], allocation: &Allocation) {
    for verdict in verdicts.iter_mut().filter(|verdict| verdict.verdict == Verdict::Selected) {
        let index = allocation.assigned.iter().find(|(_, c)| c.port == verdict.port).map(|(index, _)| *index);
        match index {
            Some(index) => verdict.interface = Some(Interface::name_of(index)),
            None => {
                verdict.verdict = Verdict::OverLimit;
                verdict.detail = "the node has ten interfaces already".to_owned();
            }
        }
    }
}

type Skip = (SkipReason, String);

/// Metadata key (if set and not blank), then the server's name; the VM id only where there is no Nova.
fn node_name(input: VmInput<'_>) -> Result<NodeName, Skip> {
    let text = match input.server {
        Server::Found { name, metadata } => {
            let from_metadata = input.node_name_key.and_then(|key| metadata.get(key)).map(|text| text.trim());
            from_metadata.filter(|text| !text.is_empty()).unwrap_or(name)
        }
        Server::Node(name) => name,
        Server::NoComputeService => match input.delivered {
            Some(delivered) if delivered.node_name.as_str() != input.vm.as_str() => {
                let message =
                    format!("the catalog has no compute service now; it was {}", delivered.node_name);
                return Err((SkipReason::NodeNameUnknown, message));
            }
            _ => input.vm.as_str(),
        },
        Server::NotFound => {
            let message = format!("nova has no server {}: take it out of vmNames if it is gone", input.vm);
            return Err((SkipReason::ServerNotFound, message));
        }
        Server::Unknown(problem) => {
            return Err((SkipReason::NodeNameUnknown, format!("the server's name is not known: {problem}")));
        }
        Server::Pending => {
            return Err((SkipReason::NodePending, "its machine has no node yet".to_owned()));
        }
    };
    NodeName::new(text).map_err(|error| {
        let way_out =
            "name the server so, or set settings.openstackNodeNameMetadataKey and put the node's name there";
        (SkipReason::InvalidNodeName, format!("{error}: {way_out}"))
    })
}

fn conclude(
    input: VmInput<'_>,
    selection: &Selection,
    allocation: &Allocation,
    name: Result<NodeName, Skip>,
) -> Outcome {
    if let Some(problem) = &selection.problem {
        return Outcome::skipped(SkipReason::InvalidPort, problem.clone());
    }
    match name {
        // Only a node that would be sent needs a name that a node can have.
        Err((SkipReason::InvalidNodeName, _)) if allocation.assigned.is_empty() => Outcome::Empty,
        Err((reason, message)) => Outcome::skipped(reason, message),
        Ok(_) if allocation.assigned.is_empty() && !planted::is(Bug::EmptyListBelieved) => Outcome::Empty,
        Ok(name) => match interfaces(input, allocation) {
            Ok(interfaces) => Outcome::Deliver {
                node: Arc::new(NodeConfig { node_name: name, instance_id: input.vm.clone(), interfaces }),
                down: allocation.assigned.values().filter(|c| c.is_down).map(|c| c.port.clone()).collect(),
            },
            Err(problem) => Outcome::skipped(SkipReason::InvalidPort, problem),
        },
    }
}

fn interfaces(input: VmInput<'_>, allocation: &Allocation) -> Result<Vec<Interface>, String> {
    allocation.assigned.iter().map(|(index, candidate)| interface(input, *index, candidate)).collect()
}

/// All six fields, present and valid: the agent takes a bad one as an order to tear the NIC down.
fn interface(input: VmInput<'_>, index: u8, candidate: &Candidate) -> Result<Interface, String> {
    let port = &candidate.port;
    let subnet = input.subnets.get(candidate.subnet_rank).ok_or_else(|| format!("port {port}: no subnet"))?;
    let IpNet::V4(cidr) = subnet.cidr else {
        return Err(format!("port {port}: subnet {} has no IPv4 range", subnet.id));
    };
    if !cidr.contains(&candidate.address) {
        return Err(format!("port {port}: address {} is outside its subnet's {cidr}", candidate.address));
    }
    let mtu =
        u16::try_from(subnet.mtu).ok().filter(|_| MTU_RANGE.contains(&subnet.mtu)).ok_or_else(|| {
            let (low, high) = (MTU_RANGE.start(), MTU_RANGE.end());
            format!(
                "port {port}: network {} has MTU {}, usable are {low} to {high}",
                subnet.network, subnet.mtu
            )
        })?;
    Ok(Interface {
        id: index,
        name: Interface::name_of(index),
        mac_address: candidate.mac,
        address: candidate.address,
        cidr,
        mtu,
        port_id: Some(port.clone()),
        device_id: Some(input.vm.clone()),
        network_id: Some(subnet.network.clone()),
        subnet_id: Some(subnet.id.clone()),
    })
}

#[cfg(test)]
mod tests;
