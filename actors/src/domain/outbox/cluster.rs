//! What looking into the workload cluster adds to an outbox.

use std::collections::BTreeSet;

use super::super::ids::{NodeName, VmId};
use super::{Outbox, is_refused};

impl Outbox {
    /// Nodes whose wanted content another applier stands against.
    pub fn conflicts(&self) -> impl Iterator<Item = (&NodeName, &str)> {
        self.entries.iter().filter(|(_, entry)| is_refused(entry)).filter_map(|(name, entry)| {
            let refusal = entry.refusal.as_ref().filter(|refusal| refusal.why.is_conflict)?;
            Some((name, refusal.why.message.as_str()))
        })
    }

    /// The receiver answers again: what waits for it waits no longer. The pauses go on growing if that was a
    /// mistake.
    pub fn hurry(&mut self) {
        self.not_before = None;
    }

    /// Whether the node has what is wanted for it and nothing is on its way, or about to be.
    pub fn is_settled(&self, node: &NodeName) -> bool {
        let is_flying = self
            .flight
            .as_ref()
            .is_some_and(|flight| flight.nodes.iter().any(|sent| &sent.node_name == node));
        let is_owed = self.entries.get(node).is_some_and(|entry| entry.must_send);
        self.is_delivered(node) && !is_flying && !is_owed && !self.in_doubt.contains(node)
    }

    /// What these VMs were sent was taken away from where it was.
    pub fn withdrawn(&mut self, vms: &BTreeSet<VmId>) {
        for vm in vms {
            let names: Vec<_> = self.delivered.names_of(vm).cloned().collect();
            names.iter().for_each(|name| drop(self.delivered.remove(name)));
        }
    }
}
