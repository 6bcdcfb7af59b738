//! What lives in the simulated cloud: networks, subnets, servers, ports.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// A project (tenant).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Project {
    /// 32 hex digits.
    pub id: String,
    /// Unique in its domain.
    pub name: String,
    /// The domain's id.
    pub domain_id: String,
    /// Logins to a disabled project are refused.
    pub is_enabled: bool,
}

/// A network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Network {
    /// UUID.
    pub id: String,
    /// As it was given.
    pub name: String,
    /// The owner.
    pub project_id: String,
    /// Bytes.
    pub mtu: u32,
    /// Visible to every project.
    pub is_shared: bool,
    /// RFC 3339, whole seconds.
    pub created_at: String,
}

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subnet {
    /// UUID.
    pub id: String,
    /// Need not be unique.
    pub name: String,
    /// The owner.
    pub project_id: String,
    /// Its network.
    pub network_id: String,
    /// IPv4 or IPv6.
    pub cidr: ipnet::IpNet,
    /// RFC 3339, whole seconds.
    pub created_at: String,
}

/// A server (VM).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Server {
    /// UUID.
    pub id: String,
    /// The display name.
    pub name: String,
    /// The owner.
    pub project_id: String,
    /// As set by the user.
    pub metadata: BTreeMap<String, String>,
    /// `ACTIVE`, `SHUTOFF`, …
    pub status: String,
    /// RFC 3339, whole seconds.
    pub created_at: String,
    pub(crate) sequence: u64,
}

/// One address of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FixedIp {
    /// The subnet.
    pub subnet_id: String,
    /// As text: tests may hold nonsense.
    pub ip_address: String,
}

/// A port's `created_at` as it is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum CreatedAt {
    /// This text, whatever it is.
    Text(String),
    /// `null`.
    Null,
    /// The field is missing.
    Absent,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Port {
    /// UUID.
    pub id: String,
    /// May be empty.
    pub name: String,
    /// The owner.
    pub project_id: String,
    /// Its network.
    pub network_id: String,
    /// As entered.
    pub mac_address: String,
    /// Its addresses.
    pub fixed_ips: Vec<FixedIp>,
    /// `ACTIVE`, `DOWN`, `BUILD`, …; `None` is served as `null`.
    pub status: Option<String>,
    /// A server's id, another device, or empty.
    pub device_id: String,
    /// `compute:nova`, `network:dhcp`, … or empty.
    pub device_owner: String,
    /// When it was made.
    pub created_at: CreatedAt,
    /// Made before its server: it stays when the server is deleted.
    pub is_premade: bool,
    /// Fields served beside, or in place of, the usual ones: `trunk_details`, say.
    pub extra: BTreeMap<String, Value>,
    /// Served instead of everything above.
    pub raw: Option<Value>,
}

/// Describes a port to be made; what is not said gets a default.
#[derive(Clone, Debug)]
pub struct PortSpec {
    pub(crate) network: String,
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) server: String,
    pub(crate) project: Option<String>,
    pub(crate) mac: Option<String>,
    pub(crate) fixed_ips: Vec<FixedIp>,
    pub(crate) allocate: Vec<String>,
    pub(crate) status: Option<String>,
    pub(crate) device_owner: Option<String>,
    pub(crate) created_at: Option<CreatedAt>,
    pub(crate) is_premade: bool,
    pub(crate) extra: BTreeMap<String, Value>,
    pub(crate) raw: Option<Value>,
}

impl PortSpec {
    /// An ACTIVE port without address or server, made now, owned by the network's project.
    pub fn new(network_id: impl Into<String>) -> Self {
        Self {
            network: network_id.into(),
            id: None,
            name: String::new(),
            server: String::new(),
            project: None,
            mac: None,
            fixed_ips: Vec::new(),
            allocate: Vec::new(),
            status: Some("ACTIVE".into()),
            device_owner: None,
            created_at: None,
            is_premade: false,
            extra: BTreeMap::new(),
            raw: None,
        }
    }

    /// Its id; a fresh UUID by default.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Its name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Attached to this server (`device_id`), owned by the server's project, `compute:nova`.
    pub fn server(mut self, server_id: impl Into<String>) -> Self {
        self.server = server_id.into();
        self
    }

    /// Owned by this project.
    pub fn project(mut self, project_id: impl Into<String>) -> Self {
        self.project = Some(project_id.into());
        self
    }

    /// Its MAC, served as it is given here.
    pub fn mac(mut self, mac: impl Into<String>) -> Self {
        self.mac = Some(mac.into());
        self
    }

    /// One more address.
    pub fn fixed_ip(mut self, subnet_id: impl Into<String>, address: impl Into<String>) -> Self {
        self.fixed_ips.push(FixedIp { subnet_id: subnet_id.into(), ip_address: address.into() });
        self
    }

    /// One more address: a free one of this subnet.
    pub fn subnet(mut self, subnet_id: impl Into<String>) -> Self {
        self.allocate.push(subnet_id.into());
        self
    }

    /// Its status.
    pub fn status(mut self, status: impl Into<String>) -> Self {
        self.status = Some(status.into());
        self
    }

    /// Its status is `null`.
    pub fn without_status(mut self) -> Self {
        self.status = None;
        self
    }

    /// Its owner.
    pub fn device_owner(mut self, owner: impl Into<String>) -> Self {
        self.device_owner = Some(owner.into());
        self
    }

    /// This `created_at`, readable or not.
    pub fn created_at(mut self, text: impl Into<String>) -> Self {
        self.created_at = Some(CreatedAt::Text(text.into()));
        self
    }

    /// `created_at` is `null`.
    pub fn null_created_at(mut self) -> Self {
        self.created_at = Some(CreatedAt::Null);
        self
    }

    /// `created_at` is missing.
    pub fn without_created_at(mut self) -> Self {
        self.created_at = Some(CreatedAt::Absent);
        self
    }

    /// It outlives its server, DOWN and without `device_id`.
    pub fn premade(mut self) -> Self {
        self.is_premade = true;
        self
    }

    /// One more field, or another value of a usual one.
    pub fn field(mut self, name: impl Into<String>, value: Value) -> Self {
        self.extra.insert(name.into(), value);
        self
    }

    /// This JSON is served for it; filters go by the fields above.
    pub fn raw(mut self, raw: Value) -> Self {
        self.raw = Some(raw);
        self
    }
}
