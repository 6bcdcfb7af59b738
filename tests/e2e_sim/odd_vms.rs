//! VMs that do not exist, have no ports, are renamed, rebuilt, named twice.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::e2e_support::Spec;
use crate::world::{BIZ, DATA, World, message, says, skips, text};

const NOBODY: &str = "00000000-dead-4000-8000-000000000000";

/// Node name and VM of each record that the REST API shows.
async fn records(world: &World) -> BTreeMap<String, String> {
    let (_, records) = world.delivered_state().await;
    let records = records.as_array().unwrap();
    records.iter().map(|record| (text(&record["nodeName"]), text(&record["instanceId"]))).collect()
}

fn looked_again(spec: &Spec, value: &str) -> Spec {
    spec.clone().annotation("force-reconcile", value)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_does_not_exist_is_skipped_and_the_others_go_on() {
    let mut world = World::new();
    let mut vms = world.vms(2);
    vms.push(NOBODY.to_owned());
    let spec = world.spec("a", &vms);
    world.run(&spec).await;
    let config = world.operator.until_polled("a").await;
    assert_eq!(skips(&config), BTreeMap::from([(NOBODY.to_owned(), "ServerNotFound".to_owned())]));
    assert_eq!(config["degraded"], "PartiallySynced");
    assert_eq!(config["nodes"], json!({"desired": 2, "delivered": 2, "skipped": 1}));
    says(&text(&config["skipped"][0]["message"]), &[NOBODY, "vmNames"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn vms_that_all_do_not_exist_leave_the_config_not_ready() {
    let mut world = World::new();
    world.operator.declare(&world.spec("a", &[NOBODY.to_owned()]));
    world.operator.start().await;
    let config = world.operator.until_reason("a", &["AllSkipped"]).await;
    assert_eq!(config["ready"], false);
    says(&message(&config), &["ServerNotFound", NOBODY]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_without_ports_is_neither_skipped_nor_degraded() {
    let mut world = World::new();
    let vms = vec![world.vm("node-0"), world.bare_vm("node-1")];
    let spec = world.spec("a", &vms);
    world.run(&spec).await;
    let config = world.operator.until_polled("a").await;
    assert_eq!(config["degraded"], "Healthy");
    assert_eq!(config["nodes"], json!({"desired": 1, "delivered": 1, "skipped": 0}));
    world.port(&vms[1], DATA);
    world.until_delivered(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_lost_its_last_port_keeps_its_config_as_a_stale_node() {
    let mut world = World::new();
    let vm = world.bare_vm("node-0");
    let port = world.port(&vm, DATA);
    let spec = world.spec("a", &[vm.clone(), world.vm("node-1")]);
    world.run(&spec).await;
    let before = world.delivered_state().await;
    world.cloud.delete_port(&port);
    let is_stale = |config: &Value| skips(config).get(&vm).map(String::as_str) == Some("StaleNode");
    let config = world.operator.until_config("a", "the node is stale", is_stale).await;
    assert_eq!((&config["ready"], &config["degraded"]), (&json!(true), &json!("PartiallySynced")));
    assert_eq!(world.delivered_state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_vm_moves_its_record() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    let before = world.node_names("node-0");
    world.cloud.rename_server(&spec.vms[0], "Renamed-0");
    world.operator.declare(&looked_again(&spec, "1"));
    let is_moved = |config: &Value| {
        let nodes = config["vms"].as_array().into_iter().flatten().map(|vm| text(&vm["node"]));
        nodes.collect::<Vec<_>>().contains(&"renamed-0".to_owned()) && config["ready"] == true
    };
    world.operator.until_config("a", "the VM has its new name", is_moved).await;
    let expected = [("node-1", &spec.vms[1]), ("renamed-0", &spec.vms[0])];
    let expected: BTreeMap<_, _> =
        expected.into_iter().map(|(node, vm)| (node.to_owned(), vm.clone())).collect();
    let deadline = std::time::Instant::now() + crate::e2e_support::PATIENCE;
    while records(&world).await != expected {
        assert!(std::time::Instant::now() < deadline, "{:?}", records(&world).await);
        world.operator.until_polled("a").await;
    }
    assert_eq!(world.node_names("renamed-0"), before, "the NICs keep their names");
    world.viola.forget_posts();
    world.operator.restart().await;
    world.operator.until_polled("a").await;
    assert_eq!(world.viola.posts(), [], "and that survives a restart");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuilt_vm_replaces_its_node() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    let before = world.node_names("node-0");
    let new = world.cloud.replace_server(&spec.vms[0]).unwrap();
    let changed = Spec { vms: vec![new.clone(), spec.vms[1].clone()], ..spec };
    world.operator.declare(&changed);
    let has_it = || {
        let node = world.viola.node(BIZ, "node-0").unwrap_or_default();
        node["instanceId"] == new.as_str()
    };
    crate::e2e_support::until("the node is the new VM's", has_it, String::new).await;
    world.until_delivered(&changed).await;
    assert_eq!(world.node_names("node-0"), before);
    world.operator.until_polled("a").await;
    assert_eq!(records(&world).await["node-0"], new);
    assert_eq!(records(&world).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_is_listed_twice_counts_once() {
    let mut world = World::new();
    let vm = world.vm("node-0");
    let spec = world.spec("a", &[vm.clone(), vm.to_uppercase(), vm]);
    world.operator.declare(&spec);
    world.operator.start().await;
    let is_delivered = |config: &Value| config["nodes"]["delivered"] == 1;
    let config = world.operator.until_config("a", "the node is delivered", is_delivered).await;
    assert_eq!(config["nodes"], json!({"desired": 1, "delivered": 1, "skipped": 0}));
    assert_eq!(world.sent(), BTreeMap::from([("node-0".to_owned(), 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_new_vms_with_one_name_none_is_sent() {
    let mut world = World::new();
    let vms = vec![world.vm("Node-0"), world.vm("node-0"), world.vm("node-1")];
    world.operator.declare(&world.spec("a", &vms));
    world.operator.start().await;
    let is_delivered = |config: &Value| config["nodes"]["delivered"] == 1;
    let config = world.operator.until_config("a", "the third is delivered", is_delivered).await;
    let conflict = || "NodeConflict".to_owned();
    let expected = BTreeMap::from([(vms[0].clone(), conflict()), (vms[1].clone(), conflict())]);
    assert_eq!(skips(&config), expected);
    assert_eq!(world.viola.nodes(BIZ).into_keys().collect::<Vec<_>>(), ["node-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_vm_with_the_name_of_a_delivered_one_does_not_get_its_node() {
    let mut world = World::new();
    let first = world.vm("node-0");
    let spec = world.spec("a", std::slice::from_ref(&first));
    world.run(&spec).await;
    let before = world.delivered_state().await;
    world.viola.forget_posts();
    let second = world.vm("node-0");
    world.operator.declare(&world.spec("a", &[second.clone(), first]));
    let conflicts = |config: &Value| skips(config).contains_key(&second);
    let config = world.operator.until_config("a", "the second is skipped", conflicts).await;
    assert_eq!(skips(&config)[&second], "NodeConflict");
    world.operator.until_polled("a").await;
    assert_eq!(world.delivered_state().await, before);
    assert_eq!(world.viola.posts(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_no_node_can_have_is_told_with_the_way_out() {
    let mut world = World::new();
    let vm = world.vm("worker_1");
    world.operator.declare(&world.spec("a", std::slice::from_ref(&vm)));
    world.operator.start().await;
    let config = world.operator.until_reason("a", &["AllSkipped"]).await;
    assert_eq!(skips(&config)[&vm], "InvalidNodeName");
    says(&message(&config), &["worker_1", "openstackNodeNameMetadataKey"]);

    world.cloud.set_metadata(&vm, "k8s-node", Some("worker-1.example.internal"));
    let spec = world.spec("a", &[vm]).setting("openstackNodeNameMetadataKey: k8s-node");
    world.operator.declare(&looked_again(&spec, "1"));
    let is_sent = || world.nic_count("worker-1.example.internal") == 1;
    crate::e2e_support::until("the node is there", is_sent, String::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nova_that_fails_leaves_the_known_names_in_use_and_guesses_none() {
    use multinic_operator::sim::{Fault, FaultRule, Service};
    let mut world = World::new();
    let spec = world.run_with(1).await;
    world.cloud.add_fault(FaultRule::new(Fault::Status(500)).service(Service::Nova));
    let second = world.vm("node-1");
    let changed = Spec { vms: vec![spec.vms[0].clone(), second.clone()], ..spec };
    world.operator.declare(&changed);
    let is_unknown =
        |config: &Value| skips(config).get(&second).map(String::as_str) == Some("NodeNameUnknown");
    world.operator.until_config("a", "the second has no name", is_unknown).await;
    // The first goes on, under the name that is known.
    world.port(&changed.vms[0], DATA);
    let has_it = || world.nic_count("node-0") == 2;
    crate::e2e_support::until("the known node goes on", has_it, String::new).await;
    assert_eq!(world.viola.nodes(BIZ).into_keys().collect::<Vec<_>>(), ["node-0"]);
    world.cloud.clear_faults();
    world.until_delivered(&changed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nova_that_never_answered_is_an_error() {
    use multinic_operator::sim::{Fault, FaultRule, Service};
    let mut world = World::new();
    world.cloud.add_fault(FaultRule::new(Fault::Status(500)).service(Service::Nova));
    let spec = world.spec("a", &world.vms(2));
    world.operator.declare(&spec);
    world.operator.start().await;
    let config = world.operator.until_reason("a", &["NovaError"]).await;
    says(&message(&config), &["nova", "500"]);
    assert_eq!(world.viola.posts(), []);
    world.cloud.clear_faults();
    world.until_delivered(&spec).await;
}
