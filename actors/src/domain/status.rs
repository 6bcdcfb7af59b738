//! The state of one config as people see it: in the object's status, over REST, in metrics.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::{ConfigId, NodeName, VmId};
use super::port::{PortVerdict, Verdict};
use super::readback::Reach;
use super::reason::{Reason, SkipReason};

/// How many skipped VMs, failed nodes and pending changes a status lists.
pub const MAX_LISTED: usize = 20;
/// How long a message in a status may be, in bytes.
pub const MAX_MESSAGE: usize = 1024;

/// Everything there is to say about a config now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStatus {
    /// Which object.
    #[serde(flatten)]
    pub id: ConfigId,
    /// The generation of the spec that was really processed.
    pub observed_generation: i64,
    /// The `Ready` condition: true, false, or null while unknown.
    pub ready: Option<bool>,
    /// Its reason.
    pub reason: Reason,
    /// Its message: stable text.
    pub message: String,
    /// The `Degraded` condition.
    pub degraded: Degraded,
    /// The object says `paused`.
    pub paused: bool,
    /// The last round that succeeded and whose changes are delivered.
    pub last_synced_at: Option<Timestamp>,
    /// The last error, kept until the next success.
    pub last_error: Option<String>,
    /// The DOWN-port retry, while one is under way.
    pub down_port_retry: Option<DownPortRetry>,
    /// How many nodes are where.
    pub nodes: NodeCounts,
    /// VMs that are left out, at most [`MAX_LISTED`].
    pub skipped: Vec<SkippedVm>,
    /// Changes that wait for an approval or are only observed, at most [`MAX_LISTED`].
    pub pending_changes: Vec<PendingChange>,
    /// How many ports have which verdict.
    pub ports: BTreeMap<Verdict, u32>,
    /// What was decided per VM in the last round that got so far.
    pub vms: Vec<VmReport>,
    /// When the next poll is due. REST only.
    pub next_poll_at: Option<Timestamp>,
    /// When the last poll began. REST only.
    pub last_poll_at: Option<Timestamp>,
    /// The last error with its request id and the next try. REST and log only.
    pub last_error_detail: Option<String>,
    /// When the session's token ends.
    pub token_expires_at: Option<Timestamp>,
    /// Nodes whose agent failed, at most [`MAX_LISTED`].
    pub failed: Vec<FailedNode>,
    /// The workload cluster, where it is looked at.
    pub workload: Option<WorkloadStatus>,
}

/// A node whose agent failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedNode {
    /// The node.
    pub node: NodeName,
    /// What its agent says.
    pub reason: String,
}

/// The workload cluster as a config sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// `Apply` or `Verify`.
    pub mode: &'static str,
    /// Whether it can be looked at, since when, and why not.
    #[serde(flatten)]
    pub reach: Reach,
    /// The `Configured` condition.
    pub configured: Configured,
}

/// The `Configured` condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Configured {
    /// True, false, or unknown.
    pub status: Option<bool>,
    /// Why, in one word.
    pub reason: ConfiguredReason,
    /// Why, for a person: stable text.
    pub message: String,
}

/// The reasons of the `Configured` condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfiguredReason {
    /// All nodes have what was delivered, and their agents say so.
    Configured,
    /// Some agents are not done yet.
    InProgress,
    /// The workload cluster cannot be looked at.
    ClusterUnknown,
    /// An agent failed.
    AgentFailed,
    /// A node's object is not what was delivered.
    Drifted,
    /// Another applier owns a field.
    FieldConflict,
}

impl std::fmt::Display for ConfiguredReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// The `Degraded` condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Degraded {
    /// Nothing is wrong.
    Healthy,
    /// Some VMs are skipped.
    PartiallySynced,
    /// Ready is false.
    Error,
}

/// The state of the DOWN-port retry, as in the object's status and the inventory file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DownPortRetry {
    /// Over the sorted ids of the DOWN ports.
    pub hash: String,
    /// When the last re-send was answered.
    pub last_attempt: Option<Timestamp>,
    /// How many re-sends went at the fast interval.
    pub fast_attempts: u32,
}

/// How many nodes are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// VMs with at least one selected interface.
    pub desired: u32,
    /// Of these, how many are delivered as desired.
    pub delivered: u32,
    /// VMs that are left out.
    pub skipped: u32,
    /// Nodes that have what was delivered, configured; where the workload cluster is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured: Option<u32>,
    /// Nodes whose agent is at it; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_progress: Option<u32>,
    /// Nodes whose agent failed; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u32>,
}

/// A VM that is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkippedVm {
    /// The VM.
    pub vm: VmId,
    /// Why.
    pub reason: SkipReason,
    /// What to do about it.
    pub message: String,
}

/// A change that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingChange {
    /// The node.
    pub node: NodeName,
    /// What the approval annotation must hold.
    pub change_id: String,
    /// `rename fa:16:… multinic0 → multinic1; remove …`.
    pub what: String,
}

/// What was decided for one VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VmReport {
    /// The VM.
    pub vm: VmId,
    /// Its node, when known.
    pub node: Option<NodeName>,
    /// Why it is left out, if it is.
    pub skipped: Option<SkipReason>,
    /// Its ports and their verdicts.
    pub ports: Vec<PortVerdict>,
}
