//! The handle of a simulated cloud: starting, stopping, and what lives in it.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;

use super::catalog::Catalog;
use super::exchange::{Answer, Call};
use super::objects::{FixedIp, PortSpec};
use super::pipeline::Backend;
use super::server::{Server, Traffic, lock};
use super::service::{Operation, Service};
use super::truth::{ExpectedNodes, Truth};
use super::world::World;
use super::{contrabass, keystone, neutron, nova};

/// Fixed ports; 0 takes any free one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// Contrabass.
    pub contrabass: u16,
    /// Keystone.
    pub keystone: u16,
    /// Neutron.
    pub neutron: u16,
    /// Nova.
    pub nova: u16,
}

/// How a cloud is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where the services listen.
    pub ports: Ports,
    /// Of the ids and of the faults' dice.
    pub seed: u64,
}

/// A running cloud. Clones share it; it ends with the last one, or by [`SimCloud::stop`].
#[derive(Clone)]
pub struct SimCloud {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) traffic: Arc<Traffic>,
    servers: Arc<[(Service, Server)]>,
}

struct CloudBackend {
    service: Service,
    world: Arc<Mutex<World>>,
}

impl Backend for CloudBackend {
    fn operation(&self, call: &Call) -> Operation {
        match self.service {
            Service::Contrabass => contrabass::operation(call),
            Service::Keystone => keystone::operation(call),
            Service::Neutron => neutron::operation(call),
            Service::Nova => nova::operation(call),
            Service::Viola => Operation::Other,
        }
    }

    fn answer(&self, call: &Call) -> Answer {
        let mut world = lock(&self.world);
        match self.service {
            Service::Contrabass => contrabass::answer(&world, call),
            Service::Keystone => keystone::answer(&mut world, call),
            Service::Neutron => neutron::answer(&mut world, call),
            Service::Nova => nova::answer(&mut world, call),
            Service::Viola => Answer::empty(404),
        }
    }
}

/// Runs clouds until the future ends: the whole of a process that only simulates.
///
/// # Errors
/// When a port is taken.
pub async fn serve(settings: &[Settings], shutdown: impl Future<Output = ()>) -> io::Result<()> {
    let clouds = settings.iter().map(|settings| SimCloud::start_with(*settings));
    let clouds = clouds.collect::<io::Result<Vec<_>>>()?;
    shutdown.await;
    clouds.iter().for_each(SimCloud::stop);
    Ok(())
}

impl SimCloud {
    /// Starts an empty cloud on free loopback ports.
    ///
    /// # Panics
    /// When loopback has no free port.
    pub async fn start() -> Self {
        Self::start_with(Settings::default()).expect("free loopback ports")
    }

    /// Starts an empty cloud. Needs no runtime.
    ///
    /// # Errors
    /// When a port is taken.
    pub fn start_with(settings: Settings) -> io::Result<Self> {
        let world = Arc::new(Mutex::new(World::new(settings.seed)));
        let traffic = Traffic::new(settings.seed);
        let Ports { contrabass, keystone, neutron, nova } = settings.ports;
        let start = |(service, port): (Service, u16)| {
            let backend = Arc::new(CloudBackend { service, world: world.clone() });
            let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            Ok((service, Server::start(service, addr, backend, traffic.clone())?))
        };
        let services = [
            (Service::Contrabass, contrabass),
            (Service::Keystone, keystone),
            (Service::Neutron, neutron),
            (Service::Nova, nova),
        ];
        let servers: io::Result<Vec<_>> = services.into_iter().map(start).collect();
        let cloud = Self { world: world.clone(), traffic: traffic.clone(), servers: servers?.into() };
        cloud.note_urls();
        Ok(cloud)
    }

    fn note_urls(&self) {
        let [keystone, neutron, nova] =
            [Service::Keystone, Service::Neutron, Service::Nova].map(|of| self.url(of));
        let mut world = self.lock();
        world.catalog = Catalog::standard(&keystone, &neutron, &nova);
        world.keystone_url = keystone;
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    pub(super) fn server(&self, service: Service) -> Option<&Server> {
        self.servers.iter().find(|(of, _)| *of == service).map(|(_, server)| server)
    }

    /// Ends all services; connections break.
    pub fn stop(&self) {
        self.servers.iter().for_each(|(_, server)| server.stop());
    }

    /// `http://127.0.0.1:port` of a service; empty for one that a cloud does not have.
    pub fn url(&self, service: Service) -> String {
        self.server(service).map(|server| format!("http://{}", server.addr)).unwrap_or_default()
    }

    /// Where clients look providers up.
    pub fn contrabass_url(&self) -> String {
        self.url(Service::Contrabass)
    }

    /// Keystone's base URL, with `/v3`.
    pub fn keystone_url(&self) -> String {
        format!("{}/v3", self.url(Service::Keystone))
    }

    /// The next project, user, network, subnet, server or port gets this id.
    pub fn set_next_id(&self, id: &str) {
        self.lock().preset_id = Some(id.into());
    }

    /// A network of this project.
    pub fn add_network(&self, project: &str, name: &str, mtu: u32) -> String {
        self.lock().add_network(project, name, mtu)
    }

    /// Changes a network's MTU.
    pub fn set_mtu(&self, network: &str, mtu: u32) {
        if let Some(network) = self.lock().networks.get_mut(network) {
            network.mtu = mtu;
        }
    }

    /// Shows a network to all projects, or no longer.
    pub fn set_shared(&self, network: &str, is_shared: bool) {
        if let Some(network) = self.lock().networks.get_mut(network) {
            network.is_shared = is_shared;
        }
    }

    /// Removes a network; its subnets and ports stay as they are.
    pub fn delete_network(&self, network: &str) -> bool {
        self.lock().networks.remove(network).is_some()
    }

    /// A subnet of this network.
    ///
    /// # Panics
    /// When `cidr` is none.
    pub fn add_subnet(&self, network: &str, name: &str, cidr: &str) -> String {
        self.lock().add_subnet(network, name, cidr.parse().expect("a CIDR"))
    }

    /// Removes a subnet; ports keep their addresses.
    pub fn delete_subnet(&self, subnet: &str) -> bool {
        self.lock().subnets.remove(subnet).is_some()
    }

    /// An ACTIVE server of this project; its UUID.
    pub fn add_server(&self, project: &str, name: &str, metadata: &[(&str, &str)]) -> String {
        let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        self.lock().add_server(project, name, metadata.collect())
    }

    /// Gives a server another name.
    pub fn rename_server(&self, server: &str, name: &str) {
        if let Some(server) = self.lock().servers.get_mut(server) {
            server.name = name.into();
        }
    }

    /// Sets or removes one metadata key of a server.
    pub fn set_metadata(&self, server: &str, key: &str, value: Option<&str>) {
        if let Some(server) = self.lock().servers.get_mut(server) {
            match value {
                Some(value) => server.metadata.insert(key.into(), value.into()),
                None => server.metadata.remove(key),
            };
        }
    }

    /// Deletes a server: its ports go, premade ones stay DOWN without `device_id`.
    pub fn delete_server(&self, server: &str) -> bool {
        self.lock().delete_server(server)
    }

    /// Replaces a server by a new one of the same name that takes over its ports.
    /// The new UUID; `None` when there is no such server.
    pub fn replace_server(&self, server: &str) -> Option<String> {
        self.lock().replace_server(server)
    }

    /// Makes a port; its UUID.
    pub fn add_port(&self, spec: PortSpec) -> String {
        self.lock().add_port(spec)
    }

    /// Removes a port.
    pub fn delete_port(&self, port: &str) -> bool {
        self.lock().ports.remove(port).is_some()
    }

    /// ACTIVE, DOWN, BUILD, …
    pub fn set_port_status(&self, port: &str, status: &str) {
        self.edit_port(port, |port| port.status = Some(status.into()));
    }

    /// Attaches a port to another server.
    pub fn move_port(&self, port: &str, server: &str) {
        self.edit_port(port, |port| {
            port.device_id = server.into();
            port.device_owner = "compute:nova".into();
        });
    }

    /// Detaches a port: DOWN, without `device_id` and owner.
    pub fn detach_port(&self, port: &str) {
        self.edit_port(port, |port| {
            port.device_id.clear();
            port.device_owner.clear();
            port.status = Some("DOWN".into());
        });
    }

    /// Replaces a port's addresses: (subnet, address) each.
    pub fn set_fixed_ips(&self, port: &str, fixed_ips: &[(&str, &str)]) {
        let fixed_ips = fixed_ips
            .iter()
            .map(|(subnet, address)| FixedIp { subnet_id: (*subnet).into(), ip_address: (*address).into() });
        let fixed_ips: Vec<_> = fixed_ips.collect();
        self.lock().note_addresses(&fixed_ips);
        self.edit_port(port, |port| port.fixed_ips = fixed_ips);
    }

    /// Serves this JSON for a port (an unreadable one, say); `None` ends that.
    pub fn set_raw_port(&self, port: &str, raw: Option<Value>) {
        self.edit_port(port, |port| port.raw = raw);
    }

    /// Changes a port in any way.
    pub fn edit_port(&self, port: &str, change: impl FnOnce(&mut super::Port)) {
        if let Some(port) = self.lock().ports.get_mut(port) {
            change(port);
        }
    }

    /// A copy of everything in the cloud.
    pub fn truth(&self) -> Truth {
        Truth::of(&self.lock())
    }

    /// [`Truth::expected_nodes`] of this moment.
    pub fn expected_nodes<S: AsRef<str>>(&self, project: &str, vms: &[S], subnets: &[S]) -> ExpectedNodes {
        self.truth().expected_nodes(project, vms, subnets)
    }
}
