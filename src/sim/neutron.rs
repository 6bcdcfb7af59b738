//! Neutron: ports, subnets, networks, as a project or an administrator sees them.

use std::collections::HashSet;

use axum::http::Method;
use serde_json::{Value, json};

use super::exchange::{Answer, Call};
use super::front_end::Passage;
use super::identity::Token;
use super::keystone::challenge;
use super::neutron_json::{network_json, port_json, subnet_json};
use super::neutron_list::{Kind, list};
use super::objects::{Network, Port, Subnet};
use super::service::Operation;
use super::world::World;

/// The caller, as far as Neutron cares.
pub(crate) struct Viewer {
    /// The token's project; without one nothing is visible.
    pub project: Option<String>,
    pub is_admin: bool,
}

impl Viewer {
    fn new(token: &Token) -> Self {
        let project = token.project().map(str::to_owned);
        Self { is_admin: project.is_some() && token.is_admin(), project }
    }

    fn owns(&self, project: &str) -> bool {
        self.project.as_deref() == Some(project)
    }

    fn sees_network(&self, network: &Network) -> bool {
        self.is_admin || self.owns(&network.project_id) || (self.project.is_some() && network.is_shared)
    }

    fn sees_subnet(&self, world: &World, subnet: &Subnet) -> bool {
        let is_network_visible =
            || world.networks.get(&subnet.network_id).is_some_and(|network| self.sees_network(network));
        self.is_admin || self.owns(&subnet.project_id) || is_network_visible()
    }

    /// A network's owner sees the ports that others made on it.
    fn sees_port(&self, world: &World, port: &Port) -> bool {
        let owns_network =
            || world.networks.get(&port.network_id).is_some_and(|network| self.owns(&network.project_id));
        self.is_admin || self.owns(&port.project_id) || owns_network()
    }
}

pub(crate) fn operation(call: &Call) -> Operation {
    let segments = call.segments();
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match (&call.method, parts.as_slice()) {
        (&Method::GET, ["v2.0", "ports"]) => Operation::ListPorts,
        (&Method::GET, ["v2.0", "ports", _]) => Operation::ShowPort,
        (&Method::GET, ["v2.0", "subnets"]) => Operation::ListSubnets,
        (&Method::GET, ["v2.0", "subnets", _]) => Operation::ShowSubnet,
        (&Method::GET, ["v2.0", "networks"]) => Operation::ListNetworks,
        (&Method::GET, ["v2.0", "networks", _]) => Operation::ShowNetwork,
        _ => Operation::Other,
    }
}

pub(crate) fn answer(world: &mut World, call: &Call) -> Answer {
    match world.front_end.pass(call) {
        Passage::Refused(answer) => answer,
        Passage::FilterLost => dispatch(world, &call.clone().without_query()),
        Passage::Through => dispatch(world, call),
    }
}

fn dispatch(world: &mut World, call: &Call) -> Answer {
    let segments = call.segments();
    match segments.first().map(String::as_str) {
        None => return versions(call),
        Some("v2.0") => {}
        Some(_) => {
            return Answer::json(404, &json!({"code": 404, "title": "Not Found", "description": null}));
        }
    }
    let request_id = format!("req-{}", world.ids.uuid());
    let answer = match world.identity.valid(call.header("x-auth-token")) {
        None => unauthorized(world),
        Some(token) => resource(world, call, &Viewer::new(token), &segments),
    };
    answer.header("x-openstack-request-id", request_id)
}

/// The 401 that the token middleware of Neutron and Nova sends.
pub(crate) fn unauthorized(world: &World) -> Answer {
    let message = "The request you have made requires authentication.";
    Answer::json(401, &json!({"error": {"code": 401, "title": "Unauthorized", "message": message}}))
        .header("WWW-Authenticate", challenge(&world.keystone_url))
}

/// An error as Neutron words it.
pub(crate) fn error(status: u16, kind: &str, message: &str) -> Answer {
    Answer::json(status, &json!({"NeutronError": {"type": kind, "message": message, "detail": ""}}))
}

fn versions(call: &Call) -> Answer {
    let links = json!([{"rel": "self", "href": format!("{}/v2.0/", call.base_url())}]);
    Answer::json(200, &json!({"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]}))
}

fn resources(call: &Call) -> Answer {
    let list: Vec<Value> = ["network", "subnet", "subnetpool", "port"]
        .map(|name| {
            let href = format!("{}/v2.0/{name}s", call.base_url());
            json!({"name": name, "collection": format!("{name}s"), "links": [{"rel": "self", "href": href}]})
        })
        .into();
    Answer::json(200, &json!({"resources": list}))
}

fn resource(world: &World, call: &Call, viewer: &Viewer, segments: &[String]) -> Answer {
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match (&call.method, parts.as_slice()) {
        (&Method::GET, ["v2.0"]) => resources(call),
        (&Method::GET, ["v2.0", "ports"]) => {
            list(world, call, Kind::Port, ports(world, viewer, &Wanted::devices(call)))
        }
        (&Method::GET, ["v2.0", "subnets"]) => {
            list(world, call, Kind::Subnet, subnets(world, viewer, &Wanted::All))
        }
        (&Method::GET, ["v2.0", "networks"]) => {
            list(world, call, Kind::Network, networks(world, viewer, &Wanted::All))
        }
        (&Method::GET, ["v2.0", "ports", id]) => {
            show(call, Kind::Port, id, &ports(world, viewer, &Wanted::Id(id)))
        }
        (&Method::GET, ["v2.0", "subnets", id]) => {
            show(call, Kind::Subnet, id, &subnets(world, viewer, &Wanted::Id(id)))
        }
        (&Method::GET, ["v2.0", "networks", id]) => {
            show(call, Kind::Network, id, &networks(world, viewer, &Wanted::Id(id)))
        }
        _ => error(404, "HTTPNotFound", "The resource could not be found."),
    }
}

/// What is worth being rendered: thousands of ports are not, for a few servers.
enum Wanted<'a> {
    All,
    Id(&'a str),
    Devices(HashSet<String>),
}

impl Wanted<'_> {
    fn devices(call: &Call) -> Self {
        let devices: HashSet<String> = call.values("device_id").map(str::to_ascii_lowercase).collect();
        if devices.is_empty() { Self::All } else { Self::Devices(devices) }
    }

    fn has(&self, id: &str, device_id: &str) -> bool {
        match self {
            Self::All => true,
            Self::Id(wanted) => wanted.eq_ignore_ascii_case(id),
            Self::Devices(wanted) => wanted.contains(&device_id.to_ascii_lowercase()),
        }
    }
}

/// One object: its id, what filters see, what is served.
pub(crate) struct Row {
    pub id: String,
    pub fields: Value,
    pub served: Value,
}

impl Row {
    fn new(id: &str, fields: Value) -> Self {
        Self { id: id.into(), served: fields.clone(), fields }
    }
}

fn ports(world: &World, viewer: &Viewer, wanted: &Wanted<'_>) -> Vec<Row> {
    let asked = world.ports.values().filter(|port| wanted.has(&port.id, &port.device_id));
    let visible = asked.filter(|port| viewer.sees_port(world, port));
    visible
        .map(|port| {
            let row = Row::new(&port.id, port_json(port, viewer.is_admin));
            Row { served: port.raw.clone().unwrap_or(row.served), ..row }
        })
        .collect()
}

fn subnets(world: &World, viewer: &Viewer, wanted: &Wanted<'_>) -> Vec<Row> {
    let asked = world.subnets.values().filter(|subnet| wanted.has(&subnet.id, ""));
    let visible = asked.filter(|subnet| viewer.sees_subnet(world, subnet));
    visible.map(|subnet| Row::new(&subnet.id, subnet_json(subnet))).collect()
}

fn networks(world: &World, viewer: &Viewer, wanted: &Wanted<'_>) -> Vec<Row> {
    let asked = world.networks.values().filter(|network| wanted.has(&network.id, ""));
    let visible = asked.filter(|network| viewer.sees_network(network));
    visible.map(|network| Row::new(&network.id, network_json(world, network, viewer.is_admin))).collect()
}

fn show(call: &Call, kind: Kind, id: &str, rows: &[Row]) -> Answer {
    match rows.iter().find(|row| row.id.eq_ignore_ascii_case(id)) {
        Some(row) => Answer::json(200, &json!({kind.singular(): kind.pick(call, &row.served)})),
        None => kind.not_found(id),
    }
}
