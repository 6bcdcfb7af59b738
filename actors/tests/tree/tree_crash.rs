//! The root dies and is started anew while the process goes on.

use std::time::Duration;

use multinic_actors::testing::{Harness, config, nic};

const SECOND: Duration = Duration::from_secs(1);

fn mtu(world: &Harness, node: &str) -> u16 {
    world.viola.node(node).map_or(0, |node| node.interfaces[0].mtu)
}

#[tokio::test(start_paused = true)]
async fn after_a_root_crash_everything_goes_on_and_nothing_is_sent_again() {
    let a = config("a").vms(3);
    let mut world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    world.lose_root().await;
    world.declare(&a);
    world.synced();
    world.cloud.vm("a-2").gets(nic(1));
    world.until_delivered(&a).await;
    assert_eq!((world.viola.times_sent("node-a-1"), world.viola.times_sent("node-a-2")), (1, 2));
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_post_under_way_when_the_root_died_is_in_doubt() {
    let a = config("a").vms(1);
    let mut world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.pass(SECOND).await;
    world.viola.of("a").next_is_taken_and_hangs();
    world.cloud.mtu_is(1300);
    world.until("viola has what nobody will ever hear of", |world| mtu(world, "node-a-1") == 1300).await;
    // Back to what the inventory says was delivered.
    world.cloud.mtu_is(1450);
    world.lose_root().await;
    world.declare(&a);
    world.synced();
    world.until("it is put right", |world| mtu(world, "node-a-1") == 1450).await;
    world.until_delivered(&a).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_root_crash_nobody_takes_a_node_whose_post_was_under_way() {
    let old = config("old").vm("o-1").created("2026-01-08T00:00:00Z".parse().unwrap());
    let young = config("young").vm("y-1").created("2026-01-09T00:00:00Z".parse().unwrap());
    let mut world = Harness::new();
    world.cloud.has(&old, 1).has(&young, 1);
    world.cloud.vm("o-1").is_named("node");
    world.cloud.vm("y-1").is_named("node");
    world.viola.of("old").next_is_taken_and_hangs();
    world.start().await;
    world.synced();
    world.declare(&old);
    world.until("its POST is under way", |world| world.viola.node("node").is_some()).await;
    assert!(world.snapshot().records.is_empty(), "the inventory does not know of it");
    world.lose_root().await;
    world.declare(&young);
    world.pass(60 * SECOND).await;
    assert_eq!(world.viola.posts_of("young").len(), 0, "{}", world.describe());
    assert_eq!(world.skip_of("young", "y-1").as_deref(), Some("NodeConflict"));
    world.declare(&old);
    world.synced();
    world.until_delivered(&old).await;
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts_of("young").len(), 0, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_a_dead_root_left_holds_no_node_for_ever() {
    use multinic_actors::domain::config::{Declared, InvalidConfig};
    use multinic_actors::domain::reason::Reason;
    let young = config("young").vm("y-1").created("2026-01-09T00:00:00Z".parse().unwrap());
    let old = config("old").vm("o-1").created("2026-01-08T00:00:00Z".parse().unwrap());
    let mut world = Harness::new();
    world.cloud.has(&young, 1).has(&old, 1);
    world.cloud.vm("y-1").is_named("node");
    world.cloud.vm("o-1").is_named("node");
    world.viola.of("young").next_hangs();
    world.start().await;
    world.synced();
    world.declare(&young);
    world.until("a POST is under way", |world| world.viola.posts().len() == 1).await;
    world.lose_root().await;
    // It cannot be used any more: no actor of it will ever end the POST.
    world.declare_as(Declared::Invalid(InvalidConfig {
        id: young.id(),
        generation: 2,
        reason: Reason::ConfigError,
        message: "spec.settings.contrabassEndpoint: is required".to_owned(),
    }));
    world.declare(&old);
    world.synced();
    world.until_delivered(&old).await;
    world.end().await;
}
