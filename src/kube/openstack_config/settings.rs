//! `spec.settings` and `spec.secrets`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Given;

/// How the systems are reached, which ports qualify, how they are numbered and how often to look. Durations
/// are written as in Go: `10s`, `2m`, `1m30s`, `500ms`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Base URL of the Contrabass API.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 2048))]
    pub contrabass_endpoint: Given<String>,
    /// The key that decrypts the administrator's password, as a last resort. A Secret is better.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 1024))]
    pub contrabass_encrypt_key: Given<InlineKey>,
    /// Deadline of a request to Contrabass. Not set or 0: 30s.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 64), regex(pattern = DURATION))]
    pub contrabass_timeout: Given<String>,
    /// Do not verify Contrabass' certificate.
    #[serde(rename = "contrabassInsecureTLS", default, skip_serializing_if = "Given::is_missing")]
    pub contrabass_insecure_tls: Given<bool>,
    /// Base URL of the Viola API. Not set: the operator's.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 2048))]
    pub viola_endpoint: Given<String>,
    /// Deadline of one request to Keystone, Neutron or Nova. Not set or 0: 30s.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 64), regex(pattern = DURATION))]
    pub openstack_timeout: Given<String>,
    /// Do not verify the certificates of Keystone, Neutron and Nova.
    #[serde(rename = "openstackInsecureTLS", default, skip_serializing_if = "Given::is_missing")]
    pub openstack_insecure_tls: Given<bool>,
    /// Neutron's URL instead of the catalog's, with or without a trailing `/` or version.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 2048))]
    pub openstack_neutron_endpoint: Given<String>,
    /// Nova's URL instead of the catalog's, with or without a trailing `/` or version.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 2048))]
    pub openstack_nova_endpoint: Given<String>,
    /// The catalog interface to use: `public`, `internal` or `admin`. Set, it is strict; not set, public is
    /// preferred and any other of the region will do.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 64), regex(pattern = INTERFACE))]
    pub openstack_endpoint_interface: Given<String>,
    /// The catalog region to use. Set, it is strict.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 255))]
    pub openstack_endpoint_region: Given<String>,
    /// The server metadata key that holds the node name. Not set, or blank there: the server's name.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 255))]
    pub openstack_node_name_metadata_key: Given<String>,
    /// Port statuses that qualify, without regard to case; `*` is all. Not set: ACTIVE and DOWN.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 100), inner(length(max = 64)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub openstack_port_allowed_statuses: Given<Vec<Given<String>>>,
    /// How often a node with DOWN ports is sent again at the fast interval, before the slow one. Not set: 5;
    /// less than 1 counts as 1.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    pub down_port_fast_retry_max: Given<i32>,
    /// How often to look after a change. Not set or 0: 20s.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 64), regex(pattern = DURATION))]
    pub poll_fast_interval: Given<String>,
    /// How often to look when nothing changes; never more often than the fast interval. Not set or 0: 2m.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 64), regex(pattern = DURATION))]
    pub poll_slow_interval: Given<String>,
    /// When to look again after a failed look; grows while it goes on failing. Not set or 0: 30s.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 64), regex(pattern = DURATION))]
    pub poll_error_interval: Given<String>,
    /// For how long after a change the fast interval holds. Not set: 3m; 0: not at all.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 64), regex(pattern = DURATION))]
    pub poll_fast_window: Given<String>,
    /// How interfaces are numbered. `Sticky`: first by MAC, then a NIC keeps its index as long as its port
    /// exists and a new one takes the lowest free index. `MAC`: by MAC at every change. `Subnet`: in the order
    /// of `subnetIDs`, then by MAC, at every change. Not set: the operator's.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(extend("enum" = ["Sticky", "MAC", "Subnet"]))]
    pub interface_order: Given<String>,
    /// What may be done to a node that was delivered before. `Auto`: everything. `AddOnly`: new interfaces
    /// only. `Approve`: renames, removals and address changes wait for the annotation
    /// `multinic.example.com/approve` with the change ids shown in the status. `Observe`: nothing is sent, the
    /// status shows what would be. Not set: the operator's.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(extend("enum" = ["Auto", "AddOnly", "Approve", "Observe"]))]
    pub change_policy: Given<String>,
    /// Take ports that are older than this object too. Not set: false. A port that was delivered before is
    /// never left out for its age.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    pub include_existing_ports: Given<bool>,
    /// Take ports created at this time (RFC 3339) or later, instead of at this object's creation or later.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 64))]
    pub ports_created_after: Given<String>,
    /// Whose ports qualify: `Any`, or `Own` for those of the project alone. Not set: `Any`.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(extend("enum" = ["Any", "Own"]))]
    pub port_project: Given<String>,
    /// What happens to a VM that is taken out, or to all when this object is deleted. `Retain`: its records and
    /// node configs stay. `Prune`: they go. Not set: `Retain`.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(extend("enum" = ["Retain", "Prune"]))]
    pub removal_policy: Given<String>,
    /// Send everything again this often, even if nothing changed; at least 1s. Not set or 0: never.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(max = 64), regex(pattern = DURATION))]
    pub resync_interval: Given<String>,
    /// PEM certificates that are trusted for this object's endpoints, beside the operator's own.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    pub ca_bundle_secret_ref: Given<SecretKey>,
}

/// Secrets of the same namespace.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Secrets {
    /// The key that decrypts the administrator's password. Not set: key `CONTRABASS_ENCRYPT_KEY` of the Secret
    /// `contrabass-encrypt-key`, then `settings.contrabassEncryptKey`.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    pub contrabass_encrypt_key_secret_ref: Given<SecretKey>,
}

/// A key of a Secret of the same namespace.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[schemars(extend("required" = ["key", "name"]))]
pub struct SecretKey {
    /// The Secret's name.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Given<String>,
    /// The key in its data.
    #[serde(default, skip_serializing_if = "Given::is_missing")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Given<String>,
}

/// An encrypt key that stands in the object itself. It is written back as it is, but never shown by `Debug`.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, JsonSchema)]
#[serde(transparent)]
pub struct InlineKey(pub String);

impl fmt::Debug for InlineKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

/// What Go's `time.ParseDuration` reads, without a minus sign; blank counts as not set.
const DURATION: &str = r"^\s*(\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+|[+-]?0)?\s*$";

/// In any case, also as `publicURL` (the catalog of Keystone v2); blank counts as not set.
const INTERFACE: &str = r"^\s*(([Pp][Uu][Bb][Ll][Ii][Cc]|[Ii][Nn][Tt][Ee][Rr][Nn][Aa][Ll]|[Aa][Dd][Mm][Ii][Nn])([Uu][Rr][Ll])?)?\s*$";
