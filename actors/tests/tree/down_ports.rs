//! Nodes with DOWN ports are sent again: how often, when, and what it does not do.

use std::time::Duration;

use jiff::SignedDuration;
use multinic_actors::boundary::{CloudError, PostFailure};
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::{ConfigBuilder, Ending, Harness, config, nic};

const SECOND: Duration = Duration::from_secs(1);

/// Two nodes; the only NIC of the first is DOWN.
async fn world_with_a_down_port(a: &ConfigBuilder) -> Harness {
    let mut world = Harness::new();
    world.cloud.has(a, 1);
    world.cloud.vm("a-1").port_is(100, "DOWN");
    world.start().await;
    world.synced();
    world.declare(a);
    world.until_delivered(a).await;
    world
}

/// When the node was sent, in whole seconds.
fn times(world: &Harness, node: &str) -> Vec<u64> {
    let posts = world.viola.posts();
    posts.iter().filter(|post| post.names().contains(&node)).map(|post| post.at.as_secs()).collect()
}

#[tokio::test(start_paused = true)]
async fn re_sends_are_fast_as_often_as_set_and_slow_from_then_on() {
    let a = config("a").vms(2).fast_retries(3);
    let world = world_with_a_down_port(&a).await;
    world.pass(500 * SECOND).await;
    assert_eq!(times(&world, "node-a-1"), [0, 20, 40, 60, 180, 300, 420]);
    assert_eq!(times(&world, "node-a-2"), [0], "who is up is left alone");
    let retry = world.shown("a").down_port_retry.clone().unwrap();
    assert_eq!(retry.fast_attempts, 3);
    assert_eq!(world.kept("a").unwrap().down_port_retry, Some(retry));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn re_sends_change_neither_the_cadence_nor_the_record_nor_the_reason() {
    let a = config("a").vms(2);
    let (down, up) = (world_with_a_down_port(&a).await, Harness::with(&a, 1).await);
    up.until_delivered(&a).await;
    let updated = down.record("node-a-1").unwrap().updated_at;
    up.pass(1200 * SECOND).await;
    let looks = |world: &Harness| -> Vec<_> {
        let looks = world.cloud.looks();
        looks.windows(2).map(|pair| (pair[1].at - pair[0].at).as_millis()).collect()
    };
    let polled = looks(&up).len().min(looks(&down).len());
    assert!(polled >= 10);
    assert_eq!(looks(&up)[..polled], looks(&down)[..polled], "the fast window is not opened again");
    assert!(times(&down, "node-a-1").len() > 8);
    assert_eq!(down.record("node-a-1").unwrap().updated_at, updated);
    assert_eq!(down.status.reasons("a"), [Reason::Pending, Reason::Synced, Reason::NoChange]);
    down.end().await;
    up.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_port_that_came_up_has_its_node_sent_once_more() {
    let a = config("a").vms(2);
    let world = world_with_a_down_port(&a).await;
    world.pass(30 * SECOND).await;
    world.cloud.vm("a-1").port_is(100, "ACTIVE");
    world.until("no port is down", |world| world.shown("a").down_port_retry.is_none()).await;
    world.pass(SECOND).await;
    let sent = times(&world, "node-a-1").len();
    world.pass(1200 * SECOND).await;
    assert_eq!(times(&world, "node-a-1").len(), sent, "{}", world.describe());
    assert_eq!(sent, 3, "the first time, one re-send, and when it came up");
    assert_eq!(world.kept("a").unwrap().down_port_retry, None);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_re_send_counts_no_attempt() {
    let a = config("a").vms(2).fast_retries(2);
    let world = world_with_a_down_port(&a).await;
    world.viola.of("a").next_fail(2, PostFailure::Unavailable);
    world.until("it went through", |world| times(world, "node-a-1").len() == 4).await;
    world
        .until("it is counted", |world| world.shown("a").down_port_retry.as_ref().unwrap().fast_attempts == 1)
        .await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_count_survives_a_restart() {
    let a = config("a").vms(2).fast_retries(3);
    let mut world = world_with_a_down_port(&a).await;
    world.pass(45 * SECOND).await;
    world.restart(Ending::Crash).await;
    world.declare(&a);
    world.synced();
    world.pass(200 * SECOND).await;
    assert_eq!(times(&world, "node-a-1"), [0, 20, 40, 60, 180], "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_port_that_came_up_over_a_restart_has_its_node_sent_once_more() {
    let a = config("a").vms(2);
    for ending in [Ending::Stop, Ending::Crash] {
        let mut world = world_with_a_down_port(&a).await;
        world.pass(30 * SECOND).await;
        assert_eq!(times(&world, "node-a-1"), [0, 20]);
        world.halt(ending).await;
        world.cloud.vm("a-1").port_is(100, "ACTIVE");
        world.start().await;
        world.declare(&a);
        world.synced();
        world.pass(1200 * SECOND).await;
        assert_eq!(times(&world, "node-a-1"), [0, 20, 30], "{ending:?}: once\n{}", world.describe());
        assert_eq!(world.kept("a").unwrap().down_port_retry, None);
        // And never again for that.
        world.restart(ending).await;
        world.declare(&a);
        world.synced();
        world.pass(600 * SECOND).await;
        assert_eq!(times(&world, "node-a-1").len(), 3);
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_down_ports_the_one_that_came_up_over_a_restart_is_sent_too() {
    let a = config("a").vms(2);
    let mut world = world_with_a_down_port(&a).await;
    world.cloud.vm("a-2").port_is(200, "DOWN");
    world.until("both are sent again", |world| times(world, "node-a-2").len() == 2).await;
    world.halt(Ending::Stop).await;
    world.cloud.vm("a-2").port_is(200, "ACTIVE");
    world.start().await;
    world.declare(&a);
    world.synced();
    world.pass(600 * SECOND).await;
    assert_eq!(times(&world, "node-a-2").len(), 3, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn another_set_of_down_ports_starts_the_count_anew_without_a_pair_of_posts() {
    let a = config("a").vms(2).fast_retries(2);
    let world = world_with_a_down_port(&a).await;
    world.pass(130 * SECOND).await;
    world.cloud.vm("a-1").gets(nic(7).down());
    world.until_delivered(&a).await;
    let sent = times(&world, "node-a-1");
    world.pass(50 * SECOND).await;
    let later: Vec<_> = times(&world, "node-a-1")[sent.len()..].to_vec();
    let change = *sent.last().unwrap();
    assert_eq!(later, [change + 20, change + 40]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_put_back_starves_no_re_send() {
    let a = config("a").vms(2);
    let world = world_with_a_down_port(&a).await;
    world.pass(30 * SECOND).await;
    world.clock.jump(SignedDuration::from_hours(-24));
    world.pass(570 * SECOND).await;
    assert_eq!(times(&world, "node-a-1"), [0, 20, 40, 60, 80, 100, 220, 340, 460, 580]);
    world.clock.jump(SignedDuration::from_hours(240));
    let sent = times(&world, "node-a-1").len();
    world.pass(600 * SECOND).await;
    let more = times(&world, "node-a-1").len() - sent;
    assert!((4..=7).contains(&more), "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn re_sends_go_on_after_a_pause_even_while_nothing_can_be_looked_at() {
    let a = config("a").vms(2);
    let world = world_with_a_down_port(&a).await;
    world.declare(&a.clone().paused(true));
    world.pass(600 * SECOND).await;
    assert_eq!(times(&world, "node-a-1"), [0], "paused");
    world.cloud.of("a").looks_fail(CloudError::new(Reason::NeutronPortError, "neutron: list ports: 503"));
    world.declare(&a);
    world.pass(60 * SECOND).await;
    assert!(times(&world, "node-a-1").len() >= 3, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn re_sends_go_on_when_the_slow_interval_changes_while_one_fails() {
    let a = config("a").vms(2);
    let world = world_with_a_down_port(&a).await;
    world.viola.of("a").fails(PostFailure::Unavailable);
    world.pass(30 * SECOND).await;
    let a = a.polling(|polling| polling.slow = 60 * SECOND);
    world.declare(&a);
    world.pass(30 * SECOND).await;
    world.viola.of("a").heals();
    world.pass(60 * SECOND).await;
    let sent = times(&world, "node-a-1").len();
    world.pass(300 * SECOND).await;
    assert!(times(&world, "node-a-1").len() >= sent + 4, "{}", world.describe());
    world.end().await;
}

/// Found by chaos, seeds 11 and 157: the re-send followed its look, however late the delivery was.
#[tokio::test(start_paused = true)]
async fn a_re_send_comes_an_interval_after_a_delivery_that_was_late() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.vm("a-1").gets(nic(100).down());
    world.viola.of("a").next_fail(3, PostFailure::Unavailable);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.pass(60 * SECOND).await;
    let posts = world.viola.posts_of("a");
    let taken: Vec<_> = posts.iter().filter(|post| matches!(post.answer, Some(Ok(_)))).collect();
    assert!(taken[0].at > 10 * SECOND, "{}", world.describe());
    assert_eq!((taken[1].at - taken[0].at).as_secs(), 20, "{}", world.describe());
    world.end().await;
}

/// Found by chaos, seed 129: one that was refused went out again, and the timer asked for another meanwhile.
#[tokio::test(start_paused = true)]
async fn a_re_send_under_way_is_not_asked_for_once_more() {
    let a = config("a").vms(2);
    let world = world_with_a_down_port(&a).await;
    world.viola.refuses("node-a-1", "no such node");
    world.until("it is refused", |world| world.skip_of("a", "a-1").is_some()).await;
    world.viola.takes_all();
    world.viola.of("a").takes(30 * SECOND);
    world.pass(1200 * SECOND).await;
    let posts = world.viola.posts_of("a");
    let sent: Vec<_> = posts.iter().filter(|post| post.names().contains(&"node-a-1")).collect();
    let gaps: Vec<_> = sent[2..].windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs()).collect();
    assert!(gaps.len() > 5 && gaps.iter().all(|gap| *gap >= 50), "{gaps:?} {}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_re_send_rests_for_a_slow_interval() {
    let a = config("a").vms(2);
    let world = world_with_a_down_port(&a).await;
    world.viola.refuses("node-a-1", "no such node");
    world.pass(1200 * SECOND).await;
    let refused = times(&world, "node-a-1").len() - 1;
    assert!((5..=11).contains(&refused), "{}", world.describe());
    assert_eq!(world.skip_of("a", "a-1").as_deref(), Some("NodeRejected"));
    world.viola.takes_all();
    world.pass(300 * SECOND).await;
    assert_eq!(world.skip_of("a", "a-1"), None, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_resync_rests_for_a_slow_interval_and_is_tried_again() {
    let a = config("a").vms(1).polling(|polling| polling.resync = Some(3600 * SECOND));
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.viola.refuses("node-a-1", "no such node");
    world.pass(4300 * SECOND).await;
    assert_eq!(times(&world, "node-a-1"), [0, 3600, 3720, 3840, 3960, 4080, 4200]);
    world.viola.takes_all();
    world.pass(300 * SECOND).await;
    assert_eq!(world.skip_of("a", "a-1"), None, "{}", world.describe());
    world.end().await;
}
