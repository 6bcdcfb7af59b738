use std::path::Path;

use serde_json::{Value, json};

use super::*;

const GOLDEN: &str = "charts/multinic-operator/crds/openstackconfigs.yaml";

#[test]
fn the_crd_in_the_chart_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    let generated = crd_yaml().unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(checked_in == generated, "{GOLDEN} is stale: run this test with UPDATE_GOLDEN=1");
}

/// Every schema below `schema`, with its path.
fn schemas(path: &str, schema: &Value, all: &mut Vec<(String, Value)>) {
    all.push((path.to_owned(), schema.clone()));
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        schemas(&format!("{path}.{name}"), inner, all);
    }
    if let Some(items) = schema.get("items") {
        schemas(&format!("{path}[]"), items, all);
    }
}

fn all_schemas() -> Vec<(String, Value)> {
    let crd = serde_json::to_value(crate::kube::crd::definition()).unwrap();
    let mut all = Vec::new();
    let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schemas("", root, &mut all);
    all
}

#[test]
fn every_field_has_a_type_and_a_description_and_none_a_default() {
    for (path, schema) in all_schemas() {
        assert!(schema.get("type").is_some(), "{path} has no type: {schema}");
        assert!(schema.get("default").is_none(), "{path} has a default");
        if !path.ends_with("[]") {
            assert!(schema.get("description").is_some(), "{path} has no description");
        }
    }
}

#[test]
fn every_list_says_how_it_is_merged() {
    for (path, schema) in all_schemas() {
        if schema["type"] == "array" {
            let expect = if path == ".status.conditions" { "map" } else { "atomic" };
            assert_eq!(schema["x-kubernetes-list-type"], expect, "{path}");
        }
    }
}

#[test]
fn the_names_that_follow_no_rule_are_written_as_before() {
    let all = all_schemas();
    let names: Vec<&str> = all.iter().map(|(path, _)| path.as_str()).collect();
    for name in [
        ".spec.subnetIDs",
        ".spec.subnetID",
        ".spec.subnetName",
        ".spec.vmNames",
        ".spec.credentials.openstackProviderID",
        ".spec.credentials.k8sProviderID",
        ".spec.credentials.projectID",
        ".spec.settings.contrabassInsecureTLS",
        ".spec.settings.openstackInsecureTLS",
        ".spec.settings.openstackNodeNameMetadataKey",
        ".spec.secrets.contrabassEncryptKeySecretRef.name",
        ".status.downPortRetry.fastAttempts",
        ".status.nodes.summary",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:#?}");
    }
}

#[test]
fn the_crd_has_its_short_name_category_columns_and_status() {
    let crd = serde_json::to_value(crate::kube::crd::definition()).unwrap();
    assert_eq!(crd["metadata"]["name"], "openstackconfigs.multinic.example.com");
    assert_eq!(crd["spec"]["names"]["shortNames"], json!(["oscfg"]));
    assert_eq!(crd["spec"]["names"]["categories"], json!(["multinic"]));
    let version = &crd["spec"]["versions"][0];
    assert_eq!(version["name"], "v1alpha1");
    assert_eq!(version["subresources"], json!({"status": {}}));
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    let shown = |wide: bool| -> Vec<&str> {
        columns
            .iter()
            .filter(|column| (column["priority"] == 1) == wide)
            .map(|column| column["name"].as_str().unwrap())
            .collect()
    };
    assert_eq!(shown(false), ["Ready", "Reason", "Nodes", "Last-Sync", "Age"]);
    assert_eq!(shown(true), ["Provider", "Error"]);
}

#[test]
fn a_spec_is_written_back_as_it_was_read() {
    let spec = json!({
        "subnetIDs": ["a"], "vmNames": ["v"], "paused": true,
        "credentials": {"openstackProviderID": "o", "k8sProviderID": "k", "projectID": "p"},
        "settings": {"contrabassEncryptKey": "conbaEncrypt2025", "downPortFastRetryMax": 3, "openstackInsecureTLS": true},
        "secrets": {"contrabassEncryptKeySecretRef": {"name": "n", "key": "k"}},
    });
    let decoded: OpenstackConfigSpec = serde_json::from_value(spec.clone()).unwrap();
    assert_eq!(serde_json::to_value(&decoded).unwrap(), spec);
    assert!(!format!("{decoded:?}").contains("conba"), "{decoded:?}");
}
