//! A record as the previous operator may have written it: gaps are filled where there is no doubt.

use std::net::Ipv4Addr;
use std::sync::Arc;

use ipnet::Ipv4Net;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use multinic_actors::domain::ids::{Mac, NodeName, VmId};
use multinic_actors::domain::inventory::{Owner, Record};
use multinic_actors::domain::node::{ConfigHash, Interface, NodeConfig};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordDto {
    provider_id: String,
    node_name: String,
    instance_id: Option<String>,
    config: NodeDto,
    last_config_hash: Option<ConfigHash>,
    updated_at: Option<Value>,
    #[serde(default)]
    in_doubt: bool,
    owner: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeDto {
    node_name: Option<String>,
    instance_id: Option<String>,
    interfaces: Option<Vec<InterfaceDto>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InterfaceDto {
    // The previous operator leaves out an id, and an mtu, of 0.
    id: Option<u8>,
    name: Option<String>,
    mac_address: Mac,
    address: Ipv4Addr,
    cidr: Ipv4Net,
    mtu: Option<u16>,
    port_id: Option<String>,
    device_id: Option<String>,
    network_id: Option<String>,
    subnet_id: Option<String>,
}

/// Reads one record, or says why it cannot be used.
pub(super) fn record(value: &Value) -> Result<Record, String> {
    let dto = RecordDto::deserialize(value).map_err(|error| error.to_string())?;
    if dto.provider_id.is_empty() {
        return Err("providerId is empty".to_owned());
    }
    let node_name = NodeName::new(&dto.node_name).map_err(|error| error.to_string())?;
    let instance_id = [&dto.instance_id, &dto.config.instance_id]
        .into_iter()
        .find_map(|id| filled(id.clone()))
        .map(VmId::new)
        .ok_or("instanceId is missing")?;
    let config = Arc::new(node(dto.config, &node_name, &instance_id)?);
    Ok(Record {
        provider_id: dto.provider_id.into(),
        last_config_hash: dto.last_config_hash.unwrap_or_else(|| config.hash()),
        updated_at: timestamp(dto.updated_at.as_ref().and_then(Value::as_str)),
        in_doubt: dto.in_doubt,
        owner: dto.owner.and_then(|owner| Owner::deserialize(owner).ok()),
        node_name,
        instance_id,
        config,
    })
}

fn node(dto: NodeDto, node_name: &NodeName, instance_id: &VmId) -> Result<NodeConfig, String> {
    let name = match filled(dto.node_name) {
        Some(name) => NodeName::new(&name).map_err(|error| error.to_string())?,
        None => node_name.clone(),
    };
    let interfaces = dto.interfaces.unwrap_or_default();
    Ok(NodeConfig {
        node_name: name,
        instance_id: filled(dto.instance_id).map_or_else(|| instance_id.clone(), VmId::new),
        interfaces: interfaces.into_iter().map(interface).collect(),
    })
}

fn interface(dto: InterfaceDto) -> Interface {
    let id = dto.id.unwrap_or_default();
    Interface {
        id,
        name: filled(dto.name).unwrap_or_else(|| Interface::name_of(id)),
        mac_address: dto.mac_address,
        address: dto.address,
        cidr: dto.cidr,
        mtu: dto.mtu.unwrap_or_default(),
        port_id: filled(dto.port_id).map(Into::into),
        device_id: filled(dto.device_id).map(VmId::new),
        network_id: filled(dto.network_id).map(Into::into),
        subnet_id: filled(dto.subnet_id).map(Into::into),
    }
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

/// RFC 3339 with any offset and fraction, or without a zone (UTC). A time that cannot be read must not
/// cost the record: it becomes the epoch, older than anything.
fn timestamp(text: Option<&str>) -> Timestamp {
    let Some(text) = text.map(str::trim) else {
        return Timestamp::UNIX_EPOCH;
    };
    let as_utc = || {
        let civil: DateTime = text.parse().ok()?;
        civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    };
    text.parse().ok().or_else(as_utc).unwrap_or(Timestamp::UNIX_EPOCH)
}
