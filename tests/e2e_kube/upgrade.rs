//! A release of the previous operator that is upgraded in place: what its agents have must stay as it is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::chart::Release;
use crate::cluster::{Cluster, in_cluster};
use crate::e2e_support::Spec;
use crate::world::{BIZ, DATA, STORAGE, World};

/// Three nodes as the previous operator has delivered them: numbered by MAC.
async fn delivered_before(cluster: &Cluster) -> (World, Spec) {
    let mut world = cluster.world();
    let vms: Vec<String> = (0..3).map(|n| world.bare_vm(&format!("node-{n}"))).collect();
    for vm in &vms {
        world.port(vm, STORAGE);
        world.port(vm, DATA);
    }
    let spec = in_cluster(world.spec("a", &vms)).setting("interfaceOrder: MAC");
    cluster.declare(&spec);
    world.operator.start().await;
    world.until_delivered(&spec).await;
    world.operator.stop().await;
    cluster.kubectl(&["-n", "test", "delete", "oscfg", "a"]);
    world.viola.forget_posts();
    let mut spec = spec;
    spec.settings.pop();
    (world, spec)
}

/// Its inventory file: no version, no configs, no owners, and no `id` where it is 0.
fn file_of_the_previous_operator(world: &World) -> String {
    let record = |(node, mut config): (String, Value)| {
        for interface in config["interfaces"].as_array_mut().unwrap() {
            if interface["id"] == 0 {
                interface.as_object_mut().unwrap().remove("id");
            }
        }
        json!({"providerId": BIZ, "nodeName": node, "instanceId": config["instanceId"], "config": config,
            "lastConfigHash": "0123456789abcdef", "updatedAt": "2026-01-12T02:51:32.123456789Z"})
    };
    let records: Vec<Value> = world.viola.nodes(BIZ).into_iter().map(record).collect();
    json!({"records": records}).to_string()
}

fn names(world: &World) -> BTreeMap<String, BTreeMap<String, String>> {
    world.viola.nodes(BIZ).into_keys().map(|node| (node.clone(), world.node_names(&node))).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn with_its_volume_nothing_is_sent_after_the_upgrade() {
    let cluster = Cluster::new().await;
    let (mut world, spec) = delivered_before(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let release = Release::upgraded(&cluster, &["--set", "persistence.enabled=true"]);
    let before = world.viola.nodes(BIZ);
    world.operator = release.operator(folder.path());
    let file = world.operator.inventory_file();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, file_of_the_previous_operator(&world)).unwrap();
    cluster.declare(&spec);
    world.operator.start().await;
    cluster.until_condition("a", "Ready", "True").await;
    world.operator.until_polled("a").await;
    assert_eq!((world.sent(), world.viola.nodes(BIZ)), (BTreeMap::new(), before));
    let (status, records) =
        world.operator.get(&format!("/v1/interfaces/node-configs?providerId={BIZ}")).await;
    assert_eq!((status, records.as_array().map(Vec::len)), (200, Some(3)), "{records:#}");
    assert_eq!(records[0]["updatedAt"], "2026-01-12T02:51:32Z");
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn without_a_volume_each_node_is_sent_once_and_no_name_changes() {
    let cluster = Cluster::new().await;
    let (mut world, spec) = delivered_before(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let release = Release::upgraded(&cluster, &[]);
    let before = (names(&world), world.viola.nodes(BIZ));
    world.operator = release.operator(folder.path());
    cluster.declare(&spec);
    world.operator.start().await;
    world.until_delivered(&spec).await;
    world.operator.until_polled("a").await;
    let once: BTreeMap<String, usize> = (0..3).map(|n| (format!("node-{n}"), 1)).collect();
    assert_eq!(world.sent(), once);
    assert_eq!((names(&world), world.viola.nodes(BIZ)), before);
    world.operator.stop().await;
}
