//! What the nodes of one config were sent, found by node and by VM.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::super::ids::{NodeName, VmId};
use super::super::node::NodeConfig;

/// The state of every node that was sent one. The index keeps the cost of one answer from growing with the
/// number of nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivered {
    by_node: BTreeMap<NodeName, Arc<NodeConfig>>,
    names: HashMap<VmId, BTreeSet<NodeName>>,
}

impl Delivered {
    pub(super) fn get(&self, node: &NodeName) -> Option<&Arc<NodeConfig>> {
        self.by_node.get(node)
    }

    /// The names under which a VM was sent something: more than one until a rename is delivered.
    pub(super) fn names_of(&self, vm: &VmId) -> impl Iterator<Item = &NodeName> {
        self.names.get(vm).into_iter().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.by_node.len()
    }

    pub(super) fn insert(&mut self, node: Arc<NodeConfig>) -> Option<Arc<NodeConfig>> {
        let before = self.remove(&node.node_name);
        self.names.entry(node.instance_id.clone()).or_default().insert(node.node_name.clone());
        self.by_node.insert(node.node_name.clone(), node);
        before
    }

    pub(super) fn remove(&mut self, node: &NodeName) -> Option<Arc<NodeConfig>> {
        let before = self.by_node.remove(node)?;
        if let Some(names) = self.names.get_mut(&before.instance_id) {
            names.remove(node);
            if names.is_empty() {
                self.names.remove(&before.instance_id);
            }
        }
        Some(before)
    }

    /// A VM that was renamed has its state under this name only.
    pub(super) fn forget_other_names(&mut self, vm: &VmId, node: &NodeName) {
        let others: Vec<_> = self.names_of(vm).filter(|name| *name != node).cloned().collect();
        for other in &others {
            self.remove(other);
        }
    }

    pub(super) fn retain_vms(&mut self, vms: &BTreeSet<VmId>) {
        self.names.retain(|vm, _| vms.contains(vm));
        self.by_node.retain(|_, node| vms.contains(&node.instance_id));
    }
}
