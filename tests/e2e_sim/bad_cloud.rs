//! A cloud on a bad day: the state is an error, never `NoChange`; nothing is taken away; it recovers.

use std::collections::BTreeMap;
use std::time::Duration;

use multinic_operator::sim::{Fault, FaultRule, Operation, Reachability, Service, When};
use serde_json::{Value, json};

use crate::e2e_support::{Spec, until};
use crate::world::{BIZ, DATA, STORAGE, World, message, says, skips};

/// A delivered world that the fault then hits: while it lasts, polls end in `reason`, whose message has
/// `words`, and a port that appears meanwhile is delivered once it is over.
async fn bad_day(mut world: World, fault: FaultRule, reason: &str, words: &[&str]) {
    let vms = world.vms(5);
    // More than a page of two for one VM: to ask for fewer VMs would not help.
    (0..4).for_each(|_| drop(world.port(&vms[0], DATA)));
    let spec = world.spec("a", &vms).setting("openstackTimeout: 400ms");
    world.run(&spec).await;
    let before = world.delivered_state().await;
    world.viola.forget_posts();
    world.cloud.add_fault(fault.clone());
    let config = world.operator.until_reason("a", &[reason]).await;
    says(&message(&config), words);
    world.port(&spec.vms[4], STORAGE);
    for _ in 0..2 {
        let config = world.operator.until_tried("a").await;
        assert_eq!((&config["ready"], &config["degraded"]), (&json!(false), &json!("Error")), "{fault:?}");
        assert_eq!(config["nodes"]["delivered"], 5, "what was delivered is known all the time");
    }
    assert_eq!(world.delivered_state().await, before, "{fault:?}");
    assert_eq!(world.viola.posts(), [], "{fault:?}");
    world.cloud.clear_faults();
    world.cloud.drop_connections(Service::Neutron);
    world.until_delivered(&spec).await;
    assert_eq!(world.sent(), BTreeMap::from([("node-4".to_owned(), 1)]), "{fault:?}");
}

fn lists(fault: Fault) -> FaultRule {
    FaultRule::new(fault).operation(Operation::ListPorts)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_fails_in_the_middle() {
    for fault in [Fault::Status(500), Fault::Reset, Fault::TruncatedJson] {
        let world = World::new();
        world.cloud.set_page_limit(Some(2));
        bad_day(world, lists(fault).when(When::Page(2)), "NeutronPortError", &["neutron: list ports"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_links_that_lead_in_a_circle() {
    let mut world = World::new();
    let vm = world.bare_vm("node-0");
    (0..5).for_each(|_| drop(world.port(&vm, DATA)));
    let spec = world.spec("a", &[vm]);
    world.run(&spec).await;
    let before = world.delivered_state().await;
    world.cloud.set_page_limit(Some(2));
    world.cloud.set_page_links(multinic_operator::sim::PageLinks::Loop);
    world.operator.until_reason("a", &["NeutronPortError"]).await;
    assert_eq!(world.delivered_state().await, before);
    world.cloud.set_page_links(multinic_operator::sim::PageLinks::Absolute);
    world.until_delivered(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_of_a_json_text() {
    bad_day(World::new(), lists(Fault::TruncatedJson), "NeutronPortError", &["neutron: list ports", "JSON"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_ends_half_way() {
    bad_day(World::new(), lists(Fault::CutBody), "NeutronPortError", &["neutron: list ports"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_of_another_shape() {
    bad_day(World::new(), lists(Fault::WrongShape), "NeutronPortError", &["neutron: list ports"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_page_instead_of_json() {
    bad_day(World::new(), lists(Fault::HtmlInsteadOfJson), "NeutronPortError", &["neutron: list ports"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_gets_lost() {
    let world = World::new();
    // Without the filter the others' ports come too.
    world.vm("somebody-elses");
    bad_day(
        world,
        lists(Fault::LostFilter),
        "NeutronPortError",
        &["neutron: list ports", "the filter was lost"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_errors_in_json_and_html() {
    for (fault, words) in [
        (Fault::Status(500), ["neutron: list ports: 500", "simulated failure"]),
        (Fault::HtmlStatus(502), ["neutron: list ports: 502", "Bad Gateway"]),
        (Fault::Status(503), ["neutron: list ports: 503", "simulated failure"]),
    ] {
        bad_day(World::new(), lists(fault), "NeutronPortError", &words).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_a_new_token_would_not_change() {
    bad_day(World::new(), lists(Fault::Forbidden), "NeutronPortError", &["neutron: list ports: 403"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_reset() {
    bad_day(World::new(), lists(Fault::Reset), "NeutronPortError", &["neutron: list ports"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_neutron_that_hangs() {
    bad_day(World::new(), lists(Fault::Hang), "NeutronPortError", &["neutron: list ports", "400ms"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_has_the_same_text_every_time() {
    let mut world = World::new();
    world.run_with(1).await;
    world.cloud.add_fault(lists(Fault::Reset));
    let first = message(&world.operator.until_reason("a", &["NeutronPortError"]).await);
    for _ in 0..4 {
        assert_eq!(message(&world.operator.until_tried("a").await), first);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_away() {
    for (service, reason) in [(Service::Neutron, "NeutronPortError"), (Service::Keystone, "KeystoneError")] {
        let mut world = World::new();
        let spec = world.run_with(3).await;
        let before = world.delivered_state().await;
        world.cloud.set_reachability(service, Reachability::Refused);
        world.cloud.drop_connections(service);
        if service == Service::Keystone {
            world.cloud.revoke_tokens();
        }
        world.operator.until_reason("a", &[reason]).await;
        assert_eq!(world.delivered_state().await, before);
        world.port(&spec.vms[0], DATA);
        world.cloud.set_reachability(service, Reachability::Up);
        world.until_delivered(&spec).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reused_connection_that_is_reset_costs_one_repetition_and_no_error() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    world.operator.until_polled("a").await;
    for _ in 0..3 {
        world.cloud.drop_connections(Service::Neutron);
        let config = world.operator.until_tried("a").await;
        assert_eq!(config["ready"], true, "{config:#}");
    }
    world.cloud.add_fault(lists(Fault::Reset).when(When::ReusedConnection));
    for _ in 0..3 {
        let config = world.operator.until_tried("a").await;
        assert_eq!(config["ready"], true, "{config:#}");
    }
    world.until_delivered(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_suddenly_empty_takes_nothing_away() {
    let mut world = World::new();
    let spec = world.run_with(3).await;
    let before = world.delivered_state().await;
    world.viola.forget_posts();
    let fault = world.fault(Operation::ListPorts, Fault::EmptyList);
    let all_stale = |config: &Value| {
        let skips = skips(config);
        skips.len() == 3 && skips.values().all(|reason| reason == "StaleNode")
    };
    let config = world.operator.until_config("a", "all nodes are stale", all_stale).await;
    assert_eq!(config["degraded"], "PartiallySynced");
    assert_eq!(world.delivered_state().await, before);
    world.cloud.clear_fault(fault);
    world.until_delivered(&spec).await;
    assert_eq!(world.viola.posts(), [], "nothing has to be sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_401_in_mid_flight_costs_one_login_and_no_error() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    world.cloud.revoke_tokens();
    let config = world.operator.until_tried("a").await;
    assert_eq!(config["ready"], true, "{config:#}");
    assert_eq!(world.logins(), 2);
    world.port(&spec.vms[0], DATA);
    world.until_delivered(&spec).await;
    assert_eq!(world.logins(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_neutron_that_refuses_every_token_is_an_error_and_no_reason_to_log_in_again_and_again() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    let before = world.delivered_state().await;
    world.cloud.add_fault(lists(Fault::Unauthorized));
    let config = world.operator.until_reason("a", &["NeutronPortError"]).await;
    says(&message(&config), &["neutron: list ports: 401"]);
    for _ in 0..5 {
        world.operator.until_tried("a").await;
    }
    assert!(world.logins() <= 3, "{} logins", world.logins());
    assert_eq!(world.delivered_state().await, before);
    world.cloud.clear_faults();
    world.until_delivered(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_429_is_waited_for_as_asked() {
    for fault in [Fault::TooManyRequests(Some("2".to_owned())), Fault::StatusRetryAfter(503, "2".to_owned())]
    {
        let mut world = World::new();
        let spec = world.spec("a", &world.vms(1));
        world.run(&spec).await;
        world.cloud.add_fault(lists(fault.clone()).when(When::First(1)));
        world.cloud.reset_counters();
        let config = world.operator.until_reason("a", &["NeutronPortError"]).await;
        // Sent by the service: two seconds, in which there is no further request.
        let lists = || world.cloud.counters().requests(Service::Neutron, Operation::ListPorts);
        let at_refusal = lists();
        let began = config["lastPollAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let next = config["nextPollAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let wait = Duration::try_from(next.duration_since(began)).unwrap();
        assert!(wait >= Duration::from_secs(2), "{fault:?}: next in {wait:?}");
        world.port(&spec.vms[0], DATA);
        world.until_delivered(&spec).await;
        assert!(lists() <= at_refusal + 2, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_that_hangs_delays_no_config_of_another() {
    let mut world = World::new();
    let other = World::new();
    let spec = world.spec("well", &world.vms(2));
    let ill = Spec { k8s_provider: "ill".to_owned(), ..other.spec("ill", &other.vms(2)) };
    world.operator.declare(&ill);
    world.run(&spec).await;
    world.operator.until_reason("ill", &["Synced", "NoChange"]).await;
    for service in [Service::Contrabass, Service::Keystone, Service::Neutron, Service::Nova] {
        other.cloud.add_fault(FaultRule::new(Fault::Hang).service(service));
    }
    until("its poll hangs", || other.cloud.counters().in_flight(Service::Neutron) > 0, String::new).await;
    let polled = |config: &Value| config["lastPollAt"].clone();
    let of_the_ill = polled(&world.operator.config("ill").await);
    for _ in 0..5 {
        assert_eq!(world.operator.until_polled("well").await["ready"], true);
    }
    world.port(&spec.vms[0], DATA);
    world.until_delivered(&spec).await;
    assert_eq!(polled(&world.operator.config("ill").await), of_the_ill, "that one hangs all the time");
    other.cloud.clear_faults();
    other.cloud.drop_connections(Service::Neutron);
    world.operator.until_polled("ill").await;
    assert_eq!(world.viola.nodes(BIZ).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_look_up_that_fails_sends_no_mtu_of_zero() {
    for (operation, reason) in
        [(Operation::ShowNetwork, "NeutronNetworkError"), (Operation::ShowSubnet, "NeutronSubnetError")]
    {
        let mut world = World::new();
        let spec = world.spec("a", &world.vms(1));
        world.fault(operation, Fault::Status(500));
        world.operator.declare(&spec);
        world.operator.start().await;
        let config = world.operator.until_reason("a", &[reason]).await;
        says(&message(&config), &["500"]);
        assert_eq!(world.viola.posts(), []);
        world.cloud.clear_faults();
        world.until_delivered(&spec).await;
    }
}
