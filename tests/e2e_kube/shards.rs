//! `--config-selector`, `--manage-crds` and `--policy-file`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{Cluster, in_cluster};
use crate::e2e_support::{Operator, PATIENCE, Spec, until};
use crate::world::{BIZ, World};

fn labelled(mut spec: Spec, shard: &str) -> Spec {
    spec.metadata.push(format!("labels: {{shard: {shard}}}"));
    spec
}

fn wait_until_gone(cluster: &Cluster, what: &str) {
    cluster.kubectl(&["wait", "--for=delete", what, "--timeout=60s"]);
}

/// Which objects an operator works on.
async fn worked_on(operator: &Operator) -> Vec<String> {
    let (_, body) = operator.get("/v1/configs").await;
    let configs = body["configs"].as_array().cloned().unwrap_or_default();
    configs.iter().map(|config| config["name"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn until_worked_on(operator: &Operator, expect: &[&str]) {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let found = worked_on(operator).await;
        if found == expect {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{found:?}, not {expect:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn an_object_that_changes_its_label_is_let_go_by_one_and_taken_by_the_other() {
    let cluster = Cluster::new().await;
    let selecting = |shard: &str| {
        Operator::new()
            .flag("--cloud-rate=1000")
            .flag(&format!("--kubeconfig={}", crate::cluster::kubeconfig()))
            .flag(&format!("--config-selector=shard in ({shard})"))
    };
    let mut world = World::with_operator(selecting("red"));
    let mut blue = selecting("blue");
    let spec = |name: &str, vm: &str| {
        let mut spec = in_cluster(world.spec(name, &[world.vm(vm)]));
        spec.settings.push("removalPolicy: Prune".to_owned());
        spec
    };
    let (a, b) = (labelled(spec("a", "node-a"), "red"), labelled(spec("b", "node-b"), "blue"));
    [&a, &b].into_iter().for_each(|spec| cluster.declare(spec));
    let other = in_cluster(world.spec("c", &[world.vm("node-c")]));
    cluster.declare(&other);
    world.operator.start().await;
    blue.start().await;
    until_worked_on(&world.operator, &["a"]).await;
    until_worked_on(&blue, &["b"]).await;
    for name in ["a", "b"] {
        cluster.until_condition(name, "Ready", "True").await;
    }
    assert_eq!(cluster.object("c")["status"], Value::Null, "nobody selects it");

    cluster.kubectl(&["-n", "test", "label", "oscfg", "a", "shard=blue", "--overwrite"]);
    until_worked_on(&world.operator, &[]).await;
    until_worked_on(&blue, &["a", "b"]).await;
    let records = format!("/v1/interfaces/node-configs?providerId={BIZ}");
    let count = world.operator.get(&records).await.1.as_array().unwrap().len();
    assert_eq!(count, 1, "what it delivered is not forgotten");
    assert_eq!(world.viola.nodes(BIZ).len(), 2);

    // Deleted in earnest: it is gone from both, and nobody takes it for moved.
    cluster.kubectl(&["-n", "test", "delete", "oscfg", "b", "--wait"]);
    until_worked_on(&blue, &["a"]).await;
    blue.stop().await;
    world.operator.stop().await;
}

fn crd(cluster: &Cluster) -> Value {
    let json = cluster.kubectl(&["get", "crd", "openstackconfigs.multinic.example.com", "-o", "json"]);
    serde_json::from_str(&json).unwrap()
}

fn is_lax(crd: &Value) -> bool {
    crd.pointer(
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-preserve-unknown-fields",
    ) == Some(&json!(true))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn the_definition_is_brought_up_to_date_and_never_backwards() {
    const VERSION: &str = "multinic.example.com~1version";
    let cluster = Cluster::new().await;
    cluster.delete_crd();
    wait_until_gone(&cluster, "crd/openstackconfigs.multinic.example.com");
    // As Helm made it from the previous chart: no printer columns, no schema to speak of, no version.
    let previous = include_str!("../charts/previous-chart/crds/openstackconfigs.yaml");
    let output = cluster.try_kubectl(&["create", "-f", "-"], previous);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(is_lax(&crd(&cluster)));
    let mut world = cluster.world();
    let spec = in_cluster(world.spec("a", &world.vms(1)));
    let established = "--for=condition=Established";
    cluster.kubectl(&["wait", established, "crd/openstackconfigs.multinic.example.com", "--timeout=60s"]);
    let is_served = || cluster.try_kubectl(&["get", "openstackconfigs", "-A"], "").status.success();
    until("the old kind is served", is_served, String::new).await;
    cluster.declare(&spec);
    world.operator = world.operator.flag("--manage-crds");
    world.operator.start().await;
    // By its short name, which the old definition does not have.
    let is_known = || cluster.try_kubectl(&["get", "oscfg", "-A"], "").status.success();
    until("the new kind is served", is_known, String::new).await;
    cluster.until_condition("a", "Ready", "True").await;
    let now = crd(&cluster);
    assert!(!is_lax(&now), "what Helm's definition allowed is not left over");
    assert_eq!(now["spec"]["versions"][0]["additionalPrinterColumns"][0]["name"], "Ready");
    let version = format!("/metadata/annotations/{VERSION}");
    assert_eq!(now.pointer(&version), Some(&json!(env!("CARGO_PKG_VERSION"))));
    let generation = now["metadata"]["generation"].clone();
    world.operator.restart().await;
    assert_eq!(crd(&cluster)["metadata"]["generation"], generation, "nothing new, nothing written");

    // A later operator was here.
    cluster.kubectl(&[
        "annotate",
        "crd",
        "openstackconfigs.multinic.example.com",
        "multinic.example.com/version=99.0.0",
        "--overwrite",
    ]);
    let patch = r#"{"spec":{"names":{"categories":["multinic","later"]}}}"#;
    cluster.kubectl(&["patch", "crd", "openstackconfigs.multinic.example.com", "--type=merge", "-p", patch]);
    world.operator.restart().await;
    let kept = crd(&cluster);
    assert_eq!(kept["spec"]["names"]["categories"], json!(["multinic", "later"]));
    assert_eq!(kept.pointer(&version), Some(&json!("99.0.0")));
    world.operator.stop().await;
    cluster.delete_crd();
    wait_until_gone(&cluster, "crd/openstackconfigs.multinic.example.com");
    cluster.install_crd();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn an_object_outside_the_policy_says_so_in_the_list_of_objects() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world();
    let policy = json!({"rules": [{"name": "tests", "namespaces": ["test"], "projectIDs": ["another"]}]});
    world.operator.write("the-policy", &policy.to_string());
    let flag = format!("--policy-file={}", world.operator.dir().join("the-policy").display());
    world.operator = world.operator.flag(&flag);
    cluster.declare(&in_cluster(world.spec("a", &world.vms(1))));
    world.operator.start().await;
    let object = cluster.until_condition("a", "Ready", "False").await;
    let columns = cluster.kubectl(&["-n", "test", "get", "oscfg", "a", "--no-headers", "-o", "wide"]);
    let words: Vec<&str> = columns.split_whitespace().collect();
    assert_eq!(words[..3], ["a", "False", "ConfigError"], "{columns}");
    let message =
        crate::cluster::condition(&object, "Ready")["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.starts_with("spec.credentials.projectID: "), "{message}");
    assert!(message.ends_with("is not allowed by rule \"tests\" of the policy"), "{message}");
    assert_eq!(world.requests(), [0; 4]);
    world.operator.stop().await;
}
