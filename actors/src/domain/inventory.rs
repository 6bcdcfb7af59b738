//! The inventory: what was delivered, and what must survive a restart.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::config::{RemovalPolicy, WorkloadCluster};
use super::ids::{ConfigId, ConfigName, Mac, NodeName, PortId, ProviderId, VmId};
use super::node::{ConfigHash, NodeConfig};
use super::records::Records;
use super::status::DownPortRetry;

/// Key of a record: node names are unique within one delivery target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    /// The delivery target.
    pub provider: ProviderId,
    /// The node.
    pub node: NodeName,
}

/// A delivered node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The delivery target.
    pub provider_id: ProviderId,
    /// The node.
    pub node_name: NodeName,
    /// The VM.
    pub instance_id: VmId,
    /// What was delivered.
    pub config: Arc<NodeConfig>,
    /// Its hash.
    pub last_config_hash: ConfigHash,
    /// When a change of it was last delivered.
    pub updated_at: Timestamp,
    /// Something else may have been sent to the node: a POST left, and no answer to it is kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
    /// Whose node it is; missing in the previous operator's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

impl Record {
    /// Its key.
    pub fn key(&self) -> RecordKey {
        RecordKey { provider: self.provider_id.clone(), node: self.node_name.clone() }
    }
}

/// Which config owns a node, with what decides between two: the older object wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The config.
    #[serde(flatten)]
    pub id: ConfigId,
    /// When the object was created.
    pub created: Timestamp,
}

/// An index that a port holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// 0…9.
    pub index: u8,
    /// The port; missing where only the MAC is known (records of the previous operator).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<PortId>,
    /// The port's MAC.
    pub mac: Mac,
}

/// What is kept per config, beside the records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigState {
    /// Which object.
    #[serde(flatten)]
    pub name: ConfigName,
    /// Which life of it this was last written for.
    pub uid: Arc<str>,
    /// Counts the changes of this config and of its records: of two copies the one with more is the newer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub revision: u64,
    /// When the object was first seen, where nothing else tells (configs from a folder).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<Timestamp>,
    /// What becomes of its records when the object goes, even while nobody is looking.
    #[serde(default)]
    pub removal_policy: RemovalPolicy,
    /// The workload cluster that its node configs went straight into, so that they can be taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<WorkloadCluster>,
    /// Index allocations per VM.
    #[serde(default)]
    pub allocations: BTreeMap<VmId, Vec<Held>>,
    /// The DOWN-port retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_port_retry: Option<DownPortRetry>,
}

/// Of a file that was written before changes were counted.
fn is_zero(revision: &u64) -> bool {
    *revision == 0
}

/// The whole inventory at one moment. Cheap to clone: the records are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Delivered nodes.
    pub records: Records,
    /// What is kept per config.
    pub configs: BTreeMap<ConfigName, Arc<ConfigState>>,
    /// What the store holds but nobody here can read: it travels along and is written back as it is.
    pub foreign: Arc<Foreign>,
}

impl Snapshot {
    /// The records of a VM at one delivery target.
    pub fn records_of<'a>(
        &'a self,
        vm: &VmId,
        provider: &'a ProviderId,
    ) -> impl Iterator<Item = &'a Arc<Record>> {
        self.records.of_vm(vm).filter(move |record| &record.provider_id == provider)
    }
}

/// Entries of an inventory that cannot be used as they are, for example a record of the previous
/// operator with a node name that no Kubernetes node can have. Never judged, never lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// Entries that stood among the records.
    pub records: Vec<serde_json::Value>,
    /// Entries that stood among the configs.
    pub configs: Vec<serde_json::Value>,
}

/// What each VM was delivered. A VM with two records (it was renamed under the previous operator) has the one
/// that was delivered last.
pub fn newest_of_vms<'a>(
    records: impl Iterator<Item = &'a Arc<Record>>,
) -> HashMap<&'a VmId, &'a Arc<NodeConfig>> {
    let mut newest: HashMap<&VmId, &Arc<Record>> = HashMap::new();
    for record in records {
        let known = newest.entry(&record.instance_id).or_insert(record);
        if known.updated_at < record.updated_at {
            *known = record;
        }
    }
    newest.into_iter().map(|(vm, record)| (vm, &record.config)).collect()
}

/// The ports that nodes were delivered.
pub fn ports_of<'a>(nodes: impl Iterator<Item = &'a Arc<NodeConfig>>) -> HashSet<PortId> {
    nodes.flat_map(|node| &node.interfaces).filter_map(|interface| interface.port_id.clone()).collect()
}

/// Something that happened and must be remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Indices were allocated, nodes claimed; comes before the first POST that uses them.
    Allocated {
        /// The config.
        owner: Owner,
        /// Its removal policy.
        removal_policy: RemovalPolicy,
        /// The workload cluster that node configs go straight into, if they do.
        cluster: Option<WorkloadCluster>,
        /// The allocations of the VMs that were looked at.
        allocations: BTreeMap<VmId, Vec<Held>>,
        /// Where it delivers.
        provider: ProviderId,
        /// Nodes that are the config's, for records that do not say so yet.
        nodes: Vec<NodeName>,
    },
    /// A POST leaves that brings these nodes something else than their records say.
    Departing {
        /// The config.
        owner: Owner,
        /// Where.
        provider: ProviderId,
        /// The nodes.
        nodes: Vec<NodeName>,
    },
    /// Nodes were taken by the receiver.
    Delivered {
        /// The config.
        owner: Owner,
        /// Where.
        provider: ProviderId,
        /// What they have now.
        nodes: Vec<Arc<NodeConfig>>,
        /// When.
        at: Timestamp,
    },
    /// The DOWN-port retry of a config.
    DownPorts {
        /// The config.
        owner: Owner,
        /// Its state; `None` when no port is DOWN.
        retry: Option<DownPortRetry>,
    },
    /// A config was seen for the first time.
    FirstSeen {
        /// The config.
        owner: Owner,
    },
    /// The config's records of VMs other than these go (`removalPolicy: Prune`).
    Pruned {
        /// The config.
        name: ConfigName,
        /// The VMs that stay.
        keep: BTreeSet<VmId>,
    },
    /// Node configs were taken out of the workload cluster: the config's records of these VMs go.
    Withdrawn {
        /// The config.
        name: ConfigName,
        /// The VMs.
        vms: BTreeSet<VmId>,
    },
    /// Another store has this of a config; it counts if it is newer than what is known.
    Restored {
        /// What is kept of the config.
        state: Arc<ConfigState>,
        /// Its records.
        records: Vec<Arc<Record>>,
    },
}

/// Applies one event. Equal content changes nothing, so that a re-send leaves `updated_at` as it is.
///
/// Returns whether anything changed.
pub fn apply(snapshot: &mut Snapshot, event: &Event) -> bool {
    match event {
        Event::Allocated { owner, removal_policy, cluster, allocations, provider, nodes } => {
            let mut changed = with_config(snapshot, owner, |state| {
                state.removal_policy = *removal_policy;
                state.cluster.clone_from(cluster);
                for (vm, held) in allocations {
                    state.allocations.insert(vm.clone(), held.clone());
                }
                state.allocations.retain(|_, held| !held.is_empty());
            });
            let mut displaced = Vec::new();
            let mut adopted = false;
            for node in nodes {
                adopted |= adopt(snapshot, provider, node, owner, &mut displaced);
            }
            count(snapshot, owner, adopted && !changed, &displaced);
            changed |= adopted;
            changed
        }
        Event::Departing { owner, provider, nodes } => {
            let mut changed = false;
            for node in nodes {
                changed |= doubt(snapshot, provider, node);
            }
            count(snapshot, owner, changed, &[]);
            changed
        }
        Event::Delivered { owner, provider, nodes, at } => {
            let mut displaced = Vec::new();
            let mut changed = false;
            for node in nodes {
                changed |= deliver(snapshot, owner, provider, node, *at, &mut displaced);
            }
            count(snapshot, owner, changed, &displaced);
            changed
        }
        Event::DownPorts { owner, retry } => {
            with_config(snapshot, owner, |state| state.down_port_retry.clone_from(retry))
        }
        Event::FirstSeen { owner } => with_config(snapshot, owner, |state| {
            state.first_seen.get_or_insert(owner.created);
        }),
        Event::Pruned { name, keep } => prune(snapshot, name, keep),
        Event::Withdrawn { name, vms } => withdraw(snapshot, name, vms),
        Event::Restored { state, records } => restore(snapshot, state, records),
    }
}

/// Counts a change of the config's records, and of those that lost one to it.
fn count(snapshot: &mut Snapshot, owner: &Owner, is_changed: bool, displaced: &[ConfigName]) {
    if is_changed {
        let name = &owner.id.name;
        let state = snapshot.configs.entry(name.clone()).or_insert_with(|| Arc::new(ConfigState::new(owner)));
        Arc::make_mut(state).revision += 1;
    }
    for name in displaced {
        if let Some(state) = snapshot.configs.get_mut(name) {
            Arc::make_mut(state).revision += 1;
        }
    }
}

fn with_config(snapshot: &mut Snapshot, owner: &Owner, edit: impl FnOnce(&mut ConfigState)) -> bool {
    let name = &owner.id.name;
    let before = snapshot.configs.get(name);
    let mut state = before.map_or_else(|| ConfigState::new(owner), |state| ConfigState::clone(state));
    state.uid = owner.id.uid.clone();
    edit(&mut state);
    if before.is_some_and(|before| **before == state) {
        return false;
    }
    state.revision += 1;
    snapshot.configs.insert(name.clone(), Arc::new(state));
    true
}

impl ConfigState {
    /// A config of which nothing is known yet.
    pub fn new(owner: &Owner) -> Self {
        Self {
            name: owner.id.name.clone(),
            uid: owner.id.uid.clone(),
            revision: 0,
            first_seen: None,
            removal_policy: RemovalPolicy::default(),
            cluster: None,
            allocations: BTreeMap::new(),
            down_port_retry: None,
        }
    }
}

/// Marks a record: what is wanted of the node next is sent, even if it is what the record says.
fn doubt(snapshot: &mut Snapshot, provider: &ProviderId, node: &NodeName) -> bool {
    let key = RecordKey { provider: provider.clone(), node: node.clone() };
    let Some(record) = snapshot.records.get(&key).filter(|record| !record.in_doubt) else {
        return false;
    };
    let doubted = Record { in_doubt: true, ..Record::clone(record) };
    snapshot.records.insert(key, Arc::new(doubted));
    true
}

fn adopt(
    snapshot: &mut Snapshot,
    provider: &ProviderId,
    node: &NodeName,
    owner: &Owner,
    displaced: &mut Vec<ConfigName>,
) -> bool {
    let key = RecordKey { provider: provider.clone(), node: node.clone() };
    let Some(record) = snapshot.records.get(&key).filter(|record| record.owner.as_ref() != Some(owner))
    else {
        return false;
    };
    displaced.extend(other_owner(record, owner));
    let adopted = Record { owner: Some(owner.clone()), ..Record::clone(record) };
    snapshot.records.insert(key, Arc::new(adopted));
    true
}

fn deliver(
    snapshot: &mut Snapshot,
    owner: &Owner,
    provider: &ProviderId,
    node: &Arc<NodeConfig>,
    at: Timestamp,
    displaced: &mut Vec<ConfigName>,
) -> bool {
    let key = RecordKey { provider: provider.clone(), node: node.node_name.clone() };
    if let Some(record) = snapshot.records.get(&key).filter(|record| record.config.is_same(node)) {
        let is_answered = record.in_doubt;
        if is_answered {
            let certain = Record { in_doubt: false, ..Record::clone(record) };
            snapshot.records.insert(key, Arc::new(certain));
        }
        return is_answered | adopt(snapshot, provider, &node.node_name, owner, displaced);
    }
    displaced.extend(snapshot.records.get(&key).and_then(|record| other_owner(record, owner)));
    // A VM that was renamed moves its record.
    let earlier: Vec<_> =
        snapshot.records_of(&node.instance_id, provider).map(|record| record.key()).collect();
    for other in earlier.iter().filter(|other| **other != key) {
        let removed = snapshot.records.remove(other);
        displaced.extend(removed.and_then(|record| other_owner(&record, owner)));
    }
    let record = Record {
        provider_id: provider.clone(),
        node_name: node.node_name.clone(),
        instance_id: node.instance_id.clone(),
        config: Arc::clone(node),
        last_config_hash: node.hash(),
        updated_at: at,
        in_doubt: false,
        owner: Some(owner.clone()),
    };
    snapshot.records.insert(key, Arc::new(record));
    true
}

fn other_owner(record: &Record, owner: &Owner) -> Option<ConfigName> {
    let before = record.owner.as_ref().map(|before| &before.id.name);
    before.filter(|name| **name != owner.id.name).cloned()
}

/// Takes over what another store has of a config, unless what is known is as new. A record of the node that
/// was delivered later (by the previous operator, or for another config) stays, and then decides alone.
fn restore(snapshot: &mut Snapshot, state: &Arc<ConfigState>, records: &[Arc<Record>]) -> bool {
    let name = &state.name;
    if snapshot.configs.get(name).is_some_and(|known| known.revision >= state.revision) {
        return false;
    }
    let mut state = Arc::clone(state);
    snapshot.records.remove_of_owner(name, |_| false);
    for record in records {
        let key = record.key();
        if snapshot.records.get(&key).is_some_and(|known| known.updated_at > record.updated_at) {
            Arc::make_mut(&mut state).allocations.remove(&record.instance_id);
        } else {
            snapshot.records.insert(key, Arc::clone(record));
        }
    }
    snapshot.configs.insert(name.clone(), state);
    true
}

fn prune(snapshot: &mut Snapshot, name: &ConfigName, keep: &BTreeSet<VmId>) -> bool {
    let before = (snapshot.records.len(), snapshot.configs.get(name).cloned());
    snapshot.records.remove_of_owner(name, |record| keep.contains(&record.instance_id));
    if keep.is_empty() {
        snapshot.configs.remove(name);
    } else if let Some(state) = snapshot.configs.get_mut(name) {
        let mut pruned = ConfigState::clone(state);
        pruned.allocations.retain(|vm, _| keep.contains(vm));
        if snapshot.records.len() != before.0 || pruned != **state {
            pruned.revision += 1;
            *state = Arc::new(pruned);
        }
    }
    before != (snapshot.records.len(), snapshot.configs.get(name).cloned())
}

fn withdraw(snapshot: &mut Snapshot, name: &ConfigName, vms: &BTreeSet<VmId>) -> bool {
    let before = snapshot.records.len();
    snapshot.records.remove_of_owner(name, |record| !vms.contains(&record.instance_id));
    let mut changed = snapshot.records.len() != before;
    if let Some(state) = snapshot.configs.get_mut(name) {
        changed |= vms.iter().any(|vm| state.allocations.contains_key(vm));
        if changed {
            let state = Arc::make_mut(state);
            state.allocations.retain(|vm, _| !vms.contains(vm));
            state.revision += 1;
        }
    }
    changed
}

#[cfg(test)]
mod tests;
