//! Reading one port of a list.

use multinic_actors::domain::ids::{NetworkId, PortId, ProjectId, SubnetId, VmId};
use multinic_actors::domain::port::{FixedIp, ListedPort, Port, UnreadablePort};
use serde_json::Value;

/// The fields we read. They are asked for one by one (`fields=a&fields=b`): a comma list matches nothing.
pub(super) const FIELDS: [&str; 9] = [
    "id",
    "mac_address",
    "network_id",
    "status",
    "device_owner",
    "device_id",
    "project_id",
    "created_at",
    "fixed_ips",
];

/// A port, and whose it is.
#[derive(Debug)]
pub(super) struct Listed {
    /// Its id, or empty.
    pub(super) id: String,
    /// The device it belongs to; `None` if that cannot be read.
    pub(super) device: Option<VmId>,
    pub(super) port: ListedPort,
}

/// Reads a port: unknown fields and nulls do not matter, a needed field that cannot be read does.
pub(super) fn read(json: &Value) -> Listed {
    let id = text(json, "id").unwrap_or_default().to_owned();
    let port = port(json, &id).map_err(|problem| UnreadablePort { id: PortId::from(id.as_str()), problem });
    Listed { id, device: text(json, "device_id").map(VmId::new), port }
}

fn text<'a>(json: &'a Value, key: &str) -> Option<&'a str> {
    json.get(key).and_then(Value::as_str)
}

fn needed<'a>(json: &'a Value, key: &str) -> Result<&'a str, String> {
    match json.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        Some(Value::Null) | None => Err(format!("it has no {key}")),
        Some(_) => Err(format!("its {key} cannot be read")),
    }
}

fn port(json: &Value, id: &str) -> Result<Port, String> {
    if id.is_empty() {
        return Err("it has no id".to_owned());
    }
    let mac = needed(json, "mac_address")?;
    let project = text(json, "project_id").or_else(|| text(json, "tenant_id"));
    Ok(Port {
        id: PortId::from(id),
        mac: mac.parse().map_err(|_| format!("its mac_address {mac:.40?} cannot be read"))?,
        network: NetworkId::from(needed(json, "network_id")?),
        status: text(json, "status").filter(|status| !status.is_empty()).map(str::to_ascii_uppercase),
        owner: text(json, "device_owner").unwrap_or_default().to_owned(),
        project: project.filter(|project| !project.is_empty()).map(ProjectId::from),
        created_at: text(json, "created_at").map(str::to_owned),
        fixed_ips: fixed_ips(json.get("fixed_ips"))?,
    })
}

fn fixed_ips(json: Option<&Value>) -> Result<Vec<FixedIp>, String> {
    let list = match json {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err("its fixed_ips cannot be read".to_owned()),
    };
    let one = |json: &Value| {
        Some(FixedIp {
            subnet: SubnetId::from(text(json, "subnet_id")?),
            address: text(json, "ip_address")?.trim().parse().ok()?,
        })
    };
    list.iter()
        .map(|json| one(json).ok_or_else(|| "one of its fixed_ips cannot be read".to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({
            "id": "p1", "device_id": "VM-1", "device_owner": "compute:nova", "mac_address": "FA-16-3E-0A-0B-0C",
            "network_id": "n1", "status": "Active", "project_id": "t1", "created_at": "2026-11-30T20:42:49Z",
            "fixed_ips": [{"subnet_id": "s1", "ip_address": "10.1.2.42"}, {"subnet_id": "s2", "ip_address": "fd00::1"}],
            "tags": [], "something_new": {"a": 1},
        })
    }

    fn with(key: &str, value: Value) -> Listed {
        let mut port = good();
        port[key] = value;
        read(&port)
    }

    #[test]
    fn a_port_is_read() {
        let listed = read(&good());
        assert_eq!(listed.device, Some(VmId::from("vm-1")));
        let port = listed.port.unwrap();
        assert_eq!(port.mac.to_string(), "fa:16:3e:0a:0b:0c");
        assert_eq!(port.status.as_deref(), Some("ACTIVE"));
        assert_eq!(port.fixed_ips.len(), 2);
        assert_eq!(port.fixed_ips[1].address.to_string(), "fd00::1");
    }

    #[test]
    fn nulls_where_nothing_is_needed_do_not_matter() {
        for key in ["status", "device_owner", "project_id", "created_at", "fixed_ips"] {
            assert!(with(key, Value::Null).port.is_ok(), "{key}");
        }
        assert_eq!(with("status", Value::Null).port.unwrap().status, None);
        assert_eq!(with("device_owner", Value::Null).port.unwrap().owner, "");
    }

    #[test]
    fn what_is_needed_and_cannot_be_read_is_named() {
        let problem = |key, value| with(key, value).port.unwrap_err().problem;
        assert_eq!(problem("mac_address", json!("zz")), r#"its mac_address "zz" cannot be read"#);
        assert_eq!(problem("mac_address", Value::Null), "it has no mac_address");
        assert_eq!(problem("network_id", json!(7)), "its network_id cannot be read");
        assert_eq!(problem("fixed_ips", json!("x")), "its fixed_ips cannot be read");
        assert_eq!(
            problem("fixed_ips", json!([{"subnet_id": "s", "ip_address": "10.0.0.999"}])),
            "one of its fixed_ips cannot be read"
        );
        assert_eq!(problem("id", Value::Null), "it has no id");
    }

    #[test]
    fn whose_port_it_is_may_be_unreadable() {
        assert_eq!(with("device_id", Value::Null).device, None);
        assert_eq!(with("device_id", json!(1)).device, None);
        assert_eq!(with("device_id", json!("")).device, Some(VmId::from("")));
        assert_eq!(read(&json!("nonsense")).device, None);
    }

    #[test]
    fn recorded_ports_are_read() {
        for exchange in [
            include_str!("../../tests/fixtures/openstack/neutron-ports-device-tenant.http"),
            include_str!("../../tests/fixtures/openstack/neutron-ports-page-0.http"),
        ] {
            let (_, body) = exchange.rsplit_once("\n\n{").unwrap();
            let body: Value = serde_json::from_str(&format!("{{{}", body.trim())).unwrap();
            let ports = body["ports"].as_array().unwrap();
            assert!(!ports.is_empty());
            for port in ports {
                assert!(read(port).port.is_ok(), "{port}");
            }
        }
    }
}
