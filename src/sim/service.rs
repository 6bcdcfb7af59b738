//! The simulated services and the operations that faults and counters name.

use serde::Serialize;

/// One simulated service: one listener, one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Service {
    /// The provider directory: Keystone's URL and the admin's credentials.
    Contrabass,
    /// Identity: tokens and the catalog.
    Keystone,
    /// Ports, subnets, networks.
    Neutron,
    /// Servers.
    Nova,
    /// Takes node configs.
    Viola,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Operation {
    /// Contrabass: `GET …/provider/{id}`.
    GetProvider,
    /// Keystone: `POST /v3/auth/tokens`.
    Login,
    /// Keystone: `GET` or `DELETE /v3/auth/tokens`.
    Token,
    /// Neutron: `GET /v2.0/ports`.
    ListPorts,
    /// Neutron: `GET /v2.0/ports/{id}`.
    ShowPort,
    /// Neutron: `GET /v2.0/subnets`.
    ListSubnets,
    /// Neutron: `GET /v2.0/subnets/{id}`.
    ShowSubnet,
    /// Neutron: `GET /v2.0/networks`.
    ListNetworks,
    /// Neutron: `GET /v2.0/networks/{id}`.
    ShowNetwork,
    /// Nova: `GET /v2.1/servers` and `/v2.1/servers/detail`.
    ListServers,
    /// Nova: `GET /v2.1/servers/{id}`.
    ShowServer,
    /// Viola: `POST /v1/k8s/multinic/node-configs`.
    PostNodeConfigs,
    /// Everything else: version documents, unknown paths.
    Other,
}
