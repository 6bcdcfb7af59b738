//! What an operator does on a good day.

use std::time::Duration;

use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::{Ending, Harness, config, nic};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_new_object_is_delivered_at_once_and_recorded() {
    let a = config("a").vms(3);
    let world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    world.until_reason("a", Reason::Synced).await;
    assert!(world.clock.elapsed() < SECOND);
    let posts = world.viola.posts();
    assert_eq!(posts.len(), 1, "{}", world.describe());
    assert_eq!(posts[0].names(), ["node-a-1", "node-a-2", "node-a-3"]);
    let status = world.shown("a");
    assert_eq!((status.nodes.desired, status.nodes.delivered, status.nodes.skipped), (3, 3, 0));
    assert_eq!(world.store.content().records.len(), 3);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_added_port_is_delivered_at_the_next_poll_and_alone() {
    let a = config("a").vms(3);
    let world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    world.pass(SECOND).await;
    world.cloud.vm("a-2").gets(nic(7));
    world.until_delivered(&a).await;
    let posts = world.viola.posts();
    assert_eq!(posts[1].names(), ["node-a-2"]);
    assert_eq!((posts.len(), world.viola.renames().len()), (2, 0));
    assert!(posts[1].at <= 22 * SECOND, "within the fast interval: {:?}", posts[1].at);
    assert_eq!(posts[1].at, world.cloud.looks()[1].at);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn polls_are_fast_after_a_change_and_slow_when_stable() {
    let a = config("a").vms(1);
    let world = Harness::with(&a, 1).await;
    world.pass(3600 * SECOND).await;
    let looks = world.cloud.looks();
    let gaps: Vec<_> = looks.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    let fast = gaps.iter().take_while(|gap| **gap <= 22 * SECOND).count();
    assert!((8..=10).contains(&fast), "{gaps:?}");
    let is_slow = |gap: &Duration| (108 * SECOND..=132 * SECOND).contains(gap);
    assert!(gaps.iter().skip(fast).all(is_slow), "{gaps:?}");
    assert_eq!(world.viola.posts().len(), 1);
    assert_eq!(world.cloud.logins().len(), 1, "one login serves all polls");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_nothing_changed_sends_nothing() {
    for ending in [Ending::Stop, Ending::Crash] {
        let a = config("a").vms(5);
        let mut world = Harness::with(&a, 3).await;
        world.until_delivered(&a).await;
        world.pass(SECOND).await;
        world.restart(ending).await;
        world.declare(&a);
        world.synced();
        world.until_reason("a", Reason::NoChange).await;
        world.pass(600 * SECOND).await;
        assert_eq!(world.viola.posts().len(), 1, "{ending:?}: {}", world.describe());
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_config_is_not_ready_before_its_nodes_are_delivered() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").takes(10 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.pass(9 * SECOND).await;
    assert_eq!((world.shown("a").ready, world.shown("a").last_synced_at), (None, None));
    world.until_reason("a", Reason::Synced).await;
    assert_eq!(world.status.reasons("a"), [Reason::Pending, Reason::Synced]);
    world.end().await;
}
