use std::path::Path;

use serde_json::{Value, json};

use super::*;

const GOLDEN: &str = "charts/viola-test-api/crds/multinicnodeconfigs.yaml";

#[test]
fn the_crd_in_the_chart_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    let generated = crd_yaml().unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(checked_in == generated, "{GOLDEN} is stale: run this test with UPDATE_GOLDEN=1");
}

/// A schema without what only people read.
fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, value)| *key != "description" || !value.is_string());
            kept.map(|(key, value)| (key.clone(), bare(value))).collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(bare).collect(),
        value => value.clone(),
    }
}

#[test]
fn the_schema_is_the_agents() {
    let crd = serde_json::to_value(MultiNicNodeConfig::crd()).unwrap();
    assert_eq!(crd["spec"]["names"]["shortNames"], json!(["mnnc"]));
    let version = &crd["spec"]["versions"][0];
    assert_eq!(version["subresources"], json!({"status": {}}));
    let schema = bare(&version["schema"]["openAPIV3Schema"]);
    assert_eq!(schema["required"], json!(["spec"]));
    let text = json!({"type": "string"});
    let spec = json!({
        "type": "object",
        "required": ["interfaces", "nodeName"],
        "properties": {
            "nodeName": text,
            "instanceId": text,
            "interfaces": {"type": "array", "minItems": 1, "items": {
                "type": "object",
                "required": ["macAddress"],
                "properties": {
                    "id": {"type": "integer", "format": "int64", "minimum": 0.0},
                    "name": {"type": "string", "pattern": "^multinic[0-9]+$"},
                    "macAddress": {"type": "string", "pattern": "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$"},
                    "address": text,
                    "cidr": text,
                    "mtu": {"type": "integer", "format": "int64", "minimum": 68.0, "maximum": 9000.0},
                    "portId": text,
                },
            }},
        },
    });
    assert_eq!(schema["properties"]["spec"], spec);
    let status = &schema["properties"]["status"];
    assert_eq!(
        status["properties"]["state"]["enum"],
        json!(["Pending", "InProgress", "Configured", "Failed"])
    );
    let interface = &status["properties"]["interfaceStatuses"]["items"];
    assert_eq!(
        interface["properties"],
        json!({"name": text, "macAddress": text, "status": text, "reason": text, "message": text})
    );
    assert_eq!(interface.get("required"), None);
    assert_eq!(status["properties"]["conditions"]["items"]["required"], json!(["status", "type"]));
}
