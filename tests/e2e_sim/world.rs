//! One cloud with a project and two subnets, one Viola, one operator: what most tests begin with.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use multinic_operator::sim::{
    Fault, FaultId, FaultRule, Operation, PortSpec, Service, Settings, SimCloud, SimViola,
};
use serde_json::Value;

use crate::e2e_support::{KEY, Nic, Operator, PATIENCE, PROVIDER, Spec, delivered, names, until};

/// The password of the cloud's administrator.
pub const PASSWORD: &str = "Adm1n-Passw0rd-of-the-cloud";
/// The workload cluster of [`World::spec`].
pub const BIZ: &str = "biz";
/// The index of the subnet `data`.
pub const DATA: usize = 0;
/// The index of the subnet `storage`.
pub const STORAGE: usize = 1;

/// A cloud, a Viola, an operator that is not started yet.
pub struct World {
    pub cloud: SimCloud,
    pub viola: SimViola,
    pub project: String,
    pub user: String,
    pub networks: [String; 2],
    pub subnets: [String; 2],
    pub operator: Operator,
}

impl World {
    pub fn new() -> Self {
        Self::with_operator(Operator::new().flag("--cloud-rate=1000").flag("--cloud-burst=1000"))
    }

    pub fn with_operator(operator: Operator) -> Self {
        let cloud = SimCloud::start_with(Settings::default()).unwrap();
        let project = cloud.add_project("biz");
        let user = cloud.add_user("admin", PASSWORD);
        cloud.grant(&user, &project, "admin");
        cloud.add_provider(PROVIDER, "admin", PASSWORD, KEY);
        let networks =
            [("data", 1450), ("storage", 9000)].map(|(name, mtu)| cloud.add_network(&project, name, mtu));
        let subnets = [
            cloud.add_subnet(&networks[DATA], "data", "192.168.0.0/16"),
            cloud.add_subnet(&networks[STORAGE], "storage", "10.20.0.0/16"),
        ];
        Self { cloud, viola: SimViola::start_on(0).unwrap(), project, user, networks, subnets, operator }
    }

    /// A server without ports.
    pub fn bare_vm(&self, name: &str) -> String {
        self.cloud.add_server(&self.project, name, &[])
    }

    /// A server with one port in the subnet `data`.
    pub fn vm(&self, name: &str) -> String {
        let vm = self.bare_vm(name);
        self.port(&vm, DATA);
        vm
    }

    /// Servers `node-0`, `node-1`, … with one port each.
    pub fn vms(&self, count: usize) -> Vec<String> {
        (0..count).map(|n| self.vm(&format!("node-{n}"))).collect()
    }

    /// One more port for a server; its id.
    pub fn port(&self, vm: &str, subnet: usize) -> String {
        self.cloud.add_port(self.port_spec(vm, subnet))
    }

    /// An ACTIVE port with an address of a subnet.
    pub fn port_spec(&self, vm: &str, subnet: usize) -> PortSpec {
        self.naked_port_spec(vm, subnet).subnet(&self.subnets[subnet])
    }

    /// An ACTIVE port in a subnet's network, without an address.
    pub fn naked_port_spec(&self, vm: &str, subnet: usize) -> PortSpec {
        PortSpec::new(&self.networks[subnet]).server(vm).project(&self.project)
    }

    /// A config of these VMs and both subnets that is polled several times a second.
    pub fn spec(&self, name: &str, vms: &[String]) -> Spec {
        Spec {
            name: name.to_owned(),
            created: "2020-01-01T00:00:00Z".to_owned(),
            provider: PROVIDER.to_owned(),
            k8s_provider: BIZ.to_owned(),
            project: self.project.clone(),
            subnets: self.subnets.to_vec(),
            vms: vms.to_vec(),
            contrabass: self.cloud.contrabass_url(),
            viola: self.viola.url(),
            encrypt_key: KEY.to_owned(),
            spec: Vec::new(),
            settings: ["pollFastInterval: 200ms", "pollSlowInterval: 300ms", "pollErrorInterval: 200ms"]
                .map(str::to_owned)
                .to_vec(),
            metadata: Vec::new(),
        }
    }

    /// [`World::spec`] that is polled at once and then not for an hour.
    pub fn quiet_spec(&self, name: &str, vms: &[String]) -> Spec {
        let settings = ["pollFastInterval: 1h", "pollSlowInterval: 1h", "pollErrorInterval: 1h"];
        Spec { settings: settings.map(str::to_owned).to_vec(), ..self.spec(name, vms) }
    }

    /// Declares the config, starts the operator, and waits until everything is delivered.
    pub async fn run(&mut self, spec: &Spec) {
        self.operator.declare(spec);
        self.operator.start().await;
        self.until_delivered(spec).await;
    }

    /// [`World::run`] of one config, named `a`, of so many VMs.
    pub async fn run_with(&mut self, vms: usize) -> Spec {
        let spec = self.spec("a", &self.vms(vms));
        self.run(&spec).await;
        spec
    }

    /// What each node should have, as the cloud stands now.
    pub fn expected(&self, spec: &Spec) -> BTreeMap<String, BTreeSet<Nic>> {
        let nodes = self.cloud.expected_nodes(&self.project, &spec.vms, &spec.subnets);
        let nic =
            |nic: multinic_operator::sim::ExpectedNic| (nic.mac, nic.address, nic.cidr, u64::from(nic.mtu));
        nodes.into_iter().map(|(node, nics)| (node, nics.into_iter().map(nic).collect())).collect()
    }

    /// Waits until Viola has exactly what the cloud has, and the config knows that.
    pub async fn until_delivered(&self, spec: &Spec) {
        let is_right = || delivered(&self.viola, &spec.k8s_provider) == self.expected(spec);
        let state = || {
            let has = delivered(&self.viola, &spec.k8s_provider);
            format!("the cloud has {:#?}\nviola has {has:#?}", self.expected(spec))
        };
        until("viola has what the cloud has", is_right, state).await;
        let is_known = |config: &Value| {
            config["ready"] == true && config["nodes"]["delivered"] == config["nodes"]["desired"]
        };
        self.operator.until_config(&spec.name, "everything is delivered", is_known).await;
    }

    /// What Viola has, and what the REST API says is delivered: all that an outage must leave alone.
    pub async fn delivered_state(&self) -> (BTreeMap<String, Value>, Value) {
        let path = format!("/v1/interfaces/node-configs?providerId={BIZ}");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (status, records) = self.operator.get(&path).await;
            if status == 200 {
                return (self.viola.nodes(BIZ), records);
            }
            // 503 while the inventory is being read.
            assert!(Instant::now() < deadline && status == 503, "{status} {records}");
        }
    }

    /// The interface names of a node, by MAC.
    pub fn node_names(&self, node: &str) -> BTreeMap<String, String> {
        names(&self.viola.node(BIZ, node).unwrap_or_default())
    }

    /// How many NICs Viola has for a node.
    pub fn nic_count(&self, node: &str) -> usize {
        self.node_names(node).len()
    }

    /// How often each node stood in a POST.
    pub fn sent(&self) -> BTreeMap<String, usize> {
        let mut sent = BTreeMap::new();
        for node in self.viola.posts().iter().flat_map(|post| post.nodes()) {
            *sent.entry(node).or_default() += 1;
        }
        sent
    }

    /// A fault of one operation of the cloud.
    pub fn fault(&self, operation: Operation, fault: Fault) -> FaultId {
        self.cloud.add_fault(FaultRule::new(fault).operation(operation))
    }

    /// Requests of the cloud's services so far: Contrabass, Keystone, Nova, Neutron.
    pub fn requests(&self) -> [u64; 4] {
        let counters = self.cloud.counters();
        [Service::Contrabass, Service::Keystone, Service::Nova, Service::Neutron]
            .map(|service| counters.requests_to(service))
    }

    /// Logins so far.
    pub fn logins(&self) -> u64 {
        self.cloud.counters().requests(Service::Keystone, Operation::Login)
    }
}

/// The verdict of each port of a config's state.
pub fn verdicts(config: &Value) -> BTreeMap<String, String> {
    let vms = config["vms"].as_array().into_iter().flatten();
    let ports = vms.flat_map(|vm| vm["ports"].as_array().into_iter().flatten());
    ports.map(|port| (text(&port["port"]), text(&port["verdict"]))).collect()
}

/// Why each skipped VM is skipped.
pub fn skips(config: &Value) -> BTreeMap<String, String> {
    let skipped = config["skipped"].as_array().into_iter().flatten();
    skipped.map(|skip| (text(&skip["vm"]), text(&skip["reason"]))).collect()
}

/// The message of a config's state.
pub fn message(config: &Value) -> String {
    text(&config["message"])
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Fails unless `text` has all of `parts`.
#[track_caller]
pub fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in {text:?}");
    }
}
