//! What stands in the workload cluster next to what was delivered, and what the node agents say.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::ids::NodeName;
use super::node::NodeConfig;

/// One node's object as it stands in the workload cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it says; `None` if it is nothing that was ever delivered.
    pub config: Option<NodeConfig>,
    /// How far the node's agent is with it.
    pub agent: Agent,
}

/// How far a node's agent is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Agent {
    /// It has not begun, or has not seen the newest content.
    #[default]
    InProgress,
    /// All NICs are as they should be.
    Configured,
    /// It failed: in its own words.
    Failed(String),
}

/// Whether the workload cluster can be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reach {
    /// `None` until the first look has ended.
    #[serde(rename = "reachable")]
    pub is_reachable: Option<bool>,
    /// Since when it is so.
    pub since: Option<Timestamp>,
    /// Why it is not; stable text.
    pub problem: Option<String>,
}

/// A config's nodes in the workload cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadBack {
    /// Nodes that have what was delivered, configured.
    pub configured: u32,
    /// Nodes whose agent is at it, or has yet to see what was delivered.
    pub in_progress: u32,
    /// Nodes whose agent failed, with its words.
    pub failed: Vec<(NodeName, String)>,
    /// Nodes whose object is gone or says something else than what was delivered.
    pub drifting: BTreeSet<NodeName>,
}

/// Compares what was delivered with what is there. `is_settled` says of a node that nothing is on its way to
/// it: until then a difference is no drift.
pub fn compare<'a>(
    delivered: impl Iterator<Item = &'a Arc<NodeConfig>>,
    found: impl Fn(&NodeName) -> Option<Arc<Found>>,
    is_settled: impl Fn(&NodeName) -> bool,
) -> ReadBack {
    let mut back = ReadBack::default();
    for node in delivered {
        let name = &node.node_name;
        let object = found(name);
        let config = object.as_ref().and_then(|object| object.config.as_ref());
        let is_same = config.is_some_and(|config| config.is_same(node));
        if !is_same && is_settled(name) {
            back.drifting.insert(name.clone());
        }
        match object.as_ref().map(|object| &object.agent) {
            Some(Agent::Failed(words)) => back.failed.push((name.clone(), words.clone())),
            Some(Agent::Configured) if is_same => back.configured += 1,
            Some(Agent::Configured | Agent::InProgress) | None => back.in_progress += 1,
        }
    }
    back
}

#[cfg(test)]
mod tests {
    use super::super::samples::node;
    use super::*;

    fn object(index: u8, agent: Agent) -> Option<Arc<Found>> {
        Some(Arc::new(Found { config: Some(node("n", "vm", &[(index, 1)])), agent }))
    }

    fn check(found: Option<Arc<Found>>, is_settled: bool, expect: (u32, u32, usize, usize)) {
        let delivered = [Arc::new(node("n", "vm", &[(0, 1)]))];
        let back = compare(delivered.iter(), |_| found.clone(), |_| is_settled);
        let counts = (back.configured, back.in_progress, back.failed.len(), back.drifting.len());
        assert_eq!(counts, expect, "{found:?} {is_settled}");
    }

    #[test]
    fn a_node_is_configured_only_with_what_was_delivered() {
        check(object(0, Agent::Configured), true, (1, 0, 0, 0));
        check(object(0, Agent::InProgress), true, (0, 1, 0, 0));
        check(object(1, Agent::Configured), true, (0, 1, 0, 1));
        check(object(1, Agent::Configured), false, (0, 1, 0, 0));
        check(object(0, Agent::Failed("no NIC".to_owned())), true, (0, 0, 1, 0));
        check(object(1, Agent::Failed("no NIC".to_owned())), true, (0, 0, 1, 1));
        check(None, true, (0, 1, 0, 1));
        check(None, false, (0, 1, 0, 0));
        let unreadable = Some(Arc::new(Found { config: None, agent: Agent::Configured }));
        check(unreadable, true, (0, 1, 0, 1));
        assert_eq!(compare([].iter(), |_| None, |_| true), ReadBack::default());
    }
}
