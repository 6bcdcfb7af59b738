//! `changePolicy`: what may be done to a node that was delivered before.

use serde_json::{Value, json};

use crate::e2e_support::{Spec, until};
use crate::world::{BIZ, DATA, STORAGE, World, skips, text};

/// A delivered node with two NICs; the ports.
async fn with_two_nics(policy: &str) -> (World, Spec, [String; 2]) {
    let mut world = World::new();
    let vm = world.bare_vm("node-0");
    let ports = [world.port(&vm, DATA), world.port(&vm, STORAGE)];
    let spec = world.spec("a", &[vm]).setting(&format!("changePolicy: {policy}"));
    if policy != "Observe" {
        world.run(&spec).await;
        world.viola.forget_posts();
    }
    (world, spec, ports)
}

fn is_pending(config: &Value) -> bool {
    config["pendingChanges"].as_array().is_some_and(|pending| !pending.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn observe_sends_nothing_and_shows_what_would_be() {
    let (mut world, spec, _) = with_two_nics("Observe").await;
    world.operator.declare(&spec);
    world.operator.start().await;
    let config = world.operator.until_config("a", "a change is pending", is_pending).await;
    assert_eq!(config["pendingChanges"][0]["node"], "node-0");
    assert!(text(&config["pendingChanges"][0]["what"]).contains("2 interfaces"), "{config:#}");
    assert_eq!(skips(&config)[&spec.vms[0]], "ChangeHeld");
    world.operator.until_tried("a").await;
    assert_eq!(world.viola.posts(), []);
    let free = world.spec("a", &spec.vms);
    world.operator.declare(&free);
    world.until_delivered(&free).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn approve_holds_a_removal_until_its_change_is_approved() {
    let (world, spec, ports) = with_two_nics("Approve").await;
    world.cloud.delete_port(&ports[0]);
    let config = world.operator.until_config("a", "the removal waits", is_pending).await;
    let pending = &config["pendingChanges"][0];
    assert!(text(&pending["what"]).starts_with("remove "), "{pending}");
    assert_eq!(config["degraded"], "PartiallySynced");
    world.operator.until_polled("a").await;
    assert_eq!((world.nic_count("node-0"), world.viola.posts().len()), (2, 0));

    world.operator.declare(&spec.clone().annotation("approve", "another-change"));
    world.operator.until_polled("a").await;
    world.operator.until_polled("a").await;
    assert_eq!(world.nic_count("node-0"), 2, "another change's id approves nothing");

    let both = format!("another-change, {}", text(&pending["changeId"]));
    world.operator.declare(&spec.clone().annotation("approve", &both));
    until("the removal is sent", || world.nic_count("node-0") == 1, String::new).await;
    let config = world.operator.until_config("a", "nothing waits", |c| !is_pending(c)).await;
    assert_eq!(skips(&config).len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn approve_lets_additions_through() {
    let (world, spec, ports) = with_two_nics("Approve").await;
    let before = world.node_names("node-0");
    world.cloud.add_port(world.port_spec(&spec.vms[0], DATA).mac("00:00:00:00:00:01"));
    until("the new NIC is there", || world.nic_count("node-0") == 3, String::new).await;
    let after = world.node_names("node-0");
    assert!(before.iter().all(|(mac, name)| after.get(mac) == Some(name)));
    // An addition beside a change that waits goes alone.
    world.cloud.set_fixed_ips(&ports[0], &[(&world.subnets[DATA], "192.168.77.77")]);
    world.operator.until_config("a", "the address waits", is_pending).await;
    world.port(&spec.vms[0], STORAGE);
    until("the next NIC is there", || world.nic_count("node-0") == 4, String::new).await;
    let node = world.viola.node(BIZ, "node-0").unwrap();
    assert!(!node.to_string().contains("192.168.77.77"), "{node:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn add_only_never_removes_and_no_approval_helps() {
    let (world, spec, ports) = with_two_nics("AddOnly").await;
    world.cloud.delete_port(&ports[0]);
    let config = world.operator.until_config("a", "the removal is held", is_pending).await;
    let id = text(&config["pendingChanges"][0]["changeId"]);
    world.operator.declare(&spec.clone().annotation("approve", &id));
    world.operator.until_polled("a").await;
    world.operator.until_polled("a").await;
    assert_eq!((world.nic_count("node-0"), world.viola.posts().len()), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn order_mac_renumbers_and_that_waits_for_an_approval_too() {
    let mut world = World::new();
    let vm = world.vm("node-0");
    let spec = world.spec("a", &[vm]).setting("interfaceOrder: MAC").setting("changePolicy: Approve");
    world.run(&spec).await;
    let before = world.node_names("node-0");
    world.cloud.add_port(world.port_spec(&spec.vms[0], DATA).mac("00:00:00:00:00:01"));
    let config = world.operator.until_config("a", "the rename waits", is_pending).await;
    assert!(text(&config["pendingChanges"][0]["what"]).contains("rename "), "{config:#}");
    assert!(before.iter().all(|(mac, name)| world.node_names("node-0").get(mac) == Some(name)));
    let id = text(&config["pendingChanges"][0]["changeId"]);
    world.operator.declare(&spec.clone().annotation("approve", &id));
    let is_renamed =
        || world.node_names("node-0").get("00:00:00:00:00:01").map(String::as_str) == Some("multinic0");
    until("the lowest MAC is first", is_renamed, || format!("{:?}", world.node_names("node-0"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_default_policy_serves_objects_that_name_none() {
    let mut world = World::new();
    world.operator = crate::e2e_support::Operator::new().flag("--change-policy=Observe");
    world.operator.declare(&world.spec("a", &world.vms(1)));
    world.operator.start().await;
    world.operator.until_config("a", "a change is pending", is_pending).await;
    assert_eq!(json!(world.viola.posts().len()), 0);
}
