//! Failures that do not go away: they cost what they must, say so, and end when their cause does.

use std::time::Duration;

use multinic_actors::domain::reason::Reason;
use multinic_actors::domain::restart::ExitCause;
use multinic_actors::testing::{Harness, config, nic};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_port_actor_that_always_fails_costs_its_vm_and_nothing_else() {
    let a = config("a").vms(3);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.faults.always_panic("port", "a-2");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("the others are delivered", |world| world.snapshot().records.len() == 2).await;
    world.pass(3600 * SECOND).await;
    world.cloud.vm("a-1").gets(nic(7));
    world.until("changes arrive", |world| world.viola.times_sent("node-a-1") == 2).await;
    assert_eq!(world.skip_of("a", "a-2").as_deref(), Some("NotDecided"));
    assert_eq!((world.shown("a").ready, world.restarts_of("config")), (Some(true), 0));
    world.faults.heal();
    world.until_delivered(&a).await;
    world.until("nobody is left out", |world| world.shown("a").skipped.is_empty()).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_port_actor_that_never_starts_costs_its_vm_and_nothing_else() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.faults.refuse_starts_of("port", "a-2");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("the other is delivered", |world| world.record("node-a-1").is_some()).await;
    world.pass(1200 * SECOND).await;
    assert_eq!(world.skip_of("a", "a-2").as_deref(), Some("NotDecided"));
    world.faults.heal();
    world.until_delivered(&a).await;
    world.end().await;
}

/// An actor that a config needs fails for good: the config is given up for now, and only that one.
async fn expect_internal_error_and_recovery(kind: &'static str) {
    let (a, b) = (config("a").vms(2), config("b").vms(1));
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.faults.always_panic(kind, kind);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_reason("a", Reason::InternalError).await;
    assert_eq!(world.shown("a").ready, Some(false));
    assert!(world.shown("a").message.contains("ordered by the test"), "{}", world.shown("a").message);
    assert!(world.restarts_by("config", ExitCause::Error) >= 1);
    assert_eq!(world.tree().child("config", "default/a").unwrap().phase, "gave-up");
    let restarts = world.restarts_of(kind);
    world.pass(7200 * SECOND).await;
    let more = world.restarts_of(kind) - restarts;
    assert!(more <= 200, "{more} restarts in two hours");
    assert_eq!(world.status.reasons("a"), [Reason::Pending, Reason::InternalError], "it does not flap");
    world.faults.heal();
    world.cloud.has(&b, 1);
    world.declare(&b);
    world.until_delivered(&b).await;
    world.until_delivered(&a).await;
    world.until("a is in order", |world| world.shown("a").ready == Some(true)).await;
    assert_eq!(world.viola.times_sent("node-a-1"), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_viola_actor_that_always_fails_ends_in_internal_error_and_recovers() {
    expect_internal_error_and_recovery("viola").await;
}

#[tokio::test(start_paused = true)]
async fn a_token_actor_that_always_fails_ends_in_internal_error_and_recovers() {
    expect_internal_error_and_recovery("token").await;
}

#[tokio::test(start_paused = true)]
async fn a_config_that_always_fails_is_given_up_and_disturbs_no_other() {
    let (a, b) = (config("a").vms(2), config("b").vms(2));
    let mut world = Harness::new();
    world.cloud.has(&a, 1).has(&b, 1);
    world.faults.always_panic("config", "default/a");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.declare(&b);
    world.until_delivered(&b).await;
    world.until_reason("a", Reason::InternalError).await;
    world.pass(3600 * SECOND).await;
    world.cloud.vm("b-1").gets(nic(7));
    world.until_delivered(&b).await;
    assert_eq!(world.viola.posts_of("a").len(), 0);
    // A removed object is not tried again.
    world.remove(a.id());
    world.until("it is out of the tree", |world| world.tree().child("config", "default/a").is_none()).await;
    world.declare(&a);
    world.faults.heal();
    world.until_delivered(&a).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_config_that_was_given_up_starts_again_with_the_newest_spec() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.has(&a.clone().vms(2), 1);
    world.faults.always_panic("config", "default/a");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_reason("a", Reason::InternalError).await;
    let a = a.vm("a-2").generation(2);
    world.declare(&a);
    world.faults.heal();
    world.until_delivered(&a).await;
    assert_eq!(world.shown("a").observed_generation, 2);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_config_that_was_given_up_starts_at_once_when_its_spec_changes_and_not_before() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.faults.always_panic("config", "default/a");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_reason("a", Reason::InternalError).await;
    // It rests for a minute at least, and for longer each time.
    world.pass(200 * SECOND).await;
    world.until_reason("a", Reason::InternalError).await;
    world.faults.heal();
    let restarts = world.restarts_of("config");
    world.declare(&a);
    world.pass(5 * SECOND).await;
    assert_eq!(world.restarts_of("config"), restarts, "the same spec again is no cure");
    let told = world.clock.elapsed();
    let changed = a.fast_retries(3);
    world.declare(&changed);
    world.until_delivered(&changed).await;
    assert!(world.clock.elapsed() - told < SECOND, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_inventory_that_fails_for_long_loses_nothing() {
    let a = config("a").vms(3);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.pass(SECOND).await;
    world.viola.of("a").takes(3 * SECOND);
    world.cloud.mtu_is(1400);
    world.until("it is sent", |world| world.viola.posts().len() == 2).await;
    world.faults.always_panic("inventory", "inventory");
    world.cloud.vm("a-1").gets(nic(7));
    world.pass(1200 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 2, "an index that is not stored is not used");
    assert_eq!(world.snapshot().records.len(), 3, "readers are served all the while");
    world.faults.heal();
    world.until_delivered(&a).await;
    let stored =
        |world: &Harness| world.store.content().records.values().all(|r| r.config.interfaces[0].mtu == 1400);
    world.until("all of it is stored", stored).await;
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_inventory_that_dies_in_mid_write_loses_nothing() {
    let a = config("a").vms(3);
    let mut world = Harness::new();
    world.cloud.has(&a, 2);
    world.store.saves_take(4 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("viola has it", |world| world.viola.node_count() == 3).await;
    for _ in 0..3 {
        world.pass(3 * SECOND).await;
        world.actors("inventory").iter().for_each(|inventory| inventory.actor.kill());
    }
    world.until_delivered(&a).await;
    world.until("it is stored", |world| world.store.content().records.len() == 3).await;
    assert_eq!(world.viola.posts().len(), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn all_actors_killed_at_once_are_back_at_once() {
    let a = config("a").vms(3);
    let world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    world.pass(SECOND).await;
    for kind in ["port", "viola", "token", "config", "inventory"] {
        world.actors(kind).iter().for_each(|actor| actor.actor.kill());
    }
    world.cloud.vm("a-3").gets(nic(7));
    world.until_delivered(&a).await;
    assert!(world.clock.elapsed() < 5 * SECOND);
    assert_eq!((world.viola.times_sent("node-a-1"), world.viola.times_sent("node-a-3")), (1, 2));
    world.end().await;
}
