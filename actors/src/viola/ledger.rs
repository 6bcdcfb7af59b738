//! Events that the inventory has not acknowledged: kept and sent again until it has.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::domain::ids::NodeName;
use crate::domain::inventory::Event;
use crate::inventory::Kept;

/// Unacknowledged events in the order in which they happened.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    next: u64,
    open: BTreeMap<u64, Entry>,
    problem: Option<String>,
}

#[derive(Debug)]
struct Entry {
    event: Event,
    holds_back_posts: bool,
}

impl Ledger {
    /// Takes an event in. What it makes worthless goes: everything here may be sent again at any time, and
    /// must take back nothing that is newer.
    pub(super) fn add(&mut self, event: Event, holds_back_posts: bool) {
        self.open.retain(|_, entry| !is_worthless_after(&mut entry.event, &event));
        self.next += 1;
        self.open.insert(self.next, Entry { event, holds_back_posts });
    }

    /// What is not acknowledged yet, oldest first.
    pub(super) fn open(&self) -> impl Iterator<Item = (u64, &Event)> {
        self.open.iter().map(|(number, entry)| (*number, &entry.event))
    }

    /// The inventory keeps the event; what was sent twice is acknowledged twice.
    pub(super) fn settle(&mut self, number: u64, kept: Kept) {
        self.open.remove(&number);
        self.problem = match kept {
            Kept::Persisted => None,
            Kept::InMemory(problem) => Some(problem),
        };
    }

    /// Whether an allocation is not stored yet.
    pub(super) fn holds_back_posts(&self) -> bool {
        self.open.values().any(|entry| entry.holds_back_posts)
    }

    /// Nodes whose delivery is not kept yet.
    pub(super) fn nodes(&self) -> BTreeSet<NodeName> {
        let nodes = self.open.values().flat_map(|entry| match &entry.event {
            Event::Delivered { nodes, .. } => nodes.as_slice(),
            _ => &[],
        });
        nodes.map(|node| node.node_name.clone()).collect()
    }

    /// The store works again: what it was given is kept by now.
    pub(super) fn store_works(&mut self) {
        self.problem = None;
    }

    /// Why the store does not keep what it is given, if so.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub(super) fn size(&self) -> usize {
        self.open.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Takes out of an event what a newer one replaces; true if nothing is left of it.
fn is_worthless_after(old: &mut Event, new: &Event) -> bool {
    match (&mut *old, new) {
        (Event::DownPorts { .. }, Event::DownPorts { .. }) => true,
        (
            Event::Delivered { provider, nodes, .. },
            Event::Delivered { provider: new_provider, nodes: new_nodes, .. },
        ) if provider == new_provider => {
            let names: HashSet<_> = new_nodes.iter().map(|node| &node.node_name).collect();
            let vms: HashSet<_> = new_nodes.iter().map(|node| &node.instance_id).collect();
            nodes.retain(|node| !names.contains(&node.node_name) && !vms.contains(&node.instance_id));
            nodes.is_empty()
        }
        (
            Event::Departing { provider, nodes, .. },
            Event::Delivered { provider: new_provider, nodes: new_nodes, .. },
        ) if provider == new_provider => {
            nodes.retain(|node| new_nodes.iter().all(|new| new.node_name != *node));
            nodes.is_empty()
        }
        (Event::Allocated { allocations, .. }, Event::Allocated { allocations: new_allocations, .. }) => {
            allocations.retain(|vm, _| !new_allocations.contains_key(vm));
            old == new
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::inventory::{Snapshot, apply};
    use crate::domain::samples::{at, node, owner};

    fn delivered(node_name: &str, vm: &str, index: u8, seconds: i64) -> Event {
        Event::Delivered {
            owner: owner("a", 0),
            provider: "k8s".into(),
            nodes: vec![Arc::new(node(node_name, vm, &[(index, 1)]))],
            at: at(seconds),
        }
    }

    fn after<'a>(events: impl Iterator<Item = &'a Event>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for event in events {
            apply(&mut snapshot, event);
        }
        snapshot
    }

    #[test]
    fn what_is_sent_again_takes_back_nothing_newer_at_any_moment() {
        let events = [
            delivered("n", "vm-1", 0, 1),
            delivered("other", "vm-2", 0, 2),
            delivered("n", "vm-1", 1, 3),
            // Renamed.
            delivered("m", "vm-1", 1, 4),
        ];
        let mut ledger = Ledger::default();
        events.iter().for_each(|event| ledger.add(event.clone(), false));
        let now = after(events.iter());
        let mut again = now.clone();
        for (_, event) in ledger.open() {
            assert!(!apply(&mut again, event), "{event:?} is sent again and changes something");
        }
        assert_eq!(after(ledger.open().map(|(_, event)| event)).records.len(), 2, "and nothing is missing");
    }
}
