//! What the agent says of a node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of the NICs. Only the agent writes it.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MultiNicNodeConfigStatus {
    /// How far the node is as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AgentState")]
    pub state: Option<AgentState>,
    /// `metadata.generation` of the spec that was processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// NIC by NIC.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interface_statuses: Vec<InterfaceStatus>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<AgentCondition>,
}

/// How far a node is.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(inline)]
pub enum AgentState {
    /// The agent has not begun.
    Pending,
    /// The agent is at it.
    InProgress,
    /// All NICs are as they should be.
    Configured,
    /// At least one NIC is not.
    Failed,
}

/// What became of one NIC.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InterfaceStatus {
    /// The interface's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its MAC.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac_address: String,
    /// How far it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Why, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for a person.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A condition as the agent writes it: fewer fields are required than Kubernetes' own kind of condition has.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentCondition {
    /// Which condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// `metadata.generation` that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// Since when it is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
}
