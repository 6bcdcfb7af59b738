//! The claims of all configs behind one lock: asked synchronously, no messages between subtrees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::claims::{Claimed, Claims};
use crate::domain::ids::{ConfigName, NodeName, ProviderId, VmId};
use crate::domain::inventory::{Owner, Record, RecordKey, Snapshot};

/// Who owns which node, shared by all delivery actors of a tree. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ClaimTable(Arc<Mutex<Claims>>);

impl ClaimTable {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        // Every method leaves the table consistent, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the owners that the inventory knows; what was claimed since stays.
    pub fn learn(&self, snapshot: &Snapshot) {
        self.claims().learn(snapshot);
    }

    /// How many nodes are claimed.
    pub fn count(&self) -> usize {
        self.claims().count()
    }

    /// Takes over the owner of records that came to be known after the start.
    pub fn restore<'a>(&self, records: impl IntoIterator<Item = &'a Record>) {
        self.claims().restore(records);
    }

    /// Asks for a node.
    pub fn claim(&self, key: &RecordKey, owner: &Owner, vm: &VmId) -> Claimed {
        self.claims().claim(key, owner, vm)
    }

    /// The config's VMs have these nodes now.
    pub fn retain_nodes(&self, name: &ConfigName, nodes: &BTreeMap<VmId, NodeName>) {
        self.claims().retain_nodes(name, nodes);
    }

    /// Marks the nodes as being POSTed; gives back those that are not the config's any more.
    pub fn begin_post(&self, keys: &[RecordKey], name: &ConfigName) -> Vec<NodeName> {
        self.claims().begin_post(keys, name)
    }

    /// The config's POST is over. Gives back whose POST it was, or is in doubt.
    pub fn end_post(&self, name: &ConfigName) -> Vec<RecordKey> {
        self.claims().end_post(name)
    }

    /// Nobody waits for the answer to the config's POST any more.
    pub fn doubt_post(&self, name: &ConfigName) {
        self.claims().doubt_post(name);
    }

    /// The object is gone.
    pub fn release(&self, name: &ConfigName) {
        self.claims().release(name);
    }

    /// The object lists these VMs now.
    pub fn retain_vms(&self, name: &ConfigName, provider: &ProviderId, vms: &BTreeSet<VmId>) {
        self.claims().retain_vms(name, provider, vms);
    }

    /// Another life of the object has begun.
    pub fn renew(&self, owner: &Owner) {
        self.claims().renew(owner);
    }

    /// Whether every object is known.
    pub fn knows_all(&self) -> bool {
        self.claims().knows_all()
    }

    /// Every object is known.
    pub fn retain_configs(&self, existing: &BTreeSet<ConfigName>) {
        self.claims().retain_configs(existing);
    }
}
