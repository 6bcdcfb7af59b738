//! What the document says of the answers. The answers themselves are written from the domain's types, which know
//! no document; a test holds the real ones against these.

#![allow(dead_code, reason = "only their schemas are used")]

use std::collections::BTreeMap;

use utoipa::ToSchema;

/// Workload clusters.
#[derive(ToSchema)]
pub(super) struct Providers {
    providers: Vec<Provider>,
    /// Where to go on, if a `limit` left some out.
    #[schema(nullable = false)]
    r#continue: Option<String>,
}

/// One workload cluster and its nodes.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Provider {
    /// The `k8sProviderID`.
    provider_id: String,
    node_count: u32,
    /// The newest of its nodes'.
    #[schema(format = DateTime)]
    updated_at: String,
    nodes: Vec<ProviderNode>,
}

/// A node in short.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct ProviderNode {
    provider_id: String,
    node_name: String,
    /// UUID of the VM.
    instance_id: String,
    interface_count: u32,
    /// When a change was delivered last.
    #[schema(format = DateTime)]
    updated_at: String,
}

/// What was delivered to a node.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Record {
    /// The `k8sProviderID`.
    provider_id: String,
    node_name: String,
    /// UUID of the VM.
    instance_id: String,
    config: NodeConfig,
    /// First 16 hex digits of the SHA-256 of its canonical JSON.
    last_config_hash: String,
    /// When a change was delivered last.
    #[schema(format = DateTime)]
    updated_at: String,
    /// The object the node belongs to. Missing in what the previous operator recorded.
    #[schema(nullable = false)]
    owner: Option<Owner>,
}

/// A node's interfaces, as posted.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct NodeConfig {
    node_name: String,
    /// UUID of the VM.
    instance_id: String,
    interfaces: Vec<Interface>,
}

/// One interface.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Interface {
    #[schema(maximum = 9)]
    id: u8,
    /// `multinic0` … `multinic9`.
    name: String,
    /// Lower case, with colons.
    mac_address: String,
    /// IPv4 address.
    #[schema(format = Ipv4)]
    address: String,
    /// Subnet of the address.
    cidr: String,
    /// In bytes.
    #[schema(minimum = 68, maximum = 9000)]
    mtu: u16,
    /// UUID of the Neutron port.
    #[schema(nullable = false)]
    port_id: Option<String>,
    /// UUID of the VM.
    #[schema(nullable = false)]
    device_id: Option<String>,
    /// UUID of the Neutron network.
    #[schema(nullable = false)]
    network_id: Option<String>,
    /// UUID of the Neutron subnet.
    #[schema(nullable = false)]
    subnet_id: Option<String>,
}

/// An object that owns a node.
#[derive(ToSchema)]
pub(super) struct Owner {
    namespace: String,
    name: String,
    uid: String,
    #[schema(format = DateTime)]
    created: String,
}

/// Configs.
#[derive(ToSchema)]
pub(super) struct Configs {
    configs: Vec<ConfigSummary>,
    /// Where to go on, if a `limit` left some out.
    #[schema(nullable = false)]
    r#continue: Option<String>,
}

/// The state of a config.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct ConfigSummary {
    namespace: String,
    name: String,
    uid: String,
    /// Generation of the spec that was really processed.
    observed_generation: i64,
    /// The condition `Ready`; null while it is unknown.
    #[schema(required)]
    ready: Option<bool>,
    /// The reason of the condition `Ready`.
    reason: String,
    message: String,
    /// The reason of the condition `Degraded`.
    degraded: String,
    paused: bool,
    /// The last success.
    #[schema(required, format = DateTime)]
    last_synced_at: Option<String>,
    /// Kept until the next success.
    #[schema(required)]
    last_error: Option<String>,
    /// While nodes with DOWN ports are sent again.
    #[schema(required)]
    down_port_retry: Option<DownPortRetry>,
    nodes: NodeCounts,
    /// At most 20.
    skipped: Vec<SkippedVm>,
    /// At most 20.
    pending_changes: Vec<PendingChange>,
    /// How many ports have which verdict.
    ports: BTreeMap<String, u32>,
    #[schema(required, format = DateTime)]
    next_poll_at: Option<String>,
    #[schema(required, format = DateTime)]
    last_poll_at: Option<String>,
    /// The last error with its request id and the next try.
    #[schema(required)]
    last_error_detail: Option<String>,
    #[schema(required, format = DateTime)]
    token_expires_at: Option<String>,
}

/// The state of a config, and what was decided for each VM.
#[derive(ToSchema)]
pub(super) struct ConfigDetail {
    #[schema(inline)]
    #[serde(flatten)]
    summary: ConfigSummary,
    vms: Vec<VmReport>,
}

/// The repeated sends of nodes with DOWN ports.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct DownPortRetry {
    /// Over the ids of the DOWN ports.
    hash: String,
    #[schema(required, format = DateTime)]
    last_attempt: Option<String>,
    fast_attempts: u32,
}

/// How many nodes are where.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct NodeCounts {
    /// VMs with at least one selected interface.
    desired: u32,
    /// Of these, how many are delivered as desired.
    delivered: u32,
    /// VMs that are left out.
    skipped: u32,
}

/// A VM that is left out.
#[derive(ToSchema)]
pub(super) struct SkippedVm {
    vm: String,
    reason: String,
    /// What to do about it.
    message: String,
}

/// A change that waits.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct PendingChange {
    node: String,
    /// What the annotation `multinic.example.com/approve` must hold to let it through.
    change_id: String,
    what: String,
}

/// What was decided for one VM.
#[derive(ToSchema)]
pub(super) struct VmReport {
    vm: String,
    /// When known.
    #[schema(required)]
    node: Option<String>,
    /// Why it is left out, if it is.
    #[schema(required)]
    skipped: Option<String>,
    ports: Vec<PortVerdict>,
}

/// What was decided for one port.
#[derive(ToSchema)]
pub(super) struct PortVerdict {
    port: String,
    /// `Selected`, or the first rule that leaves it out.
    verdict: String,
    /// The facts behind it.
    detail: String,
    /// The interface it became.
    #[schema(nullable = false)]
    interface: Option<String>,
}

/// An actor and those below it.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Actor {
    kind: String,
    /// Unique below its parent.
    name: String,
    phase: String,
    restarts: u64,
    #[schema(required)]
    last_error: Option<String>,
    #[schema(no_recursion)]
    children: Vec<Actor>,
}
