//! A Viola that is away, slow, picky or wrong.

use std::collections::BTreeMap;

use multinic_operator::sim::{
    Fault, FaultRule, Operation, Reachability, Refusal, Service, SimViola, ViolaAnswer, When,
};
use serde_json::{Value, json};

use crate::e2e_support::{Operator, Spec, delivered, until};
use crate::world::{BIZ, DATA, STORAGE, World, message, says, skips, text};

fn away(world: &World) {
    world.viola.set_reachability(Reachability::Refused);
    world.viola.drop_connections();
}

fn posts(fault: Fault) -> FaultRule {
    FaultRule::new(fault).operation(Operation::PostNodeConfigs)
}

fn sent_once(nodes: &[&str]) -> BTreeMap<String, usize> {
    nodes.iter().map(|node| ((*node).to_owned(), 1)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_with_several_changes_each_node_gets_its_newest_state_once() {
    let mut world = World::new();
    let spec = world.run_with(4).await;
    world.viola.forget_posts();
    away(&world);
    let mut passing = Vec::new();
    for n in 0..3 {
        world.port(&spec.vms[0], DATA);
        passing.push(world.port(&spec.vms[1], STORAGE));
        let wants = |config: &Value| {
            let ports = |vm: usize| config["vms"][vm]["ports"].as_array().map_or(0, Vec::len);
            (0..4).map(ports).sum::<usize>() == 4 + 2 * (n + 1)
        };
        world.operator.until_config("a", "the change is seen", wants).await;
    }
    world.cloud.delete_port(&passing[1]);
    let config = world.operator.until_reason("a", &["ViolaPostError"]).await;
    says(&message(&config), &["viola"]);
    world.operator.until_tried("a").await;
    let config = world.operator.until_tried("a").await;
    assert_eq!(config["reason"], "ViolaPostError", "it stays through rounds that find nothing new");
    assert_eq!((&config["nodes"]["desired"], &config["nodes"]["delivered"]), (&json!(4), &json!(2)));
    world.viola.set_reachability(Reachability::Up);
    world.until_delivered(&spec).await;
    world.operator.until_polled("a").await;
    assert_eq!(world.sent(), sent_once(&["node-0", "node-1"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_is_not_synced_before_its_nodes_are_delivered() {
    let mut world = World::new();
    let mut synced = 0;
    for n in 0..10 {
        let vms = [world.vm(&format!("n-{n}"))];
        let spec = Spec { k8s_provider: format!("b-{n}"), ..world.quiet_spec(&format!("c{n}"), &vms) };
        world.operator.declare(&spec);
    }
    world.viola.add_fault(posts(Fault::Latency(std::time::Duration::from_millis(300))));
    away(&world);
    world.operator.start().await;
    for n in 0..10 {
        let config = world.operator.until_reason(&format!("c{n}"), &["ViolaPostError"]).await;
        synced += usize::from(!config["lastSyncedAt"].is_null());
    }
    assert_eq!(synced, 0, "configs that had nothing delivered said that they were synced");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viola_that_is_away_does_not_stop_the_polls() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    away(&world);
    world.port(&spec.vms[0], DATA);
    world.operator.until_reason("a", &["ViolaPostError"]).await;
    let logins = world.logins();
    for _ in 0..3 {
        world.operator.until_tried("a").await;
    }
    assert_eq!(world.logins(), logins, "and makes them no dearer");
    world.viola.set_reachability(Reachability::Up);
    world.until_delivered(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_post_is_repeated_by_itself_and_repeats_no_poll() {
    let mut world = World::new();
    let spec = world.quiet_spec("a", &world.vms(2));
    world.viola.set_answer(ViolaAnswer::Status(503, Value::Null));
    world.operator.declare(&spec);
    world.operator.start().await;
    until("it was sent again", || world.viola.posts().len() == 2, String::new).await;
    world.viola.set_answer(ViolaAnswer::Accept);
    world.until_delivered(&spec).await;
    let lists = world.cloud.counters().requests(Service::Neutron, Operation::ListPorts);
    assert_eq!(lists, 1, "one poll");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viola_that_hangs_delays_no_config_of_another() {
    let mut world = World::new();
    let hanging = SimViola::start_on(0).unwrap();
    hanging.add_fault(posts(Fault::Hang));
    let vms = world.vms(4);
    let ill = Spec { viola: hanging.url(), k8s_provider: "ill".to_owned(), ..world.spec("ill", &vms[..2]) };
    world.operator.declare(&ill);
    let spec = world.spec("well", &vms[2..]);
    world.run(&spec).await;
    until("a POST hangs", || hanging.counters().in_flight(Service::Viola) == 1, String::new).await;
    for _ in 0..3 {
        world.port(&vms[2], DATA);
        world.until_delivered(&spec).await;
    }
    let polled = world.operator.until_tried("ill").await;
    assert_eq!(polled["nodes"]["delivered"], 0, "that one is polled, too, while its POST hangs");
    assert_eq!(hanging.counters().requests_to(Service::Viola), 1);
    hanging.clear_faults();
    hanging.drop_connections();
    let has_all = || delivered(&hanging, "ill") == world.expected(&ill);
    until("the other one has it all", has_all, String::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viola_that_hangs_is_given_up_after_its_timeout_and_the_newest_state_sent() {
    let mut world = World::with_operator(Operator::new().flag("--viola-timeout=300ms"));
    let spec = world.run_with(2).await;
    world.viola.add_fault(posts(Fault::Hang));
    world.port(&spec.vms[0], DATA);
    let config = world.operator.until_reason("a", &["ViolaPostError"]).await;
    says(&message(&config), &["viola", "300ms"]);
    world.port(&spec.vms[0], STORAGE);
    world.operator.until_tried("a").await;
    world.viola.clear_faults();
    world.until_delivered(&spec).await;
    assert_eq!(world.nic_count("node-0"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_of_unknown_outcome_is_sent_once_more() {
    for fault in [Fault::LoseAnswer, Fault::HangAfter] {
        let mut world = World::with_operator(Operator::new().flag("--viola-timeout=500ms"));
        let spec = world.run_with(2).await;
        world.viola.forget_posts();
        world.viola.add_fault(posts(fault.clone()).when(When::First(1)));
        world.port(&spec.vms[0], DATA);
        until("it was sent again", || world.viola.posts().len() == 2, || format!("{fault:?}")).await;
        world.until_delivered(&spec).await;
        world.operator.until_polled("a").await;
        assert_eq!(world.sent(), BTreeMap::from([("node-0".to_owned(), 2)]), "{fault:?}");
    }
}

/// A hundred nodes in one batch, one of which Viola does not take.
async fn one_of_a_hundred(refusal: Refusal) -> (World, Spec, String) {
    let mut world = World::new();
    let spec = world.quiet_spec("a", &world.vms(100));
    let bad = "node-42".to_owned();
    world.viola.refuse_node(&bad, refusal);
    world.operator.declare(&spec);
    world.operator.start().await;
    let vm = spec.vms[42].clone();
    let is_refused = |config: &Value| skips(config).get(&vm).map(String::as_str) == Some("NodeRejected");
    world.operator.until_config("a", "one node is rejected", is_refused).await;
    let others = |config: &Value| config["nodes"]["delivered"] == 99;
    let config = world.operator.until_config("a", "the other 99 are delivered", others).await;
    assert_eq!(config["nodes"]["skipped"], 1);
    says(&text(&config["skipped"][0]["message"]), &["node-42", "refused"]);
    let mut expected = world.expected(&spec);
    expected.remove(&bad);
    assert_eq!(delivered(&world.viola, BIZ), expected);
    let config = world.operator.until_reason("a", &["Synced", "NoChange"]).await;
    assert_eq!(config["degraded"], "PartiallySynced");
    (world, spec, bad)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_node_of_a_hundred_answered_by_400_holds_back_nobody() {
    let (world, spec, bad) = one_of_a_hundred(Refusal::Batch(400)).await;
    let posts = world.viola.posts().len();
    assert!(posts <= 16, "{posts} posts to find it");
    world.viola.accept_node(&bad);
    // Its content rests; another content is tried at once.
    world.viola.forget_posts();
    world.port(&spec.vms[42], DATA);
    world.operator.declare(&spec.clone().annotation("force-reconcile", "now"));
    world.until_delivered(&spec).await;
    assert_eq!(world.sent(), sent_once(&["node-42"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_node_of_a_hundred_answered_by_500_holds_back_nobody() {
    one_of_a_hundred(Refusal::Batch(500)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_node_of_a_hundred_in_the_results_costs_one_post() {
    let (world, ..) = one_of_a_hundred(Refusal::Node).await;
    assert_eq!(world.viola.posts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_node_is_tried_again_after_a_slow_interval_and_keeps_what_it_had() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    let before = world.viola.node(BIZ, "node-0");
    world.viola.refuse_node("node-0", Refusal::Node);
    world.port(&spec.vms[0], DATA);
    let is_refused = |config: &Value| skips(config).contains_key(&spec.vms[0]);
    world.operator.until_config("a", "it is rejected", is_refused).await;
    assert_eq!(world.viola.node(BIZ, "node-0"), before);
    let (_, record) =
        world.operator.get(&format!("/v1/interfaces/node-configs/by-instance/{}", spec.vms[0])).await;
    assert_eq!(record[0]["config"]["interfaces"].as_array().map(Vec::len), Some(1));
    world.viola.accept_node("node-0");
    world.until_delivered(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_name_every_node_are_believed() {
    let mut world = World::new();
    world.viola.set_answer(ViolaAnswer::Results);
    world.run_with(3).await;
    assert_eq!(world.viola.posts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_mean_wait_are_repeated_and_those_that_mean_no_are_told() {
    for status in [401, 403, 404, 405, 307, 408, 429, 502, 503, 504] {
        let mut world = World::new();
        world.viola.set_answer(ViolaAnswer::Status(status, json!({"message": "not today"})));
        let spec = world.spec("a", &world.vms(2));
        world.operator.declare(&spec);
        world.operator.start().await;
        let config = world.operator.until_reason("a", &["ViolaPostError"]).await;
        says(&message(&config), &["viola", &status.to_string()]);
        assert_eq!(config["nodes"]["delivered"], 0);
        assert_eq!(skips(&config), BTreeMap::new(), "{status} refuses no node");
        world.viola.set_answer(ViolaAnswer::Accept);
        world.until_delivered(&spec).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_viola_does_not_take_is_told_and_a_new_one_in_the_file_is_used() {
    let mut world = World::new();
    let tokens = tempfile::tempdir().unwrap();
    let file = tokens.path().join("token");
    std::fs::write(&file, "an-old-viola-token\n").unwrap();
    world.operator = Operator::new().flag(&format!("--viola-token-file={}", file.display()));
    world.viola.require_token(Some("the-new-viola-token"));
    let spec = world.spec("a", &world.vms(1));
    world.operator.declare(&spec);
    world.operator.start().await;
    let config = world.operator.until_reason("a", &["ViolaPostError"]).await;
    says(&message(&config), &["401"]);
    assert!(!config.to_string().contains("an-old-viola-token"));
    std::fs::write(&file, "the-new-viola-token\n").unwrap();
    world.until_delivered(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn posts_carry_what_viola_routes_by() {
    let mut world = World::new();
    world.run_with(1).await;
    let post = world.viola.posts().remove(0);
    assert_eq!(post.provider_id.as_deref(), Some(BIZ));
    assert_eq!(post.headers["content-type"], "application/json");
    assert_eq!(post.headers["user-agent"], concat!("multinic-operator/", env!("CARGO_PKG_VERSION")));
    let interface = &post.body[0]["interfaces"][0];
    assert_eq!((&interface["id"], &interface["name"]), (&json!(0), &json!("multinic0")), "0 is not left out");
    for field in ["macAddress", "address", "cidr", "mtu"] {
        assert!(!interface[field].is_null(), "{field} in {interface}");
    }
}
