//! What polls cost, and what must cost nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use multinic_operator::http::ConfigReader;
use multinic_operator::sim::{Counters, FrontEnd, Operation, PageLinks, Service};

use crate::e2e_support::{PATIENCE, Spec, until};
use crate::world::{DATA, STORAGE, World};

/// Polls of all configs that ended, as the board shows them.
#[derive(Default)]
struct Polls {
    ended: Vec<jiff::Timestamp>,
}

impl Polls {
    /// Notes a poll that ended since; whether all configs rest now.
    fn look(&mut self, world: &World) -> bool {
        let configs = world.operator.running().configs.configs();
        for config in &configs {
            let (Some(began), Some(_)) = (config.last_poll_at, config.next_poll_at) else { return false };
            if !self.ended.contains(&began) {
                self.ended.push(began);
            }
        }
        !configs.is_empty()
    }
}

/// What the cloud counted over exactly `count` polls.
async fn cost_of_polls(world: &World, count: usize) -> Counters {
    let mut polls = Polls::default();
    while !polls.look(world) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    world.cloud.reset_counters();
    let before = polls.ended.len();
    let deadline = Instant::now() + PATIENCE;
    while !(polls.look(world) && polls.ended.len() >= before + count) {
        assert!(Instant::now() < deadline, "{} polls only", polls.ended.len() - before);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(polls.ended.len(), before + count);
    world.cloud.counters()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_steady_poll_of_fifty_vms_is_two_neutron_requests_and_nothing_else() {
    let mut world = World::new();
    let vms = world.vms(50);
    vms.iter().for_each(|vm| drop(world.port(vm, STORAGE)));
    let settings = ["pollFastInterval: 700ms", "pollSlowInterval: 700ms"].map(str::to_owned).to_vec();
    let spec = Spec { settings, ..world.spec("a", &vms) };
    world.run(&spec).await;
    world.operator.until_polled("a").await;
    let counters = cost_of_polls(&world, 5).await;
    assert_eq!(counters.requests, BTreeMap::from([((Service::Neutron, Operation::ListPorts), 10)]));
    assert_eq!(counters.total_connections(), 0, "the connections of the first round are used again");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_round_of_fifty_vms_is_nine_requests() {
    let mut world = World::new();
    let spec = world.quiet_spec("a", &world.vms(50));
    world.run(&spec).await;
    let expected = [
        ((Service::Contrabass, Operation::GetProvider), 1),
        ((Service::Keystone, Operation::Login), 1),
        ((Service::Neutron, Operation::ListPorts), 2),
        ((Service::Neutron, Operation::ShowSubnet), 2),
        ((Service::Neutron, Operation::ShowNetwork), 2),
        ((Service::Nova, Operation::ListServers), 1),
    ];
    assert_eq!(world.cloud.counters().requests, BTreeMap::from(expected));
    assert_eq!(world.viola.posts().len(), 1, "fifty nodes are one batch");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_nothing_changed_sends_nothing() {
    let mut world = World::new();
    let spec = world.run_with(5).await;
    let before = world.delivered_state().await;
    world.viola.forget_posts();
    for _ in 0..2 {
        world.operator.restart().await;
        world.operator.until_polled("a").await;
        world.operator.until_polled("a").await;
    }
    assert_eq!(world.viola.posts(), []);
    assert_eq!(world.delivered_state().await, before);
    assert_eq!(world.operator.reason("a").await, "NoChange");
    world.until_delivered(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_added_port_is_delivered_and_renames_nobody() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    let before = world.node_names("node-0");
    world.viola.forget_posts();
    let lowest = world.port_spec(&spec.vms[0], STORAGE).mac("02:00:00:00:00:01");
    world.cloud.add_port(lowest);
    world.until_delivered(&spec).await;
    let after = world.node_names("node-0");
    assert!(before.iter().all(|(mac, name)| after.get(mac) == Some(name)), "{before:?} -> {after:?}");
    assert_eq!(after.get("02:00:00:00:00:01").map(String::as_str), Some("multinic1"));
    assert_eq!(world.sent(), BTreeMap::from([("node-0".to_owned(), 1)]), "only the node that changed");
    world.operator.until_reason("a", &["NoChange"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_added_ports_rename_nobody() {
    let mut world = World::new();
    let vms: Vec<_> = (0..4).map(|n| world.bare_vm(&format!("node-{n}"))).collect();
    let add = |world: &World, prefix: &str| {
        for (n, vm) in vms.iter().enumerate() {
            (0..5).for_each(|port| {
                let spec = world.port_spec(vm, DATA).mac(format!("{prefix}:00:0{n}:0{port}"));
                world.cloud.add_port(spec);
            });
        }
    };
    add(&world, "fa:16:3e");
    let spec = world.quiet_spec("a", &vms);
    world.operator.declare(&spec);
    world.operator.start().await;
    world.until_delivered(&spec).await;
    let nodes: Vec<_> = (0..4).map(|n| format!("node-{n}")).collect();
    let before: Vec<_> = nodes.iter().map(|node| world.node_names(node)).collect();
    // All of them lower than those that are there.
    add(&world, "02:00:00");
    world.operator.declare(&spec.clone().annotation("force-reconcile", "1"));
    world.until_delivered(&spec).await;
    for (node, before) in nodes.iter().zip(before) {
        let after = world.node_names(node);
        assert_eq!(after.len(), 10);
        assert!(
            before.iter().all(|(mac, name)| after.get(mac) == Some(name)),
            "{node}: {before:?} -> {after:?}"
        );
    }
    assert_eq!(world.sent().into_values().collect::<Vec<_>>(), [2; 4], "once each, and once more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_gone_frees_its_index_for_the_next_one() {
    let mut world = World::new();
    let vm = world.bare_vm("node-0");
    let ports: Vec<_> = (0..3).map(|_| world.port(&vm, DATA)).collect();
    let spec = world.spec("a", std::slice::from_ref(&vm));
    world.run(&spec).await;
    let before = world.node_names("node-0");
    let middle = &world.cloud.truth().ports[&ports[1]].mac_address;
    world.cloud.delete_port(&ports[1]);
    world.until_delivered(&spec).await;
    world.cloud.add_port(world.port_spec(&vm, DATA).mac("ff:ff:ff:00:00:01"));
    world.until_delivered(&spec).await;
    let mut expected = before.clone();
    let freed = expected.remove(middle).unwrap();
    expected.insert("ff:ff:ff:00:00:01".to_owned(), freed);
    assert_eq!(world.node_names("node-0"), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_configs_of_one_account_share_one_login() {
    let mut world = World::new();
    let vms = world.vms(6);
    let specs = [("a", &vms[..3]), ("b", &vms[3..])]
        .map(|(name, vms)| Spec { k8s_provider: name.to_owned(), ..world.spec(name, vms) });
    specs.iter().for_each(|spec| world.operator.declare(spec));
    world.operator.start().await;
    for spec in &specs {
        world.until_delivered(spec).await;
        world.operator.until_polled(&spec.name).await;
    }
    let [contrabass, keystone, ..] = world.requests();
    assert_eq!((contrabass, keystone), (1, 1));
    let networks = world.cloud.counters().requests(Service::Neutron, Operation::ShowNetwork);
    assert_eq!(networks, 2, "networks are cached for both");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_vms_work_behind_a_front_end_with_a_small_buffer() {
    let mut world = World::new();
    world.cloud.set_front_end(FrontEnd::Uwsgi(4096));
    // Others' ports: what a lost filter would bring.
    world.vms(30);
    let vms: Vec<_> = (0..200).map(|n| world.vm(&format!("many-{n}"))).collect();
    let spec = world.quiet_spec("a", &vms);
    world.run(&spec).await;
    assert_eq!(world.viola.nodes("biz").len(), 200);
    let lists = world.cloud.counters().requests(Service::Neutron, Operation::ListPorts);
    assert_eq!(lists, 7, "32 ids fit into one request, none is refused");
    assert_eq!(world.viola.posts().len(), 2, "a hundred nodes are a batch");
}

#[tokio::test(flavor = "multi_thread")]
async fn front_ends_that_refuse_long_urls_are_asked_in_smaller_pieces() {
    for front_end in [FrontEnd::Limit(1500, 414), FrontEnd::Uwsgi(2048)] {
        let mut world = World::new();
        world.cloud.set_front_end(front_end);
        let spec = world.spec("a", &world.vms(40));
        world.run(&spec).await;
        assert_eq!(world.viola.nodes("biz").len(), 40, "{front_end:?}");
        world.operator.until_polled("a").await;
        let before = world.cloud.counters().total_connections();
        world.operator.until_polled("a").await;
        world.operator.until_polled("a").await;
        let after = world.cloud.counters().total_connections();
        assert_eq!(before, after, "{front_end:?}: what fits is remembered, nothing is refused any more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_fifty_nodes_are_right_with_pages_of_ten() {
    for links in [PageLinks::Absolute, PageLinks::WrongScheme, PageLinks::Relative] {
        let mut world = World::new();
        world.cloud.set_page_limit(Some(10));
        world.cloud.set_server_page_limit(10);
        world.cloud.set_page_links(links);
        let spec = world.quiet_spec("a", &world.vms(50));
        world.run(&spec).await;
        assert_eq!(world.viola.nodes("biz").len(), 50);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_default_limits_no_more_than_four_requests_are_under_way_at_a_cloud() {
    let mut world = World::with_operator(crate::e2e_support::Operator::new());
    world.cloud.set_latency(Duration::from_millis(20));
    let vms = world.vms(24);
    let specs: Vec<_> = vms
        .chunks(3)
        .enumerate()
        .map(|(n, vms)| Spec { k8s_provider: format!("biz-{n}"), ..world.quiet_spec(&format!("c{n}"), vms) })
        .collect();
    specs.iter().for_each(|spec| world.operator.declare(spec));
    world.operator.start().await;
    for spec in &specs {
        world.until_delivered(spec).await;
    }
    let counters = world.cloud.counters();
    let at_once: u64 = [Service::Neutron, Service::Nova]
        .iter()
        .map(|service| counters.max_in_flight(*service))
        .max()
        .unwrap();
    assert!(at_once <= 4, "{at_once} at once");
    until("nothing is left", || world.cloud.counters().in_flight(Service::Neutron) == 0, String::new).await;
}
