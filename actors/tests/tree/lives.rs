//! Objects and VMs that come, go, come back, are renamed or rebuilt.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use multinic_actors::domain::config::{Declared, InvalidConfig};
use multinic_actors::domain::inventory::{Record, Snapshot};
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::{Ending, Harness, START, config, nic};

use super::log_lines::Lines;

const SECOND: Duration = Duration::from_secs(1);

/// A time so long after the world began.
fn later(seconds: i64) -> jiff::Timestamp {
    START + SignedDuration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn records_of_the_previous_operator_count_as_delivered() {
    let a = config("a").vms(2);
    let mut world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    world.halt(Ending::Stop).await;
    // Its file has no owner, no allocations, and ids of ports in the records only.
    let records = world.store.content().records;
    let foreign = records
        .into_iter()
        .map(|(key, record)| (key, Arc::new(Record { owner: None, ..Record::clone(&record) })));
    world.store.holds(Snapshot { records: foreign.collect(), ..Snapshot::default() });
    world.cloud.vm("a-2").gets(nic(1));
    world.start().await;
    // An object younger than its ports: what was delivered is not dropped by the baseline.
    let a = a.recreated("uid-2", later(3600));
    world.declare(&a);
    world.synced();
    world.until("it is in order", |world| world.shown("a").nodes.delivered == 2).await;
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 1, "{}", world.describe());
    let owner = world.record("node-a-1").unwrap().owner.clone().unwrap();
    assert_eq!(owner.id, a.id(), "it has an owner now");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_re_created_object_takes_no_nic_away_and_sends_nothing() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    world.pass(100 * SECOND).await;
    world.remove(a.id());
    let again = a.recreated("uid-2", later(100));
    world.declare(&again);
    world.until("the new life runs", |world| world.shown("a").id == again.id()).await;
    world.until("it is in order", |world| world.shown("a").nodes.delivered == 2).await;
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 1, "{}", world.describe());
    world.cloud.vm("a-1").gets(nic(7).created(&later(700).to_string()));
    world.until_delivered(&again).await;
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_re_created_object_waits_for_its_predecessors_end() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").takes(4 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("a POST is under way", |world| world.viola.posts().len() == 1).await;
    // Without the Remove: its event was missed.
    world.declare(&a.clone().recreated("uid-2", START));
    world.pass(2 * SECOND).await;
    assert_eq!(world.cloud.looks().len(), 1, "the predecessor still waits for its answer");
    world.until("the new life looks", |world| world.cloud.looks().len() == 2).await;
    assert!(world.clock.elapsed() >= 4 * SECOND);
    world.until("it is in order", |world| world.shown("a").ready == Some(true)).await;
    assert_eq!(world.viola.posts().len(), 1, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_used_any_more_keeps_what_was_delivered() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.declare_as(Declared::Invalid(InvalidConfig {
        id: a.id(),
        generation: 2,
        reason: Reason::ConfigError,
        message: "spec.settings.contrabassEndpoint: is required".to_owned(),
    }));
    world.until_reason("a", Reason::ConfigError).await;
    world.pass(600 * SECOND).await;
    assert_eq!((world.shown("a").reason, world.shown("a").observed_generation), (Reason::ConfigError, 2));
    assert_eq!((world.viola.node_count(), world.snapshot().records.len()), (2, 2));
    assert!(world.actors("config").is_empty());
    world.declare(&a.clone().generation(3));
    world.until_reason("a", Reason::NoChange).await;
    assert_eq!(world.viola.posts().len(), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_object_leaves_no_actor_and_no_status_but_its_records() {
    let (a, b) = (config("a").vms(2), config("b").vms(1));
    let world = Harness::with(&a, 1).await;
    world.cloud.has(&b, 1);
    world.declare(&b);
    world.until_delivered(&a).await;
    world.until_delivered(&b).await;
    world.remove(a.id());
    world.until("its actors are gone", |world| world.actors("config").len() == 1).await;
    world.pass(600 * SECOND).await;
    assert!(world.status.of("a").is_none());
    assert_eq!(world.snapshot().records.len(), 3);
    assert_eq!(world.actors("port").len(), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_taken_out_stays_recorded_unless_its_object_prunes() {
    for prunes in [false, true] {
        let a = config("a").vms(3);
        let a = if prunes { a.prunes() } else { a };
        let world = Harness::with(&a, 1).await;
        world.until_delivered(&a).await;
        world.declare(&a.clone().without("a-2"));
        world.pass(600 * SECOND).await;
        assert_eq!(world.record("node-a-2").is_none(), prunes);
        assert_eq!(world.shown("a").nodes.desired, 2);
        assert_eq!(world.shown("a").skipped, []);
        assert_eq!(world.viola.posts().len(), 1);
        assert!(world.viola.node("node-a-2").is_some(), "nothing is sent to take it away");
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_used_is_told_once() {
    let a = config("a").vms(1);
    let lines = Lines::of_all();
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    let declared = |message: &str| {
        Declared::Invalid(InvalidConfig {
            id: a.id(),
            generation: 2,
            reason: Reason::ConfigError,
            message: message.to_owned(),
        })
    };
    world.declare_as(declared("spec.vmNames: told once"));
    world.until_reason("a", Reason::ConfigError).await;
    world.pass(60 * SECOND).await;
    let publications = world.status.publications();
    world.declare_as(declared("spec.vmNames: told once"));
    world.pass(60 * SECOND).await;
    assert_eq!(lines.with("spec.vmNames: told once"), 1);
    assert_eq!(world.status.publications(), publications, "the same again is no news");
    world.declare_as(declared("spec.subnetIDs: told once"));
    world.pass(60 * SECOND).await;
    assert_eq!(lines.with("spec.subnetIDs: told once"), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_was_renamed_moves_its_record() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.cloud.vm("a-1").is_named("worker-1");
    world.until("it is sent under its new name", |world| world.viola.node("worker-1").is_some()).await;
    world.until("its record moved", |world| world.record("node-a-1").is_none()).await;
    assert!(world.record("worker-1").is_some());
    assert_eq!(world.snapshot().records.len(), 2);
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 2);
    assert_eq!(world.viola.posts()[1].names(), ["worker-1"]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn two_vms_that_swapped_their_names_are_both_sent_again() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.cloud.vm("a-1").is_named("node-a-2");
    world.cloud.vm("a-2").is_named("node-a-1");
    let is_swapped = |world: &Harness| {
        let vm = |node| world.record(node).map(|record| record.instance_id.to_string());
        vm("node-a-1").as_deref() == Some("a-2") && vm("node-a-2").as_deref() == Some("a-1")
    };
    world.until("the records are swapped", is_swapped).await;
    world.until_delivered(&a).await;
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 2, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_rebuilt_vm_replaces_its_predecessor_once_that_is_taken_out() {
    let a = config("a").vm("old-1");
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.cloud.vm("new-1").is_named("node-old-1").gets(nic(7));
    world.declare(&a.clone().vm("new-1"));
    world.until("the new one waits", |world| world.skip_of("a", "new-1").is_some()).await;
    assert_eq!(world.skip_of("a", "new-1").as_deref(), Some("NodeConflict"));
    let rebuilt = a.without("old-1").vm("new-1");
    world.declare(&rebuilt);
    world.until_delivered(&rebuilt).await;
    assert_eq!(world.viola.posts().len(), 2);
    assert_eq!(world.snapshot().records.len(), 1);
    assert_eq!(world.record("node-old-1").unwrap().instance_id.as_str(), "new-1");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_lost_its_last_nic_is_stale_at_the_second_look_and_keeps_its_config() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    let looks = world.cloud.looks().len();
    world.cloud.vm("a-1").loses_all();
    world.until("one look saw it", |world| world.cloud.looks().len() == looks + 1).await;
    world.pass(SECOND).await;
    assert_eq!(world.skip_of("a", "a-1"), None, "a mass disappearance is not believed at once");
    world.until("the second look", |world| world.cloud.looks().len() == looks + 2).await;
    world.pass(SECOND).await;
    assert_eq!(world.skip_of("a", "a-1").as_deref(), Some("StaleNode"));
    assert_eq!((world.shown("a").ready, world.viola.posts().len()), (Some(true), 1));
    assert!(world.viola.node("node-a-1").is_some());
    world.cloud.vm("a-1").gets(nic(100));
    world.until("it is calm again", |world| world.skip_of("a", "a-1").is_none()).await;
    assert_eq!(world.viola.posts().len(), 1, "what came back is what was delivered");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_has_no_port_yet_is_neither_skipped_nor_degraded() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 0);
    world.cloud.vm("a-1").gets(nic(1));
    world.start().await;
    world.synced();
    world.declare(&a);
    world.pass(600 * SECOND).await;
    let status = world.shown("a");
    assert_eq!((status.ready, status.nodes.desired, status.nodes.delivered), (Some(true), 1, 1));
    assert_eq!(status.skipped, []);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_nova_does_not_know_is_skipped_and_keeps_its_config() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.cloud.vm("a-1").server_is(multinic_actors::domain::port::Server::NotFound);
    world.until("it is skipped", |world| world.skip_of("a", "a-1").is_some()).await;
    assert_eq!(world.skip_of("a", "a-1").as_deref(), Some("ServerNotFound"));
    assert_eq!((world.viola.posts().len(), world.snapshot().records.len()), (1, 2));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_port_that_cannot_be_read_skips_its_vm_alone() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.cloud.vm("a-1").has_unreadable_port();
    world.cloud.vm("a-2").gets(nic(7));
    world.until("it is skipped", |world| world.skip_of("a", "a-1").is_some()).await;
    assert_eq!(world.skip_of("a", "a-1").as_deref(), Some("InvalidPort"));
    world.until("the other is served", |world| world.viola.times_sent("node-a-2") == 2).await;
    assert_eq!(world.viola.times_sent("node-a-1"), 1);
    world.cloud.vm("a-1").is_readable();
    world.until_delivered(&a).await;
    world.until("nobody is left out", |world| world.shown("a").skipped.is_empty()).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_moved_to_another_object_goes_over_without_a_post_or_a_rename() {
    let (a, b) = (config("a").vms(2), config("b").vms(1));
    let world = Harness::with(&a, 2).await;
    world.cloud.has(&b, 1);
    world.declare(&b);
    world.until_delivered(&a).await;
    world.until_delivered(&b).await;
    let posts = world.viola.posts().len();
    let (a, b) = (a.without("a-2"), b.vm("a-2"));
    world.declare(&a);
    world.declare(&b);
    let owner = |world: &Harness| world.record("node-a-2").unwrap().owner.clone().unwrap().id;
    world.until("b has it", |world| owner(world) == b.id()).await;
    world.until("b is in order", |world| world.shown("b").nodes.delivered == 2).await;
    assert_eq!(world.viola.posts().len(), posts, "{}", world.describe());
    world.cloud.vm("a-2").gets(nic(1));
    world.until_delivered(&b).await;
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_disturbs_nothing() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    for hours in [48, -96, 1000] {
        world.clock.jump(SignedDuration::from_hours(hours));
        let looks = world.cloud.looks().len();
        world.pass(1200 * SECOND).await;
        let polled = world.cloud.looks().len() - looks;
        assert!((9..=20).contains(&polled), "{polled} polls after a jump of {hours} h");
    }
    assert_eq!((world.viola.posts().len(), world.cloud.logins().len()), (1, 1));
    world.cloud.vm("a-1").gets(nic(7));
    world.until_delivered(&a).await;
    world.end().await;
}
