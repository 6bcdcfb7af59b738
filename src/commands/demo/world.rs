//! The demo's cloud, its two configs, and its little life.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::sim::{ExpectedNic, PortSpec, SimCloud, SimViola};

const KEY: &str = "demo-encrypt-key";
const PROVIDER: &str = "demo-openstack";

/// A simulated cloud with one project, and a Viola.
pub(super) struct World {
    pub(super) cloud: SimCloud,
    pub(super) viola: SimViola,
    project: String,
    networks: [String; 2],
    subnets: [String; 2],
    clusters: Vec<Cluster>,
}

/// The VMs of one workload cluster, described by one config.
struct Cluster {
    name: &'static str,
    servers: Vec<String>,
}

impl World {
    pub(super) fn start() -> io::Result<Self> {
        let cloud = SimCloud::start_with(crate::sim::Settings::default())?;
        let viola = SimViola::start_on(0)?;
        let project = cloud.add_project("demo");
        let user = cloud.add_user("operator", "demo-password");
        cloud.grant(&user, &project, "admin");
        cloud.add_provider(PROVIDER, "operator", "demo-password", KEY);
        let networks =
            [("data", 1450), ("storage", 9000)].map(|(name, mtu)| cloud.add_network(&project, name, mtu));
        let subnets = [
            cloud.add_subnet(&networks[0], "data", "192.168.10.0/24"),
            cloud.add_subnet(&networks[1], "storage", "192.168.20.0/24"),
        ];
        let mut world = Self { cloud, viola, project, networks, subnets, clusters: Vec::new() };
        world.add_cluster("blue", &["blue-worker-1", "blue-worker-2", "blue-worker-3"]);
        world.add_cluster("green", &["green-worker-1", "green-worker-2"]);
        Ok(world)
    }

    fn add_cluster(&mut self, name: &'static str, servers: &[&str]) {
        let servers: Vec<_> =
            servers.iter().map(|server| self.cloud.add_server(&self.project, server, &[])).collect();
        self.clusters.push(Cluster { name, servers });
        for server in 0..self.clusters.last().map_or(0, |cluster| cluster.servers.len()) {
            self.attach(self.clusters.len() - 1, server, 0, "ACTIVE");
            self.attach(self.clusters.len() - 1, server, 1, "ACTIVE");
        }
    }

    /// Attaches a new port to a server; gives its id.
    fn attach(&self, cluster: usize, server: usize, subnet: usize, status: &str) -> String {
        let port = PortSpec::new(&self.networks[subnet])
            .server(&self.clusters[cluster].servers[server])
            .project(&self.project)
            .subnet(&self.subnets[subnet])
            .status(status);
        self.cloud.add_port(port)
    }

    /// Writes the two configs and the Secret with the encrypt key.
    pub(super) fn write_configs(&self, folder: &Path) -> io::Result<()> {
        let configs: Vec<_> = self.clusters.iter().map(|cluster| self.config(cluster)).collect();
        let secret = format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: contrabass-encrypt-key\n  namespace: demo\n\
             stringData:\n  CONTRABASS_ENCRYPT_KEY: {KEY}\n"
        );
        std::fs::write(folder.join("configs.yaml"), configs.join("---\n"))?;
        std::fs::write(folder.join("secret.yaml"), secret)
    }

    fn config(&self, cluster: &Cluster) -> String {
        let list = |ids: &[String]| ids.iter().map(|id| format!("    - {id}\n")).collect::<String>();
        format!(
            "apiVersion: multinic.example.com/v1alpha1\nkind: OpenstackConfig\nmetadata:\n  name: {name}\n  \
             namespace: demo\n  creationTimestamp: \"2026-01-01T00:00:00Z\"\nspec:\n  subnetIDs:\n{subnets}  \
             vmNames:\n{vms}  credentials:\n    openstackProviderID: {PROVIDER}\n    k8sProviderID: {name}\n    \
             projectID: {project}\n  settings:\n    contrabassEndpoint: {contrabass}\n    violaEndpoint: {viola}\n    \
             pollFastInterval: 1s\n    pollSlowInterval: 2s\n",
            name = cluster.name,
            subnets = list(&self.subnets),
            vms = list(&cluster.servers),
            project = self.project,
            contrabass = self.cloud.contrabass_url(),
            viola = self.viola.url(),
        )
    }

    /// What Viola has that the cloud has not, and the other way round.
    pub(super) fn differences(&self) -> Vec<String> {
        self.clusters.iter().flat_map(|cluster| self.differences_of(cluster)).collect()
    }

    fn differences_of(&self, cluster: &Cluster) -> Vec<String> {
        let expected = self.cloud.expected_nodes(&self.project, &cluster.servers, &self.subnets);
        let delivered: BTreeMap<String, BTreeSet<ExpectedNic>> =
            self.viola.nodes(cluster.name).into_iter().map(|(node, config)| (node, nics(&config))).collect();
        let nodes: BTreeSet<_> = expected.keys().chain(delivered.keys()).collect();
        nodes
            .into_iter()
            .filter(|node| expected.get(*node) != delivered.get(*node))
            .map(|node| {
                let (has, got) = (expected.get(node), delivered.get(node));
                format!("{} {node}: the cloud has {has:?}, viola got {got:?}", cluster.name)
            })
            .collect()
    }
}

fn nics(config: &Value) -> BTreeSet<ExpectedNic> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let interfaces = config["interfaces"].as_array().into_iter().flatten();
    interfaces
        .map(|interface| ExpectedNic {
            mac: text(&interface["macAddress"]),
            address: text(&interface["address"]),
            cidr: text(&interface["cidr"]),
            mtu: interface["mtu"].as_u64().unwrap_or_default() as u32,
        })
        .collect()
}

/// What happens in the cloud, step by step, over and over.
pub(super) struct Life {
    step: u32,
    port: Option<String>,
}

impl Life {
    /// One step every so often.
    const PACE: Duration = Duration::from_secs(3);

    pub(super) fn new() -> Self {
        Self { step: 0, port: None }
    }

    /// Takes the next step when it is due; tells what it was.
    pub(super) fn go_on(&mut self, world: &World, passed: Duration) -> Option<&'static str> {
        if passed < Self::PACE * (self.step + 1) {
            return None;
        }
        let step = self.step % 4;
        self.step += 1;
        match (step, &self.port) {
            (0, _) => {
                self.port = Some(world.attach(0, 0, 0, "DOWN"));
                Some("a port was attached to blue-worker-1, it is DOWN")
            }
            (1, Some(port)) => {
                world.cloud.set_port_status(port, "ACTIVE");
                Some("that port became ACTIVE")
            }
            (2, _) => {
                world.cloud.revoke_tokens();
                Some("all tokens were revoked")
            }
            (_, Some(port)) => {
                world.cloud.delete_port(port);
                self.port = None;
                Some("the port of blue-worker-1 was deleted again")
            }
            (_, None) => None,
        }
    }
}
