//! From `kubectl apply` to delivered nodes and back.

use serde_json::{Value, json};

use crate::cluster::{Cluster, condition, in_cluster};
use crate::e2e_support::{KEY, until};
use crate::world::{BIZ, DATA, World};

fn secret(key: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "contrabass-encrypt-key", "namespace": "test"},
        "stringData": {"CONTRABASS_ENCRYPT_KEY": key}})
    .to_string()
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Polls of the cloud so far.
fn polls(world: &World) -> u64 {
    world.requests()[3]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn an_object_is_delivered_followed_and_let_go() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world();
    let mut spec = in_cluster(world.spec("a", &world.vms(2)));
    spec.encrypt_key = String::new();
    cluster.apply(&secret(KEY));
    cluster.declare(&spec);
    world.operator.start().await;
    world.until_delivered(&spec).await;

    let object = cluster.until_condition("a", "Ready", "True").await;
    let object_of_now =
        cluster.until("a", "2/2", |object| object["status"]["nodes"]["summary"] == "2/2").await;
    assert_eq!(object_of_now["status"]["observedGeneration"], object["metadata"]["generation"]);
    assert_eq!(condition(&object, "Degraded")["status"], "False");
    let columns = cluster.kubectl(&["-n", "test", "get", "oscfg", "a", "--no-headers", "-o", "wide"]);
    let columns: Vec<&str> = columns.split_whitespace().collect();
    assert_eq!(columns.len(), 7, "{columns:?}");
    assert_eq!((columns[0], columns[1], columns[3], columns[6]), ("a", "True", "2/2", BIZ), "{columns:?}");

    // A third VM, by the name it has in kubectl.
    spec.vms.push(world.vm("node-2"));
    cluster.declare(&spec);
    world.until_delivered(&spec).await;
    let is_seen = |object: &Value| {
        object["status"]["observedGeneration"] == 2 && object["status"]["nodes"]["summary"] == "3/3"
    };
    cluster.until("a", "the third node", is_seen).await;

    // The same, as the shadow run before a cut-over sees it.
    let plan = cluster.plan(&[
        "--all",
        "--output=json",
        &format!("--inventory={}", world.operator.inventory_file().display()),
    ]);
    assert_eq!(plan.as_array().map(Vec::len), Some(1), "{plan:#}");

    cluster.kubectl(&["-n", "test", "delete", "oscfg", "a"]);
    let deadline = std::time::Instant::now() + crate::e2e_support::PATIENCE;
    while !world.operator.config("a").await.is_null() {
        assert!(std::time::Instant::now() < deadline, "the deleted object is still there");
        tokio::time::sleep(crate::e2e_support::GLANCE).await;
    }
    assert_eq!(world.viola.nodes(BIZ).len(), 3, "what was delivered stays");
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_missing_secret_is_a_condition_and_goes_with_the_secret() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world();
    let mut spec = in_cluster(world.spec("a", &world.vms(1)));
    spec.encrypt_key = String::new();
    cluster.declare(&spec);
    world.operator.start().await;
    let object = cluster.until_condition("a", "Ready", "False").await;
    let ready = condition(&object, "Ready");
    assert_eq!(ready["reason"], "ConfigError");
    assert!(ready["message"].as_str().unwrap().contains("test/contrabass-encrypt-key"), "{ready}");
    assert_eq!(object["status"]["lastError"], ready["message"]);
    assert_eq!(condition(&object, "Degraded")["reason"], "Error");
    cluster.apply(&secret(KEY));
    let object = cluster.until_condition("a", "Ready", "True").await;
    assert_eq!(object["status"]["lastError"], Value::Null);
    let uid = object["metadata"]["uid"].as_str().unwrap();
    cluster.until_events(uid, &[("Warning", "ConfigError"), ("Normal", "Synced")]).await;
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn annotations_and_pauses_count_at_once_and_a_status_never_polls() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world();
    let spec = in_cluster(world.quiet_spec("a", &world.vms(1)));
    cluster.declare(&spec);
    world.operator.start().await;
    cluster.until_condition("a", "Ready", "True").await;
    let before = polls(&world);
    // Somebody else's hand in the status, and a label: neither is a reason to look.
    let patch = r#"{"status":{"lastError":"by hand"}}"#;
    cluster.kubectl(&[
        "-n",
        "test",
        "patch",
        "oscfg",
        "a",
        "--subresource=status",
        "--type=merge",
        "-p",
        patch,
    ]);
    cluster.kubectl(&["-n", "test", "label", "oscfg", "a", "some=label"]);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(polls(&world), before);

    world.port(&spec.vms[0], DATA);
    cluster.kubectl(&["-n", "test", "annotate", "oscfg", "a", "multinic.example.com/force-reconcile=1"]);
    until("the new NIC is there", || world.nic_count("node-0") == 2, String::new).await;

    let pause = |paused: bool| {
        let patch = json!({"spec": {"paused": paused}}).to_string();
        cluster.kubectl(&["-n", "test", "patch", "oscfg", "a", "--type=merge", "-p", &patch]);
    };
    pause(true);
    let object = cluster.until_condition("a", "Paused", "True").await;
    assert_eq!(condition(&object, "Ready")["status"], "True");
    let before = polls(&world);
    cluster.kubectl(&[
        "-n",
        "test",
        "annotate",
        "--overwrite",
        "oscfg",
        "a",
        "multinic.example.com/force-reconcile=2",
    ]);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(polls(&world), before, "paused");
    // A fresh process knows no verdict of its own yet: the object keeps the one it has.
    world.operator.restart().await;
    world.operator.until_config("a", "known", |config| config["paused"] == true).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(condition(&cluster.object("a"), "Ready")["status"], "True");
    pause(false);
    let is_running = |object: &Value| condition(object, "Paused").is_null();
    cluster.until("a", "no longer paused", is_running).await;
    until("it is polled again", || polls(&world) > before, String::new).await;
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_restart_writes_no_status_that_says_the_same() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world();
    let spec = in_cluster(world.quiet_spec("a", &world.vms(1)));
    cluster.declare(&spec);
    // What the previous operator may have left.
    let patch = r#"{"status":{"lastError":"of yesterday","failed":[{"node":"n","reason":"r"}]}}"#;
    cluster.kubectl(&[
        "-n",
        "test",
        "patch",
        "oscfg",
        "a",
        "--subresource=status",
        "--type=merge",
        "-p",
        patch,
    ]);
    world.operator.start().await;
    let object = cluster.until_condition("a", "Ready", "True").await;
    assert_eq!((&object["status"]["lastError"], &object["status"]["failed"]), (&Value::Null, &Value::Null));
    world.operator.restart().await;
    let is_unchanged = |object: &Value| condition(object, "Ready")["reason"] == "NoChange";
    let before = cluster.until("a", "NoChange", is_unchanged).await;
    world.operator.restart().await;
    world.operator.until_config("a", "polled", |config| config["reason"] == "NoChange").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(version(&cluster.object("a")), version(&before));
    world.operator.stop().await;
}
