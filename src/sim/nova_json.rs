//! A server as JSON, with every field the recorded ones have (microversion 2.1).

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::objects::{Port, Server};
use super::world::World;

const IMAGE: &str = "9eba0fef-9486-4315-b7f5-a42fdd23e291";
const FLAVOR: &str = "f6e1ff9a-0746-4f5f-aa50-55fd734a946f";

/// The ports by the server that they are attached to, worked out once a request.
pub(crate) struct Attached<'a>(HashMap<&'a str, Vec<&'a Port>>);

impl<'a> Attached<'a> {
    pub fn of(world: &'a World) -> Self {
        let mut by_server: HashMap<&str, Vec<&Port>> = HashMap::new();
        for port in world.ports.values() {
            by_server.entry(&port.device_id).or_default().push(port);
        }
        Self(by_server)
    }

    fn ports(&self, server: &str) -> &[&'a Port] {
        self.0.get(server).map_or(&[], Vec::as_slice)
    }
}

/// Administrators see the host too.
pub(crate) fn server_json(
    world: &World,
    attached: &Attached<'_>,
    server: &Server,
    base: &str,
    is_admin: bool,
) -> Value {
    let bookmark = |kind: &str, id: &str| {
        let href = format!("{base}/{kind}/{id}");
        json!({"id": id, "links": [{"rel": "bookmark", "href": href}]})
    };
    let own = |port: &&&Port| is_admin || port.project_id == server.project_id;
    let ports: Vec<&Port> = attached.ports(&server.id).iter().filter(own).copied().collect();
    let is_active = server.status == "ACTIVE";
    let mut body = json!({
        "id": server.id,
        "name": server.name,
        "status": server.status,
        "tenant_id": server.project_id,
        "user_id": "6cf15e27b3a5495cadc0954bdc485479",
        "metadata": server.metadata,
        "hostId": "bc4ebc62b026154389a3ff5b62192c024b690ceeecbaa4610a13c6ea",
        "image": bookmark("images", IMAGE),
        "flavor": bookmark("flavors", FLAVOR),
        "created": server.created_at,
        "updated": server.created_at,
        "addresses": addresses(world, &ports),
        "accessIPv4": "",
        "accessIPv6": "",
        "links": [
            {"rel": "self", "href": format!("{base}/v2.1/servers/{}", server.id)},
            {"rel": "bookmark", "href": format!("{base}/servers/{}", server.id)},
        ],
        "OS-DCF:diskConfig": "MANUAL",
        "progress": 0,
        "OS-EXT-AZ:availability_zone": "nova",
        "config_drive": "",
        "key_name": null,
        "OS-SRV-USG:launched_at": format!("{}.000000", server.created_at.trim_end_matches('Z')),
        "OS-SRV-USG:terminated_at": null,
        "security_groups": ports.iter().map(|_| json!({"name": "default"})).collect::<Vec<_>>(),
        "OS-EXT-STS:task_state": null,
        "OS-EXT-STS:vm_state": if is_active { "active" } else { "stopped" },
        "OS-EXT-STS:power_state": if is_active { 1 } else { 4 },
        "os-extended-volumes:volumes_attached": [],
    });
    if is_admin {
        body["OS-EXT-SRV-ATTR:host"] = json!("compute-1");
        body["OS-EXT-SRV-ATTR:instance_name"] = json!("instance-00000001");
        body["OS-EXT-SRV-ATTR:hypervisor_hostname"] = json!("compute-1");
    }
    body
}

/// By network name, as the user sees them.
fn addresses(world: &World, ports: &[&Port]) -> Value {
    let mut by_network: Map<String, Value> = Map::new();
    // Nova lists only the ports that it attached itself.
    for port in ports.iter().filter(|port| port.device_owner == "compute:nova") {
        let Some(network) = world.networks.get(&port.network_id) else {
            continue;
        };
        let list = by_network.entry(network.name.clone()).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.extend(port.fixed_ips.iter().map(|ip| address(port, &ip.ip_address)));
        }
    }
    Value::Object(by_network)
}

fn address(port: &Port, text: &str) -> Value {
    let version = if matches!(text.parse(), Ok(IpAddr::V6(_))) { 6 } else { 4 };
    json!({
        "version": version, "addr": text, "OS-EXT-IPS:type": "fixed",
        "OS-EXT-IPS-MAC:mac_addr": port.mac_address,
    })
}
