//! Neutron's objects as JSON, with every field the recorded ones have.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::objects::{CreatedAt, Network, Port, Subnet};
use super::world::World;

/// Administrators see the binding too.
pub(crate) fn port_json(port: &Port, is_admin: bool) -> Value {
    let mut body = json!({
        "id": port.id,
        "name": port.name,
        "network_id": port.network_id,
        "tenant_id": port.project_id,
        "mac_address": port.mac_address,
        "admin_state_up": true,
        "status": port.status,
        "device_id": port.device_id,
        "device_owner": port.device_owner,
        "fixed_ips": port.fixed_ips,
        "allowed_address_pairs": [],
        "extra_dhcp_opts": [],
        "security_groups": ["c3dbf031-c245-4533-94e7-bbda65c334e1"],
        "description": "",
        "binding:vnic_type": "normal",
        "port_security_enabled": true,
        "qos_policy_id": null,
        "qos_network_policy_id": null,
        "tags": [],
        "revision_number": 1,
        "project_id": port.project_id,
    });
    add_times(&mut body, &port.created_at);
    if is_admin {
        add_binding(&mut body, port.status.as_deref() != Some("DOWN"));
    }
    for (name, value) in &port.extra {
        body[name.as_str()] = value.clone();
    }
    body
}

fn add_times(body: &mut Value, created_at: &CreatedAt) {
    match created_at {
        CreatedAt::Text(text) => {
            body["created_at"] = json!(text);
            body["updated_at"] = json!(text);
        }
        CreatedAt::Null => body["created_at"] = Value::Null,
        CreatedAt::Absent => {}
    }
}

fn add_binding(body: &mut Value, is_bound: bool) {
    body["binding:profile"] = json!({});
    body["resource_request"] = Value::Null;
    body["binding:host_id"] = json!(if is_bound { "compute-1" } else { "" });
    body["binding:vif_type"] = json!(if is_bound { "ovs" } else { "unbound" });
    body["binding:vif_details"] = if is_bound {
        json!({
            "connectivity": "l2", "port_filter": true, "ovs_hybrid_plug": null, "datapath_type": "system",
            "bridge_name": "br-int", "bound_drivers": {"0": "openvswitch"},
        })
    } else {
        json!({})
    };
}

pub(crate) fn subnet_json(subnet: &Subnet) -> Value {
    let is_v6 = matches!(subnet.cidr.addr(), IpAddr::V6(_));
    let mode = if is_v6 { json!("slaac") } else { Value::Null };
    let gateway = subnet.cidr.hosts().next().unwrap_or(subnet.cidr.addr());
    json!({
        "id": subnet.id,
        "name": subnet.name,
        "tenant_id": subnet.project_id,
        "network_id": subnet.network_id,
        "ip_version": if is_v6 { 6 } else { 4 },
        "subnetpool_id": null,
        "enable_dhcp": true,
        "ipv6_ra_mode": mode,
        "ipv6_address_mode": mode,
        "gateway_ip": gateway,
        "cidr": subnet.cidr,
        "allocation_pools": [{"start": pool_start(subnet, gateway), "end": pool_end(subnet)}],
        "host_routes": [],
        "dns_nameservers": [],
        "description": "",
        "router:external": false,
        "service_types": [],
        "tags": [],
        "created_at": subnet.created_at,
        "updated_at": subnet.created_at,
        "revision_number": 0,
        "project_id": subnet.project_id,
    })
}

fn pool_start(subnet: &Subnet, gateway: IpAddr) -> IpAddr {
    subnet.cidr.hosts().nth(1).unwrap_or(gateway)
}

fn pool_end(subnet: &Subnet) -> IpAddr {
    match (subnet.cidr.broadcast(), subnet.cidr.prefix_len()) {
        (IpAddr::V4(last), ..=30) => IpAddr::V4((last.to_bits() - 1).into()),
        (last, _) => last,
    }
}

pub(crate) fn network_json(world: &World, network: &Network, is_admin: bool) -> Value {
    let subnets: Vec<&str> = world
        .subnets
        .values()
        .filter(|subnet| subnet.network_id == network.id)
        .map(|subnet| subnet.id.as_str())
        .collect();
    let mut body = json!({
        "id": network.id,
        "name": network.name,
        "tenant_id": network.project_id,
        "admin_state_up": true,
        "mtu": network.mtu,
        "status": "ACTIVE",
        "subnets": subnets,
        "shared": network.is_shared,
        "availability_zone_hints": [],
        "availability_zones": [],
        "ipv4_address_scope": null,
        "ipv6_address_scope": null,
        "router:external": false,
        "description": "",
        "port_security_enabled": true,
        "qos_policy_id": null,
        "tags": [],
        "created_at": network.created_at,
        "updated_at": network.created_at,
        "revision_number": 2,
        "project_id": network.project_id,
    });
    if is_admin {
        body["provider:network_type"] = json!("vxlan");
        body["provider:physical_network"] = Value::Null;
        body["provider:segmentation_id"] = json!(1);
    }
    body
}
