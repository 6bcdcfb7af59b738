//! Which config owns which node: two configs never fight over one.
//!
//! Per delivery target the older object wins, then namespace/name; the answer depends on who is older,
//! never on who polled first. While a POST for a node is under way nobody can take the node over.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::ids::{ConfigName, NodeName, ProviderId, VmId};
use super::inventory::{Owner, RecordKey, Snapshot};

/// Who owns which node.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    nodes: HashMap<RecordKey, Claim>,
}

#[derive(Clone, Debug)]
struct Claim {
    owner: Owner,
    vm: VmId,
    is_posting: bool,
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The node is the config's now.
    Granted,
    /// The node was another config's, which is younger and loses it.
    TakenOver(ConfigName),
    /// The node stays with this config.
    Refused(ConfigName),
}

impl Claims {
    /// The owners as the inventory knows them. Records without an owner belong to nobody yet.
    pub fn from_snapshot(snapshot: &Snapshot) -> Self {
        let owned = snapshot.records.iter().filter_map(|(key, record)| {
            let owner = record.owner.clone()?;
            Some((key.clone(), Claim { owner, vm: record.instance_id.clone(), is_posting: false }))
        });
        Self { nodes: owned.collect() }
    }

    /// How many nodes are claimed.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Asks for a node.
    pub fn claim(&mut self, key: &RecordKey, owner: &Owner, vm: &VmId) -> Claimed {
        let Some(held) = self.nodes.get_mut(key) else {
            self.nodes.insert(key.clone(), Claim { owner: owner.clone(), vm: vm.clone(), is_posting: false });
            return Claimed::Granted;
        };
        let loser = held.owner.id.name.clone();
        if loser == owner.id.name {
            held.owner = owner.clone();
            held.vm = vm.clone();
            return Claimed::Granted;
        }
        if held.is_posting || seniority(&held.owner) < seniority(owner) {
            return Claimed::Refused(loser);
        }
        held.owner = owner.clone();
        held.vm = vm.clone();
        Claimed::TakenOver(loser)
    }

    /// Whether the node is (still) the config's.
    pub fn is_owner(&self, key: &RecordKey, name: &ConfigName) -> bool {
        self.nodes.get(key).is_some_and(|claim| &claim.owner.id.name == name)
    }

    /// Marks the nodes as being POSTed by their owner; gives back those that are not the config's any more.
    pub fn begin_post(&mut self, keys: &[RecordKey], name: &ConfigName) -> Vec<NodeName> {
        let mut lost = Vec::new();
        for key in keys {
            match self.nodes.get_mut(key) {
                Some(claim) if &claim.owner.id.name == name => claim.is_posting = true,
                _ => lost.push(key.node.clone()),
            }
        }
        lost
    }

    /// The config's POST, if any, is over. Gives back whose POST it was.
    pub fn end_post(&mut self, name: &ConfigName) -> Vec<RecordKey> {
        let mut posted = Vec::new();
        for (key, claim) in self.nodes.iter_mut().filter(|(_, claim)| &claim.owner.id.name == name) {
            if std::mem::take(&mut claim.is_posting) {
                posted.push(key.clone());
            }
        }
        posted
    }

    /// The object is gone: its nodes are free.
    pub fn release(&mut self, name: &ConfigName) {
        self.nodes.retain(|_, claim| &claim.owner.id.name != name);
    }

    /// The object lists these VMs now, and delivers there: its claims for others are free, but for a POST
    /// under way.
    pub fn retain_vms(&mut self, name: &ConfigName, provider: &ProviderId, vms: &BTreeSet<VmId>) {
        self.nodes.retain(|key, claim| {
            let is_listed = &key.provider == provider && vms.contains(&claim.vm);
            &claim.owner.id.name != name || is_listed || claim.is_posting
        });
    }

    /// The config's VMs have these nodes now: its claims on their former nodes are free (they were renamed).
    pub fn retain_nodes(&mut self, name: &ConfigName, nodes: &BTreeMap<VmId, NodeName>) {
        self.nodes.retain(|key, claim| {
            let is_former = nodes.get(&claim.vm).is_some_and(|node| node != &key.node);
            &claim.owner.id.name != name || !is_former || claim.is_posting
        });
    }

    /// Another life of the object has begun: what it claimed before counts from its new age on.
    pub fn renew(&mut self, owner: &Owner) {
        let own = self.nodes.values_mut().filter(|claim| claim.owner.id.name == owner.id.name);
        own.for_each(|claim| claim.owner = owner.clone());
    }

    /// Every object is known: claims of objects that do not exist are free.
    pub fn retain_configs(&mut self, existing: &BTreeSet<ConfigName>) {
        self.nodes.retain(|_, claim| existing.contains(&claim.owner.id.name));
    }
}

fn seniority(owner: &Owner) -> (jiff::Timestamp, &ConfigName) {
    (owner.created, &owner.id.name)
}

#[cfg(test)]
mod tests;
