//! The records of an inventory: a map by node that also finds them by VM and by owner.
//!
//! A round of one config asks for its own nodes and VMs, so its cost must not grow with the number of all
//! records.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::ops::Deref;
use std::sync::Arc;

use super::ids::{ConfigName, VmId};
use super::inventory::{Record, RecordKey};

/// Delivered nodes, sorted by their keys. Cheap to clone: everything large is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    by_key: BTreeMap<RecordKey, Arc<Record>>,
    by_vm: Index<VmId>,
    by_owner: Index<ConfigName>,
}

type Index<K> = BTreeMap<K, Arc<BTreeSet<RecordKey>>>;

impl Records {
    /// Puts a record in, in place of the one under its key.
    pub fn insert(&mut self, key: RecordKey, record: Arc<Record>) -> Option<Arc<Record>> {
        let before = self.remove(&key);
        note(&mut self.by_vm, record.instance_id.clone(), &key);
        if let Some(owner) = &record.owner {
            note(&mut self.by_owner, owner.id.name.clone(), &key);
        }
        self.by_key.insert(key, record);
        before
    }

    /// Takes a record out.
    pub fn remove(&mut self, key: &RecordKey) -> Option<Arc<Record>> {
        let record = self.by_key.remove(key)?;
        forget(&mut self.by_vm, &record.instance_id, key);
        if let Some(owner) = &record.owner {
            forget(&mut self.by_owner, &owner.id.name, key);
        }
        Some(record)
    }

    /// Takes out the records of a config's nodes, but those that `keep` names.
    pub fn remove_of_owner(&mut self, name: &ConfigName, keep: impl Fn(&Record) -> bool) {
        let goes: Vec<_> =
            self.of_owner(name).filter(|record| !keep(record)).map(|record| record.key()).collect();
        for key in goes {
            self.remove(&key);
        }
    }

    /// The records of a VM, at whichever target.
    pub fn of_vm(&self, vm: &VmId) -> impl Iterator<Item = &Arc<Record>> {
        self.listed(self.by_vm.get(vm))
    }

    /// The records of a config's nodes.
    pub fn of_owner(&self, name: &ConfigName) -> impl Iterator<Item = &Arc<Record>> {
        self.listed(self.by_owner.get(name))
    }

    fn listed<'a>(
        &'a self,
        keys: Option<&'a Arc<BTreeSet<RecordKey>>>,
    ) -> impl Iterator<Item = &'a Arc<Record>> {
        keys.into_iter().flat_map(|keys| keys.iter()).filter_map(|key| self.by_key.get(key))
    }
}

fn note<K: Ord>(index: &mut Index<K>, at: K, key: &RecordKey) {
    Arc::make_mut(index.entry(at).or_default()).insert(key.clone());
}

fn forget<K: Ord>(index: &mut Index<K>, at: &K, key: &RecordKey) {
    if let Some(keys) = index.get_mut(at) {
        let keys = Arc::make_mut(keys);
        keys.remove(key);
        if keys.is_empty() {
            index.remove(at);
        }
    }
}

/// Reading is as of the map.
impl Deref for Records {
    type Target = BTreeMap<RecordKey, Arc<Record>>;

    fn deref(&self) -> &Self::Target {
        &self.by_key
    }
}

impl FromIterator<(RecordKey, Arc<Record>)> for Records {
    fn from_iter<I: IntoIterator<Item = (RecordKey, Arc<Record>)>>(records: I) -> Self {
        let mut all = Self::default();
        for (key, record) in records {
            all.insert(key, record);
        }
        all
    }
}

impl IntoIterator for Records {
    type Item = (RecordKey, Arc<Record>);
    type IntoIter = btree_map::IntoIter<RecordKey, Arc<Record>>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_key.into_iter()
    }
}

impl<'a> IntoIterator for &'a Records {
    type Item = (&'a RecordKey, &'a Arc<Record>);
    type IntoIter = btree_map::Iter<'a, RecordKey, Arc<Record>>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_key.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::{at, name, node, owner};
    use super::*;

    fn record(number: u8, vm: u8, by: Option<u8>) -> Record {
        let node_name = format!("n{number}");
        Record {
            provider_id: "k8s".into(),
            node_name: name(&node_name),
            instance_id: VmId::new(format!("vm-{vm}")),
            config: Arc::new(node(&node_name, &format!("vm-{vm}"), &[(0, 1)])),
            last_config_hash: node(&node_name, "vm", &[(0, 1)]).hash(),
            updated_at: at(0),
            in_doubt: false,
            owner: by.map(|by| owner(&format!("o{by}"), 0)),
        }
    }

    proptest! {
        /// Both indices say what a look at every record says, whatever came and went before.
        #[test]
        fn the_indices_know_what_a_look_at_all_records_knows(
            steps in prop::collection::vec((0_u8..6, 0_u8..4, prop::option::of(0_u8..3), any::<bool>()), 0..40),
        ) {
            let mut records = Records::default();
            for (number, vm, by, is_removal) in steps {
                let record = record(number, vm, by);
                match is_removal {
                    true => drop(records.remove(&record.key())),
                    false => drop(records.insert(record.key(), Arc::new(record))),
                }
                for vm in (0..4).map(|vm| VmId::new(format!("vm-{vm}"))) {
                    let all: Vec<_> = records.values().filter(|record| record.instance_id == vm).collect();
                    prop_assert_eq!(records.of_vm(&vm).collect::<Vec<_>>(), all);
                }
                for by in (0..3).map(|by| owner(&format!("o{by}"), 0)) {
                    let is_own = |record: &&Arc<Record>| record.owner.as_ref() == Some(&by);
                    let all: Vec<_> = records.values().filter(is_own).collect();
                    prop_assert_eq!(records.of_owner(&by.id.name).collect::<Vec<_>>(), all);
                }
            }
            let emptied = records.keys().cloned().collect::<Vec<_>>();
            emptied.iter().for_each(|key| drop(records.remove(key)));
            prop_assert_eq!(records, Records::default());
        }
    }
}
