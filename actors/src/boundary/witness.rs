use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::config::Config;
use crate::domain::ids::ConfigId;
use crate::domain::node::NodeConfig;
use crate::domain::reason::Reason;

/// Who is told what happened, for metrics and the audit log: facts as data, whatever is made of them. The
/// methods are called in handlers and must not wait.
pub trait Witness: Send + Sync + 'static {
    /// A round ended.
    fn round_ended(&self, _round: &RoundEnded) {}

    /// Nodes were taken by the receiver and have something else now than before.
    fn changes_delivered(&self, _delivered: &ChangesDelivered) {}
}

/// Nobody is told.
impl Witness for () {}

/// A round that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundEnded {
    /// Whose.
    pub id: ConfigId,
    /// Which one.
    pub round: u64,
    /// What it came to: for a round with changes `Synced`, although they are still to be delivered.
    pub reason: Reason,
    /// From its begin to the last decision.
    pub took: Duration,
    /// Selected ports that are DOWN; `None` when the round failed.
    pub down_ports: Option<u32>,
}

/// Changes that were delivered with one POST.
#[derive(Clone, Debug)]
pub struct ChangesDelivered {
    /// The spec under which they left.
    pub config: Arc<Config>,
    /// When the answer came.
    pub at: Timestamp,
    /// Node by node.
    pub nodes: Vec<ChangedNode>,
    /// How long each port that is now delivered for the first time had waited since it was first seen.
    pub waits: Vec<Duration>,
}

/// One node's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedNode {
    /// What it had, as far as is known.
    pub before: Option<Arc<NodeConfig>>,
    /// What it has now.
    pub after: Arc<NodeConfig>,
}
