//! What was delivered before, as settling asks for it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::ids::{NodeName, VmId};
use crate::domain::node::NodeConfig;
use crate::domain::outbox::Outbox;
use crate::domain::settle::History;

/// The outbox's own memory, which was filled from the inventory before. Indexed once a round: a config may
/// have thousands of VMs.
pub(super) struct Delivered<'a> {
    outbox: &'a Outbox,
    by_vm: HashMap<&'a VmId, &'a Arc<NodeConfig>>,
}

impl<'a> Delivered<'a> {
    pub(super) fn of(outbox: &'a Outbox) -> Self {
        Self { outbox, by_vm: outbox.delivered_by_vm() }
    }
}

impl History for Delivered<'_> {
    fn at_node(&self, node: &NodeName) -> Option<Arc<NodeConfig>> {
        self.outbox.delivered_at(node).cloned()
    }

    fn of_vm(&self, vm: &VmId) -> Option<Arc<NodeConfig>> {
        self.by_vm.get(vm).map(|node| Arc::clone(node))
    }
}
