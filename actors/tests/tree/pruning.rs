//! `removalPolicy: Prune`: what goes, when, and what it leaves behind.

use std::time::Duration;

use multinic_actors::domain::inventory::Snapshot;
use multinic_actors::testing::{Ending, Harness, config};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_pruning_object_takes_its_records_along_after_a_second_look() {
    let a = config("a").vms(2).prunes();
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.remove(a.id());
    world.pass(60 * SECOND).await;
    assert_eq!(world.snapshot().records.len(), 2, "it may come back");
    world.declare(&a);
    world.pass(600 * SECOND).await;
    assert_eq!(world.snapshot().records.len(), 2, "it came back");
    assert_eq!(world.viola.posts().len(), 1);
    world.remove(a.id());
    world.until("they are gone", |world| world.snapshot().records.is_empty()).await;
    world.until("for good", |world| world.store.content() == Snapshot::default()).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn records_of_a_pruning_object_that_went_while_nobody_looked_go_too() {
    let (a, b) = (config("a").vms(2).prunes(), config("b").vms(1));
    let mut world = Harness::with(&a, 1).await;
    world.cloud.has(&b, 1);
    world.declare(&b);
    world.until_delivered(&a).await;
    world.until_delivered(&b).await;
    world.restart(Ending::Stop).await;
    world.declare(&b);
    world.pass(600 * SECOND).await;
    assert_eq!(world.snapshot().records.len(), 3, "not before every object is known");
    world.synced();
    world.until("a's are gone", |world| world.snapshot().records.len() == 1).await;
    assert!(world.record("node-b-1").is_some());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pruned_vm_that_is_put_back_is_delivered_anew() {
    let a = config("a").vms(2).prunes();
    let mut world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    world.declare(&a.clone().without("a-2"));
    world.until("it is pruned", |world| world.record("node-a-2").is_none()).await;
    assert_eq!(world.kept("a").unwrap().allocations.len(), 1);
    world.until("on disk too", |world| world.store.content().records.len() == 1).await;
    // Its node is free for others meanwhile.
    let b = config("b").vm("b-1");
    world.cloud.has(&b, 1);
    world.cloud.vm("b-1").is_named("node-a-2");
    world.declare(&b);
    world.until_delivered(&b).await;
    world.remove(b.id());
    world.until("b is gone", |world| world.status.of("b").is_none()).await;
    world.declare(&a);
    world.until_delivered(&a).await;
    assert_eq!(world.viola.times_sent("node-a-1"), 1);
    assert_eq!(world.viola.node("node-a-2").unwrap().instance_id.as_str(), "a-2");
    let posts = world.viola.posts().len();
    assert_eq!(posts, 3, "{}", world.describe());
    world.pass(600 * SECOND).await;
    world.restart(Ending::Crash).await;
    world.declare(&a);
    world.synced();
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), posts, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_pruned_during_its_own_post_is_delivered_anew_when_it_is_put_back() {
    let a = config("a").vms(2).prunes();
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").takes(5 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.pass(3 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 1);
    // The answer comes in the middle of the round that prunes.
    world.faults.slow_at("port", "Observe", 4 * SECOND);
    world.declare(&a.clone().without("a-2"));
    world.until("both are delivered", |world| world.snapshot().records.len() == 2).await;
    world.until("it is pruned", |world| world.record("node-a-2").is_none()).await;
    assert!(world.clock.elapsed() < 9 * SECOND, "{}", world.describe());
    world.declare(&a);
    world.until_delivered(&a).await;
    assert_eq!((world.viola.times_sent("node-a-1"), world.viola.times_sent("node-a-2")), (1, 2));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_pruned_before_every_object_is_known() {
    let (a, b) = (config("a").vms(2).prunes(), config("b").vms(1));
    let mut world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.restart(Ending::Stop).await;
    // Its second VM may have moved to an object that is not told yet.
    world.declare(&a.clone().without("a-2"));
    world.declare(&b);
    world.pass(1200 * SECOND).await;
    assert!(world.record("node-a-2").is_some(), "{}", world.describe());
    let b = b.vm("a-2").prunes();
    world.declare(&b);
    world.synced();
    world.pass(1200 * SECOND).await;
    let owner = world.record("node-a-2").unwrap().owner.clone().unwrap();
    assert_eq!(owner.id, b.id(), "it went over");
    assert_eq!(world.viola.times_sent("node-a-2"), 1);
    world.declare(&b.without("a-2"));
    world.until("now it goes", |world| world.record("node-a-2").is_none()).await;
    world.end().await;
}
