use super::flight::Flights;
use super::names::Names;
use super::subnets::Subnet;
use multinic_actors::domain::ids::NetworkId;
use std::sync::Arc;

/// What was read with one account in one project, by the endpoint it was read from.
#[derive(Debug, Default)]
pub(super) struct Caches {
    /// Subnets by id or name.
    pub(super) subnets: Flights<(String, SubnetKey), Subnet>,
    /// MTUs of networks.
    pub(super) mtus: Flights<(String, NetworkId), i64>,
    /// Servers' names.
    pub(super) names: std::sync::Mutex<std::collections::HashMap<String, Arc<Names>>>,
}

/// How a subnet is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum SubnetKey {
    /// By UUID.
    Id(String),
    /// By its name.
    Name(String),
}
