use std::collections::BTreeMap;

use crate::domain::ids::Mac;
use crate::domain::node::NodeConfig;

/// The MACs of a node's interfaces, sorted.
pub fn macs(node: &NodeConfig) -> Vec<Mac> {
    names_by_mac(node).into_keys().collect()
}

/// Which NIC has which name.
pub fn names_by_mac(node: &NodeConfig) -> BTreeMap<Mac, String> {
    node.interfaces.iter().map(|interface| (interface.mac_address, interface.name.clone())).collect()
}
