//! Configs that come, change, break and go.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::e2e_support::{Operator, Spec, until};
use crate::world::{BIZ, DATA, STORAGE, World, message, says, skips, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_is_a_new_config_and_a_changed_one_is_polled_at_once() {
    let mut world = World::new();
    world.operator.start().await;
    let vms = world.vms(2);
    let spec = world.quiet_spec("a", &vms[..1]);
    world.operator.declare(&spec);
    world.until_delivered(&spec).await;
    let more = world.quiet_spec("a", &vms);
    world.operator.declare(&more);
    world.until_delivered(&more).await;
    assert_eq!(world.sent(), BTreeMap::from([("node-0".to_owned(), 1), ("node-1".to_owned(), 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_file_leaves_records_and_nodes_as_they_are() {
    let mut world = World::new();
    world.run_with(2).await;
    let before = world.delivered_state().await;
    world.operator.remove("a");
    world.operator.until_config("a", "it is gone", Value::is_null).await;
    let lists = world.requests();
    let (_, tree) = world.operator.get("/v1/actors").await;
    assert!(!tree.to_string().contains("test/a"), "{tree:#}");
    world.operator.restart().await;
    assert_eq!(world.delivered_state().await, before);
    assert_eq!(world.requests(), lists, "nobody polls for it any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_taken_out_of_the_list_keeps_its_record_unless_pruning_is_wanted() {
    let mut world = World::new();
    let spec = world.run_with(3).await;
    let fewer = Spec { vms: spec.vms[..2].to_vec(), ..spec.clone() };
    world.operator.declare(&fewer);
    world.operator.until_config("a", "two VMs", |c| c["vms"].as_array().map(Vec::len) == Some(2)).await;
    world.operator.until_polled("a").await;
    assert_eq!(world.delivered_state().await.1.as_array().map(Vec::len), Some(3));
    world.operator.declare(&fewer.setting("removalPolicy: Prune"));
    let deadline = std::time::Instant::now() + crate::e2e_support::PATIENCE;
    while world.delivered_state().await.1.as_array().map(Vec::len) != Some(2) {
        assert!(std::time::Instant::now() < deadline, "the record was not pruned");
        world.operator.until_polled("a").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_keeps_the_last_good_version_at_work() {
    let mut world = World::new();
    let spec = world.run_with(1).await;
    world.operator.write("a.yaml", "kind: OpenstackConfig\n  metadata: [\n");
    let deadline = std::time::Instant::now() + crate::e2e_support::PATIENCE;
    let folder = loop {
        let (status, health) = world.operator.readiness().await;
        assert_eq!(status, 200, "it stays ready");
        let checks = health["checks"].as_array().unwrap();
        let folder = checks.iter().find(|check| check["name"] == "config-dir").unwrap().clone();
        if folder["ok"] == false {
            break folder;
        }
        assert!(std::time::Instant::now() < deadline, "{health:#}");
    };
    says(&text(&folder["message"]), &["a.yaml", "line", "the last good version goes on"]);
    world.port(&spec.vms[0], STORAGE);
    world.until_delivered(&spec).await;
    world.operator.declare(&spec);
    let deadline = std::time::Instant::now() + crate::e2e_support::PATIENCE;
    while world.operator.readiness().await.1.to_string().contains("a.yaml") {
        assert!(std::time::Instant::now() < deadline, "the mended file is not in order again");
    }
    world.operator.until_polled("a").await;
}

/// Which object stands in it nobody knows, so nobody may be taken for gone, and nothing is pruned.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_broken_at_the_start_takes_nothing_from_its_object() {
    let mut world = World::new();
    let vms = world.vms(2);
    let lost = Spec { k8s_provider: "other".to_owned(), ..world.spec("lost", &vms[..1]) }
        .setting("removalPolicy: Prune");
    world.run(&lost).await;
    world.operator.stop().await;
    let before = world.viola.nodes("other");
    let path = "/v1/interfaces/node-configs?providerId=other";
    world.operator.write("lost.yaml", "kind: OpenstackConfig\n  metadata: [\n");
    let spec = world.spec("a", &vms[1..]).setting("removalPolicy: Prune");
    world.run(&spec).await;
    for _ in 0..3 {
        world.operator.until_polled("a").await;
    }
    let (status, records) = world.operator.get(path).await;
    assert_eq!((status, records.as_array().map(Vec::len)), (200, Some(1)), "{records:#}");
    assert_eq!(world.viola.nodes("other"), before);
    world.viola.forget_posts();
    world.operator.declare(&lost);
    world.operator.until_polled("lost").await;
    assert_eq!(world.viola.posts(), [], "it is known as delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_whose_first_sight_nobody_remembers_is_refused() {
    let mut world = World::with_operator(Operator::new().flag("--inventory-enabled=false"));
    let spec = world.spec("a", &world.vms(1));
    let undated = spec.yaml().replace(&format!("  creationTimestamp: \"{}\"\n", spec.created), "");
    world.operator.write("a.yaml", &undated);
    world.operator.start().await;
    let config = world.operator.until_reason("a", &["ConfigError"]).await;
    says(
        &message(&config),
        &["metadata.creationTimestamp", "--inventory-enabled=false", "includeExistingPorts"],
    );
    assert_eq!(world.viola.posts(), []);
    let mended = spec.clone().setting("includeExistingPorts: true");
    world
        .operator
        .write("a.yaml", &mended.yaml().replace(&format!("  creationTimestamp: \"{}\"\n", spec.created), ""));
    world.until_delivered(&mended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_object_is_told_and_the_others_go_on() {
    let mut world = World::new();
    let vms = world.vms(2);
    let bad = world.spec("bad", &vms[1..]).setting("interfaceOrder: Alphabetical");
    world.operator.declare(&bad);
    let spec = world.spec("a", &vms[..1]);
    world.run(&spec).await;
    let config = world.operator.until_reason("bad", &["ConfigError"]).await;
    says(&message(&config), &["spec.settings.interfaceOrder", "Sticky"]);
    assert_eq!(config["ready"], false);
    let mended = Spec { k8s_provider: "other".to_owned(), ..world.spec("bad", &vms[1..]) };
    world.operator.declare(&mended);
    world.until_delivered(&mended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_object_that_becomes_invalid_loses_nothing() {
    let mut world = World::new();
    let spec = world.run_with(1).await;
    let before = world.delivered_state().await;
    world.viola.forget_posts();
    world.operator.declare(&spec.clone().setting("pollSlowInterval2: x").setting("changePolicy: Never"));
    world.operator.until_reason("a", &["ConfigError"]).await;
    assert_eq!(world.delivered_state().await, before);
    world.operator.declare(&spec);
    world.operator.until_reason("a", &["Synced", "NoChange"]).await;
    assert_eq!(world.viola.posts(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_config_neither_polls_nor_sends_and_keeps_its_state() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    let paused = Spec { spec: vec!["paused: true".to_owned()], ..spec.clone() };
    world.operator.declare(&paused);
    let config = world.operator.until_config("a", "it is paused", |c| c["paused"] == true).await;
    assert_eq!(config["ready"], true);
    assert_eq!(config["nextPollAt"], Value::Null);
    let is_quiet = || world.cloud.counters().in_flight(multinic_operator::sim::Service::Neutron) == 0;
    until("the last poll ended", is_quiet, String::new).await;
    world.viola.forget_posts();
    world.port(&spec.vms[0], DATA);
    // Another config's polls are the clock here.
    let other = Spec { k8s_provider: "other".to_owned(), ..world.spec("b", &[world.vm("other-0")]) };
    world.operator.declare(&other);
    world.until_delivered(&other).await;
    world.cloud.reset_counters();
    for _ in 0..4 {
        world.operator.until_polled("b").await;
    }
    let lists = multinic_operator::sim::Operation::ListPorts;
    let of_both = world.cloud.counters().requests(multinic_operator::sim::Service::Neutron, lists);
    assert!(of_both <= 8, "{of_both} lists: the paused one polls");
    assert_eq!(world.sent().get("node-0"), None);
    world.operator.declare(&spec);
    world.until_delivered(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_annotation_force_reconcile_polls_at_once_and_drops_the_caches() {
    let mut world = World::new();
    let spec = world.quiet_spec("a", &world.vms(2));
    world.run(&spec).await;
    world.cloud.set_mtu(&world.networks[DATA], 1300);
    world.cloud.rename_server(&spec.vms[0], "renamed");
    world.cloud.reset_counters();
    world.operator.declare(&spec.clone().annotation("force-reconcile", "1"));
    world.operator.until_polled("a").await;
    until("the new name and MTU are there", || world.nic_count("renamed") == 1, String::new).await;
    let mtu = |node: &str| world.viola.node(BIZ, node).unwrap()["interfaces"][0]["mtu"].clone();
    assert_eq!((mtu("renamed"), mtu("node-1")), (json!(1300), json!(1300)));
    assert_eq!(world.logins(), 0, "the session is no cache");
    // The same value again is no new order.
    world.cloud.reset_counters();
    let same = Spec { created: spec.created.clone(), ..spec.clone() }.annotation("force-reconcile", "1");
    world.operator.declare(&same);
    let later = Spec { k8s_provider: "other".to_owned(), ..world.spec("b", &[world.vm("other-0")]) };
    world.operator.declare(&later);
    world.until_delivered(&later).await;
    let polls_of_a = world.operator.config("a").await["nextPollAt"].clone();
    assert_ne!(polls_of_a, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_configs_over_one_node_the_older_one_has_it() {
    let mut world = World::new();
    let shared = world.vm("node-0");
    let young = Spec {
        created: "2021-01-01T00:00:00Z".to_owned(),
        ..world.spec("young", &[shared.clone(), world.vm("node-1")])
    };
    let old = world.spec("old", std::slice::from_ref(&shared));
    world.operator.declare(&young);
    world.operator.declare(&old);
    world.operator.start().await;
    world.operator.until_reason("old", &["Synced", "NoChange"]).await;
    let conflict = |config: &Value| skips(config).get(&shared).map(String::as_str) == Some("NodeConflict");
    let config = world.operator.until_config("young", "the node is the other's", conflict).await;
    says(&text(&config["skipped"][0]["message"]), &["test/old"]);
    world.viola.forget_posts();
    for _ in 0..3 {
        world.operator.until_polled("old").await;
        world.operator.until_polled("young").await;
    }
    assert_eq!(world.viola.posts(), [], "no ping-pong");
    world.operator.restart().await;
    world.operator.until_config("young", "still the other's after a restart", conflict).await;
    assert_eq!(world.viola.posts(), []);
    world.operator.remove("old");
    let is_free = |config: &Value| config["ready"] == true && skips(config).is_empty();
    world.operator.until_config("young", "the node is free", is_free).await;
}
