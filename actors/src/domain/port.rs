//! What the cloud says: ports, subnets and servers, read but not yet judged.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::ids::{Mac, NetworkId, PortId, ProjectId, SubnetId, VmId};

/// A Neutron port as far as it concerns us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its UUID.
    pub id: PortId,
    /// Its MAC address.
    pub mac: Mac,
    /// Its network.
    pub network: NetworkId,
    /// `ACTIVE`, `DOWN`, `BUILD`, `ERROR`, …; upper case. `None` when Neutron gave none.
    pub status: Option<String>,
    /// `device_owner`; empty or `compute:<zone>` for a server's NIC.
    pub owner: String,
    /// The project that owns the port (not always the server's).
    pub project: Option<ProjectId>,
    /// `created_at` as it came: RFC 3339, or without a zone (UTC), or missing.
    pub created_at: Option<String>,
    /// Fixed IPs in Neutron's order.
    pub fixed_ips: Vec<FixedIp>,
}

impl Port {
    /// Whether Neutron says that the port is down.
    pub fn is_down(&self) -> bool {
        self.status.as_deref().is_some_and(|status| status.eq_ignore_ascii_case("DOWN"))
    }
}

/// One fixed IP of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedIp {
    /// The subnet it comes from.
    pub subnet: SubnetId,
    /// The address.
    pub address: IpAddr,
}

/// A port that names a VM but cannot be read: which field, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadablePort {
    /// Its id, or empty if even that is missing.
    pub id: PortId,
    /// What is wrong with it.
    pub problem: String,
}

/// A port of a VM as the list had it.
pub type ListedPort = Result<Port, UnreadablePort>;

/// A target subnet with what its network says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSubnet {
    /// Its UUID.
    pub id: SubnetId,
    /// Its network.
    pub network: NetworkId,
    /// Its address range.
    pub cidr: IpNet,
    /// Its network's MTU as Neutron gave it, in bytes. Judged where it is used.
    pub mtu: i64,
}

/// What Nova says of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// It exists (or did when the name was last read).
    Found {
        /// The server's name as Nova has it.
        name: String,
        /// The server's metadata.
        metadata: BTreeMap<String, String>,
    },
    /// Nova answered 404.
    NotFound,
    /// Nova did not answer for it, and no earlier answer is known. Holds what went wrong.
    Unknown(String),
    /// The catalog has no compute service at all: the VM id is the node name.
    NoComputeService,
    /// The node name is known from elsewhere (Cluster API), not from Nova.
    Node(String),
    /// Its machine has no node yet.
    Pending,
}

/// Everything one fetch found out about the VMs that were asked for. Complete: a partial answer is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// The target subnets, in the config's order, without doubles.
    pub subnets: Vec<TargetSubnet>,
    /// The ports of each VM that was asked for; a VM without ports may be missing.
    pub ports: BTreeMap<VmId, Vec<ListedPort>>,
    /// What Nova says of each VM; a VM without ports may be missing.
    pub servers: BTreeMap<VmId, Server>,
}

impl Observation {
    /// Takes out what was found of a VM: its ports, and what Nova says of it.
    pub fn take(&mut self, vm: &VmId) -> (Vec<ListedPort>, Server) {
        let unknown = || Server::Unknown("nova was not asked for it".to_owned());
        (self.ports.remove(vm).unwrap_or_default(), self.servers.remove(vm).unwrap_or_else(unknown))
    }
}

/// Whether a port is used, or the first rule that leaves it out. The order is the order of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// It becomes an interface.
    Selected,
    /// A field that is needed cannot be read.
    Unreadable,
    /// It belongs to a router, a DHCP agent, …
    OwnerNotCompute,
    /// `portProject: Own` and it is another project's.
    OtherProject,
    /// Its status is not among the allowed ones.
    StatusNotAllowed,
    /// It has no IPv4 address.
    NoIPv4,
    /// None of its IPv4 addresses is in a target subnet.
    NoTargetSubnet,
    /// It has no creation time that can be read.
    NoCreationTime,
    /// It was created before the baseline.
    BeforeBaseline,
    /// It is the node's own NIC.
    PrimaryNic,
    /// The node has ten others already.
    OverLimit,
}

/// A port, its verdict, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortVerdict {
    /// The port.
    pub port: PortId,
    /// The verdict.
    pub verdict: Verdict,
    /// The facts behind it, for a person: `status BUILD`, `created 2026-01-09T23:59:59Z, baseline …`.
    pub detail: String,
    /// The interface name it got, when selected: `multinic3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_written_as_the_words_that_people_see_and_stand_in_the_order_of_the_rules() {
        let mut all = vec![
            Verdict::OverLimit,
            Verdict::PrimaryNic,
            Verdict::BeforeBaseline,
            Verdict::NoCreationTime,
            Verdict::NoTargetSubnet,
            Verdict::NoIPv4,
            Verdict::StatusNotAllowed,
            Verdict::OtherProject,
            Verdict::OwnerNotCompute,
            Verdict::Unreadable,
            Verdict::Selected,
        ];
        all.sort();
        assert_eq!(
            serde_json::to_string(&all).unwrap(),
            concat!(
                r#"["Selected","Unreadable","OwnerNotCompute","OtherProject","StatusNotAllowed","NoIPv4","#,
                r#""NoTargetSubnet","NoCreationTime","BeforeBaseline","PrimaryNic","OverLimit"]"#
            )
        );
    }
}
