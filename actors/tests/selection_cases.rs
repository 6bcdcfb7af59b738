//! Every worked example of `tests/fixtures/selection.yaml`, against the pure domain.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use multinic_actors::domain::change;
use multinic_actors::domain::config::{
    AllowedStatuses, Baseline, ChangePolicy, InterfaceOrder, SelectionRules,
};
use multinic_actors::domain::ids::{Mac, NodeName, ProjectId, VmId};
use multinic_actors::domain::node::{Interface, NodeConfig};
use multinic_actors::domain::port::{FixedIp, ListedPort, Port, Server, TargetSubnet, Verdict};
use multinic_actors::domain::settle::{self, History, settle};
use multinic_actors::domain::vm::{VmInput, VmState, step};
use serde::Deserialize;
use yaml_serde::Value;

const CASES: &str = include_str!("../../tests/fixtures/selection.yaml");

#[derive(Deserialize)]
struct File {
    hash: HashCase,
    world: World,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct HashCase {
    node: NodeConfig,
    is: String,
}

#[derive(Deserialize)]
struct World {
    config: ConfigPart,
    subnets: BTreeMap<String, SubnetPart>,
    networks: BTreeMap<String, NetworkPart>,
    servers: BTreeMap<String, ServerPart>,
    port: BTreeMap<String, Value>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ConfigPart {
    created: Option<String>,
    project: Option<String>,
    #[serde(rename = "subnetIDs")]
    subnet_ids: Option<Vec<String>>,
    vms: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct SubnetPart {
    cidr: String,
    network: String,
}

#[derive(Deserialize)]
struct NetworkPart {
    mtu: i64,
}

#[derive(Deserialize, Clone)]
struct ServerPart {
    name: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    interface_order: InterfaceOrder,
    include_existing_ports: bool,
    port_project: Option<String>,
    openstack_node_name_metadata_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    config: ConfigPart,
    #[serde(default)]
    settings: Settings,
    #[serde(default)]
    servers: BTreeMap<String, ServerPart>,
    #[serde(default)]
    ports: Vec<BTreeMap<String, Value>>,
    #[serde(default)]
    delivered: BTreeMap<String, BTreeMap<u8, String>>,
    #[serde(default)]
    delivered_addresses: BTreeMap<String, String>,
    #[serde(default)]
    macs: BTreeMap<String, String>,
    expect: Expect,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Expect {
    nodes: BTreeMap<String, Vec<(u8, String, String)>>,
    verdicts: BTreeMap<String, Verdict>,
    skipped: BTreeMap<String, String>,
    change: Option<ExpectChange>,
    macs: BTreeMap<String, String>,
}

#[derive(Deserialize, Default, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
struct ExpectChange {
    added: BTreeSet<String>,
    removed: BTreeSet<String>,
    renamed: BTreeSet<String>,
    readdressed: BTreeSet<String>,
}

struct Delivered(BTreeMap<NodeName, Arc<NodeConfig>>);

impl History for Delivered {
    fn at_node(&self, node: &NodeName) -> Option<Arc<NodeConfig>> {
        self.0.get(node).cloned()
    }
    fn of_vm(&self, vm: &VmId) -> Option<Arc<NodeConfig>> {
        self.0.values().find(|node| &node.instance_id == vm).cloned()
    }
}

fn text(port: &BTreeMap<String, Value>, key: &str) -> Option<String> {
    port.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// A case with the world's defaults filled in.
struct Setup<'a> {
    world: &'a World,
    case: &'a Case,
    ports: Vec<(VmId, Port)>,
}

impl<'a> Setup<'a> {
    fn new(world: &'a World, case: &'a Case) -> Self {
        let ports = case.ports.iter().map(|port| {
            let mut full = world.port.clone();
            full.extend(port.clone());
            let ips: Vec<(String, String)> = yaml_serde::from_value(full["ips"].clone()).unwrap();
            // A real port has one network; where a case gives it two, it is the first target subnet's.
            let subnet = ips.iter().map(|(subnet, _)| subnet.as_str()).min().unwrap_or("sub-a");
            let port = Port {
                id: text(&full, "id").unwrap().into(),
                mac: text(&full, "mac").unwrap().parse().unwrap(),
                network: world.subnets[subnet].network.as_str().into(),
                status: text(&full, "status"),
                owner: text(&full, "owner").unwrap(),
                project: text(&full, "project").map(ProjectId::from),
                created_at: text(&full, "created_at"),
                fixed_ips: ips
                    .iter()
                    .map(|(subnet, ip)| FixedIp {
                        subnet: subnet.as_str().into(),
                        address: ip.parse().unwrap(),
                    })
                    .collect(),
            };
            (VmId::new(text(&full, "vm").unwrap()), port)
        });
        Self { world, case, ports: ports.collect() }
    }

    fn subnets(&self) -> Vec<TargetSubnet> {
        let ids = self.case.config.subnet_ids.clone().or(self.world.config.subnet_ids.clone()).unwrap();
        let mut seen = HashSet::new();
        ids.iter()
            .filter(|id| seen.insert(id.to_string()))
            .map(|id| {
                let subnet = &self.world.subnets[id];
                TargetSubnet {
                    id: id.as_str().into(),
                    network: subnet.network.as_str().into(),
                    cidr: subnet.cidr.parse().unwrap(),
                    mtu: self.world.networks[&subnet.network].mtu,
                }
            })
            .collect()
    }

    fn rules(&self) -> SelectionRules {
        let created = self.case.config.created.clone().or(self.world.config.created.clone()).unwrap();
        let project = self.world.config.project.clone().unwrap();
        SelectionRules {
            statuses: AllowedStatuses::Only(["ACTIVE", "DOWN"].map(str::to_owned).into()),
            baseline: if self.case.settings.include_existing_ports {
                Baseline::Any
            } else {
                Baseline::Since(created.parse().unwrap())
            },
            project: (self.case.settings.port_project.as_deref() == Some("Own")).then(|| project.into()),
            order: self.case.settings.interface_order,
            rewiring_grace: Duration::from_secs(180),
        }
    }

    fn server(&self, vm: &str) -> ServerPart {
        self.case.servers.get(vm).or_else(|| self.world.servers.get(vm)).cloned().unwrap()
    }

    fn mac_of(&self, port: &str) -> Mac {
        match self.ports.iter().find(|(_, p)| p.id.as_str() == port) {
            Some((_, port)) => port.mac,
            None => self.case.macs[port].parse().unwrap(),
        }
    }

    fn delivered(&self) -> Delivered {
        let subnets = self.subnets();
        let nodes = self.case.delivered.iter().map(|(vm, indices)| {
            let interfaces = indices.iter().map(|(index, port)| {
                let known = self.ports.iter().find(|(_, p)| p.id.as_str() == port).map(|(_, p)| p);
                let subnet = known
                    .and_then(|p| subnets.iter().find(|s| p.fixed_ips.iter().any(|ip| ip.subnet == s.id)))
                    .unwrap_or(&subnets[0]);
                let address = self.case.delivered_addresses.get(port).cloned().unwrap_or_else(|| {
                    let ip = known.and_then(|p| p.fixed_ips.iter().find(|ip| ip.subnet == subnet.id));
                    ip.map_or("192.168.10.250".to_owned(), |ip| ip.address.to_string())
                });
                Interface {
                    id: *index,
                    name: Interface::name_of(*index),
                    mac_address: self.mac_of(port),
                    address: address.parse().unwrap(),
                    cidr: subnet.cidr.to_string().parse().unwrap(),
                    mtu: subnet.mtu as u16,
                    port_id: Some(port.as_str().into()),
                    device_id: None,
                    network_id: None,
                    subnet_id: None,
                }
            });
            let node_name = NodeName::new(&self.server(vm).name).unwrap();
            let node = NodeConfig { node_name, instance_id: VmId::new(vm), interfaces: interfaces.collect() };
            (node.node_name.clone(), Arc::new(node))
        });
        Delivered(nodes.collect())
    }
}

fn run(world: &World, case: &Case) -> Result<(), String> {
    let setup = Setup::new(world, case);
    let (subnets, rules, delivered) = (setup.subnets(), setup.rules(), setup.delivered());
    let delivered_ports: HashSet<_> =
        delivered.0.values().flat_map(|n| &n.interfaces).filter_map(|i| i.port_id.clone()).collect();
    let vms: BTreeSet<String> =
        case.config.vms.clone().or(world.config.vms.clone()).unwrap().into_iter().collect();
    let mut decisions = BTreeMap::new();
    for vm in &vms {
        let id = VmId::new(vm);
        let ports: Vec<ListedPort> =
            setup.ports.iter().filter(|(owner, _)| *owner == id).map(|(_, p)| Ok(p.clone())).collect();
        let part = setup.server(vm);
        let (_, decision) = step(
            &VmState::default(),
            VmInput {
                vm: &id,
                rules: &rules,
                is_pinned: false,
                node_name_key: case.settings.openstack_node_name_metadata_key.as_deref(),
                subnets: &subnets,
                ports: &ports,
                server: &Server::Found { name: part.name, metadata: part.metadata },
                delivered: delivered.of_vm(&id).as_deref(),
                delivered_ports: &delivered_ports,
                now: Instant::now(),
            },
        );
        decisions.insert(id, decision);
    }
    let settled = settle(
        &decisions,
        settle::Context {
            policy: ChangePolicy::Auto,
            approvals: &BTreeSet::new(),
            history: &delivered,
            empty_before: &BTreeSet::new(),
            machines: None,
            claim: &mut |_, _| Ok(()),
        },
    );

    let nodes: BTreeMap<String, Vec<(u8, String, String)>> = settled
        .wanted
        .iter()
        .map(|(name, wanted)| {
            let row = |i: &Interface| (i.id, i.port_id.clone().unwrap().to_string(), i.address.to_string());
            (name.to_string(), wanted.node.interfaces.iter().map(row).collect())
        })
        .collect();
    same("nodes", &nodes, &case.expect.nodes)?;
    for interface in settled.wanted.values().flat_map(|wanted| &wanted.node.interfaces) {
        let subnet = subnets.iter().find(|s| Some(&s.id) == interface.subnet_id.as_ref()).unwrap();
        same("cidr", &interface.cidr.to_string(), &subnet.cidr.to_string())?;
        same("mtu", &i64::from(interface.mtu), &subnet.mtu)?;
        let port = interface.port_id.as_ref().unwrap().as_str();
        if let Some(mac) = case.expect.macs.get(port) {
            same("mac", &interface.mac_address.to_string(), mac)?;
        }
    }
    let verdicts: BTreeMap<String, Verdict> = decisions
        .values()
        .flat_map(|d| &d.verdicts)
        .filter(|v| v.verdict != Verdict::Selected)
        .map(|v| (v.port.to_string(), v.verdict))
        .collect();
    same("verdicts", &verdicts, &case.expect.verdicts)?;
    let skipped: BTreeMap<String, String> =
        settled.skipped.iter().map(|(vm, (reason, _))| (vm.to_string(), reason.to_string())).collect();
    same("skipped", &skipped, &case.expect.skipped)?;
    if let Some(expect) = &case.expect.change {
        same("change", &change_of(&setup, &delivered, &settled), expect)?;
    }
    Ok(())
}

fn change_of(setup: &Setup<'_>, delivered: &Delivered, settled: &settle::Settled) -> ExpectChange {
    let names: BTreeMap<Mac, String> = setup
        .ports
        .iter()
        .map(|(_, p)| (p.mac, p.id.to_string()))
        .chain(setup.case.macs.iter().map(|(port, mac)| (mac.parse().unwrap(), port.clone())))
        .collect();
    let mut all = ExpectChange::default();
    for wanted in settled.wanted.values() {
        let Some(before) = delivered.of_vm(&wanted.vm) else {
            continue;
        };
        let change = change::diff(&before, &wanted.node);
        let to_ports = |macs: Vec<Mac>| macs.into_iter().map(|mac| names[&mac].clone()).collect::<Vec<_>>();
        all.added.extend(to_ports(change.added));
        all.removed.extend(to_ports(change.removed));
        all.renamed.extend(to_ports(change.renamed));
        all.readdressed.extend(to_ports(change.readdressed));
    }
    all
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, want: &T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what}:\n   got  {got:?}\n   want {want:?}")) }
}

#[test]
fn every_worked_example_comes_out_as_written() {
    let file: File = yaml_serde::from_str(CASES).unwrap();
    assert_eq!(file.cases.len(), CASES.matches("\n- name: ").count());
    let failures: Vec<String> = file
        .cases
        .iter()
        .filter_map(|case| run(&file.world, case).err().map(|error| format!("- {}: {error}", case.name)))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_hash_is_the_one_of_the_worked_example() {
    let file: File = yaml_serde::from_str(CASES).unwrap();
    assert_eq!(file.hash.node.hash().as_str(), file.hash.is);
}
