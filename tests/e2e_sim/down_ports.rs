//! Nodes with DOWN ports are sent again, counted, until the ports are up.

use multinic_operator::sim::Reachability;
use serde_json::{Value, json};

use crate::e2e_support::{Spec, until};
use crate::world::{DATA, World};

/// Sent again twice at the fast interval, then practically never.
fn twice(world: &World, vms: &[String]) -> Spec {
    let settings = [
        "pollFastInterval: 300ms",
        "pollSlowInterval: 1h",
        "pollErrorInterval: 300ms",
        "downPortFastRetryMax: 2",
    ];
    Spec { settings: settings.map(str::to_owned).to_vec(), ..world.spec("a", vms) }
}

fn attempts(count: u64) -> impl Fn(&Value) -> bool {
    move |config| config["downPortRetry"]["fastAttempts"] == count
}

/// A world with two nodes, of which the first has a DOWN port; the port.
async fn with_a_down_port() -> (World, Spec, String) {
    let mut world = World::new();
    let vms = vec![world.bare_vm("node-0"), world.vm("node-1")];
    let port = world.cloud.add_port(world.port_spec(&vms[0], DATA).status("DOWN"));
    let spec = twice(&world, &vms);
    world.run(&spec).await;
    world.operator.until_config("a", "both fast re-sends are done", attempts(2)).await;
    (world, spec, port)
}

fn sent(world: &World, node: &str) -> usize {
    world.sent().get(node).copied().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_down_port_is_sent_again_as_often_as_said() {
    let (world, ..) = with_a_down_port().await;
    let record = world.delivered_state().await;
    for _ in 0..3 {
        world.operator.until_polled("a").await;
    }
    assert_eq!((sent(&world, "node-0"), sent(&world, "node-1")), (3, 1), "the change and two re-sends");
    assert_eq!(world.delivered_state().await, record, "a re-send changes no record, not even its time");
    assert_eq!(world.operator.reason("a").await, "NoChange");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_comes_up_is_sent_once_more() {
    let (world, _, port) = with_a_down_port().await;
    world.viola.forget_posts();
    world.cloud.set_port_status(&port, "ACTIVE");
    until("it was sent once more", || sent(&world, "node-0") == 1, String::new).await;
    let config =
        world.operator.until_config("a", "the retry is over", |c| c["downPortRetry"].is_null()).await;
    assert_eq!(config["ready"], true);
    for _ in 0..3 {
        world.operator.until_polled("a").await;
    }
    assert_eq!((sent(&world, "node-0"), sent(&world, "node-1")), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_down_port_starts_the_count_again() {
    let (world, spec, _) = with_a_down_port().await;
    world.viola.forget_posts();
    world.cloud.add_port(world.port_spec(&spec.vms[1], DATA).status("DOWN"));
    let is_sent = || sent(&world, "node-1") == 3;
    until("the change and two re-sends", is_sent, || format!("{:?}", world.sent())).await;
    world.operator.until_config("a", "both fast re-sends are done", attempts(2)).await;
    assert_eq!(sent(&world, "node-0"), 2, "one counter for the config: its node goes along");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_count_survives_a_restart() {
    let (mut world, spec, _) = with_a_down_port().await;
    world.viola.forget_posts();
    world.operator.restart().await;
    let config = world.operator.until_reason("a", &["NoChange"]).await;
    assert_eq!(config["downPortRetry"]["fastAttempts"], 2);
    // Nothing changes, so the next poll by itself is an hour away.
    for n in 0..3 {
        world.operator.declare(&spec.clone().annotation("force-reconcile", &n.to_string()));
        world.operator.until_polled("a").await;
    }
    assert_eq!(world.viola.posts(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_post_counts_no_attempt() {
    let mut world = World::new();
    let vm = world.bare_vm("node-0");
    let port = world.port(&vm, DATA);
    let spec = twice(&world, &[vm]);
    world.run(&spec).await;
    world.viola.set_reachability(Reachability::Refused);
    world.viola.drop_connections();
    world.cloud.set_port_status(&port, "DOWN");
    world.operator.until_config("a", "it is DOWN", |c| !c["downPortRetry"].is_null()).await;
    for _ in 0..4 {
        world.operator.until_tried("a").await;
    }
    let config = world.operator.config("a").await;
    assert_eq!(config["downPortRetry"]["fastAttempts"], json!(0), "{config:#}");
    world.viola.forget_posts();
    world.viola.set_reachability(Reachability::Up);
    world.operator.until_config("a", "both fast re-sends are done", attempts(2)).await;
    assert_eq!(sent(&world, "node-0"), 2);
}
