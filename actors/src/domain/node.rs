//! What is delivered: a node's interface list, and the hash that tells whether it changed.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ids::{Mac, NetworkId, NodeName, PortId, SubnetId, VmId};
use crate::planted::{self, Bug};

/// How many interfaces a node can have: `multinic0` … `multinic9`.
pub const MAX_INTERFACES: usize = 10;

/// The MTU values that the node agent takes; it reads others as an order to tear the NIC down.
pub const MTU_RANGE: std::ops::RangeInclusive<i64> = 68..=9000;

/// One interface of a node. The six fields of the wire, and beside them where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// 0…9. Missing in the previous operator's files when it is 0.
    #[serde(default)]
    pub id: u8,
    /// `multinic{id}`.
    pub name: String,
    /// The MAC by which the agent finds the NIC.
    pub mac_address: Mac,
    /// The IPv4 address.
    pub address: Ipv4Addr,
    /// The subnet's range.
    pub cidr: Ipv4Net,
    /// The network's MTU in bytes.
    pub mtu: u16,
    /// The Neutron port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_id: Option<PortId>,
    /// The Nova server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<VmId>,
    /// The Neutron network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_id: Option<NetworkId>,
    /// The Neutron subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<SubnetId>,
}

impl Interface {
    /// `multinic{id}`.
    pub fn name_of(id: u8) -> String {
        format!("multinic{id}")
    }

    /// The fields that the agent sees: what makes two interfaces the same.
    fn essence(&self) -> (u8, &str, Mac, Ipv4Addr, Ipv4Net, u16) {
        let mtu = if planted::is(Bug::MtuIgnored) { 0 } else { self.mtu };
        (self.id, &self.name, self.mac_address, self.address, self.cidr, mtu)
    }
}

/// A node's interface list, as POSTed and recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfig {
    /// The Kubernetes node's name.
    pub node_name: NodeName,
    /// The Nova server's UUID.
    pub instance_id: VmId,
    /// The interfaces in the order of their ids.
    pub interfaces: Vec<Interface>,
}

/// First 16 hex digits of the SHA-256 of a node's canonical JSON.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfigHash(String);

impl ConfigHash {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ConfigHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl NodeConfig {
    /// The hash over the three node fields and the six interface fields: keys sorted, no spaces, UTF-8.
    pub fn hash(&self) -> ConfigHash {
        // The structs below list their fields in alphabetical order: that is the canonical order.
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct CanonicalInterface<'a> {
            address: Ipv4Addr,
            cidr: Ipv4Net,
            id: u8,
            mac_address: Mac,
            mtu: u16,
            name: &'a str,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct CanonicalNode<'a> {
            instance_id: &'a VmId,
            interfaces: Vec<CanonicalInterface<'a>>,
            node_name: &'a NodeName,
        }
        let interfaces = self.interfaces.iter().map(|i| CanonicalInterface {
            address: i.address,
            cidr: i.cidr,
            id: i.id,
            mac_address: i.mac_address,
            mtu: i.mtu,
            name: &i.name,
        });
        let canonical = CanonicalNode {
            instance_id: &self.instance_id,
            interfaces: interfaces.collect(),
            node_name: &self.node_name,
        };
        let json = serde_json::to_vec(&canonical).unwrap_or_default();
        let digest = Sha256::digest(json);
        ConfigHash(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    }

    /// Whether every interface is one that the agent takes: index, MTU and address in range.
    pub fn is_valid(&self) -> bool {
        self.interfaces.iter().all(|interface| {
            usize::from(interface.id) < MAX_INTERFACES
                && MTU_RANGE.contains(&i64::from(interface.mtu))
                && interface.cidr.contains(&interface.address)
        })
    }

    /// Whether the agent would see no difference: port, device, network and subnet ids do not count.
    pub fn is_same(&self, other: &Self) -> bool {
        self.node_name == other.node_name
            && self.instance_id == other.instance_id
            && self.interfaces.len() == other.interfaces.len()
            && self.interfaces.iter().zip(&other.interfaces).all(|(a, b)| a.essence() == b.essence())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    fn manager() -> NodeConfig {
        serde_json::from_value(serde_json::json!({
            "nodeName": "manager01",
            "instanceId": "08186d75-754e-449c-b210-c0ea822727a7",
            "interfaces": [{
                "name": "multinic0", "macAddress": "FA:16:3e:aa:bb:cc",
                "address": "10.0.0.10", "cidr": "10.0.0.0/24", "mtu": 1450, "portId": "p1",
            }],
        }))
        .unwrap()
    }

    #[test]
    fn the_hash_is_the_documented_one() {
        assert_eq!(manager().hash().as_str(), "78b8d8d70eaec80d");
    }

    #[test]
    fn where_an_interface_came_from_is_not_part_of_the_hash() {
        let mut other = manager();
        other.interfaces[0].port_id = None;
        assert_eq!(other.hash(), manager().hash());
        assert!(other.is_same(&manager()));
    }

    #[test]
    fn id_zero_is_always_written() {
        assert!(serde_json::to_string(&manager()).unwrap().contains(r#""id":0"#));
    }

    /// The documented rule, by a way of its own: sorted keys, no spaces, the nine fields that count.
    fn documented_hash(node: &NodeConfig) -> String {
        let interface = |i: &Interface| {
            serde_json::json!({
                "id": i.id, "name": i.name, "macAddress": i.mac_address, "address": i.address,
                "cidr": i.cidr, "mtu": i.mtu,
            })
        };
        let value = serde_json::json!({
            "nodeName": node.node_name, "instanceId": node.instance_id,
            "interfaces": node.interfaces.iter().map(interface).collect::<Vec<_>>(),
        });
        let text = sorted(&value);
        Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    fn sorted(value: &serde_json::Value) -> String {
        match value {
            serde_json::Value::Object(fields) => {
                let fields: std::collections::BTreeMap<_, _> = fields.iter().collect();
                let fields = fields.iter().map(|(key, value)| format!("\"{key}\":{}", sorted(value)));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
            }
            serde_json::Value::Array(items) => {
                format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(","))
            }
            plain => plain.to_string(),
        }
    }

    fn nodes() -> impl Strategy<Value = NodeConfig> {
        let nics = prop::collection::vec((0_u8..3, 1_u8..4, 68_u16..71, any::<bool>()), 0..3);
        (0_u8..2, 0_u8..2, nics).prop_map(|(name, vm, nics)| {
            let mut node = samples::node(&format!("n{name}"), &format!("vm-{vm}"), &[]);
            node.interfaces = nics
                .into_iter()
                .map(|(index, n, mtu, has_port)| {
                    let nic = samples::nic(index, n);
                    Interface { mtu, port_id: nic.port_id.clone().filter(|_| has_port), ..nic }
                })
                .collect();
            node
        })
    }

    #[test]
    fn each_field_that_the_agent_sees_makes_a_difference() {
        let edits: [fn(&mut NodeConfig); 8] = [
            |node| node.node_name = samples::name("other"),
            |node| node.instance_id = "other".into(),
            |node| node.interfaces[0].id = 1,
            |node| node.interfaces[0].name = "multinic1".to_owned(),
            |node| node.interfaces[0].mac_address = samples::mac(9),
            |node| node.interfaces[0].address = "10.0.0.11".parse().unwrap(),
            |node| node.interfaces[0].cidr = "10.0.0.0/23".parse().unwrap(),
            |node| node.interfaces[0].mtu = 1451,
        ];
        for (n, edit) in edits.into_iter().enumerate() {
            let mut other = manager();
            edit(&mut other);
            assert!(!other.is_same(&manager()) && other.hash() != manager().hash(), "edit {n}");
        }
    }

    proptest! {
        #[test]
        fn two_lists_are_the_same_exactly_if_their_hashes_are(a in nodes(), b in nodes()) {
            prop_assert_eq!(a.is_same(&b), a.hash() == b.hash());
            prop_assert_eq!(a.is_same(&b), b.is_same(&a));
        }

        #[test]
        fn the_hash_follows_the_documented_rule(node in nodes()) {
            prop_assert_eq!(node.hash().to_string(), documented_hash(&node));
        }

        #[test]
        fn a_list_comes_back_as_it_was_written(node in nodes()) {
            let text = serde_json::to_string(&node).unwrap();
            prop_assert_eq!(serde_json::from_str::<NodeConfig>(&text).unwrap(), node);
        }
    }
}
