//! The `OpenstackConfig` custom resource: its schema and the lenient types it is decoded with.
//!
//! There are no defaults here: they are resolved in [`super::validate`], so that an operator-wide default
//! can exist. The schema refuses only what cannot work and could not work with the previous operator.

// Two printer columns of one type are no mistake.
#![allow(clippy::duplicated_attributes)]

mod delivery;
mod given;
mod settings;
mod status;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use delivery::{Delivery, KubeconfigSecret};
pub use given::{Given, kind};
pub use settings::{InlineKey, SecretKey, Secrets, Settings};
pub use status::{DownPortRetry, FailedNode, Nodes, OpenstackConfigStatus, PendingChange, SkippedVm};

/// Desired state: which VMs get their NICs from which subnets, and how OpenStack is reached.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[kube(
    group = "multinic.example.com",
    version = "v1alpha1",
    kind = "OpenstackConfig",
    plural = "openstackconfigs",
    singular = "openstackconfig",
    shortname = "oscfg",
    category = "multinic",
    namespaced,
    status = "OpenstackConfigStatus",
    derive = "PartialEq",
    doc = "Names OpenStack VMs that are nodes of a Kubernetes cluster, the subnets whose ports become \
           their interfaces, and how OpenStack is reached.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        description = "Whether everything wanted is delivered."
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        description = "Why it is, or is not, ready."
    ),
    printcolumn(
        name = "Nodes",
        type_ = "string",
        json_path = ".status.nodes.summary",
        description = "Nodes delivered / nodes desired."
    ),
    printcolumn(
        name = "Last-Sync",
        type_ = "date",
        json_path = ".status.lastSyncedAt",
        description = "Since the last success."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.credentials.k8sProviderID",
        description = "Where the nodes are delivered.",
        priority = 1
    ),
    printcolumn(
        name = "Error",
        type_ = "string",
        json_path = ".status.lastError",
        description = "The last error.",
        priority = 1
    ),
    selectable = ".spec.credentials.k8sProviderID",
    selectable = ".spec.credentials.openstackProviderID",
    selectable = ".spec.credentials.projectID"
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["credentials", "vmNames"]))]
pub struct OpenstackConfigSpec {
    /// UUIDs of the target subnets, in order.
    #[serde(rename = "subnetIDs", default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 1000), inner(length(max = 253), regex(pattern = r"^\s*[^\s/?#]*\s*$")))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub subnet_ids: Given<Vec<Given<String>>>,
    /// UUID of the target subnet; used only if `subnetIDs` is empty.
    #[serde(rename = "subnetID", default, skip_serializing_if = "Given::is_missing")]
    // Without a pattern: nobody looked at it while there were subnetIDs.
    #[schemars(length(max = 1024))]
    pub subnet_id: Given<String>,
    /// Name of the target subnet (not of its network); used only if `subnetIDs` and `subnetID` are empty.
    /// Looked for in the project first, then among all visible subnets; it must fit exactly one.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 1024))]
    pub subnet_name: Given<String>,
    /// UUIDs of the VMs. The name of this field is historical.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(
        length(min = 1, max = 10000),
        inner(length(max = 253), regex(pattern = r"^\s*[^\s/?#]*\s*$"))
    )]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub vm_names: Given<Vec<Given<String>>>,
    /// No polls and no sends while true. What was delivered stays.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    pub paused: Given<bool>,
    /// Whose cloud, whose project, and where the nodes are delivered.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    pub credentials: Given<Credentials>,
    /// How OpenStack, Contrabass and Viola are reached, which ports qualify and how often to look.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    pub settings: Given<Settings>,
    /// Secrets of the same namespace.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    pub secrets: Given<Secrets>,
    /// The workload cluster, where the operator itself can reach it. Not set: Viola delivers and nobody looks.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    pub delivery: Given<Delivery>,
}

/// Whose cloud, whose project, and where the nodes are delivered.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[schemars(extend("required" = ["openstackProviderID", "projectID"]))]
pub struct Credentials {
    /// The provider to look up in Contrabass.
    #[serde(rename = "openstackProviderID", default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(min = 1, max = 1024))]
    pub openstack_provider_id: Given<String>,
    /// Viola's routing key, sent as header `x-provider-id`. Node names are unique within one. Required unless
    /// `delivery.mode` is `Apply`; without it, that is the namespace and the name of the kubeconfig's Secret.
    #[serde(rename = "k8sProviderID", default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(min = 1, max = 1024))]
    pub k8s_provider_id: Given<String>,
    /// The OpenStack project that the token is scoped to.
    #[serde(rename = "projectID", default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(min = 1, max = 253))]
    pub project_id: Given<String>,
}

/// The CustomResourceDefinition as YAML, as it ships in the chart.
///
/// # Errors
/// When it cannot be written as YAML.
pub fn crd_yaml() -> Result<String, yaml_serde::Error> {
    let yaml = yaml_serde::to_string(&super::crd::definition())?;
    Ok(format!("# Generated by `multinic-operator crd`. Do not edit.\n{yaml}"))
}

#[cfg(test)]
mod tests;
