//! A validated `OpenstackConfig`: every default resolved, every value usable. The only input of the pure part.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::ids::{ConfigId, ProjectId, ProviderId, SubnetId, VmId};

/// One `OpenstackConfig`, valid by construction.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which object, and which life of it.
    pub id: ConfigId,
    /// `metadata.generation` of the spec this was made from (1 without Kubernetes).
    pub generation: i64,
    /// A hash over everything this was made from, annotations that matter included. Equal = nothing to do.
    pub revision: u64,
    /// When the object was created.
    pub created: Timestamp,
    /// No polls and no sends.
    pub paused: bool,
    /// The VMs, without doubles, in the object's order.
    pub vms: Vec<VmId>,
    /// The target subnets.
    pub subnets: SubnetSelector,
    /// Where the nodes are delivered.
    pub provider: ProviderId,
    /// How to reach the cloud.
    pub cloud: CloudAccess,
    /// Which ports qualify and in which order they are numbered.
    pub rules: SelectionRules,
    /// What may be done to a node that was delivered before.
    pub change_policy: ChangePolicy,
    /// The change ids of the `approve` annotation.
    pub approvals: BTreeSet<String>,
    /// What happens to a VM that was taken out.
    pub removal_policy: RemovalPolicy,
    /// How often to look.
    pub polling: Polling,
    /// How many re-sends of a node with DOWN ports go at the fast interval.
    pub down_port_fast_retry_max: u32,
    /// Base URL of the Viola API, without a trailing slash.
    pub viola_endpoint: String,
    /// The value of the `force-reconcile` annotation; a new value polls at once and drops the caches.
    pub force_reconcile: Option<String>,
}

/// Which subnets are the targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubnetSelector {
    /// By UUID, in order, without doubles; at least one.
    Ids(Vec<SubnetId>),
    /// By a subnet's name: in the config's project first, then among all visible ones.
    Name(String),
}

/// How to reach OpenStack and with whose credentials.
#[derive(Clone, Debug)]
pub struct CloudAccess {
    /// Where the credentials come from.
    pub source: CredentialSource,
    /// The project that the token is scoped to.
    pub project: ProjectId,
    /// Deadline of one request.
    pub timeout: Duration,
    /// Do not verify certificates of Keystone, Neutron and Nova.
    pub insecure_tls: bool,
    /// Overrides the catalog; with or without a trailing `/` or version.
    pub neutron_endpoint: Option<String>,
    /// Overrides the catalog; with or without a trailing `/` or version.
    pub nova_endpoint: Option<String>,
    /// Set: strict. Not set: prefer public, else any in the region.
    pub interface: Option<EndpointInterface>,
    /// Set: strict.
    pub region: Option<String>,
    /// The server metadata key that holds the node name.
    pub node_name_metadata_key: Option<String>,
    /// PEM trusted for this config's endpoints.
    pub ca_bundle: Option<SecretKeyRef>,
}

/// Where the credentials come from.
#[derive(Clone, Debug)]
pub enum CredentialSource {
    /// Contrabass gives Keystone's URL and an administrator whose password is encrypted.
    Contrabass {
        /// Base URL without a trailing slash.
        endpoint: String,
        /// The provider to look up.
        provider_id: String,
        /// Where the encrypt key is.
        key: EncryptKeySource,
        /// Deadline of the look-up.
        timeout: Duration,
        /// Do not verify Contrabass' certificate.
        insecure_tls: bool,
    },
}

/// Where Contrabass' encrypt key is looked for.
#[derive(Clone, Debug)]
pub struct EncryptKeySource {
    /// Set: this Secret or nothing. Not set: the default Secret of the namespace, then `inline`.
    pub secret: Option<SecretKeyRef>,
    /// `settings.contrabassEncryptKey`, trimmed; `None` when empty.
    pub inline: Option<SecretString>,
}

/// The Secret that holds the encrypt key where the object names none.
pub const DEFAULT_KEY_SECRET: (&str, &str) = ("contrabass-encrypt-key", "CONTRABASS_ENCRYPT_KEY");

/// A key of a Secret in the config's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SecretKeyRef {
    /// The Secret's name.
    pub name: String,
    /// The key in its data.
    pub key: String,
}

/// The interface of a catalog endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndpointInterface {
    /// For everybody.
    Public,
    /// For the cloud's own services.
    Internal,
    /// For administrators.
    Admin,
}

impl EndpointInterface {
    /// The word in the catalog.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

/// Which ports qualify, and how they are numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionRules {
    /// Allowed port statuses.
    pub statuses: AllowedStatuses,
    /// From when on a port must have been created.
    pub baseline: Baseline,
    /// Only ports of this project; `None` = any.
    pub project: Option<ProjectId>,
    /// How interfaces are numbered.
    pub order: InterfaceOrder,
    /// For how long a delivered port that passes through BUILD keeps its place.
    pub rewiring_grace: Duration,
}

/// The statuses a port may have. A port without a status passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedStatuses {
    /// `*`.
    All,
    /// These, upper case.
    Only(BTreeSet<String>),
}

impl AllowedStatuses {
    /// Whether a port of this status qualifies.
    pub fn allows(&self, status: Option<&str>) -> bool {
        match (self, status) {
            (Self::All, _) | (_, None) => true,
            (Self::Only(allowed), Some(status)) => allowed.contains(&status.to_ascii_uppercase()),
        }
    }
}

/// From when on a port must have been created to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Any port.
    Any,
    /// Ports created at this moment or later; whole seconds, as Neutron's `created_at`.
    Since(Timestamp),
}

/// How interfaces are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InterfaceOrder {
    /// A NIC keeps its index as long as its port exists; a new one takes the lowest free index.
    #[default]
    Sticky,
    /// By MAC at every change, as the previous operator did.
    #[serde(rename = "MAC")]
    Mac,
    /// By the order of the subnets, then MAC, at every change.
    Subnet,
}

/// What may be done to a node that was delivered before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChangePolicy {
    /// Everything.
    #[default]
    Auto,
    /// New interfaces only.
    AddOnly,
    /// New interfaces; renames, removals and address changes wait for an approval.
    Approve,
    /// Nothing is sent at all.
    Observe,
}

impl ChangePolicy {
    /// Whether delivered indices must not be given away: a change that would move them may be held.
    pub fn pins_indices(self) -> bool {
        self != Self::Auto
    }
}

/// What happens to the records of a VM that was taken out or of an object that was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RemovalPolicy {
    /// They stay as they are.
    #[default]
    Retain,
    /// They go.
    Prune,
}

/// How often to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polling {
    /// After a change.
    pub fast: Duration,
    /// When stable; never below `fast`.
    pub slow: Duration,
    /// The first retry after a failed poll.
    pub error: Duration,
    /// How long after a change polls go at the fast interval.
    pub fast_window: Duration,
    /// Send everything again this often; `None` = never.
    pub resync: Option<Duration>,
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            fast: Duration::from_secs(20),
            slow: Duration::from_secs(120),
            error: Duration::from_secs(30),
            fast_window: Duration::from_secs(180),
            resync: None,
        }
    }
}

/// An object that exists but cannot be used as it is: what is wrong, for the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidConfig {
    /// Which object.
    pub id: ConfigId,
    /// `metadata.generation` of the spec that was looked at.
    pub generation: i64,
    /// The condition's reason: `ConfigError` or `SubnetRequired`.
    pub reason: super::reason::Reason,
    /// Every problem, field by field, with what to do.
    pub message: String,
}

/// What a source knows of one object now.
#[derive(Clone, Debug)]
pub enum Declared {
    /// It can be worked on.
    Valid(Arc<Config>),
    /// It cannot; what was delivered for it stays.
    Invalid(InvalidConfig),
}

impl Declared {
    /// Which object.
    pub fn id(&self) -> &ConfigId {
        match self {
            Self::Valid(config) => &config.id,
            Self::Invalid(invalid) => &invalid.id,
        }
    }
}
