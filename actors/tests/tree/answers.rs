//! POSTs whose answer comes late, is lost, or finds another world: what was taken is recorded, what is in
//! doubt is sent once more.

use std::time::Duration;

use multinic_actors::boundary::PostFailure;
use multinic_actors::domain::port::Server;
use multinic_actors::testing::{Ending, Harness, Strike, config, nic};

const SECOND: Duration = Duration::from_secs(1);

fn mtu(world: &Harness, node: &str) -> u16 {
    world.viola.node(node).unwrap().interfaces[0].mtu
}

#[tokio::test(start_paused = true)]
async fn a_stop_records_the_answer_of_the_post_under_way() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").takes(3 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("a POST is under way", |world| world.viola.posts().len() == 1).await;
    world.restart(Ending::Stop).await;
    assert_eq!(world.store.content().records.len(), 2);
    world.declare(&a);
    world.synced();
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 1, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_ever_for_a_post_that_hangs() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").next_hangs();
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("a POST is under way", |world| world.viola.posts().len() == 1).await;
    let before = world.clock.elapsed();
    world.restart(Ending::Stop).await;
    assert!(world.clock.elapsed() - before <= 15 * SECOND);
    world.declare(&a);
    world.until_delivered(&a).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_has_the_newest_state_sent_once_more() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").next_answers_are_lost(1);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 2);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_client_is_a_post_of_unknown_outcome() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").next_panics();
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    assert_eq!((world.viola.posts().len(), world.restarts_of("viola")), (2, 0));
    world.end().await;
}
