//! The machines behind a workload cluster's nodes: whether a VM is the node that it is taken for.

use std::collections::{BTreeMap, HashMap};

use super::ids::{NodeName, VmId};

/// The cluster's nodes, by name, with the system UUIDs that they report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machines {
    uuids: BTreeMap<String, Option<VmId>>,
    names: HashMap<VmId, String>,
}

impl Machines {
    /// A node is there. Gives back whether that is news.
    pub fn insert(&mut self, name: &str, system_uuid: Option<&str>) -> bool {
        let uuid = system_uuid.map(VmId::new).filter(|uuid| !uuid.as_str().is_empty());
        if self.uuids.get(name) == Some(&uuid) {
            return false;
        }
        self.remove(name);
        if let Some(uuid) = &uuid {
            self.names.insert(uuid.clone(), name.to_owned());
        }
        self.uuids.insert(name.to_owned(), uuid);
        true
    }

    /// A node is gone. Gives back whether that is news.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(uuid) = self.uuids.remove(name) else {
            return false;
        };
        if let Some(uuid) = uuid.filter(|uuid| self.names.get(uuid).is_some_and(|known| known == name)) {
            self.names.remove(&uuid);
        }
        true
    }

    /// The names of all nodes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.uuids.keys().map(String::as_str)
    }

    /// Why `vm` is not the cluster's node `node`, if it is not. A cluster without any node tells nothing, and
    /// neither does a node that does not report which machine it is.
    pub fn mismatch(&self, node: &NodeName, vm: &VmId) -> Option<String> {
        if self.uuids.is_empty() {
            return None;
        }
        let own = self.names.get(vm).filter(|name| name.as_str() != node.as_str());
        match (self.uuids.get(node.as_str()), own) {
            (Some(Some(uuid)), _) if uuid == vm => None,
            (_, Some(own)) => Some(format!(
                "the VM is node {own} of the workload cluster, not {node}: its agent would not find its config"
            )),
            (Some(Some(uuid)), None) => {
                Some(format!("node {node} of the workload cluster is another machine, {uuid}"))
            }
            (Some(None), None) => None,
            (None, None) => Some(format!("the workload cluster has no node {node}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::name;
    use super::*;

    #[test]
    fn a_vm_is_its_node_by_name_and_uuid() {
        let mut machines = Machines::default();
        let check = |machines: &Machines, node: &str, vm: &str| machines.mismatch(&name(node), &vm.into());
        assert_eq!(check(&machines, "a", "vm-a"), None, "nothing is known");
        assert!(machines.insert("a", Some("VM-A")) && !machines.insert("a", Some("vm-a")));
        machines.insert("b", Some("vm-b"));
        machines.insert("silent", Some(""));
        for (node, vm, part) in [
            ("a", "vm-a", None),
            ("silent", "vm-s", None),
            ("a", "vm-b", Some("is node b of")),
            ("a", "vm-x", Some("another machine, vm-a")),
            ("x", "vm-b", Some("is node b of")),
            ("silent", "vm-b", Some("is node b of")),
            ("x", "vm-x", Some("has no node x")),
        ] {
            let found = check(&machines, node, vm);
            let is_right = match part {
                None => found.is_none(),
                Some(part) => found.as_deref().is_some_and(|text| text.contains(part)),
            };
            assert!(is_right, "{node} {vm}: {found:?}");
        }
    }

    #[test]
    fn a_node_that_moves_to_another_machine_is_known_by_it() {
        let mut machines = Machines::default();
        machines.insert("a", Some("vm-1"));
        machines.insert("a", Some("vm-2"));
        assert_eq!(machines.mismatch(&name("a"), &"vm-2".into()), None);
        assert!(machines.mismatch(&name("a"), &"vm-1".into()).is_some());
        assert!(machines.remove("a") && !machines.remove("a"));
        assert_eq!(machines, Machines::default());
    }
}
