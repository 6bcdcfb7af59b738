//! Delivery that goes straight into the workload cluster, or looks at what arrives there.

use std::time::Duration;

use multinic_actors::domain::readback::Agent;
use multinic_actors::domain::reason::Reason;
use multinic_actors::domain::status::ConfiguredReason;
use multinic_actors::testing::{Ending, Harness, config, nic};

fn condition(world: &Harness) -> Option<(Option<bool>, ConfiguredReason)> {
    let configured = world.shown("a").workload.clone()?.configured;
    Some((configured.status, configured.reason))
}

async fn until_configured(world: &Harness, status: Option<bool>, reason: ConfiguredReason) {
    let expect = Some((status, reason));
    world.until(&format!("{expect:?}"), |world| condition(world) == expect).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_or_edited_by_hand_is_put_back_at_once() {
    let config = config("a").vms(3).direct();
    let world = Harness::with(&config, 2).await;
    world.until_delivered(&config).await;
    let before = world.workload.object("node-a-1").unwrap();
    let sent = world.viola.times_sent("node-a-2");

    world.workload.delete("node-a-1");
    let start = world.clock.elapsed();
    world.until("it is back", |world| world.workload.object("node-a-1").is_some()).await;
    world.workload.edit("node-a-1", |node| node.interfaces[0].mtu = 1400);
    world.until("it is right", |world| world.workload.object("node-a-1").as_ref() == Some(&before)).await;
    assert!(world.clock.elapsed() - start < Duration::from_secs(1), "{:?}", world.clock.elapsed() - start);
    assert_eq!(world.viola.times_sent("node-a-2"), sent, "only what drifted is applied again");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_keeps_changing_it_back_is_not_fought_at_full_speed() {
    let config = config("a").vms(1).direct();
    let world = Harness::with(&config, 1).await;
    world.until_delivered(&config).await;
    let start = world.clock.elapsed();
    while world.clock.elapsed() - start < Duration::from_secs(3600) {
        world.workload.edit("node-a-1", |node| node.interfaces[0].mtu = 1400);
        world.pass(Duration::from_millis(200)).await;
    }
    let sent = world.viola.times_sent("node-a-1");
    assert!((20..120).contains(&sent), "{sent} applies in an hour");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_viola_delivered_is_looked_at_but_not_touched() {
    let config = config("a").vms(2).verify();
    let world = Harness::with(&config, 1).await;
    world.until_delivered(&config).await;
    until_configured(&world, None, ConfiguredReason::InProgress).await;
    world.workload.agent("node-a-1", Agent::Configured);
    world.workload.agent("node-a-2", Agent::Configured);
    until_configured(&world, Some(true), ConfiguredReason::Configured).await;
    let nodes = world.shown("a").nodes;
    assert_eq!((nodes.configured, nodes.in_progress, nodes.failed), (Some(2), Some(0), Some(0)));
    let sent = world.viola.posts().len();

    world.workload.delete("node-a-1");
    until_configured(&world, Some(false), ConfiguredReason::Drifted).await;
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(world.viola.posts().len(), sent);
    assert_eq!(world.shown("a").ready, Some(true));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_agents_failure_is_told_in_its_words_and_ends_with_it() {
    let config = config("a").vms(2).direct();
    let world = Harness::with(&config, 1).await;
    world.until_delivered(&config).await;
    world.workload.agent("node-a-1", Agent::Configured);
    world.workload.agent("node-a-2", Agent::Failed("multinic0: NicNotFound".to_owned()));
    until_configured(&world, Some(false), ConfiguredReason::AgentFailed).await;
    let shown = world.shown("a");
    assert_eq!(shown.failed.len(), 1);
    assert_eq!(
        (shown.failed[0].node.as_str(), &*shown.failed[0].reason),
        ("node-a-2", "multinic0: NicNotFound")
    );
    assert_eq!((shown.nodes.configured, shown.nodes.failed), (Some(1), Some(1)));
    assert_eq!(shown.ready, Some(true), "it is delivered all the same");
    world.workload.agent("node-a-2", Agent::Configured);
    until_configured(&world, Some(true), ConfiguredReason::Configured).await;
    assert!(world.shown("a").failed.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_away_gets_the_newest_state_only_and_at_once() {
    let config = config("a").vms(1).direct();
    let world = Harness::with(&config, 1).await;
    world.until_delivered(&config).await;
    world.workload.reach(Some(false));
    world.viola.of("a").fails(multinic_actors::boundary::PostFailure::Unavailable);
    for number in 2..6 {
        world.cloud.vm("a-1").gets(nic(number));
        world.pass(Duration::from_secs(600)).await;
    }
    world.until_reason("a", Reason::DeliveryError).await;
    until_configured(&world, None, ConfiguredReason::ClusterUnknown).await;
    let reach = world.shown("a").workload.clone().unwrap().reach;
    assert!(reach.since.is_some() && reach.problem.is_some(), "{reach:?}");
    let tries = world.viola.posts().len();
    assert!(tries < 60, "{tries} tries in 40 minutes");

    world.viola.of("a").heals();
    let start = world.clock.elapsed();
    world.workload.reach(Some(true));
    world.until_delivered(&config).await;
    assert!(world.clock.elapsed() - start < Duration::from_secs(1));
    assert_eq!(world.viola.posts().len(), tries + 1);
    assert_eq!(world.workload.object("node-a-1").unwrap().interfaces.len(), 5);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_another_machine_gets_nothing() {
    let config = config("a").vms(3).direct();
    let mut world = Harness::new();
    world.cloud.has(&config, 1);
    world.workload.nodes(&[("node-a-1", "a-1"), ("node-a-2", "other")]);
    world.workload.reach(None);
    world.start().await;
    world.synced();
    world.declare(&config);
    world.pass(Duration::from_secs(60)).await;
    assert!(world.viola.posts().is_empty(), "nothing is applied before the cluster's nodes are known");

    world.workload.reach(Some(true));
    world.until("one is delivered", |world| world.workload.object("node-a-1").is_some()).await;
    world
        .until("the others are told", |world| {
            let skipped = |vm| world.skip_of("a", vm).as_deref() == Some("NodeMismatch");
            skipped("a-2") && skipped("a-3")
        })
        .await;
    assert!(world.workload.object("node-a-2").is_none() && world.workload.object("node-a-3").is_none());

    // The nodes join: no poll is waited for.
    let start = world.clock.elapsed();
    world.workload.nodes(&[("node-a-1", "a-1"), ("node-a-2", "A-2"), ("node-a-3", "a-3")]);
    world.until_delivered(&config).await;
    assert!(world.clock.elapsed() - start < Duration::from_secs(10));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn down_ports_are_not_sent_again_where_the_cluster_is_seen() {
    let config = config("a").vms(1).direct();
    let world = Harness::with(&config, 1).await;
    world.cloud.vm("a-1").port_is(1, "DOWN");
    world.until_delivered(&config).await;
    let sent = world.viola.posts().len();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.viola.posts().len(), sent);
    assert_eq!(world.shown("a").down_port_retry, None);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn pruning_takes_the_node_config_away_before_the_record() {
    let full = config("a").vms(3).direct().prunes();
    let mut world = Harness::with(&full, 1).await;
    world.until_delivered(&full).await;
    world.workload.refuse_withdrawals(true);
    let less = full.clone().without("a-3");
    world.declare(&less);
    world.until("it is tried", |world| world.workload.withdrawals().len() >= 2).await;
    assert!(world.record("node-a-3").is_some(), "what is still there is still known");
    world.workload.refuse_withdrawals(false);
    world.until("it is gone", |world| world.record("node-a-3").is_none()).await;
    assert!(world.workload.object("node-a-3").is_none() && world.workload.object("node-a-2").is_some());

    // The last interface of a VM that is still listed goes too.
    world.cloud.vm("a-2").loses_all();
    world.until("the stale one is gone", |world| world.record("node-a-2").is_none()).await;
    assert!(world.workload.object("node-a-2").is_none());
    world.until("it is no longer told", |world| world.skip_of("a", "a-2").is_none()).await;

    // And everything with the object, also if the operator was away.
    world.halt(Ending::Stop).await;
    world.start().await;
    world.synced();
    world.until("the node config is gone", |world| world.workload.object("node-a-1").is_none()).await;
    world.until("and so is the record", |world| world.record("node-a-1").is_none()).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_prune_everything_stays() {
    let full = config("a").vms(2).direct();
    let world = Harness::with(&full, 1).await;
    world.until_delivered(&full).await;
    world.cloud.vm("a-1").loses_all();
    world.declare(&full.clone().without("a-2"));
    world.until("stale", |world| world.skip_of("a", "a-1").as_deref() == Some("StaleNode")).await;
    world.remove(full.id());
    world.pass(Duration::from_secs(600)).await;
    assert!(world.workload.withdrawals().is_empty());
    assert!(world.workload.object("node-a-1").is_some() && world.workload.object("node-a-2").is_some());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn another_way_of_delivery_is_taken_without_a_change() {
    let before = config("a").vms(2);
    let world = Harness::with(&before, 1).await;
    world.until_delivered(&before).await;
    // The cluster has nothing of it: the truth is put there.
    let after = before.clone().direct();
    world.declare(&after);
    world
        .until("both are there", |world| {
            world.workload.object("node-a-1").is_some() && world.workload.object("node-a-2").is_some()
        })
        .await;
    // And back: what is there stays, and nobody looks any more.
    world.declare(&before);
    world.until("it is Viola's again", |world| world.shown("a").workload.is_none()).await;
    world.workload.delete("node-a-1");
    world.pass(Duration::from_secs(600)).await;
    assert!(world.workload.object("node-a-1").is_none());
    world.end().await;
}
