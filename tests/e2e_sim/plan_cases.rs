//! Every worked example of `tests/fixtures/selection.yaml`, through the command `plan`.

use std::collections::{BTreeMap, BTreeSet};

use multinic_operator::sim::{PortSpec, Settings, SimCloud};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::e2e_support::{KEY, PROVIDER};
use crate::process::{run, stderr, stdout};
use crate::world::text;

const CASES: &str = include_str!("../fixtures/selection.yaml");
/// The address of a delivered port that is gone from the cloud.
const GONE: &str = "192.168.10.250";

#[derive(Deserialize)]
struct File {
    world: Defaults,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Defaults {
    config: Object,
    subnets: BTreeMap<String, Subnet>,
    networks: BTreeMap<String, Network>,
    servers: BTreeMap<String, Server>,
    port: BTreeMap<String, Value>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Object {
    created: Option<String>,
    project: Option<String>,
    #[serde(rename = "subnetIDs")]
    subnet_ids: Option<Vec<String>>,
    vms: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Subnet {
    cidr: String,
    network: String,
}

#[derive(Deserialize)]
struct Network {
    mtu: u32,
}

#[derive(Deserialize, Clone)]
struct Server {
    name: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    config: Object,
    #[serde(default)]
    settings: BTreeMap<String, Value>,
    #[serde(default)]
    servers: BTreeMap<String, Server>,
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
    nodes: Nodes,
    verdicts: BTreeMap<String, String>,
    skipped: BTreeMap<String, String>,
    change: Option<Change>,
    macs: BTreeMap<String, String>,
}

/// Node → (index, port, address) in order.
type Nodes = BTreeMap<String, Vec<(u8, String, String)>>;

#[derive(Deserialize, Default, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
struct Change {
    added: BTreeSet<String>,
    removed: BTreeSet<String>,
    renamed: BTreeSet<String>,
    readdressed: BTreeSet<String>,
}

/// The UUID that stands for a name.
fn uuid(name: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).to_string()
}

fn plain_mac(mac: &str) -> String {
    let digits: Vec<char> = mac.to_lowercase().chars().filter(char::is_ascii_hexdigit).collect();
    let pairs: Vec<String> = digits.chunks(2).map(|pair| pair.iter().collect()).collect();
    pairs.join(":")
}

/// A case in a cloud of its own.
struct Scene<'a> {
    world: &'a Defaults,
    case: &'a Case,
    ports: Vec<BTreeMap<String, Value>>,
    cloud: SimCloud,
    folder: tempfile::TempDir,
}

impl<'a> Scene<'a> {
    fn new(world: &'a Defaults, case: &'a Case) -> Self {
        let full = |port: &BTreeMap<String, Value>| {
            let mut full = world.port.clone();
            full.extend(port.clone());
            full
        };
        let scene = Self {
            world,
            case,
            ports: case.ports.iter().map(full).collect(),
            cloud: SimCloud::start_with(Settings::default()).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        };
        scene.build();
        scene
    }

    fn build(&self) {
        let (cloud, project) = (&self.cloud, self.project());
        cloud.set_next_id(&project);
        cloud.add_project("proj");
        let user = cloud.add_user("admin", "password");
        cloud.grant(&user, &project, "admin");
        cloud.add_provider(PROVIDER, "admin", "password", KEY);
        for (name, network) in &self.world.networks {
            cloud.set_next_id(&uuid(name));
            cloud.add_network(&project, name, network.mtu);
        }
        for (name, subnet) in &self.world.subnets {
            cloud.set_next_id(&uuid(name));
            cloud.add_subnet(&uuid(&subnet.network), name, &subnet.cidr);
        }
        for vm in self.vms() {
            let server = self.server(&vm);
            let metadata: Vec<_> =
                server.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            cloud.set_next_id(&uuid(&vm));
            cloud.add_server(&project, &server.name, &metadata);
        }
        for port in &self.ports {
            cloud.add_port(self.port_spec(port));
        }
    }

    fn port_spec(&self, port: &BTreeMap<String, Value>) -> PortSpec {
        let word = |key: &str| text(&port[key]);
        // A real port has one network; where a case gives it two, it is the first target subnet's.
        let subnet = self.addresses(port).into_iter().map(|(subnet, _)| subnet).min();
        let network = &self.world.subnets[&subnet.unwrap_or_else(|| "sub-a".to_owned())].network;
        let project = if word("project") == "proj" { self.project() } else { uuid(&word("project")) };
        let mut spec = PortSpec::new(uuid(network))
            .id(uuid(&word("id")))
            .server(uuid(&word("vm")))
            .project(project)
            .mac(word("mac"))
            .device_owner(word("owner"));
        spec = match port["status"].as_str() {
            Some(status) => spec.status(status),
            None => spec.without_status(),
        };
        spec = match port["created_at"].as_str() {
            Some(created) => spec.created_at(created),
            None => spec.null_created_at(),
        };
        self.addresses(port)
            .into_iter()
            .fold(spec, |spec, (subnet, address)| spec.fixed_ip(uuid(&subnet), address))
    }

    /// Subnet and address of each fixed IP.
    fn addresses(&self, port: &BTreeMap<String, Value>) -> Vec<(String, String)> {
        let ips = port["ips"].as_array().unwrap();
        ips.iter().map(|ip| (text(&ip[0]), text(&ip[1]))).collect()
    }

    fn project(&self) -> String {
        uuid("proj").replace('-', "")
    }

    fn vms(&self) -> BTreeSet<String> {
        let vms = self.case.config.vms.as_ref().or(self.world.config.vms.as_ref()).unwrap();
        vms.iter().cloned().collect()
    }

    fn subnets(&self) -> &[String] {
        self.case.config.subnet_ids.as_ref().or(self.world.config.subnet_ids.as_ref()).unwrap()
    }

    fn server(&self, vm: &str) -> Server {
        self.case.servers.get(vm).or_else(|| self.world.servers.get(vm)).cloned().unwrap()
    }

    fn object(&self) -> Value {
        let given = &self.case.config;
        let vms = given.vms.as_ref().or(self.world.config.vms.as_ref()).unwrap();
        let mut settings = json!({
            "contrabassEndpoint": self.cloud.contrabass_url(),
            "contrabassEncryptKey": KEY,
            "violaEndpoint": "http://127.0.0.1:1",
        });
        settings.as_object_mut().unwrap().extend(self.case.settings.clone());
        json!({
            "apiVersion": "multinic.example.com/v1alpha1",
            "kind": "OpenstackConfig",
            "metadata": {"namespace": "test", "name": "case"},
            "spec": {
                "subnetIDs": self.subnets().iter().map(|name| uuid(name)).collect::<Vec<_>>(),
                "vmNames": vms.iter().map(|name| uuid(name)).collect::<Vec<_>>(),
                "credentials": {
                    "openstackProviderID": PROVIDER, "k8sProviderID": "biz", "projectID": self.project(),
                },
                "settings": settings,
            },
        })
    }

    fn port(&self, id: &str) -> Option<&BTreeMap<String, Value>> {
        self.ports.iter().find(|port| port["id"] == id)
    }

    fn mac_of(&self, port: &str) -> String {
        let known = self.port(port).map(|port| text(&port["mac"]));
        plain_mac(&known.unwrap_or_else(|| self.case.macs[port].clone()))
    }

    /// An interface as it was delivered before.
    fn delivered_interface(&self, index: u8, id: &str) -> Value {
        let known = self.port(id).map(|port| self.addresses(port)).unwrap_or_default();
        let targets = self.subnets();
        let place = targets.iter().find_map(|target| known.iter().find(|(subnet, _)| subnet == target));
        let subnet = &self.world.subnets[place.map_or(&targets[0], |(subnet, _)| subnet)];
        let address = self.case.delivered_addresses.get(id).or(place.map(|(_, address)| address));
        json!({
            "id": index,
            "name": format!("multinic{index}"),
            "macAddress": self.mac_of(id),
            "address": address.map_or(GONE, String::as_str),
            "cidr": subnet.cidr,
            "mtu": self.world.networks[&subnet.network].mtu,
            "portId": uuid(id),
        })
    }

    fn inventory(&self) -> Value {
        let records = self.case.delivered.iter().map(|(vm, indices)| {
            let node = self.server(vm).name.to_lowercase();
            let interfaces: Vec<_> =
                indices.iter().map(|(index, port)| self.delivered_interface(*index, port)).collect();
            json!({
                "providerId": "biz", "nodeName": node, "instanceId": uuid(vm),
                "config": {"nodeName": node, "instanceId": uuid(vm), "interfaces": interfaces},
                "lastConfigHash": "0011223344556677", "updatedAt": "2026-01-12T00:00:00Z",
            })
        });
        json!({"records": records.collect::<Vec<_>>()})
    }

    /// What `plan` prints of the case.
    async fn plan(&self) -> Value {
        let write = |name: &str, value: &Value| {
            let path = self.folder.path().join(name);
            std::fs::write(&path, value.to_string()).unwrap();
            path.display().to_string()
        };
        let file = write("config.json", &self.object());
        let inventory = write("inventory.json", &self.inventory());
        let created = self.case.config.created.as_ref().or(self.world.config.created.as_ref()).unwrap();
        let args = ["plan", "-f", &file, "--created", created, "--inventory", &inventory, "--output", "json"];
        let output = run(&args).await;
        assert_eq!(output.status.code(), Some(0), "{}: {}", self.case.name, stderr(&output));
        let plans: Value = serde_json::from_str(&stdout(&output)).unwrap();
        plans[0].clone()
    }

    /// Compares a plan with what the case expects.
    fn check(&self, plan: &Value) -> Result<(), String> {
        let seen = Seen::of(self, plan);
        let expect = &self.case.expect;
        same("nodes", &seen.nodes, &expect.nodes)?;
        same("verdicts", &seen.verdicts, &expect.verdicts)?;
        same("skipped", &seen.skipped, &expect.skipped)?;
        for (port, mac) in &expect.macs {
            same(port, &seen.macs.get(port), &Some(mac))?;
        }
        if let Some(change) = &expect.change {
            same("change", &seen.change, change)?;
            let has = |ports: &BTreeSet<String>| !ports.is_empty();
            let kind = match (has(&change.removed) | has(&change.renamed) | has(&change.readdressed), change)
            {
                (true, _) => "changes",
                (false, change) if has(&change.added) => "additions",
                (false, _) => "same",
            };
            let kinds: BTreeSet<String> = seen.kinds.into_iter().filter(|kind| kind != "none").collect();
            same("difference", &kinds, &BTreeSet::from([kind.to_owned()]))?;
        }
        Ok(())
    }
}

/// A plan in the words of the cases.
#[derive(Default)]
struct Seen {
    nodes: Nodes,
    verdicts: BTreeMap<String, String>,
    skipped: BTreeMap<String, String>,
    macs: BTreeMap<String, String>,
    change: Change,
    kinds: Vec<String>,
}

impl Seen {
    fn of(scene: &Scene<'_>, plan: &Value) -> Self {
        let mut names: BTreeMap<String, String> =
            scene.vms().into_iter().map(|name| (uuid(&name), name)).collect();
        names.extend(scene.ports.iter().map(|port| (uuid(&text(&port["id"])), text(&port["id"]))));
        let mut by_mac: BTreeMap<String, String> =
            scene.ports.iter().map(|port| (plain_mac(&text(&port["mac"])), text(&port["id"]))).collect();
        by_mac.extend(scene.case.macs.iter().map(|(port, mac)| (plain_mac(mac), port.clone())));
        let mut seen = Self::default();
        for vm in plan["vms"].as_array().unwrap() {
            seen.take_ports(vm, &names);
            seen.take_sent(vm, &names);
            let difference = &vm["difference"];
            seen.kinds.push(text(&difference["kind"]));
            seen.take_change(&text(&difference["what"]), &by_mac);
        }
        seen
    }

    fn take_ports(&mut self, vm: &Value, names: &BTreeMap<String, String>) {
        let mut rows = Vec::new();
        for port in vm["ports"].as_array().unwrap() {
            let name = names[&text(&port["port"])].clone();
            if port["verdict"] == "Selected" {
                let index = text(&port["interface"]).trim_start_matches("multinic").parse().unwrap();
                rows.push((index, name, text(&port["detail"])));
            } else {
                self.verdicts.insert(name, text(&port["verdict"]));
            }
        }
        rows.sort();
        match vm["skipped"]["reason"].as_str() {
            Some(reason) => {
                self.skipped.insert(names[&text(&vm["vm"])].clone(), reason.to_owned());
                assert!(vm["send"].is_null(), "{vm:#}");
            }
            None if rows.is_empty() => {}
            None => drop(self.nodes.insert(text(&vm["node"]), rows)),
        }
    }

    /// What would be sent is what the ports' verdicts say.
    fn take_sent(&mut self, vm: &Value, names: &BTreeMap<String, String>) {
        let Some(interfaces) = vm["send"]["interfaces"].as_array() else { return };
        let row = |i: &Value| {
            let id = i["id"].as_u64().unwrap() as u8;
            (id, names[&text(&i["portId"])].clone(), text(&i["address"]))
        };
        let sent: Vec<_> = interfaces.iter().map(row).collect();
        assert_eq!(Some(&sent), self.nodes.get(&text(&vm["node"])), "{vm:#}");
        self.macs
            .extend(interfaces.iter().map(|i| (names[&text(&i["portId"])].clone(), text(&i["macAddress"]))));
    }

    /// `add MAC as …; remove MAC …; rename MAC …; change MAC …`.
    fn take_change(&mut self, what: &str, by_mac: &BTreeMap<String, String>) {
        for part in what.split("; ").filter(|part| !part.is_empty()) {
            let (verb, rest) = part.split_once(' ').unwrap();
            let port = by_mac[rest.split(' ').next().unwrap()].clone();
            match verb {
                "add" => self.change.added.insert(port),
                "remove" => self.change.removed.insert(port),
                "rename" => self.change.renamed.insert(port),
                "change" => self.change.readdressed.insert(port),
                other => panic!("{other:?} in {what:?}"),
            };
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, want: &T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what}:\n   got  {got:?}\n   want {want:?}")) }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_worked_example_is_planned_as_written() {
    let file: File = yaml_serde::from_str(CASES).unwrap();
    assert_eq!(file.cases.len(), CASES.matches("\n- name: ").count());
    let mut failures = Vec::new();
    for case in &file.cases {
        let scene = Scene::new(&file.world, case);
        if let Err(problem) = scene.check(&scene.plan().await) {
            failures.push(format!("- {}: {problem}", case.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
