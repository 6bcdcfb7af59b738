//! Objects that are shared out over several operators: one that changes hands is let go, never pruned.

use std::time::Duration;

use multinic_actors::testing::{Ending, Harness, config};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_hands_is_left_alone_and_keeps_its_records() {
    let a = config("a").vms(2).prunes();
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    let id = a.clone().build().id.clone();
    world.let_go(id.clone());
    world.until("nobody works on it", |world| world.tree().child("config", "n/a").is_none()).await;
    let posts = world.viola.posts().len();
    world.cloud.has(&a, 2);
    world.pass(HOUR).await;
    assert_eq!(world.viola.posts().len(), posts, "{}", world.describe());
    assert!(world.record("node-a-1").is_some() && world.record("node-a-2").is_some());
    // It comes back, and what was delivered is known.
    world.declare(&a);
    world.until_delivered(&a).await;
    world.let_go(id.clone());
    world.remove(id);
    world.pass(HOUR).await;
    assert!(world.record("node-a-1").is_some(), "who let go has nothing to prune");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_of_an_object_in_other_hands_is_not_free() {
    let first = config("a").vm("a-1");
    let second = config("b").vm("b-1").created("2026-03-01T00:00:00Z".parse().unwrap());
    let mut world = Harness::new();
    world.cloud.has(&first, 1).has(&second, 1);
    world.cloud.vm("b-1").is_named("node-a-1");
    world.start().await;
    world.synced();
    world.declare(&first);
    world.until_delivered(&first).await;
    let id = first.clone().build().id.clone();
    world.let_go(id);
    world.declare(&second);
    world.until("it is told", |world| world.skip_of("b", "b-1").as_deref() == Some("NodeConflict")).await;
    world.pass(HOUR).await;
    assert_eq!(world.viola.times_sent("node-a-1"), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_prunes_nothing_of_what_others_may_have_got_meanwhile() {
    for knows_all in [true, false] {
        let a = config("a").vms(1).prunes();
        let mut world = Harness::with(&a, 1).await;
        world.until_delivered(&a).await;
        world.knows_all = knows_all;
        world.restart(Ending::Stop).await;
        world.synced();
        world.pass(HOUR).await;
        assert_eq!(world.record("node-a-1").is_some(), !knows_all);
        world.end().await;
    }
}
