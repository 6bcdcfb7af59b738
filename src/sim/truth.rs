//! What is in the cloud, and what nodes should get of it: worked out the plain
//! way, with nothing shared with the code that is being checked.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde::Serialize;

use super::objects::{CreatedAt, Network, Port, Project, Server, Subnet};
use super::world::World;

/// A copy of everything in the cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Truth {
    /// All projects.
    pub projects: Vec<Project>,
    /// By id.
    pub networks: BTreeMap<String, Network>,
    /// By id.
    pub subnets: BTreeMap<String, Subnet>,
    /// By id.
    pub servers: BTreeMap<String, Server>,
    /// By id.
    pub ports: BTreeMap<String, Port>,
}

/// One NIC that a node should get.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ExpectedNic {
    /// Lower case, colons.
    pub mac: String,
    /// IPv4.
    pub address: String,
    /// The subnet's.
    pub cidr: String,
    /// The network's.
    pub mtu: u32,
}

/// What every node should get; nodes without NICs are missing.
pub type ExpectedNodes = BTreeMap<String, BTreeSet<ExpectedNic>>;

impl Truth {
    pub(crate) fn of(world: &World) -> Self {
        Self {
            projects: world.identity.projects.clone(),
            networks: world.networks.clone(),
            subnets: world.subnets.clone(),
            servers: world.servers.clone(),
            ports: world.ports.clone(),
        }
    }

    /// The NICs of the ports of `vms` that are ACTIVE or DOWN, owned by compute or
    /// nobody, of this project, with a readable `created_at`, and with an IPv4 in
    /// one of the subnets (the first subnet that fits, its lowest address). Nodes
    /// are named as their servers, in lower case. No indices, no limits.
    pub fn expected_nodes<S: AsRef<str>>(&self, project: &str, vms: &[S], subnets: &[S]) -> ExpectedNodes {
        let mut nodes = ExpectedNodes::new();
        for vm in vms {
            let Some(server) = self.servers.get(vm.as_ref()) else {
                continue;
            };
            let ports = self.ports.values().filter(|port| port.device_id.eq_ignore_ascii_case(&server.id));
            let counted = ports.filter(|port| port.project_id == project && counts(port));
            let nics: BTreeSet<_> = counted.filter_map(|port| self.nic(port, subnets)).collect();
            if !nics.is_empty() {
                nodes.entry(server.name.to_lowercase()).or_default().extend(nics);
            }
        }
        nodes
    }

    fn nic<S: AsRef<str>>(&self, port: &Port, subnets: &[S]) -> Option<ExpectedNic> {
        let (subnet, address) = subnets.iter().find_map(|id| {
            let addresses = port.fixed_ips.iter().filter(|ip| ip.subnet_id == id.as_ref());
            let lowest: Ipv4Addr = addresses.filter_map(|ip| ip.ip_address.parse().ok()).min()?;
            Some((self.subnets.get(id.as_ref())?, lowest))
        })?;
        let network =
            self.networks.get(&subnet.network_id).filter(|network| network.id == port.network_id)?;
        Some(ExpectedNic {
            mac: plain_mac(&port.mac_address),
            address: address.to_string(),
            cidr: subnet.cidr.to_string(),
            mtu: network.mtu,
        })
    }
}

fn counts(port: &Port) -> bool {
    let is_status_allowed = matches!(port.status.as_deref(), None | Some("ACTIVE" | "DOWN"));
    let is_compute = port.device_owner.is_empty() || port.device_owner.starts_with("compute:");
    is_status_allowed && is_compute && is_dated(port) && port.raw.is_none()
}

/// With a zone, or without one: then it is UTC.
fn is_dated(port: &Port) -> bool {
    match &port.created_at {
        CreatedAt::Text(text) => {
            text.parse::<jiff::Timestamp>().is_ok() || text.parse::<jiff::civil::DateTime>().is_ok()
        }
        CreatedAt::Null | CreatedAt::Absent => false,
    }
}

fn plain_mac(mac: &str) -> String {
    let digits: String = mac.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_ascii_lowercase();
    let pairs: Vec<&str> = (0..digits.len() / 2).map(|pair| &digits[pair * 2..pair * 2 + 2]).collect();
    pairs.join(":")
}
