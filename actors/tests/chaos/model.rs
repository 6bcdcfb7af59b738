//! What a look must lead to, written down once more and in another way than the product does it: from the
//! ports that a look gave straight to sets of facts. It decides no index; that is checked against history.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use jiff::Timestamp;
use multinic_actors::domain::config::{AllowedStatuses, Baseline, Config, InterfaceOrder};
use multinic_actors::domain::ids::{Mac, PortId, VmId};
use multinic_actors::domain::node::NodeConfig;
use multinic_actors::domain::port::{Observation, Port, Server};

/// How sure it is that the operator knows something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sure {
    No,
    Maybe,
    Yes,
}

/// What happened before, as far as it decides which ports count.
pub trait Past {
    /// Whether the port was delivered to this VM's node (surely), or to some node (maybe).
    fn was_delivered(&self, vm: &VmId, port: &Port) -> Sure;
    /// For how long the port has been in BUILD.
    fn in_build_for(&self, port: &PortId) -> Duration;
}

/// A NIC as it has to arrive at the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub address: Ipv4Addr,
    pub cidr: Ipv4Net,
    pub mtu: i64,
    pub rank: usize,
    pub port: PortId,
    pub is_down: bool,
}

/// What has to become of a VM's node.
#[derive(Clone, Debug)]
pub enum Expect {
    /// Nothing may be sent; the text says why.
    Silence(&'static str),
    /// It depends on what only the operator knows.
    Unclear,
    Node(Node),
}

/// The node's NICs: those that must be there, and those that may.
#[derive(Clone, Debug)]
pub struct Node {
    pub name: String,
    pub must: BTreeMap<Mac, Facts>,
    pub may: BTreeMap<Mac, Facts>,
}

/// What every VM of a config must get after this look.
pub fn expect(config: &Config, seen: &Observation, past: &impl Past) -> BTreeMap<VmId, Expect> {
    config.vms.iter().map(|vm| (vm.clone(), expect_vm(config, vm, seen, past))).collect()
}

fn expect_vm(config: &Config, vm: &VmId, seen: &Observation, past: &impl Past) -> Expect {
    let listed = seen.ports.get(vm).map(Vec::as_slice).unwrap_or_default();
    if listed.iter().any(Result::is_err) {
        return Expect::Silence("a port cannot be read");
    }
    let ports: Vec<&Port> = listed.iter().flatten().collect();
    let (mut must, mut may) = (BTreeMap::new(), BTreeMap::new());
    let mut is_doubled = Sure::No;
    for port in &ports {
        let (sure, facts) = qualifies(config, vm, port, seen, past);
        let Some(facts) = facts else { continue };
        if ports.iter().any(|twin| twin.id != port.id && twin.mac == port.mac && is_servers(twin)) {
            is_doubled = is_doubled.max(sure);
        }
        match sure {
            Sure::Yes => drop(must.insert(port.mac, facts)),
            Sure::Maybe => drop(may.insert(port.mac, facts)),
            Sure::No => {}
        }
    }
    match is_doubled {
        Sure::Yes => return Expect::Silence("two ports have one MAC"),
        Sure::Maybe => return Expect::Unclear,
        Sure::No => {}
    }
    if must.is_empty() && may.is_empty() {
        return Expect::Silence("no port qualifies");
    }
    let Some(name) = node_name(config, seen.servers.get(vm)) else {
        return Expect::Silence("the node's name is not known or not usable");
    };
    let is_bad = |facts: &Facts| !(68..=9000).contains(&facts.mtu);
    if must.values().any(is_bad) && must.len() + may.len() <= 10 {
        return Expect::Silence("an MTU is out of range");
    }
    if must.values().chain(may.values()).any(is_bad) {
        return Expect::Unclear;
    }
    Expect::Node(Node { name, must, may })
}

fn is_servers(port: &Port) -> bool {
    port.owner.is_empty() || port.owner.starts_with("compute:")
}

/// Whether the port becomes a NIC, and with which facts.
fn qualifies(
    config: &Config,
    vm: &VmId,
    port: &Port,
    seen: &Observation,
    past: &impl Past,
) -> (Sure, Option<Facts>) {
    let Some(facts) = facts_of(port, seen).filter(|_| is_servers(port)) else {
        return (Sure::No, None);
    };
    let delivered = past.was_delivered(vm, port);
    let status = port.status.as_deref().unwrap_or("").to_uppercase();
    let by_status = match &config.rules.statuses {
        AllowedStatuses::All => Sure::Yes,
        AllowedStatuses::Only(allowed) if status.is_empty() || allowed.contains(&status) => Sure::Yes,
        AllowedStatuses::Only(_) if status == "BUILD" => {
            let is_young = past.in_build_for(&port.id) < config.rules.rewiring_grace;
            if is_young { delivered } else { delivered.min(Sure::Maybe) }
        }
        AllowedStatuses::Only(_) => Sure::No,
    };
    let by_age = match config.rules.baseline {
        Baseline::Any => Sure::Yes,
        Baseline::Since(since) if made(port).is_some_and(|made| made.as_second() >= since.as_second()) => {
            Sure::Yes
        }
        Baseline::Since(_) => delivered,
    };
    (by_status.min(by_age), Some(facts))
}

fn made(port: &Port) -> Option<Timestamp> {
    port.created_at.as_deref()?.parse().ok()
}

fn facts_of(port: &Port, seen: &Observation) -> Option<Facts> {
    for (rank, subnet) in seen.subnets.iter().enumerate() {
        let IpNet::V4(cidr) = subnet.cidr else { continue };
        if subnet.network != port.network {
            continue;
        }
        let in_subnet = port.fixed_ips.iter().filter(|ip| ip.subnet == subnet.id);
        let v4 = in_subnet.filter_map(|ip| match ip.address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        if let Some(address) = v4.min() {
            let (mtu, port, is_down) = (subnet.mtu, port.id.clone(), port.status.as_deref() == Some("DOWN"));
            return Some(Facts { address, cidr, mtu, rank, port, is_down });
        }
    }
    None
}

/// The name of a VM's node, if it is known and usable.
pub fn node_name(config: &Config, server: Option<&Server>) -> Option<String> {
    let Some(Server::Found { name, metadata }) = server else {
        return None;
    };
    let label = config.cloud.node_name_metadata_key.as_ref().and_then(|key| metadata.get(key));
    let name = label.filter(|label| !label.trim().is_empty()).unwrap_or(name).trim().to_lowercase();
    let is_usable = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_usable.then_some(name)
}

/// Whether what was sent is the whole of what a look showed, and nothing else. `base` is what the VM's node
/// was delivered before.
pub fn is_whole(
    node: &Node,
    order: InterfaceOrder,
    sent: &NodeConfig,
    base: &[Arc<NodeConfig>],
) -> Result<(), String> {
    if sent.node_name.as_str() != node.name {
        return Err(format!("the node is {}", node.name));
    }
    for interface in &sent.interfaces {
        let facts = node.must.get(&interface.mac_address).or_else(|| node.may.get(&interface.mac_address));
        let facts = facts.ok_or_else(|| format!("{} does not belong to it", interface.mac_address))?;
        let has = (interface.address, interface.cidr, i64::from(interface.mtu));
        if has != (facts.address, facts.cidr, facts.mtu) {
            return Err(format!("{} is {facts:?}", interface.mac_address));
        }
    }
    let has = |mac: &Mac| sent.interfaces.iter().any(|interface| interface.mac_address == *mac);
    let all = node.must.len() + node.may.len();
    if all <= 10 {
        if let Some(missing) = node.must.keys().find(|mac| !has(mac)) {
            return Err(format!("{missing} is missing"));
        }
    } else if sent.interfaces.len() < node.must.len().min(10) {
        return Err(format!("only {} of {all} NICs", sent.interfaces.len()));
    }
    is_in_order(node, order, sent, base)
}

fn is_in_order(
    node: &Node,
    order: InterfaceOrder,
    sent: &NodeConfig,
    base: &[Arc<NodeConfig>],
) -> Result<(), String> {
    let rank = |mac: &Mac| node.must.get(mac).or_else(|| node.may.get(mac)).map(|f| (f.rank, *mac, &f.port));
    let mut macs: Vec<Mac> = sent.interfaces.iter().map(|interface| interface.mac_address).collect();
    let is_dense = sent.interfaces.iter().enumerate().all(|(place, i)| usize::from(i.id) == place);
    match order {
        InterfaceOrder::Sticky => {
            // A NIC that holds an index stays, however many came.
            let held = base.iter().filter(|base| base.instance_id == sent.instance_id);
            let lost = |base: &&Arc<NodeConfig>| {
                let mut held = base.interfaces.iter().map(|i| i.mac_address);
                held.any(|mac| node.must.contains_key(&mac) && !macs.contains(&mac))
            };
            if !base.is_empty() && held.clone().count() == base.len() && held.clone().all(|b| lost(&b)) {
                return Err("a NIC that it has was given up for another".to_owned());
            }
            return Ok(());
        }
        InterfaceOrder::Mac => {}
        InterfaceOrder::Subnet => macs.sort_by_key(|mac| rank(mac)),
    }
    let sorted = match order {
        InterfaceOrder::Mac => macs.is_sorted(),
        _ => macs.iter().eq(sent.interfaces.iter().map(|i| &i.mac_address)),
    };
    if !is_dense || !sorted {
        return Err(format!("its NICs are not in the order {order:?}"));
    }
    if node.may.is_empty() && node.must.len() > 10 {
        let mut first: Vec<_> = node.must.keys().collect();
        first.sort_by_key(|mac| rank(mac));
        if let Some(missing) = first[..10].iter().find(|mac| !macs.contains(mac)) {
            return Err(format!("{missing} is among the first ten"));
        }
    }
    Ok(())
}
