//! What the API server takes and refuses, by the CRD that ships.

use serde_json::{Value, json};

use crate::cluster::{Cluster, condition, crd_name, in_cluster};

const VM: &str = "08186d75-754e-449c-b210-c0ea822727a7";

fn object(name: &str) -> Value {
    json!({
        "apiVersion": "multinic.example.com/v1alpha1", "kind": "OpenstackConfig",
        "metadata": {"name": name, "namespace": "test"},
        "spec": {
            "subnetIDs": ["8f0d5f5b-8f3f-4b2b-9c4c-8c9f7c36d1f2"], "vmNames": [VM],
            "credentials": {"openstackProviderID": "o", "k8sProviderID": "k", "projectID": "p"},
            "settings": {"contrabassEndpoint": "https://contrabass", "violaEndpoint": "http://viola"},
            "secrets": {},
        },
    })
}

/// The object with `value` at `pointer` below `spec`.
fn with(pointer: &str, value: Value) -> Value {
    let mut object = object("a");
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(&format!("/spec{parent}")).unwrap()[key] = value;
    object
}

fn without(pointer: &str) -> Value {
    let mut object = object("a");
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(&format!("/spec{parent}")).unwrap().as_object_mut().unwrap().remove(key);
    object
}

fn verified_without_provider() -> Value {
    let mut object = without("/credentials/k8sProviderID");
    object["spec"]["delivery"] = json!({"mode": "Verify", "kubeconfigSecretRef": {"name": "n"}});
    object
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn what_cannot_work_is_refused_with_the_name_of_the_field() {
    let cluster = Cluster::new().await;
    assert_eq!(crd_name(), "openstackconfigs.multinic.example.com");
    let table = [
        (without("/vmNames"), "spec.vmNames"),
        (with("/vmNames", json!([])), "spec.vmNames"),
        (with("/vmNames", json!(["a/b"])), "spec.vmNames[0]"),
        (with("/vmNames", json!([7])), "spec.vmNames[0]"),
        (with("/vmNames", json!(VM)), "spec.vmNames"),
        (with("/subnetIDs", json!(["a b"])), "spec.subnetIDs[0]"),
        (without("/credentials"), "spec.credentials"),
        (without("/credentials/projectID"), "spec.credentials.projectID"),
        (with("/credentials/projectID", json!("")), "spec.credentials.projectID"),
        (with("/credentials/k8sProviderID", json!("")), "spec.credentials.k8sProviderID"),
        (with("/delivery", json!({"mode": "Apply"})), "spec.delivery.kubeconfigSecretRef"),
        (
            with("/delivery", json!({"mode": "Push", "kubeconfigSecretRef": {"name": "n"}})),
            "spec.delivery.mode",
        ),
        (with("/credentials/openstackProviderID", json!(7)), "spec.credentials.openstackProviderID"),
        (with("/paused", json!("yes")), "spec.paused"),
        (with("/settings/pollFastInterval", json!("soon")), "spec.settings.pollFastInterval"),
        (with("/settings/openstackTimeout", json!("30")), "spec.settings.openstackTimeout"),
        (
            with("/settings/openstackEndpointInterface", json!("outer")),
            "spec.settings.openstackEndpointInterface",
        ),
        (with("/settings/interfaceOrder", json!("Random")), "spec.settings.interfaceOrder"),
        (with("/settings/changePolicy", json!("Never")), "spec.settings.changePolicy"),
        (with("/settings/removalPolicy", json!("Keep")), "spec.settings.removalPolicy"),
        (with("/settings/portProject", json!("Other")), "spec.settings.portProject"),
        (with("/settings/contrabassInsecureTLS", json!("true")), "spec.settings.contrabassInsecureTLS"),
        (
            with("/secrets/contrabassEncryptKeySecretRef", json!({"name": "x"})),
            "contrabassEncryptKeySecretRef.key",
        ),
        (with("/vmNames", json!([format!("{VM}?")])), "spec.vmNames[0]"),
        (with("/subnetIDs", json!(VM)), "spec.subnetIDs"),
        (with("/subnetName", json!(7)), "spec.subnetName"),
        (without("/credentials/k8sProviderID"), "spec.credentials.k8sProviderID: Required"),
        (verified_without_provider(), "spec.credentials.k8sProviderID: Required"),
        (with("/settings/contrabassTimeout", json!("1d")), "spec.settings.contrabassTimeout"),
        (with("/settings/pollSlowInterval", json!(120)), "spec.settings.pollSlowInterval"),
        (with("/settings/pollErrorInterval", json!("1 minute")), "spec.settings.pollErrorInterval"),
        (with("/settings/pollFastWindow", json!("-5s")), "spec.settings.pollFastWindow"),
        (with("/settings/resyncInterval", json!("often")), "spec.settings.resyncInterval"),
        (with("/settings/includeExistingPorts", json!("yes")), "spec.settings.includeExistingPorts"),
        (with("/settings/downPortFastRetryMax", json!("five")), "spec.settings.downPortFastRetryMax"),
        (
            with("/settings/openstackPortAllowedStatuses", json!("ACTIVE")),
            "spec.settings.openstackPortAllowedStatuses",
        ),
        (
            with("/settings/caBundleSecretRef", json!({"key": "ca.crt"})),
            "spec.settings.caBundleSecretRef.name",
        ),
        (with("/settings/violaEndpoint", json!({"url": "http://viola"})), "spec.settings.violaEndpoint"),
    ];
    assert!(table.len() >= 30);
    for (object, field) in table {
        let error = cluster.try_apply(&object.to_string()).expect_err(&format!("{field} is taken: {object}"));
        assert!(error.contains(field), "{field} is not named in: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn objects_are_found_by_providers_and_project() {
    let cluster = Cluster::new().await;
    for (name, field) in [("a", "k8sProviderID"), ("b", "openstackProviderID"), ("c", "projectID")] {
        let mut object = object(name);
        object["spec"]["credentials"][field] = json!("sought");
        cluster.apply(&object.to_string());
    }
    for (name, field) in [("a", "k8sProviderID"), ("b", "openstackProviderID"), ("c", "projectID")] {
        let selector = format!("spec.credentials.{field}=sought");
        let found = cluster.kubectl(&["get", "oscfg", "-A", "--no-headers", "--field-selector", &selector]);
        let found: Vec<_> = found.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
        assert_eq!(found, [name], "{field}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn what_is_odd_but_worked_before_is_taken() {
    let cluster = Cluster::new().await;
    for object in [
        with("/subnetIDs", json!([])),
        without("/subnetIDs"),
        with("/subnetID", json!("")),
        with("/vmNames", json!([VM, VM.to_uppercase(), format!(" {VM} ")])),
        with("/settings/openstackEndpointInterface", json!("publicURL")),
        with("/settings/pollSlowInterval", json!("1m30s")),
        with("/settings/pollFastWindow", json!("0s")),
        with("/settings/openstackPortAllowedStatuses", json!(["active", "*"])),
        without("/settings"),
        without("/secrets"),
        with("/settings/contrabassEncryptKey", json!("0123456789abcdef")),
        with("/credentials/projectID", json!("not-a-uuid")),
    ] {
        cluster.try_apply(&object.to_string()).unwrap_or_else(|error| panic!("{error}: {object}"));
        cluster.kubectl(&["-n", "test", "delete", "oscfg", "a"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_stored_object_that_is_bad_gets_its_status_and_harms_nobody() {
    let cluster = Cluster::new().await;
    cluster.install_lax_crd();
    let mut bad = object("bad");
    bad["spec"]["vmNames"] = json!("one,two");
    bad["spec"]["settings"]["pollFastInterval"] = json!(7);
    cluster.apply(&bad.to_string());
    let mut empty = object("empty");
    empty["spec"] = json!({});
    cluster.apply(&empty.to_string());
    // What objects are found by is of another type.
    let mut odd = object("odd");
    odd["spec"]["credentials"] = json!("none");
    cluster.apply(&odd.to_string());
    let mut number = object("number");
    number["spec"]["credentials"]["k8sProviderID"] = json!({"id": 7});
    number["spec"]["settings"]["resyncInterval"] = json!(7);
    number["spec"]["delivery"] = json!("direct");
    cluster.apply(&number.to_string());
    cluster.install_crd();
    let mut world = cluster.world();
    let good = in_cluster(world.spec("good", &world.vms(1)));
    cluster.declare(&good);
    world.operator.start().await;
    world.until_delivered(&good).await;
    for (name, fields) in [
        ("bad", ["spec.vmNames: ", "spec.settings.pollFastInterval: "]),
        ("empty", ["spec.vmNames: ", "spec.credentials.projectID: "]),
        ("odd", ["spec.credentials: ", "spec.credentials"]),
        ("number", ["spec.settings.resyncInterval: ", "spec.delivery: "]),
    ] {
        let object = cluster.until_condition(name, "Ready", "False").await;
        let ready = condition(&object, "Ready");
        assert_eq!(ready["reason"], "ConfigError", "{ready}");
        for field in fields {
            assert!(ready["message"].as_str().unwrap().contains(field), "{field}: {ready}");
        }
    }
    world.operator.stop().await;
}
