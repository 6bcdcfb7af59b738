//! A small world for the tests of the domain: one VM, two target subnets, ports that are named by a number.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::config::{
    AllowedStatuses, Baseline, ChangePolicy, CloudAccess, Config, CredentialSource, EncryptKeySource,
    InterfaceOrder, Polling, RemovalPolicy, SelectionRules, SubnetSelector,
};
use super::ids::{ConfigId, Mac, NodeName, PortId, ProviderId, VmId};
use super::inventory::{Owner, Record, RecordKey, Snapshot};
use super::node::{Interface, NodeConfig};
use super::port::{FixedIp, ListedPort, Port, Server, TargetSubnet};
use super::vm::VmInput;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The moment `seconds` after the start of the tests' day.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(time("2026-02-01T00:00:00Z").as_second() + seconds).unwrap()
}

pub(crate) fn mac(n: u8) -> Mac {
    format!("fa:16:3e:00:00:{n:02x}").parse().unwrap()
}

pub(crate) fn port_id(n: u8) -> PortId {
    PortId::new(format!("p{n:03}"))
}

/// A port that qualifies: ACTIVE, new enough, one address in the first target subnet.
pub(crate) fn port(n: u8) -> Port {
    Port {
        id: port_id(n),
        mac: mac(n),
        network: "net-a".into(),
        status: Some("ACTIVE".to_owned()),
        owner: "compute:nova".to_owned(),
        project: Some("proj".into()),
        created_at: Some("2026-01-11T00:00:00Z".to_owned()),
        fixed_ips: vec![ip("sub-a", &format!("192.168.10.{n}"))],
    }
}

/// The same in the second target subnet.
pub(crate) fn port_b(n: u8) -> Port {
    Port { network: "net-b".into(), fixed_ips: vec![ip("sub-b", &format!("192.168.20.{n}"))], ..port(n) }
}

pub(crate) fn with_status(n: u8, status: &str) -> Port {
    Port { status: Some(status.to_owned()), ..port(n) }
}

pub(crate) fn ip(subnet: &str, address: &str) -> FixedIp {
    FixedIp { subnet: subnet.into(), address: address.parse().unwrap() }
}

pub(crate) fn listed(ports: &[Port]) -> Vec<ListedPort> {
    ports.iter().cloned().map(Ok).collect()
}

pub(crate) fn subnet(id: &str, network: &str, cidr: &str, mtu: i64) -> TargetSubnet {
    TargetSubnet { id: id.into(), network: network.into(), cidr: cidr.parse().unwrap(), mtu }
}

pub(crate) fn subnets() -> Vec<TargetSubnet> {
    vec![subnet("sub-a", "net-a", "192.168.10.0/24", 1450), subnet("sub-b", "net-b", "192.168.20.0/24", 9000)]
}

pub(crate) fn rules() -> SelectionRules {
    SelectionRules {
        statuses: AllowedStatuses::Only(["ACTIVE", "DOWN"].map(str::to_owned).into()),
        baseline: Baseline::Since(time("2026-01-10T00:00:00Z")),
        project: None,
        order: InterfaceOrder::Sticky,
        rewiring_grace: Duration::from_secs(180),
    }
}

pub(crate) fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

/// The interface that port `n` becomes at `index`.
pub(crate) fn nic(index: u8, n: u8) -> Interface {
    Interface {
        id: index,
        name: Interface::name_of(index),
        mac_address: mac(n),
        address: format!("192.168.10.{n}").parse().unwrap(),
        cidr: "192.168.10.0/24".parse().unwrap(),
        mtu: 1450,
        port_id: Some(port_id(n)),
        device_id: Some("vm-1".into()),
        network_id: Some("net-a".into()),
        subnet_id: Some("sub-a".into()),
    }
}

/// A node of `vm` with these (index, port) interfaces.
pub(crate) fn node(node: &str, vm: &str, interfaces: &[(u8, u8)]) -> NodeConfig {
    NodeConfig {
        node_name: name(node),
        instance_id: vm.into(),
        interfaces: interfaces.iter().map(|(index, n)| nic(*index, *n)).collect(),
    }
}

/// `worker-1` of `vm-1`.
pub(crate) fn worker(interfaces: &[(u8, u8)]) -> NodeConfig {
    node("worker-1", "vm-1", interfaces)
}

pub(crate) fn owner(object: &str, created: i64) -> Owner {
    Owner { id: ConfigId::new("ns", object, format!("uid-{object}")), created: at(created) }
}

/// One look at `vm-1`, with what a test leaves open filled in.
pub(crate) struct Look {
    pub(crate) vm: VmId,
    pub(crate) rules: SelectionRules,
    pub(crate) is_pinned: bool,
    pub(crate) node_name_key: Option<&'static str>,
    pub(crate) subnets: Vec<TargetSubnet>,
    pub(crate) ports: Vec<ListedPort>,
    pub(crate) server: Server,
    pub(crate) delivered: Option<NodeConfig>,
    pub(crate) delivered_ports: HashSet<PortId>,
    pub(crate) now: Instant,
}

impl Look {
    pub(crate) fn at(ports: &[Port]) -> Self {
        Self {
            vm: "vm-1".into(),
            rules: rules(),
            is_pinned: false,
            node_name_key: None,
            subnets: subnets(),
            ports: listed(ports),
            server: server("worker-1"),
            delivered: None,
            delivered_ports: HashSet::new(),
            now: Instant::now(),
        }
    }

    /// With what the node was delivered before.
    pub(crate) fn after(self, delivered: NodeConfig) -> Self {
        let ports = delivered.interfaces.iter().filter_map(|i| i.port_id.clone()).collect();
        Self { delivered: Some(delivered), delivered_ports: ports, ..self }
    }

    pub(crate) fn input(&self) -> VmInput<'_> {
        VmInput {
            vm: &self.vm,
            rules: &self.rules,
            is_pinned: self.is_pinned,
            node_name_key: self.node_name_key,
            subnets: &self.subnets,
            ports: &self.ports,
            server: &self.server,
            delivered: self.delivered.as_ref(),
            delivered_ports: &self.delivered_ports,
            now: self.now,
        }
    }
}

pub(crate) fn server(name: &str) -> Server {
    Server::Found { name: name.to_owned(), metadata: BTreeMap::new() }
}

/// A valid config over these VMs.
pub(crate) fn config(vms: &[&str]) -> Config {
    Config {
        id: ConfigId::new("ns", "a", "uid-a"),
        generation: 3,
        revision: 1,
        created: at(0),
        paused: false,
        vms: vms.iter().map(VmId::new).collect(),
        subnets: SubnetSelector::Ids(vec!["sub-a".into(), "sub-b".into()]),
        provider: ProviderId::new("k8s"),
        cloud: CloudAccess {
            source: CredentialSource::Contrabass {
                endpoint: "http://contrabass".to_owned(),
                provider_id: "os".to_owned(),
                key: EncryptKeySource { secret: None, inline: None },
                timeout: 30 * SECOND,
                insecure_tls: false,
            },
            project: "proj".into(),
            timeout: 30 * SECOND,
            insecure_tls: false,
            neutron_endpoint: None,
            nova_endpoint: None,
            interface: None,
            region: None,
            node_name_metadata_key: None,
            ca_bundle: None,
        },
        rules: rules(),
        change_policy: ChangePolicy::Auto,
        approvals: BTreeSet::new(),
        removal_policy: RemovalPolicy::Retain,
        polling: Polling::default(),
        down_port_fast_retry_max: 5,
        viola_endpoint: "http://viola".to_owned(),
        force_reconcile: None,
    }
}

pub(crate) fn shared(nodes: &[NodeConfig]) -> Vec<Arc<NodeConfig>> {
    nodes.iter().cloned().map(Arc::new).collect()
}

/// As in a file of the previous operator: the record does not say whose it is.
pub(crate) fn disown(snapshot: &mut Snapshot, key: &RecordKey) {
    let record = Record { owner: None, ..Record::clone(&snapshot.records[key]) };
    snapshot.records.insert(key.clone(), Arc::new(record));
}
