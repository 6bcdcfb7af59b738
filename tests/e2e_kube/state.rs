//! What survives: a pod that is replaced, a namespace that is restored.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cluster::{Cluster, in_cluster};
use crate::e2e_support::{GLANCE, PATIENCE, Spec};
use crate::world::{BIZ, DATA, STORAGE, World};

fn forget_folder(world: &World) {
    std::fs::remove_dir_all(world.operator.inventory_file().parent().unwrap()).unwrap();
}

async fn until_polled_unchanged(cluster: &Cluster, world: &World) {
    cluster.until("a", "NoChange", |object| reason(object) == "NoChange").await;
    world.operator.until_polled("a").await;
}

fn reason(object: &Value) -> String {
    crate::cluster::condition(object, "Ready")["reason"].as_str().unwrap_or_default().to_owned()
}

/// Two nodes of which one has had a NIC taken away: what it has now no fresh numbering would give it.
async fn with_a_gap(cluster: &Cluster, world: &mut World, spec: &Spec) -> BTreeMap<String, Value> {
    let vm = &spec.vms[0];
    cluster.declare(spec);
    world.operator.start().await;
    let lower = world.cloud.add_port(world.port_spec(vm, DATA).mac("fa:16:3e:00:00:01"));
    world.cloud.add_port(world.port_spec(vm, STORAGE).mac("fa:16:3e:00:00:02"));
    world.port(&spec.vms[1], DATA);
    world.until_delivered(spec).await;
    assert_eq!(world.nic_count("node-0"), 2);
    world.cloud.delete_port(&lower);
    world.until_delivered(spec).await;
    let names = world.node_names("node-0");
    assert_eq!(names, [("fa:16:3e:00:00:02".to_owned(), "multinic1".to_owned())].into());
    world.viola.nodes(BIZ)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_replaced_pod_with_an_empty_folder_sends_nothing_and_renames_nothing() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world_of_the_chart();
    let vms = [world.bare_vm("node-0"), world.bare_vm("node-1")];
    let spec = in_cluster(world.spec("a", &vms));
    let delivered = with_a_gap(&cluster, &mut world, &spec).await;
    for is_crash in [false, true] {
        match is_crash {
            true => world.operator.crash().await,
            false => world.operator.stop().await,
        }
        forget_folder(&world);
        world.viola.forget_posts();
        world.operator.start().await;
        until_polled_unchanged(&cluster, &world).await;
        assert_eq!(world.sent(), BTreeMap::new());
        assert_eq!(world.viola.nodes(BIZ), delivered);
    }
    // What was remembered is worked with: the new NIC gets the index that is free.
    world.port(&spec.vms[0], DATA);
    world.until_delivered(&spec).await;
    let names: Vec<String> = world.node_names("node-0").into_values().collect();
    assert!(names.contains(&"multinic0".to_owned()) && names.contains(&"multinic1".to_owned()), "{names:?}");
    world.operator.stop().await;
}

/// What a backup tool has: the objects without status and without what the API server gave them.
fn backup(cluster: &Cluster) -> String {
    let kinds = "openstackconfigs,configmaps,secrets";
    let list = cluster.kubectl(&["-n", "test", "get", kinds, "-o", "json"]);
    let mut list: Value = serde_json::from_str(&list).unwrap();
    for object in list["items"].as_array_mut().unwrap() {
        object.as_object_mut().unwrap().remove("status");
        let metadata = object["metadata"].as_object_mut().unwrap();
        for key in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(key);
        }
    }
    list["items"].as_array_mut().unwrap().retain(|object| object["metadata"]["name"] != "kube-root-ca.crt");
    list.to_string()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_namespace_that_is_deleted_and_restored_loses_no_nic() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world_of_the_chart();
    let vms = [world.bare_vm("node-0"), world.bare_vm("node-1")];
    // Only ports that are younger than the object: to the restored one all of them are too old.
    let spec = world.spec("a", &vms);
    let delivered = with_a_gap(&cluster, &mut world, &spec).await;
    let saved = backup(&cluster);
    world.viola.forget_posts();
    for is_running in [true, false] {
        cluster.kubectl(&["delete", "namespace", "test", "--wait"]);
        let deadline = std::time::Instant::now() + PATIENCE;
        while !world.operator.config("a").await.is_null() {
            assert!(std::time::Instant::now() < deadline, "the object is still there");
            tokio::time::sleep(GLANCE).await;
        }
        if !is_running {
            world.operator.stop().await;
            forget_folder(&world);
        }
        cluster.apply(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "test"}}).to_string(),
        );
        cluster.apply(&saved);
        if !is_running {
            world.operator.start().await;
        }
        until_polled_unchanged(&cluster, &world).await;
        assert_eq!(world.sent(), BTreeMap::new());
        assert_eq!(world.viola.nodes(BIZ), delivered);
        let object = cluster.object("a");
        assert_eq!(object["status"]["nodes"]["summary"], "2/2", "{object:#}");
    }
    assert_eq!(world.operator.readiness().await.1["checks"][1]["ok"], true);
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn without_any_file_the_states_remember() {
    let cluster = Cluster::new().await;
    let operator = cluster.world_of_the_chart().operator.flag("--inventory-enabled=false");
    let mut world = World::with_operator(operator);
    let vms = [world.bare_vm("node-0"), world.bare_vm("node-1")];
    let spec = in_cluster(world.spec("a", &vms));
    let delivered = with_a_gap(&cluster, &mut world, &spec).await;
    assert_eq!(world.operator.get(&format!("/v1/interfaces/node-configs?providerId={BIZ}")).await.0, 503);
    assert!(!world.operator.inventory_file().exists());
    world.viola.forget_posts();
    world.operator.restart().await;
    until_polled_unchanged(&cluster, &world).await;
    assert_eq!((world.sent(), world.viola.nodes(BIZ)), (BTreeMap::new(), delivered));
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_deleted_object_leaves_its_state_for_its_next_life() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world_of_the_chart();
    let spec = in_cluster(world.quiet_spec("a", &world.vms(1)));
    cluster.declare(&spec);
    world.operator.start().await;
    world.until_delivered(&spec).await;
    let states = || {
        cluster.kubectl(&[
            "-n",
            "test",
            "get",
            "configmap",
            "-l",
            multinic_operator::kube::state::LABEL,
            "-o",
            "name",
        ])
    };
    assert_eq!(states().trim(), "configmap/multinic-state-a");
    // Kept: the object did not ask for anything else.
    cluster.kubectl(&["-n", "test", "delete", "oscfg", "a"]);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(states().trim(), "configmap/multinic-state-a");
    world.operator.stop().await;
}

/// `multinic-operator inventory` as a person runs it: what it says, or why it fails.
fn inventory(args: &[&str]) -> Result<String, String> {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_multinic-operator"));
    let output =
        command.arg("inventory").args(args).env("KUBECONFIG", crate::cluster::kubeconfig()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn states_are_exported_imported_and_pruned_by_hand() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world_of_the_chart();
    let vms = [world.bare_vm("node-0"), world.bare_vm("node-1")];
    let spec = in_cluster(world.spec("a", &vms));
    let delivered = with_a_gap(&cluster, &mut world, &spec).await;
    world.operator.stop().await;
    let saved = world.operator.dir().join("saved.json");
    let saved = saved.to_str().unwrap();
    inventory(&["export", "--store=cluster", "-o", saved]).unwrap();

    // All is lost, and comes back from the export.
    cluster.kubectl(&["-n", "test", "delete", "configmap", "multinic-state-a"]);
    forget_folder(&world);
    inventory(&["import", saved, "--store=cluster"]).unwrap();
    let refused = inventory(&["import", saved, "--store=cluster"]).unwrap_err();
    assert!(refused.contains("test/a: revision") && refused.contains("--force"), "{refused}");
    inventory(&["import", saved, "--store=cluster", "--force"]).unwrap();
    world.viola.forget_posts();
    world.operator.start().await;
    until_polled_unchanged(&cluster, &world).await;
    assert_eq!((world.sent(), world.viola.nodes(BIZ)), (BTreeMap::new(), delivered));
    world.operator.stop().await;

    // Nothing is gone; then everything is.
    let shown = inventory(&["prune", "--store=cluster"]).unwrap();
    assert!(!shown.contains("test/a"), "{shown}");
    cluster.kubectl(&["-n", "test", "delete", "oscfg", "a"]);
    let shown = inventory(&["prune", "--store=cluster"]).unwrap();
    assert!(
        shown.contains("test/a") && shown.contains("node-0") && shown.contains("nothing was changed"),
        "{shown}"
    );
    let states = || cluster.kubectl(&["-n", "test", "get", "configmap", "-o", "name"]);
    assert!(states().contains("multinic-state-a"));
    inventory(&["prune", "--store=cluster", "--yes"]).unwrap();
    assert!(!states().contains("multinic-state"), "{}", states());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn an_object_that_changes_shard_is_sent_by_one_release_at_a_time_and_keeps_its_names() {
    let cluster = Cluster::new().await;
    let shard = |name: &str| {
        let world = cluster.world_of_the_chart();
        let operator = world.operator.flag(&format!("--config-selector=shard={name}"));
        operator.flag(&format!("--leader-election-id={name}.example.com"))
    };
    let mut world = World::with_operator(shard("a"));
    let mut other = shard("b");
    let vms = [world.bare_vm("node-0"), world.bare_vm("node-1")];
    let mut spec = in_cluster(world.spec("a", &vms));
    spec.metadata.push("labels: {shard: a}".to_owned());
    let delivered = with_a_gap(&cluster, &mut world, &spec).await;
    let holder = || {
        let path = "jsonpath={.data.holder}";
        cluster.kubectl(&["-n", "test", "get", "configmap", "multinic-state-a", "-o", path])
    };
    assert_eq!(holder(), "default/a.example.com");
    world.viola.forget_posts();
    other.start().await;
    cluster.kubectl(&["-n", "test", "label", "--overwrite", "oscfg", "a", "shard=b"]);
    other.until_polled("a").await;
    assert_eq!(holder(), "default/b.example.com");
    assert!(world.operator.config("a").await.is_null(), "the first one has let go");
    assert_eq!((world.sent(), world.viola.nodes(BIZ)), (BTreeMap::new(), delivered));
    // A release that went without letting go: the next one waits, says for whom, and is freed by hand.
    other.crash().await;
    cluster.kubectl(&["-n", "test", "label", "--overwrite", "oscfg", "a", "shard=a"]);
    let is_told = |object: &Value| {
        let ready = crate::cluster::condition(object, "Ready");
        ready["reason"] == "Pending" && ready["message"].to_string().contains("default/b.example.com")
    };
    cluster.until("a", "waiting for the other release", is_told).await;
    let free = r#"{"data":{"holder":""}}"#;
    cluster.kubectl(&["-n", "test", "patch", "configmap", "multinic-state-a", "--type=merge", "-p", free]);
    until_polled_unchanged(&cluster, &world).await;
    assert_eq!((holder().as_str(), world.sent()), ("default/a.example.com", BTreeMap::new()));
    world.operator.stop().await;
}
