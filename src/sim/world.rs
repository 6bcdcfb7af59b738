//! The state of one simulated cloud, behind one lock.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::catalog::Catalog;
use super::front_end::FrontEnd;
use super::identity::{Identity, seconds};
use super::ids::Ids;
use super::objects::{CreatedAt, FixedIp, Network, Port, PortSpec, Server, Subnet};

/// How page links are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageLinks {
    /// `http://host/…`, as the services do.
    #[default]
    Absolute,
    /// `/v2.0/ports?…`, as behind some proxies.
    Relative,
    /// `https://host/…` though the service speaks http.
    WrongScheme,
    /// `next` leads to the same page again.
    Loop,
}

/// What Contrabass answers for one provider.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub url: String,
    pub attributes: BTreeMap<String, Value>,
    pub key: Vec<u8>,
}

/// The whole state.
pub(crate) struct World {
    pub ids: Ids,
    /// Keystone's URL without `/v3`: a 401 of any service points there.
    pub keystone_url: String,
    pub identity: Identity,
    pub catalog: Catalog,
    pub logins: usize,
    pub providers: BTreeMap<String, Provider>,
    pub networks: BTreeMap<String, Network>,
    pub subnets: BTreeMap<String, Subnet>,
    pub servers: BTreeMap<String, Server>,
    pub ports: BTreeMap<String, Port>,
    pub port_page_max: Option<usize>,
    pub server_page_max: usize,
    pub page_links: PageLinks,
    pub front_end: FrontEnd,
    /// The next object's id, if it is not to be a fresh one.
    pub preset_id: Option<String>,
    /// How many addresses of a subnet were allocated or passed over.
    last_allocated: BTreeMap<String, usize>,
    taken: HashSet<String>,
    sequence: u64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            ids: Ids::new(seed),
            keystone_url: String::new(),
            identity: Identity::new(),
            catalog: Catalog::default(),
            logins: 0,
            providers: BTreeMap::new(),
            networks: BTreeMap::new(),
            subnets: BTreeMap::new(),
            servers: BTreeMap::new(),
            ports: BTreeMap::new(),
            port_page_max: None,
            // Nova's own default of `max_limit`.
            server_page_max: 1000,
            page_links: PageLinks::default(),
            front_end: FrontEnd::default(),
            preset_id: None,
            last_allocated: BTreeMap::new(),
            taken: HashSet::new(),
            sequence: 0,
        }
    }

    /// Now, as the services write it.
    pub fn timestamp(&self) -> String {
        seconds(self.identity.now())
    }

    fn next_uuid(&mut self) -> String {
        self.preset_id.take().unwrap_or_else(|| self.ids.uuid())
    }

    /// Keystone's ids have no dashes.
    pub fn next_hex(&mut self) -> String {
        self.preset_id.take().unwrap_or_else(|| self.ids.hex())
    }

    pub fn add_network(&mut self, project: &str, name: &str, mtu: u32) -> String {
        let id = self.next_uuid();
        let network = Network {
            id: id.clone(),
            name: name.into(),
            project_id: project.into(),
            mtu,
            is_shared: false,
            created_at: self.timestamp(),
        };
        self.networks.insert(id.clone(), network);
        id
    }

    pub fn add_subnet(&mut self, network: &str, name: &str, cidr: ipnet::IpNet) -> String {
        let id = self.next_uuid();
        let project = self.networks.get(network).map_or("", |network| &network.project_id);
        let subnet = Subnet {
            id: id.clone(),
            name: name.into(),
            project_id: project.into(),
            network_id: network.into(),
            cidr,
            created_at: self.timestamp(),
        };
        self.subnets.insert(id.clone(), subnet);
        id
    }

    pub fn add_server(&mut self, project: &str, name: &str, metadata: BTreeMap<String, String>) -> String {
        let id = self.next_uuid();
        self.sequence += 1;
        let server = Server {
            id: id.clone(),
            name: name.into(),
            project_id: project.into(),
            metadata,
            status: "ACTIVE".into(),
            created_at: self.timestamp(),
            sequence: self.sequence,
        };
        self.servers.insert(id.clone(), server);
        id
    }

    pub fn add_port(&mut self, spec: PortSpec) -> String {
        let id = spec.id.unwrap_or_else(|| self.next_uuid());
        let server_project = self.servers.get(&spec.server).map(|server| server.project_id.clone());
        let network_project = self.networks.get(&spec.network).map(|network| network.project_id.clone());
        let owner = if spec.server.is_empty() { "" } else { "compute:nova" };
        let mut port = Port {
            id: id.clone(),
            name: spec.name,
            project_id: spec.project.or(server_project).or(network_project).unwrap_or_default(),
            network_id: spec.network,
            mac_address: spec.mac.unwrap_or_else(|| self.ids.mac()),
            fixed_ips: spec.fixed_ips,
            status: spec.status,
            device_id: spec.server,
            device_owner: spec.device_owner.unwrap_or_else(|| owner.into()),
            created_at: spec.created_at.unwrap_or_else(|| CreatedAt::Text(self.timestamp())),
            is_premade: spec.is_premade,
            extra: spec.extra,
            raw: spec.raw,
        };
        self.note_addresses(&port.fixed_ips);
        for subnet in &spec.allocate {
            port.fixed_ips.extend(self.free_address(subnet));
        }
        self.ports.insert(id.clone(), port);
        id
    }

    /// The next address of a subnet that no port ever had; the first is the gateway's.
    fn free_address(&mut self, subnet_id: &str) -> Option<FixedIp> {
        let subnet = self.subnets.get(subnet_id)?;
        let last = self.last_allocated.get(subnet_id).copied();
        let mut hosts = subnet.cidr.hosts().skip(1).skip(last.unwrap_or(0));
        let mut index = last.unwrap_or(0);
        let address = hosts.find_map(|address| {
            index += 1;
            let text = address.to_string();
            (!self.taken.contains(&text)).then_some(text)
        })?;
        self.last_allocated.insert(subnet_id.into(), index);
        Some(FixedIp { subnet_id: subnet_id.into(), ip_address: address })
    }

    /// Addresses that were given to a port are not allocated to another.
    pub fn note_addresses(&mut self, fixed_ips: &[FixedIp]) {
        self.taken.extend(fixed_ips.iter().map(|ip| ip.ip_address.clone()));
    }

    /// As Nova does: its own ports go, those made before stay DOWN and unbound.
    pub fn delete_server(&mut self, id: &str) -> bool {
        self.ports.retain(|_, port| port.device_id != id || port.is_premade);
        for port in self.ports.values_mut().filter(|port| port.device_id == id) {
            port.device_id.clear();
            port.device_owner.clear();
            port.status = Some("DOWN".into());
        }
        self.servers.remove(id).is_some()
    }

    /// A new server takes over the old one's name, metadata and ports.
    pub fn replace_server(&mut self, id: &str) -> Option<String> {
        let old = self.servers.remove(id)?;
        let new = self.add_server(&old.project_id, &old.name, old.metadata);
        for port in self.ports.values_mut().filter(|port| port.device_id == id) {
            port.device_id.clone_from(&new);
        }
        Some(new)
    }
}
