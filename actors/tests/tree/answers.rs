//! POSTs whose answer comes late, is lost, or finds another world: what was taken is recorded, what is in
//! doubt is sent once more.

use std::time::Duration;

use multinic_actors::boundary::PostFailure;
use multinic_actors::domain::port::Server;
use multinic_actors::domain::reason::Reason;
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
async fn a_change_that_is_taken_back_after_a_lost_answer_is_sent_all_the_same() {
    let a = config("a").vms(1);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.viola.of("a").next_answers_are_lost(1);
    world.cloud.mtu_is(1400);
    world.until("the change is there, its answer is lost", |world| mtu(world, "node-a-1") == 1400).await;
    // In the round after it nothing is wanted of the node; in the next, what it had before.
    world.viola.of("a").takes(SECOND);
    world.cloud.vm("a-1").server_is(Server::Unknown("nova: 503".to_owned()));
    world.declare(&a.clone().generation(2));
    world.pass(SECOND / 2).await;
    world.cloud.mtu_is(1450);
    world.cloud.vm("a-1").is_named("node-a-1");
    world.until("the node has its first state again", |world| mtu(world, "node-a-1") == 1450).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_post_under_way_when_viola_died_is_in_doubt() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.viola.of("a").next_is_taken_and_hangs();
    world.cloud.mtu_is(1400);
    world.until("the change is there, without an answer", |world| mtu(world, "node-a-1") == 1400).await;
    world.cloud.mtu_is(1450);
    world.strike("viola", Strike::Kill);
    world.until("the nodes have their first state again", |world| mtu(world, "node-a-1") == 1450).await;
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 3, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_post_under_way_when_the_process_died_is_in_doubt_in_the_next_one() {
    for ending in [Ending::Crash, Ending::Stop] {
        let a = config("a").vms(2);
        let mut world = Harness::with(&a, 1).await;
        world.until_delivered(&a).await;
        world.viola.of("a").next_is_taken_and_hangs();
        world.cloud.mtu_is(1400);
        world.until("the change is there, without an answer", |world| mtu(world, "node-a-1") == 1400).await;
        world.cloud.mtu_is(1450);
        world.restart(ending).await;
        world.declare(&a);
        world.synced();
        world.until("the nodes have their first state again", |world| mtu(world, "node-a-1") == 1450).await;
        world.pass(600 * SECOND).await;
        world.restart(ending).await;
        world.declare(&a);
        world.synced();
        world.pass(600 * SECOND).await;
        assert_eq!(world.viola.posts().len(), 3, "no doubt is left: {}", world.describe());
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_leaves_before_it_is_kept_that_it_may() {
    let a = config("a").vms(1);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.store.saves_take(8 * SECOND);
    world.cloud.mtu_is(1400);
    world.declare(&a.clone().generation(2));
    world.pass(5 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 1, "the store is not done");
    world.until("the change is sent", |world| mtu(world, "node-a-1") == 1400).await;
    assert!(world.record("node-a-1").unwrap().in_doubt);
    world.until("its answer is kept", |world| !world.record("node-a-1").unwrap().in_doubt).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_is_not_persisted_yet_is_known_to_a_restarted_viola() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.start().await;
    world.synced();
    world.pass(SECOND).await;
    world.store.saves_take(8 * SECOND);
    world.declare(&a);
    world.until("it is sent", |world| world.viola.node_count() == 2).await;
    world.strike("viola", Strike::Kill);
    world.until_delivered(&a).await;
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 1, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_slow_interval_does_not_lose_the_answer_of_the_post_under_way() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").takes(3 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("a POST is under way", |world| world.viola.posts().len() == 1).await;
    world.declare(&a.clone().polling(|polling| polling.slow = 60 * SECOND));
    world.until_delivered(&a).await;
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 1, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_delivery_target_gets_all_and_the_old_one_keeps_the_answer_of_its_post() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").takes(3 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("a POST is under way", |world| world.viola.posts().len() == 1).await;
    let moved = a.provider("other");
    world.declare(&moved);
    world.until_delivered(&moved).await;
    let targets: Vec<_> = world.viola.posts().iter().map(|post| post.provider.clone()).collect();
    assert_eq!(targets, ["biz", "other"]);
    assert_eq!(world.snapshot().records.len(), 2 + 2, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_answer_for_a_vm_that_was_taken_out_meanwhile_is_recorded() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").takes(3 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("a POST is under way", |world| world.viola.posts().len() == 1).await;
    world.declare(&a.clone().without("a-2"));
    world.until("both are recorded", |world| world.snapshot().records.len() == 2).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_takes_a_node_over_while_a_post_for_it_is_under_way() {
    let (a, b) = (config("a").vm("s-1"), config("b").vm("s-1"));
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").takes(5 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("a POST is under way", |world| world.viola.posts().len() == 1).await;
    world.declare(&a.clone().without("s-1").vm("a-1"));
    world.declare(&b);
    world.pass(2 * SECOND).await;
    assert_eq!(world.viola.posts_of("b").len(), 0, "{}", world.describe());
    world
        .until("b has the node", |world| {
            world
                .record("node-s-1")
                .is_some_and(|record| &*record.owner.as_ref().unwrap().id.name.name == "b")
        })
        .await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_viola_actor_that_died_posting_holds_no_node_for_ever() {
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
    world.cloud.vm("y-1").loses_all();
    world.strike("viola", Strike::Kill);
    world.pass(60 * SECOND).await;
    world.declare(&old);
    world.until_delivered(&old).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_config_that_gave_up_while_posting_holds_no_node_and_sends_once_more() {
    let young = config("young").vm("y-1").vm("y-2").created("2026-01-09T00:00:00Z".parse().unwrap());
    let old = config("old").vm("o-1").created("2026-01-08T00:00:00Z".parse().unwrap());
    let mut world = Harness::new();
    world.cloud.has(&young, 1).has(&old, 1);
    world.cloud.vm("y-1").is_named("node");
    world.cloud.vm("o-1").is_named("node");
    world.start().await;
    world.synced();
    world.declare(&young);
    world.until_delivered(&young).await;
    world.pass(SECOND).await;
    world.viola.of("young").next_is_taken_and_hangs();
    world.cloud.mtu_is(1300);
    world.until("nobody will hear of it", |world| mtu(world, "node-y-2") == 1300).await;
    world.cloud.mtu_is(1450);
    world.faults.refuse_starts_of("config", "default/young");
    world.actors("config").iter().for_each(|actor| actor.actor.kill());
    world.until_reason("young", Reason::InternalError).await;
    world.declare(&old);
    world.until_delivered(&old).await;
    world.faults.heal();
    world.until("it is put right", |world| mtu(world, "node-y-2") == 1450).await;
    assert_eq!(world.viola.node("node").unwrap().instance_id.as_str(), "o-1");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_sent_again_does_not_overwrite_a_newer_one() {
    let a = config("a").vms(1);
    let mut world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.pass(SECOND).await;
    // The inventory dies of the first delivery; the second arrives before the first is sent again.
    world.faults.panic_at("inventory", "Record");
    world.cloud.mtu_is(1400);
    world.declare(&a.clone().generation(2));
    world.until("the first is sent", |world| mtu(world, "node-a-1") == 1400).await;
    world.until("the inventory is back", |world| world.actors("inventory").len() == 1).await;
    world.cloud.mtu_is(1300);
    world.declare(&a.clone().generation(3));
    world.until("the second is sent", |world| mtu(world, "node-a-1") == 1300).await;
    world.pass(10 * SECOND).await;
    assert_eq!(world.record("node-a-1").unwrap().config.interfaces[0].mtu, 1300);
    let posts = world.viola.posts().len();
    world.restart(Ending::Crash).await;
    world.declare(&a);
    world.synced();
    world.pass(600 * SECOND).await;
    assert_eq!(world.viola.posts().len(), posts, "{}", world.describe());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_came_back_from_another_config_is_sent_its_own_state_again() {
    let young = config("young").vm("y-1").created("2026-01-09T00:00:00Z".parse().unwrap());
    let old = config("old").vm("o-1").created("2026-01-08T00:00:00Z".parse().unwrap());
    let mut world = Harness::new();
    world.cloud.has(&young, 1).has(&old, 1);
    world.cloud.vm("y-1").is_named("node");
    world.cloud.vm("o-1").is_named("node");
    world.start().await;
    world.synced();
    world.declare(&young);
    world.until_delivered(&young).await;
    // Long enough for slow polls: the older object comes and goes between two of them.
    world.pass(400 * SECOND).await;
    let looks = world.cloud.looks().len();
    world.until("it has just polled", |world| world.cloud.looks().len() > looks).await;
    world.declare(&old);
    world.until_delivered(&old).await;
    world.remove(old.id());
    world.until_delivered(&young).await;
    assert_eq!(world.viola.node("node").unwrap().instance_id.as_str(), "y-1");
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

#[tokio::test(start_paused = true)]
async fn only_the_newest_state_is_sent_after_a_long_outage() {
    let a = config("a").vms(3);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.viola.of("a").fails(PostFailure::Unavailable);
    for number in 1..=8 {
        world.cloud.vm("a-2").gets(nic(number));
        world.pass(300 * SECOND).await;
    }
    let failed = world.viola.posts().len() - 1;
    assert!((8..=32).contains(&failed), "{failed} POSTs in 40 minutes: back-off up to the slow interval");
    world.viola.of("a").heals();
    world.until_delivered(&a).await;
    let posts = world.viola.posts();
    assert_eq!(posts.len(), failed + 2, "one newest state");
    assert_eq!(posts.last().unwrap().names(), ["node-a-2"]);
    assert_eq!(posts.last().unwrap().nodes[0].interfaces.len(), 9);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_post_that_outlives_a_stopped_viola_is_in_doubt() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.viola.of("a").next_is_taken_and_hangs();
    world.cloud.mtu_is(1400);
    world.until("the change is there, without an answer", |world| mtu(world, "node-a-1") == 1400).await;
    world.cloud.mtu_is(1450);
    world.strike("viola", Strike::Stop);
    world.until("the nodes have their first state again", |world| mtu(world, "node-a-1") == 1450).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_post_that_never_ends_is_given_up_and_sent_once_more() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").next_hangs();
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    assert_eq!((world.viola.posts().len(), world.restarts_of("viola")), (2, 0));
    world.end().await;
}
