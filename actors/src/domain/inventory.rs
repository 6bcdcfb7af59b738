//! The inventory: what was delivered, and what must survive a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::config::ChangePolicy;
use super::ids::{ConfigId, ConfigName, Mac, NodeName, PortId, ProviderId, VmId};
use super::node::{ConfigHash, NodeConfig};
use super::status::DownPortRetry;

/// Key of a record: node names are unique within one delivery target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    /// The delivery target.
    pub provider: ProviderId,
    /// The node.
    pub node: NodeName,
}

/// A delivered node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The delivery target.
    pub provider_id: ProviderId,
    /// The node.
    pub node_name: NodeName,
    /// The VM.
    pub instance_id: VmId,
    /// What was delivered.
    pub config: Arc<NodeConfig>,
    /// Its hash.
    pub last_config_hash: ConfigHash,
    /// When a change of it was last delivered.
    pub updated_at: Timestamp,
    /// Whose node it is; missing in the previous operator's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

impl Record {
    /// Its key.
    pub fn key(&self) -> RecordKey {
        RecordKey {
            provider: self.provider_id.clone(),
            node: self.node_name.clone(),
        }
    }
}

/// Which config owns a node, with what decides between two: the older object wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The config.
    #[serde(flatten)]
    pub id: ConfigId,
    /// When the object was created.
    pub created: Timestamp,
}

/// An index that a port holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// 0…9.
    pub index: u8,
    /// The port; missing where only the MAC is known (records of the previous operator).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<PortId>,
    /// The port's MAC.
    pub mac: Mac,
}

/// What is kept per config, beside the records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigState {
    /// Which object.
    #[serde(flatten)]
    pub name: ConfigName,
    /// Which life of it this was last written for.
    pub uid: Arc<str>,
    /// When the object was first seen, where nothing else tells (configs from a folder).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<Timestamp>,
    /// The policy it was last run with.
    #[serde(default)]
    pub policy: ChangePolicy,
    /// Index allocations per VM.
    #[serde(default)]
    pub allocations: BTreeMap<VmId, Vec<Held>>,
    /// The DOWN-port retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_port_retry: Option<DownPortRetry>,
}

/// The whole inventory at one moment. Cheap to clone: the records are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Delivered nodes.
    pub records: BTreeMap<RecordKey, Arc<Record>>,
    /// What is kept per config.
    pub configs: BTreeMap<ConfigName, Arc<ConfigState>>,
    /// What the store holds but nobody here can read: it travels along and is written back as it is.
    pub foreign: Arc<Foreign>,
}

/// Entries of an inventory that cannot be used as they are, for example a record of the previous
/// operator with a node name that no Kubernetes node can have. Never judged, never lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// Entries that stood among the records.
    pub records: Vec<serde_json::Value>,
    /// Entries that stood among the configs.
    pub configs: Vec<serde_json::Value>,
}
