use std::collections::BTreeMap;

use crate::domain::ids::{Mac, NetworkId, PortId, SubnetId, VmId};
use crate::domain::port::{FixedIp, ListedPort, Port, Server, TargetSubnet, UnreadablePort};

/// The one subnet of a world, unless a test makes more.
pub(super) const SUBNET: &str = "subnet-1";
const NETWORK: &str = "network-1";

pub(super) fn default_subnet() -> TargetSubnet {
    TargetSubnet {
        id: SubnetId::new(SUBNET),
        network: NetworkId::new(NETWORK),
        cidr: ipnet::IpNet::V4(ipnet::Ipv4Net::new_assert(std::net::Ipv4Addr::new(10, 0, 0, 0), 8)),
        mtu: 1450,
    }
}

/// A NIC to give to a VM: an ACTIVE Neutron port, created when the world began.
#[derive(Clone, Debug)]
pub struct Nic(Port);

/// A NIC whose MAC and address come from `number`: a lower number is a lower MAC.
pub fn nic(number: u16) -> Nic {
    let [high, low] = number.to_be_bytes();
    let mac = format!("fa:16:3e:00:{high:02x}:{low:02x}").parse::<Mac>();
    Nic(Port {
        id: PortId::new(format!("port-{number}")),
        mac: mac.unwrap_or_else(|_| unreachable!("the text above is a MAC")),
        network: NetworkId::new(NETWORK),
        status: Some("ACTIVE".to_owned()),
        owner: "compute:nova".to_owned(),
        project: None,
        created_at: Some(super::START.to_string()),
        fixed_ips: vec![FixedIp {
            subnet: SubnetId::new(SUBNET),
            address: std::net::Ipv4Addr::new(10, 0, high, low).into(),
        }],
    })
}

impl Nic {
    /// With this Neutron status.
    pub fn status(mut self, status: &str) -> Self {
        self.0.status = Some(status.to_owned());
        self
    }

    /// Neutron says that it is DOWN.
    pub fn down(self) -> Self {
        self.status("DOWN")
    }

    /// With another Neutron port behind the same MAC and address.
    pub fn port_id(mut self, id: &str) -> Self {
        self.0.id = PortId::new(id);
        self
    }

    /// With this `created_at`.
    pub fn created(mut self, text: &str) -> Self {
        self.0.created_at = Some(text.to_owned());
        self
    }

    pub(super) fn into_port(self) -> Port {
        self.0
    }
}

/// A VM as the world has it.
#[derive(Clone, Debug)]
pub(super) struct FakeVm {
    pub(super) server: Server,
    pub(super) ports: Vec<ListedPort>,
}

impl FakeVm {
    pub(super) fn named(name: &str) -> Self {
        Self { server: server(name), ports: Vec::new() }
    }
}

fn server(name: &str) -> Server {
    Server::Found { name: name.to_owned(), metadata: BTreeMap::new() }
}

/// One VM of a [`super::FakeCloud`], to change it. Every change holds from the next look on.
pub struct VmView<'a> {
    pub(super) cloud: &'a super::FakeCloud,
    pub(super) vm: VmId,
}

impl VmView<'_> {
    fn edit(&self, edit: impl FnOnce(&mut FakeVm)) -> &Self {
        self.cloud.edit_vm(&self.vm, edit);
        self
    }

    /// Attaches a NIC.
    pub fn gets(&self, nic: Nic) -> &Self {
        self.edit(|vm| vm.ports.push(Ok(nic.into_port())))
    }

    /// Detaches the NIC with this number.
    pub fn loses(&self, number: u16) -> &Self {
        let gone = nic(number).into_port().mac;
        self.edit(|vm| vm.ports.retain(|port| port.as_ref().map_or(true, |port| port.mac != gone)))
    }

    /// Detaches everything.
    pub fn loses_all(&self) -> &Self {
        self.edit(|vm| vm.ports.clear())
    }

    /// Changes the Neutron status of the NIC with this number.
    pub fn port_is(&self, number: u16, status: &str) -> &Self {
        let mac = nic(number).into_port().mac;
        self.edit(|vm| {
            for port in vm.ports.iter_mut().flatten().filter(|port| port.mac == mac) {
                port.status = Some(status.to_owned());
            }
        })
    }

    /// A port of it cannot be read.
    pub fn has_unreadable_port(&self) -> &Self {
        let unreadable = UnreadablePort { id: PortId::new("broken"), problem: "no mac_address".to_owned() };
        self.edit(|vm| vm.ports.push(Err(unreadable)))
    }

    /// All its ports can be read again.
    pub fn is_readable(&self) -> &Self {
        self.edit(|vm| vm.ports.retain(Result::is_ok))
    }

    /// Its server has this name.
    pub fn is_named(&self, name: &str) -> &Self {
        self.edit(|vm| vm.server = server(name))
    }

    /// Nova says this of it.
    pub fn server_is(&self, server: Server) -> &Self {
        self.edit(|vm| vm.server = server)
    }
}
