//! The cloud as it really is: machines with their ports, subnets, names.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use jiff::SignedDuration;
use multinic_actors::domain::ids::{Mac, NetworkId, PortId, SubnetId, VmId};
use multinic_actors::domain::port::{FixedIp, ListedPort, Port, Server, TargetSubnet, UnreadablePort};
use multinic_actors::testing::{FakeCloud, START};

use crate::plan::{Happening, MACHINES, Oddity, Pick, SUBNETS};

/// The metadata key that may hold a node's name.
pub const LABEL: &str = "node";
/// More ports than a machine can have: nothing is attached beyond.
const MOST_PORTS: usize = 14;

pub struct Truth {
    cloud: FakeCloud,
    pub machines: Vec<Machine>,
    mtus: [i64; 3],
    /// How many ports were ever made.
    made: u16,
}

pub struct Machine {
    /// How often it was rebuilt.
    life: usize,
    number: usize,
    name: String,
    label: Option<String>,
    is_there: bool,
    ports: Vec<ListedPort>,
}

/// The network that a subnet is of.
fn network_of(subnet: usize) -> usize {
    [0, 0, 1, 2][subnet % SUBNETS]
}

pub fn subnet_id(subnet: usize) -> String {
    format!("subnet-{}", subnet % SUBNETS)
}

fn network_id(subnet: usize) -> NetworkId {
    NetworkId::new(format!("network-{}", network_of(subnet)))
}

fn address(subnet: usize, number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(10, subnet as u8, high, low)
}

impl Machine {
    pub fn vm(&self) -> VmId {
        VmId::new(format!("vm-{}-{}", self.number, self.life))
    }

    /// The place of the port that came last.
    pub fn last_port(&self) -> usize {
        self.ports.len().saturating_sub(1)
    }

    fn server(&self) -> Server {
        if !self.is_there {
            return Server::NotFound;
        }
        let metadata = self.label.iter().map(|label| (LABEL.to_owned(), label.clone()));
        Server::Found { name: self.name.clone(), metadata: metadata.collect::<BTreeMap<_, _>>() }
    }
}

impl Truth {
    pub fn new(cloud: FakeCloud) -> Self {
        let machines = (0..MACHINES).map(|number| Machine {
            life: 0,
            number,
            name: format!("node-{number}"),
            label: None,
            is_there: true,
            ports: Vec::new(),
        });
        let truth = Self { cloud, machines: machines.collect(), mtus: [1450, 1500, 9000], made: 0 };
        truth.tell_subnets();
        (0..MACHINES).for_each(|machine| truth.tell(machine));
        truth
    }

    fn tell(&self, machine: usize) {
        let machine = &self.machines[machine];
        self.cloud.put_vm(&machine.vm(), machine.ports.clone(), machine.server());
    }

    fn tell_subnets(&self) {
        for subnet in 0..SUBNETS {
            self.cloud.put_subnet(TargetSubnet {
                id: SubnetId::new(subnet_id(subnet)),
                network: network_id(subnet),
                cidr: IpNet::V4(Ipv4Net::new_assert(address(subnet, 0), 16)),
                mtu: self.mtus[network_of(subnet)],
            });
        }
    }

    /// MTUs that no NIC can have become usable.
    pub fn mend_mtus(&mut self) {
        self.mtus.iter_mut().filter(|mtu| !(68..=9000).contains(*mtu)).for_each(|mtu| *mtu = 1500);
        self.tell_subnets();
    }

    /// Every port that is not ACTIVE is.
    pub fn mend_ports(&mut self) {
        for machine in 0..MACHINES {
            for port in self.machines[machine].ports.iter_mut().flatten() {
                port.status = Some("ACTIVE".to_owned());
            }
            self.tell(machine);
        }
    }

    /// Gives a port another status.
    pub fn port_is(&mut self, id: &PortId, status: &str) {
        for machine in 0..MACHINES {
            for port in self.machines[machine].ports.iter_mut().flatten().filter(|port| port.id == *id) {
                port.status = Some(status.to_owned());
            }
            self.tell(machine);
        }
    }

    /// One thing happens in the cloud at this time of the world; `false` if it is nothing of the cloud's.
    pub fn happens(&mut self, what: &Happening, at: Duration) -> bool {
        match what {
            Happening::Attach { machine, subnet, status, addresses } => {
                self.attach(*machine, *subnet, status, *addresses, at);
            }
            Happening::Crowd(machine) => {
                for subnet in 0..11 {
                    self.attach(*machine, subnet * 2 % 3, "ACTIVE", 1, at);
                }
            }
            Happening::Detach(machine, port) => {
                self.take(*machine, *port);
            }
            Happening::Clear(machine) => self.edit(*machine, |machine| machine.ports.clear()),
            Happening::Move { from, port, to } => {
                if let Some(port) = self.take(*from, *port) {
                    self.edit(*to, |machine| machine.ports.push(port));
                }
            }
            Happening::Status(machine, port, status) | Happening::Flicker(machine, port, status, _) => {
                self.edit_port(*machine, *port, |port| port.status = Some((*status).to_owned()));
            }
            Happening::Readdress(machine, port) => {
                self.made += 1;
                let number = self.made;
                self.edit_port(*machine, *port, |port| {
                    for ip in &mut port.fixed_ips {
                        if let IpAddr::V4(old) = ip.address {
                            ip.address = address(usize::from(old.octets()[1]), number).into();
                        }
                    }
                });
            }
            Happening::Remake(machine, port) => {
                self.made += 1;
                let (id, created) = (PortId::new(format!("port-{}", self.made)), time(at));
                self.edit_port(*machine, *port, |port| {
                    port.id = id;
                    port.created_at = Some(created);
                });
            }
            Happening::Odd(machine, port, oddity) => self.odd(*machine, *port, *oddity, at),
            Happening::Mtu(network, mtu) => {
                self.mtus[network % 3] = *mtu;
                self.tell_subnets();
            }
            Happening::Rename(machine, name) => {
                let names = ["node-0", "node-1", "node-2", "node-3", "Node-4", "new-name", "bad_name"];
                self.edit(*machine, |machine| machine.name = names[name % names.len()].to_owned());
            }
            Happening::Label(machine, has) => self.edit(*machine, |machine| {
                machine.label = has.then(|| format!("label-{}", machine.number));
            }),
            Happening::Vanish(machine) => self.edit(*machine, |machine| machine.is_there ^= true),
            Happening::Rebuild(machine) => self.rebuild(*machine, at),
            _ => return false,
        }
        true
    }

    fn edit(&mut self, machine: Pick, edit: impl FnOnce(&mut Machine)) {
        let machine = machine % MACHINES;
        edit(&mut self.machines[machine]);
        self.tell(machine);
    }

    fn edit_port(&mut self, machine: Pick, port: Pick, edit: impl FnOnce(&mut Port)) {
        self.edit(machine, |machine| {
            let ports = machine.ports.len().max(1);
            if let Some(Ok(port)) = machine.ports.get_mut(port % ports) {
                edit(port);
            }
        });
    }

    fn attach(&mut self, machine: Pick, subnet: Pick, status: &str, addresses: usize, at: Duration) {
        if self.machines[machine % MACHINES].ports.len() >= MOST_PORTS {
            return;
        }
        let subnet = subnet % SUBNETS;
        self.made += 1;
        // Not in the order of their MACs.
        let [high, low] = self.made.wrapping_mul(7919).to_be_bytes();
        let mac: Mac = format!("fa:16:3e:00:{high:02x}:{low:02x}").parse().unwrap();
        let ip = |subnet: usize, number: u16| FixedIp {
            subnet: SubnetId::new(subnet_id(subnet)),
            address: address(subnet, number).into(),
        };
        let mut fixed_ips = vec![ip(subnet, self.made)];
        if addresses > 1 {
            // A second one, in the other subnet of the network or in the same.
            let other = if network_of(subnet) == 0 { 1 - subnet } else { subnet };
            fixed_ips.push(ip(other, self.made.wrapping_add(20_000)));
        }
        let port = Port {
            id: PortId::new(format!("port-{}", self.made)),
            mac,
            network: network_id(subnet),
            status: Some(status.to_owned()),
            owner: "compute:nova".to_owned(),
            project: None,
            created_at: Some(time(at)),
            fixed_ips,
        };
        self.edit(machine, |machine| machine.ports.push(Ok(port)));
    }

    fn take(&mut self, machine: Pick, port: Pick) -> Option<ListedPort> {
        let mut taken = None;
        self.edit(machine, |machine| {
            if !machine.ports.is_empty() {
                taken = Some(machine.ports.remove(port % machine.ports.len()));
            }
        });
        taken
    }

    fn odd(&mut self, machine: Pick, port: Pick, oddity: Oddity, at: Duration) {
        match oddity {
            Oddity::Unreadable => self.edit(machine, |machine| {
                let id = PortId::new(format!("unreadable-{}", machine.ports.len()));
                machine.ports.push(Err(UnreadablePort { id, problem: "no mac_address".to_owned() }));
            }),
            Oddity::DoubledMac => {
                let twins = self.machines[machine % MACHINES].ports.len();
                self.attach(machine, port, "ACTIVE", 1, at);
                self.edit(machine, |machine| {
                    let first = machine.ports.iter().flatten().next().map(|port| port.mac);
                    if let (Some(mac), Some(Ok(new))) = (first, machine.ports.get_mut(twins)) {
                        new.mac = mac;
                    }
                });
            }
            Oddity::IpV6Only => self.edit_port(machine, port, |port| {
                port.fixed_ips.iter_mut().for_each(|ip| ip.address = Ipv6Addr::LOCALHOST.into());
            }),
            Oddity::RoutersPort => {
                self.edit_port(machine, port, |port| port.owner = "network:router_interface".to_owned());
            }
            Oddity::NoCreationTime => self.edit_port(machine, port, |port| port.created_at = None),
            Oddity::Cured => self.edit(machine, |machine| {
                let mut macs = Vec::new();
                machine.ports.retain(|port| {
                    let is_new = |port: &Port| !macs.contains(&port.mac);
                    let keep = port.as_ref().is_ok_and(is_new);
                    macs.extend(port.as_ref().ok().map(|port| port.mac));
                    keep
                });
            }),
        }
    }

    /// Another VM under the same name, with ports of its own; the old one is gone.
    fn rebuild(&mut self, machine: Pick, at: Duration) {
        let machine = machine % MACHINES;
        self.cloud.remove_vm(&self.machines[machine].vm());
        let had = self.machines[machine].ports.len();
        self.edit(machine, |machine| {
            machine.life += 1;
            machine.is_there = true;
            machine.ports.clear();
        });
        for subnet in 0..had.min(3) {
            self.attach(machine, subnet, "ACTIVE", 1, at);
        }
    }
}

/// Neutron's clock: it does not follow the operator's jumps.
fn time(at: Duration) -> String {
    (START + SignedDuration::try_from(at).unwrap()).to_string()
}
