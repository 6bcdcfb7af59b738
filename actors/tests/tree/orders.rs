//! What people order: pause, look now, and how much may be changed.

use std::time::Duration;

use multinic_actors::boundary::Urgency;
use multinic_actors::domain::config::ChangePolicy;
use multinic_actors::domain::reason::Reason;
use multinic_actors::domain::status::Degraded;
use multinic_actors::testing::{Ending, Harness, config, names_by_mac, nic};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_paused_object_is_neither_looked_at_nor_sent_and_keeps_its_ready() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.until_reason("a", Reason::Synced).await;
    world.declare(&a.clone().paused(true));
    world.until("it is paused", |world| world.shown("a").paused).await;
    world.cloud.vm("a-1").gets(nic(7));
    let looks = world.cloud.looks().len();
    world.pass(3600 * SECOND).await;
    assert_eq!((world.cloud.looks().len(), world.viola.posts().len()), (looks, 1));
    assert_eq!((world.shown("a").reason, world.shown("a").next_poll_at), (Reason::Synced, None));
    world.declare(&a);
    world.until_delivered(&a).await;
    assert!(!world.shown("a").paused);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_paused_at_the_start_waits() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.start().await;
    world.synced();
    world.declare(&a.clone().paused(true));
    world.pass(3600 * SECOND).await;
    assert_eq!((world.cloud.logins().len(), world.cloud.looks().len()), (0, 0));
    world.declare(&a);
    world.until_delivered(&a).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_back_what_waits_for_viola() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").next_fail(1, multinic_actors::boundary::PostFailure::Unavailable);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_reason("a", Reason::ViolaPostError).await;
    world.declare(&a.clone().paused(true));
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 1);
    world.declare(&a);
    world.until_delivered(&a).await;
    assert_eq!(world.viola.posts().len(), 2);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn force_reconcile_looks_at_once_and_past_the_caches() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.pass(600 * SECOND).await;
    let looks = world.cloud.looks().len();
    let forced = a.clone().force_reconcile("2026-01-10");
    world.declare(&forced);
    world.pass(SECOND).await;
    let look = world.cloud.looks()[looks].clone();
    assert!(look.drop_caches && look.urgency == Urgency::Event);
    world.declare(&forced);
    world.pass(SECOND).await;
    assert_eq!(world.cloud.looks().len(), looks + 1, "the same value is no order");
    world.until("the next poll", |world| world.cloud.looks().len() == looks + 2).await;
    assert!(!world.cloud.looks()[looks + 1].drop_caches);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn force_reconcile_is_not_forgotten_when_the_spec_changes_meanwhile() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    world.cloud.of("a").looks_take(5 * SECOND);
    let forced = a.force_reconcile("now");
    world.declare(&forced);
    world.pass(SECOND).await;
    world.declare(&forced.generation(2));
    world.pass(10 * SECOND).await;
    assert!(world.cloud.looks().last().unwrap().drop_caches, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn force_reconcile_is_not_forgotten_when_viola_dies_meanwhile() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.cloud.of("a").looks_take(5 * SECOND);
    world.declare(&a.force_reconcile("now"));
    world.pass(SECOND).await;
    world.strike("viola", multinic_actors::testing::Strike::Kill);
    world.pass(10 * SECOND).await;
    assert!(world.cloud.looks().last().unwrap().drop_caches, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn observe_sends_nothing_and_shows_what_would_be() {
    let a = config("a").vms(2).policy(ChangePolicy::Observe);
    let world = Harness::with(&a, 1).await;
    world.pass(600 * SECOND).await;
    assert_eq!((world.viola.posts().len(), world.snapshot().records.len()), (0, 0));
    let status = world.shown("a");
    assert_eq!((status.ready, status.degraded), (Some(true), Degraded::PartiallySynced));
    assert_eq!(status.pending_changes.len(), 2);
    assert_eq!(world.skip_of("a", "a-1").as_deref(), Some("ChangeHeld"));
    world.declare(&a.policy(ChangePolicy::Auto));
    world.until("it is sent", |world| world.viola.node_count() == 2).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn observe_sends_nothing_to_what_was_delivered_in_a_day_of_churn() {
    let a = config("a").vms(3);
    let world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    let posts = world.viola.posts().len();
    let records = world.snapshot().records.clone();
    world.declare(&a.clone().policy(ChangePolicy::Observe));
    for hour in 0..24u16 {
        let vm = world.cloud.vm(&format!("a-{}", hour % 3 + 1));
        vm.gets(nic(1_000 + hour)).loses(999 + hour).port_is(1_000 + hour, "DOWN");
        world.pass(600 * SECOND).await;
        vm.port_is(1_000 + hour, "ACTIVE");
        if hour == 12 {
            world.strike("viola", multinic_actors::testing::Strike::Kill);
            world.strike("config", multinic_actors::testing::Strike::Panic);
        }
        if hour == 18 {
            vm.loses_all();
        }
        world.pass(3_000 * SECOND).await;
        assert!(hour == 0 || !world.shown("a").pending_changes.is_empty(), "{}", world.describe());
    }
    assert!(world.clock.elapsed() >= 86_400 * SECOND);
    assert_eq!(world.viola.posts().len(), posts, "{}", world.describe());
    assert_eq!(world.snapshot().records, records);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn add_only_adds_and_removes_nothing() {
    let a = config("a").vms(1).policy(ChangePolicy::AddOnly);
    let world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    world.cloud.vm("a-1").loses(100).gets(nic(7));
    world
        .until("the new one is added", |world| world.viola.node("node-a-1").unwrap().interfaces.len() == 3)
        .await;
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 2);
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    assert_eq!(world.skip_of("a", "a-1").as_deref(), Some("ChangeHeld"));
    assert!(world.shown("a").pending_changes[0].what.contains("remove"));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_waits_for_its_approval_over_a_restart() {
    let a = config("a").vms(2).policy(ChangePolicy::Approve);
    let mut world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    world.cloud.vm("a-1").loses(100);
    world.until("it waits", |world| world.skip_of("a", "a-1").as_deref() == Some("ChangeHeld")).await;
    assert_eq!(world.viola.posts().len(), 1);
    let change = world.shown("a").pending_changes[0].change_id.clone();
    world.restart(Ending::Crash).await;
    world.declare(&a);
    world.synced();
    world.until("it waits still", |world| world.shown("a").pending_changes.len() == 1).await;
    assert_eq!(world.shown("a").pending_changes[0].change_id, change, "under the same id");
    world.declare(&a.clone().approves("some-other"));
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 1);
    let a = a.approves(&change);
    world.declare(&a);
    world.until_delivered(&a).await;
    world.until("nothing waits", |world| world.shown("a").pending_changes.is_empty()).await;
    assert_eq!(world.viola.times_sent("node-a-2"), 1);
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_approved_change_is_not_done_to_what_was_not_shown() {
    let a = config("a").vms(1).policy(ChangePolicy::Approve);
    let world = Harness::with(&a, 3).await;
    world.until_delivered(&a).await;
    world.cloud.vm("a-1").loses(100);
    world.until("it waits", |world| !world.shown("a").pending_changes.is_empty()).await;
    let change = world.shown("a").pending_changes[0].change_id.clone();
    // Another one goes before the approval arrives.
    world.cloud.vm("a-1").loses(110);
    world.declare(&a.clone().approves(&change));
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.node("node-a-1").unwrap().interfaces.len(), 3);
    assert_ne!(world.shown("a").pending_changes[0].change_id, change);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_resync_sends_everything_again_and_changes_nothing() {
    let a = config("a").vms(3).polling(|polling| polling.resync = Some(1000 * SECOND));
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    let before = world.record("node-a-1").unwrap();
    world.pass(3500 * SECOND).await;
    let at: Vec<_> = world.viola.posts().iter().map(|post| post.at.as_secs()).collect();
    assert_eq!(at, [0, 1000, 2000, 3000]);
    assert!(world.viola.posts().iter().all(|post| post.nodes.len() == 3));
    assert_eq!(world.record("node-a-1").unwrap().updated_at, before.updated_at);
    assert_eq!(world.shown("a").reason, Reason::NoChange);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_delivered_port_that_passes_through_build_keeps_its_place() {
    let a = config("a").vms(1);
    let world = Harness::with(&a, 3).await;
    world.until_delivered(&a).await;
    world.cloud.vm("a-1").port_is(100, "BUILD");
    world.pass(60 * SECOND).await;
    world.cloud.vm("a-1").port_is(100, "ACTIVE");
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 1, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_port_of_a_status_that_is_not_allowed_goes_and_gets_its_index_back() {
    let a = config("a").vms(1);
    let world = Harness::with(&a, 3).await;
    world.until_delivered(&a).await;
    let names = names_by_mac(&world.viola.node("node-a-1").unwrap());
    world.cloud.vm("a-1").port_is(100, "ERROR");
    world.until("it went", |world| world.viola.node("node-a-1").unwrap().interfaces.len() == 2).await;
    world.cloud.vm("a-1").port_is(100, "ACTIVE");
    world.until_delivered(&a).await;
    assert_eq!(names_by_mac(&world.viola.node("node-a-1").unwrap()), names);
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    world.end().await;
}
