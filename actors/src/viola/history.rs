//! What was delivered before, as settling asks for it.

use std::sync::Arc;

use crate::domain::ids::{NodeName, VmId};
use crate::domain::node::NodeConfig;
use crate::domain::outbox::Outbox;
use crate::domain::settle::History;

/// The outbox's own memory, which was filled from the inventory before.
pub(super) struct Delivered<'a> {
    pub(super) outbox: &'a Outbox,
}

impl History for Delivered<'_> {
    fn at_node(&self, node: &NodeName) -> Option<Arc<NodeConfig>> {
        self.outbox.delivered_at(node).cloned()
    }

    fn of_vm(&self, vm: &VmId) -> Option<Arc<NodeConfig>> {
        self.outbox.delivered_of(vm).cloned()
    }
}
