//! Which config owns which node: two configs never fight over one.
//!
//! Per delivery target the older object wins, then namespace/name; the answer depends on who is older,
//! never on who polled first. While a POST for a node is under way nobody can take the node over.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::ids::{ConfigName, NodeName, ProviderId, VmId};
use super::inventory::{Owner, Record, RecordKey, Snapshot};

/// Who owns which node.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    nodes: HashMap<RecordKey, Claim>,
    /// The nodes of each owner: what one config asks must not cost a look at all others' claims.
    by_owner: HashMap<ConfigName, BTreeSet<RecordKey>>,
    knows_all: bool,
}

#[derive(Clone, Debug)]
struct Claim {
    owner: Owner,
    vm: VmId,
    post: Post,
}

/// What is known of a node's last POST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Post {
    /// It was answered, or there was none.
    #[default]
    Over,
    /// Its answer is waited for.
    UnderWay,
    /// Who sent it is gone and heard no answer.
    InDoubt,
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
    /// Takes over the owners that the inventory knows. Records without an owner belong to nobody yet; what
    /// was claimed since stays, above all what is being POSTed. Which objects there are is to be told anew.
    pub fn learn(&mut self, snapshot: &Snapshot) {
        self.knows_all = false;
        for (key, record) in &snapshot.records {
            if let Some(owner) = record.owner.as_ref().filter(|_| !self.nodes.contains_key(key)) {
                self.give(key, owner, &record.instance_id);
            }
        }
    }

    /// How many nodes are claimed.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The owner of these records turned out to be known: what nobody holds yet is theirs again.
    pub fn restore<'a>(&mut self, records: impl IntoIterator<Item = &'a Record>) {
        for record in records {
            let key = record.key();
            if let Some(owner) = record.owner.as_ref().filter(|_| !self.nodes.contains_key(&key)) {
                self.give(&key, owner, &record.instance_id);
            }
        }
    }

    /// Asks for a node.
    pub fn claim(&mut self, key: &RecordKey, owner: &Owner, vm: &VmId) -> Claimed {
        let loser = match self.nodes.get(key) {
            Some(held) if held.owner.id.name != owner.id.name => {
                let loser = held.owner.id.name.clone();
                if held.post == Post::UnderWay || seniority(&held.owner) < seniority(owner) {
                    return Claimed::Refused(loser);
                }
                Some(loser)
            }
            Some(_) | None => None,
        };
        self.give(key, owner, vm);
        loser.map_or(Claimed::Granted, Claimed::TakenOver)
    }

    /// The node is this owner's from now on; a POST under way stays one.
    fn give(&mut self, key: &RecordKey, owner: &Owner, vm: &VmId) {
        let post = self.take(key).map_or(Post::Over, |held| held.post);
        self.nodes.insert(key.clone(), Claim { owner: owner.clone(), vm: vm.clone(), post });
        self.by_owner.entry(owner.id.name.clone()).or_default().insert(key.clone());
    }

    fn take(&mut self, key: &RecordKey) -> Option<Claim> {
        let held = self.nodes.remove(key)?;
        if let Some(own) = self.by_owner.get_mut(&held.owner.id.name) {
            own.remove(key);
            if own.is_empty() {
                self.by_owner.remove(&held.owner.id.name);
            }
        }
        Some(held)
    }

    /// Frees those of the config's nodes that are not kept.
    fn retain_own(&mut self, name: &ConfigName, keeps: impl Fn(&RecordKey, &Claim) -> bool) {
        let own = self.by_owner.get(name).into_iter().flatten();
        let is_free = |key: &&RecordKey| self.nodes.get(*key).is_some_and(|claim| !keeps(key, claim));
        for key in own.filter(is_free).cloned().collect::<Vec<_>>() {
            self.take(&key);
        }
    }

    /// Marks the nodes as being POSTed by their owner; gives back those that are not the config's any more.
    pub fn begin_post(&mut self, keys: &[RecordKey], name: &ConfigName) -> Vec<NodeName> {
        let mut lost = Vec::new();
        for key in keys {
            match self.nodes.get_mut(key) {
                Some(claim) if &claim.owner.id.name == name => claim.post = Post::UnderWay,
                _ => lost.push(key.node.clone()),
            }
        }
        lost
    }

    /// The config's POST, if any, is over. Gives back whose POST it was, or is in doubt.
    pub fn end_post(&mut self, name: &ConfigName) -> Vec<RecordKey> {
        let mut posted = Vec::new();
        for key in self.by_owner.get(name).into_iter().flatten() {
            let post = self.nodes.get_mut(key).map(|claim| std::mem::take(&mut claim.post));
            if post.is_some_and(|post| post != Post::Over) {
                posted.push(key.clone());
            }
        }
        posted
    }

    /// Nobody waits for the answer to the config's POST any more: others may have its nodes, and it has to
    /// send them once more.
    pub fn doubt_post(&mut self, name: &ConfigName) {
        for key in self.by_owner.get(name).into_iter().flatten() {
            if let Some(claim) = self.nodes.get_mut(key).filter(|claim| claim.post == Post::UnderWay) {
                claim.post = Post::InDoubt;
            }
        }
    }

    /// The object is gone: its nodes are free.
    pub fn release(&mut self, name: &ConfigName) {
        self.retain_own(name, |_, _| false);
    }

    /// The object lists these VMs now, and delivers there: its claims for others are free, but for a POST
    /// under way.
    pub fn retain_vms(&mut self, name: &ConfigName, provider: &ProviderId, vms: &BTreeSet<VmId>) {
        self.retain_own(name, |key, claim| {
            claim.post == Post::UnderWay || (&key.provider == provider && vms.contains(&claim.vm))
        });
    }

    /// The config's VMs have these nodes now: its claims on their former nodes are free (they were renamed).
    pub fn retain_nodes(&mut self, name: &ConfigName, nodes: &BTreeMap<VmId, NodeName>) {
        self.retain_own(name, |key, claim| {
            claim.post == Post::UnderWay || nodes.get(&claim.vm).is_none_or(|node| node == &key.node)
        });
    }

    /// Another life of the object has begun: what it claimed before counts from its new age on.
    pub fn renew(&mut self, owner: &Owner) {
        for key in self.by_owner.get(&owner.id.name).into_iter().flatten() {
            if let Some(claim) = self.nodes.get_mut(key) {
                claim.owner = owner.clone();
            }
        }
    }

    /// Every object is known: claims of objects that do not exist are free.
    pub fn retain_configs(&mut self, existing: &BTreeSet<ConfigName>) {
        self.knows_all = true;
        let gone = self.by_owner.keys().filter(|name| !existing.contains(*name));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.release(&name);
        }
    }

    /// Whether every object is known: only then can be told what belongs to nobody.
    pub fn knows_all(&self) -> bool {
        self.knows_all
    }
}

fn seniority(owner: &Owner) -> (jiff::Timestamp, &ConfigName) {
    (owner.created, &owner.id.name)
}

#[cfg(test)]
mod tests;
