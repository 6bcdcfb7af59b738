//! What the operator writes into an object's status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Observed state.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenstackConfigStatus {
    /// `metadata.generation` of the spec that was really processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready` and `Degraded`, and where used `Paused`, `Configured` and `Listening`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// When everything wanted was last found delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_synced_at: Option<Time>,
    /// The last error, kept until the next success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The repeated sends of nodes with DOWN ports, while they are under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_port_retry: Option<DownPortRetry>,
    /// How many nodes are where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
    /// VMs that are left out, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub skipped: Vec<SkippedVm>,
    /// Nodes whose agent failed, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub failed: Vec<FailedNode>,
    /// Changes that wait for an approval or are only observed, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub pending_changes: Vec<PendingChange>,
}

/// The repeated sends of nodes with DOWN ports.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DownPortRetry {
    /// Over the sorted ids of the DOWN ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// When the last send was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<Time>,
    /// How many sends went at the fast interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_attempts: Option<i32>,
}

/// How many nodes are where.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// `delivered/desired`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// VMs with at least one selected interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<i32>,
    /// Of these, how many are delivered as desired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<i32>,
    /// VMs that are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<i32>,
    /// Nodes whose agent has configured the interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured: Option<i32>,
    /// Nodes whose agent is at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_progress: Option<i32>,
    /// Nodes whose agent failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
}

/// A VM that is left out.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
pub struct SkippedVm {
    /// The VM's UUID.
    pub vm: String,
    /// Why, in one word.
    pub reason: String,
    /// What to do about it.
    pub message: String,
}

/// A node whose agent failed.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
pub struct FailedNode {
    /// The node's name.
    pub node: String,
    /// What its agent says.
    pub reason: String,
}

/// A change that waits.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingChange {
    /// The node's name.
    pub node: String,
    /// What the annotation `multinic.example.com/approve` must hold to let it through.
    pub change_id: String,
    /// What would change.
    pub what: String,
}
