//! The inventory's store: what waits for it, what does not, and what is left when it fails.

use std::time::Duration;

use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::{Ending, Harness, config, macs, nic};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn an_allocation_is_stored_before_the_first_post_that_uses_it() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 2);
    world.store.saves_take(3 * SECOND);
    world.start().await;
    world.synced();
    world.pass(SECOND).await;
    world.declare(&a);
    world.until("it is sent", |world| world.viola.posts().len() == 1).await;
    assert!(world.viola.posts()[0].at >= 4 * SECOND, "{}", world.describe());
    let kept = world.store.content();
    assert!(kept.records.is_empty());
    assert_eq!(kept.configs[&a.id().name].allocations.len(), 2);
    world.end().await;
}

/// Found by chaos, seed 149: the successor took what was only applied for stored.
#[tokio::test(start_paused = true)]
async fn a_viola_that_comes_back_waits_for_the_store_too() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.start().await;
    world.synced();
    world.pass(SECOND).await;
    world.store.saves_take(8 * SECOND);
    world.declare(&a);
    world
        .until("an index is given", |world| {
            let applied = world.inventory().applied();
            applied.configs.get(&a.id().name).is_some_and(|state| !state.allocations.is_empty())
        })
        .await;
    world.pass(SECOND).await;
    world.actors("viola")[0].actor.kill();
    world.until("it is sent", |world| !world.viola.posts().is_empty()).await;
    assert!(world.restarts_of("viola") > 0);
    assert_eq!(world.store.content().configs[&a.id().name].allocations.len(), 1, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn readers_see_a_delivery_when_it_is_persisted_and_not_before() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.store.saves_take(3 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("viola has it", |world| world.viola.node_count() == 2).await;
    let sent = world.clock.elapsed();
    world.pass(SECOND).await;
    assert_eq!((world.snapshot().records.len(), world.shown("a").nodes.delivered), (0, 0));
    world.until("readers see it", |world| world.snapshot().records.len() == 2).await;
    assert_eq!(world.store.content().records.len(), 2);
    assert!(world.clock.elapsed() >= sent + 3 * SECOND);
    world.until("the status says so", |world| world.shown("a").nodes.delivered == 2).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn while_writes_fail_memory_counts_as_stored_and_the_status_says_so() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.store.saves_fail("no space left on device");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    assert!(world.clock.elapsed() < 5 * SECOND);
    world.until("the status says so", |world| world.shown("a").message.contains("no space left")).await;
    assert_eq!(world.shown("a").ready, Some(true));
    assert!(world.inventory().health().problem.unwrap().contains("no space left"));
    assert_eq!((world.store.saves(), world.store.content().records.len()), (0, 0));
    world.store.heals();
    world.until("it is persisted", |world| world.store.content().records.len() == 2).await;
    assert_eq!(world.inventory().health().problem, None);
    world.until("the status is calm", |world| !world.shown("a").message.contains("memory")).await;
    assert_eq!(world.viola.posts().len(), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_holds_nothing_back_for_long() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.store.next_save_hangs();
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    assert!(world.clock.elapsed() < 15 * SECOND, "{}", world.describe());
    assert!(world.inventory().health().problem.is_some());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_write_takes_back_nothing_that_readers_saw() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.store.saves_take(20 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("readers see it from memory", |world| world.snapshot().records.len() == 2).await;
    assert_eq!(world.store.saves(), 0);
    world.until("the first write ends", |world| world.store.saves() == 1).await;
    world.pass(SECOND).await;
    assert_eq!(world.snapshot().records.len(), 2);
    world.until("it is persisted", |world| world.store.content().records.len() == 2).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_is_a_failed_write() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.store.next_save_panics();
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("it is persisted", |world| world.store.content().records.len() == 2).await;
    assert_eq!(world.restarts_of("inventory"), 0);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_read_is_waited_for_and_named() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.store.loads_fail("permission denied");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.pass(600 * SECOND).await;
    assert_eq!((world.cloud.looks().len(), world.viola.posts().len()), (0, 0));
    assert!((5..30).contains(&world.store.loads()), "{} reads: a back-off", world.store.loads());
    let health = world.inventory().health();
    assert!(!health.is_loaded && health.problem.unwrap().contains("permission denied"));
    let shown = world.tree().child("inventory", "inventory").unwrap().clone();
    assert_eq!(shown.phase, "loading");
    assert!(shown.last_error.unwrap().contains("permission denied"));
    world.store.heals();
    world.until_delivered(&a).await;
    assert_eq!(world.inventory().health().problem, None);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_tries_a_failing_store_once_more() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.store.saves_fail("no space left on device");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.pass(200 * SECOND).await;
    assert!(world.is_delivered(&a));
    world.store.heals();
    world.restart(Ending::Stop).await;
    assert_eq!(world.store.content().records.len(), 2);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_right_after_the_inventory_came_back_forgets_no_delivery() {
    let a = config("a").vms(2);
    let mut world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.pass(SECOND).await;
    // The inventory dies of the delivery; the viola actor has not told it again yet.
    world.viola.of("a").takes(3 * SECOND);
    world.cloud.mtu_is(1400);
    world.until("it is sent", |world| world.viola.posts().len() == 2).await;
    world.faults.panic_at("inventory", "Record");
    world.until("the inventory is away", |world| world.actors("inventory").is_empty()).await;
    world.until("the inventory is back", |world| world.actors("inventory").len() == 1).await;
    let kept =
        |world: &Harness| world.store.content().records.values().all(|r| r.config.interfaces[0].mtu == 1400);
    assert!(!kept(&world));
    world.halt(Ending::Stop).await;
    assert!(kept(&world));
    world.start().await;
    world.declare(&a);
    world.synced();
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 2, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_a_store_that_fails_ends_all_the_same() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.store.saves_fail("no space left on device");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn many_nodes_are_written_together_not_one_by_one() {
    let a = config("a").vms(450);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    let sizes: Vec<_> = world.viola.posts().iter().map(|post| post.nodes.len()).collect();
    assert_eq!(sizes, [100, 100, 100, 100, 50]);
    assert!(world.store.saves() <= 8, "{} writes", world.store.saves());
    world.pass(3600 * SECOND).await;
    assert!(world.store.saves() <= 8, "nothing changed, nothing is written");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_allocation_and_delivery_renames_nothing() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.vm("a-1").gets(nic(50)).gets(nic(60));
    world.viola.of("a").next_is_taken_and_hangs();
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("viola has it", |world| world.viola.node("node-a-1").is_some()).await;
    world.cloud.vm("a-1").gets(nic(1));
    world.restart(Ending::Crash).await;
    world.declare(&a);
    world.synced();
    world.until_delivered(&a).await;
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    assert_eq!(macs(&world.viola.node("node-a-1").unwrap()).len(), 3);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_disabled_inventory_remembers_over_every_crash_within_the_process() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.vm("a-1").gets(nic(50)).gets(nic(60));
    world.cloud.vm("a-2").gets(nic(70));
    world.store.keeps_nothing();
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    world.pass(SECOND).await;
    for kind in ["config", "inventory", "viola", "port"] {
        world.actors(kind).iter().for_each(|actor| actor.actor.kill());
        world.pass(300 * SECOND).await;
        assert_eq!(world.viola.posts().len(), 1, "after {kind}\n{}", world.describe());
        assert_eq!(world.snapshot().records.len(), 2);
    }
    world.lose_root().await;
    world.declare(&a);
    world.synced();
    world.pass(300 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 1, "{}", world.describe());
    world.cloud.vm("a-1").gets(nic(1));
    world.until_delivered(&a).await;
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    assert!(world.store.content().records.is_empty());
    world.restart(Ending::Stop).await;
    world.declare(&a);
    world.synced();
    world.until("a new process knows nothing", |world| world.viola.posts().len() == 3).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_known_without_a_store_that_works_but_everything_goes_on() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.store.saves_fail("read-only file system");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    world.restart(Ending::Crash).await;
    world.declare(&a);
    world.synced();
    // Nobody could write down what was delivered.
    world.until("it is sent again", |world| world.viola.posts().len() == 2).await;
    world.until_reason("a", Reason::Synced).await;
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_store_that_refuses_holds_nothing_back_and_is_tried_until_it_takes_all() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.store.saves_in_part("state ConfigMaps: the API server cannot be reached");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    assert!(world.clock.elapsed() < 5 * SECOND);
    assert_eq!(world.store.content(), *world.inventory().applied(), "the first store has all of it");
    world.until("the status says so", |world| world.shown("a").message.contains("state ConfigMaps")).await;
    assert!(world.inventory().health().problem.unwrap().contains("state ConfigMaps"));
    let saves = world.store.saves();
    world.pass(300 * SECOND).await;
    let tries = world.store.saves() - saves;
    assert!((3..40).contains(&tries), "{tries} writes in five minutes");
    world.store.heals();
    world.until("all is well", |world| world.inventory().health().problem.is_none()).await;
    world.until("the status is, too", |world| !world.shown("a").message.contains("state ConfigMaps")).await;
    world.end().await;
}
