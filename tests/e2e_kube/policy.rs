//! `changePolicy` as a person meets it, with kubectl.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cluster::{Cluster, in_cluster};
use crate::world::{BIZ, DATA, STORAGE};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_removal_is_held_shown_with_its_id_and_sent_once_it_is_approved() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world_of_the_chart();
    let vm = world.bare_vm("node-0");
    let port = world.port(&vm, DATA);
    world.port(&vm, STORAGE);
    let spec = in_cluster(world.spec("a", std::slice::from_ref(&vm))).setting("changePolicy: Approve");
    cluster.declare(&spec);
    world.operator.start().await;
    world.until_delivered(&spec).await;
    let delivered = world.viola.nodes(BIZ);
    world.viola.forget_posts();

    world.cloud.delete_port(&port);
    let has_pending = |object: &Value| object["status"]["pendingChanges"][0]["changeId"].is_string();
    let object = cluster.until("a", "a pending change", has_pending).await;
    let pending = &object["status"]["pendingChanges"][0];
    assert_eq!(pending["node"], "node-0", "{pending:#}");
    assert!(!pending["what"].to_string().is_empty() && pending["what"] != Value::Null, "{pending:#}");
    world.operator.until_polled("a").await;
    assert_eq!((world.sent(), world.viola.nodes(BIZ)), (BTreeMap::new(), delivered), "held");

    // A restart with an empty folder forgets neither what is held nor what was delivered.
    world.operator.stop().await;
    std::fs::remove_dir_all(world.operator.inventory_file().parent().unwrap()).unwrap();
    world.operator.start().await;
    world.operator.until_polled("a").await;
    assert_eq!(world.sent(), BTreeMap::new());
    let id = pending["changeId"].as_str().unwrap();
    assert_eq!(cluster.object("a")["status"]["pendingChanges"][0]["changeId"], id);

    let wrong = "multinic.example.com/approve=0000000000000000";
    cluster.kubectl(&["-n", "test", "annotate", "oscfg", "a", wrong]);
    world.operator.until_polled("a").await;
    assert_eq!(world.sent(), BTreeMap::new(), "another id lets nothing through");
    let right = format!("multinic.example.com/approve=0000000000000000,{id}");
    cluster.kubectl(&["-n", "test", "annotate", "--overwrite", "oscfg", "a", &right]);
    world.until_delivered(&spec).await;
    assert_eq!(world.nic_count("node-0"), 1);
    cluster.until("a", "nothing pending", |object| object["status"]["pendingChanges"].is_null()).await;
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn an_observed_object_shows_what_would_be_sent() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world_of_the_chart();
    let spec = in_cluster(world.spec("a", &world.vms(2))).setting("changePolicy: Observe");
    cluster.declare(&spec);
    world.operator.start().await;
    let has_both =
        |object: &Value| object["status"]["pendingChanges"].as_array().is_some_and(|all| all.len() == 2);
    let object = cluster.until("a", "two pending changes", has_both).await;
    assert_eq!(object["status"]["nodes"]["summary"], "0/2", "{:#}", object["status"]);
    world.port(&spec.vms[0], DATA);
    world.operator.until_polled("a").await;
    world.operator.until_polled("a").await;
    assert_eq!(world.sent(), BTreeMap::new());
    world.operator.stop().await;
}
