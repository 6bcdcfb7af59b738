//! `spec.delivery`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Given;

/// A workload cluster that the operator itself can reach.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["kubeconfigSecretRef", "mode"]))]
pub struct Delivery {
    /// `Apply`: node configs go straight into the workload cluster, drift is repaired, Viola is not needed.
    /// `Verify`: Viola delivers, and what stands in the workload cluster is looked at. In both the agents'
    /// state comes back into the status.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(extend("enum" = ["Apply", "Verify"]))]
    pub mode: Given<String>,
    /// The Secret with the workload cluster's kubeconfig. It may be rotated at any time.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    pub kubeconfig_secret_ref: Given<KubeconfigSecret>,
    /// The workload cluster's namespace in which its agents look for node configs. Not set: multinic-system.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 63))]
    pub namespace: Given<String>,
}

/// A Secret of the same namespace with a kubeconfig.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[schemars(extend("required" = ["name"]))]
pub struct KubeconfigSecret {
    /// The Secret's name.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Given<String>,
    /// The key in its data. Not set: `value`, as in Cluster API's `<cluster>-kubeconfig`.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Given<String>,
}
