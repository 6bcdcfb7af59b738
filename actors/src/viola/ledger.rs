//! Events that the inventory has not acknowledged: kept and sent again until it has.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Takes an event in.
    pub(super) fn add(&mut self, event: Event, holds_back_posts: bool) {
        // A newer state of the DOWN ports makes an older one worthless; so does a doubled event.
        let is_down_ports = matches!(event, Event::DownPorts { .. });
        self.open.retain(|_, entry| {
            let is_older_state = is_down_ports && matches!(entry.event, Event::DownPorts { .. });
            !is_older_state && entry.event != event
        });
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
