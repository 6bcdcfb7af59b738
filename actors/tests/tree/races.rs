//! Things that happen at the same moment: a spec that changes, an object that goes, while a round is under
//! way.

use std::time::Duration;

use multinic_actors::boundary::CloudError;
use multinic_actors::domain::config::ChangePolicy;
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::{Harness, Strike, config, nic};

const SECOND: Duration = Duration::from_secs(1);

fn neutron_down() -> CloudError {
    CloudError::new(Reason::NeutronPortError, "neutron: list ports: 503")
}

#[tokio::test(start_paused = true)]
async fn a_spec_change_during_a_login_does_not_end_the_polls() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.cloud.of("a").logins_take(5 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.pass(SECOND).await;
    let a = a.fast_retries(3);
    world.declare(&a);
    world.until_delivered(&a).await;
    world.pass(600 * SECOND).await;
    assert!(world.cloud.looks().len() > 5, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_spec_does_not_wait_for_a_look_that_hangs() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.cloud.of("a").next_look_hangs();
    world.start().await;
    world.synced();
    world.declare(&a);
    world.pass(SECOND).await;
    world.declare(&a.clone().generation(2));
    world.until_delivered(&a).await;
    assert!(world.clock.elapsed() < 2 * SECOND, "{}", world.describe());
    assert_eq!(world.shown("a").observed_generation, 2);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn pausing_during_a_round_sends_nothing_and_the_round_after_it_works() {
    for moment in [1, 3] {
        let a = config("a").vms(2);
        let mut world = Harness::new();
        world.cloud.has(&a, 1);
        world.cloud.of("a").logins_take(2 * SECOND);
        world.cloud.of("a").looks_take(2 * SECOND);
        world.start().await;
        world.synced();
        world.declare(&a);
        world.pass(moment * SECOND).await;
        world.declare(&a.clone().paused(true));
        world.pass(600 * SECOND).await;
        assert_eq!(world.viola.posts().len(), 0, "paused after {moment} s\n{}", world.describe());
        let looks = world.cloud.looks().len();
        assert!(looks <= 1);
        world.declare(&a);
        world.until_delivered(&a).await;
        world.pass(600 * SECOND).await;
        assert!(world.cloud.looks().len() > looks + 4, "{}", world.describe());
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_vm_taken_out_and_put_back_at_once_is_worked_on() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.declare(&a.clone().without("a-2"));
    world.declare(&a);
    world.cloud.vm("a-2").gets(nic(7));
    world.until_delivered(&a).await;
    world.until("nobody is left out", |world| world.shown("a").skipped.is_empty()).await;
    assert_eq!(world.viola.times_sent("node-a-1"), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_taken_out_while_it_is_decided_is_not_sent_and_shows_nowhere() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.faults.slow_at("port", "Observe", 2 * SECOND);
    world.cloud.vm("a-1").gets(nic(7));
    world.declare(&a.clone().generation(2));
    world.pass(SECOND).await;
    world.declare(&a.clone().without("a-1"));
    world.until("the round is over", |world| world.shown("a").vms.len() == 1).await;
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.times_sent("node-a-1"), 1, "{}", world.describe());
    assert_eq!(world.status.skips("a"), Vec::<String>::new(), "at no moment");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_re_created_object_starts_although_its_predecessor_was_being_restarted() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.strike("config", Strike::Kill);
    world
        .until("it is down", |world| world.tree().child("config", "default/a").unwrap().phase == "restarting")
        .await;
    let a = a.recreated("uid-2", multinic_actors::testing::START);
    world.declare(&a);
    world.cloud.vm("a-2").gets(nic(7));
    world.until_delivered(&a).await;
    assert_eq!(world.viola.times_sent("node-a-1"), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_removed_and_declared_again_before_it_has_ended_runs_on() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.remove(a.id());
    world.declare(&a);
    world.cloud.vm("a-2").gets(nic(7));
    world.until_delivered(&a).await;
    assert_eq!(world.viola.times_sent("node-a-1"), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn observe_holds_at_once_even_while_nothing_can_be_looked_at() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").fails(multinic_actors::boundary::PostFailure::Unavailable);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_reason("a", Reason::ViolaPostError).await;
    world.cloud.of("a").looks_fail(neutron_down());
    world.declare(&a.clone().policy(ChangePolicy::Observe));
    world.pass(SECOND).await;
    let posts = world.viola.posts().len();
    world.viola.of("a").heals();
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), posts, "{}", world.describe());
    world.cloud.of("a").heals();
    world.declare(&a);
    world.until_delivered(&a).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_report_of_a_viola_actor_that_died_does_not_outlive_it() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").fails(multinic_actors::boundary::PostFailure::Unavailable);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_reason("a", Reason::ViolaPostError).await;
    world.cloud.vm("a-1").loses_all();
    world.strike("viola", Strike::Kill);
    world.until("it is in order", |world| world.shown("a").ready == Some(true)).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_words_of_a_removed_object_bring_nothing_back() {
    let a = config("a").vms(1);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.faults.slow_at("config", "Apply", 2 * SECOND);
    world.declare(&a.clone().generation(2));
    world.pass(SECOND).await;
    world.remove(a.id());
    world.pass(10 * SECOND).await;
    assert!(world.status.of("a").is_none());
    assert_eq!(world.tree().children.len(), 1, "{}", world.describe());
    world.end().await;
}
