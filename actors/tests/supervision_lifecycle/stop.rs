//! A child that is told to stop stays stopped; a shutdown in order runs every `post_stop`.

use std::time::Duration;

use multinic_actors::supervision::{Fault, Hook, Outcome, Stopped, stop_children_in_order};
use ractor::ActorStatus;

use crate::world::{ChildMsg, Failure, ParentMsg, SECOND, Settings, World, settle};

#[tokio::test(start_paused = true)]
async fn a_child_stopped_on_purpose_is_not_restarted() {
    let world = World::new().await;
    world.look(|state| state.one.stop()).await;
    settle().await;
    assert_eq!(world.last_exit().outcome, Outcome::Stopped);
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(world.phase("one"), "stopped");
    assert_eq!(world.generation().await, 1);
    assert!(world.look(|state| state.one.actor().is_none()).await);
    assert!(world.tree.restarts().is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_child_can_be_started_again() {
    let world = World::new().await;
    world.look(|state| state.one.stop()).await;
    settle().await;
    world.tell(ParentMsg::StartOne);
    settle().await;
    assert_eq!((world.generation().await, world.phase("one")), (2, "running".to_owned()));
    assert_eq!(world.node("one").unwrap().restarts, 0, "a start on purpose is no restart");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn while_a_child_is_stopping_its_slot_is_taken() {
    let world = World::with(Settings { post_stop_takes: 5 * SECOND, ..Settings::default() }).await;
    world.look(|state| state.one.stop()).await;
    settle().await;
    assert_eq!(world.phase("one"), "stopping");
    world.tell(ParentMsg::StartOne);
    let (is_stopping, is_heard) =
        world.look(|state| (state.one.is_stopping(), state.one.cast(ChildMsg::Phase("late")))).await;
    assert!(is_stopping && !is_heard);
    assert_eq!(world.generation().await, 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_crashes_while_it_stops_is_not_restarted() {
    let world = World::with_faults(Settings::default(), |_: &str, _: &str, hook: Hook| {
        (hook == Hook::PostStop).then(|| Fault::Panic("boom".to_owned()))
    })
    .await;
    world.look(|state| state.one.stop()).await;
    tokio::time::sleep(100 * SECOND).await;
    let exit = world.last_exit();
    assert_eq!((exit.outcome, exit.error.as_str()), (Outcome::Stopped, "boom"));
    assert_eq!(world.generation().await, 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn stopping_a_child_that_waits_for_its_restart_drops_the_restart() {
    let world = World::new().await;
    Failure::Panic.hit(&world.child().await.unwrap());
    settle().await;
    assert!(world.look(|state| state.one.stop()).await.is_none(), "there is nothing to wait for");
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!((world.generation().await, world.phase("one")), (1, "stopped".to_owned()));
    world.end().await;
}

// ---- ordered shutdown ----

#[tokio::test(start_paused = true)]
async fn an_ordered_shutdown_runs_every_post_stop_group_after_group() {
    let world = World::with(Settings { post_stop_takes: SECOND, ..Settings::default() }).await;
    world.start_many(&["a", "b", "c"]).await;
    let start = tokio::time::Instant::now();
    let mut lines = world.end().await;
    let seconds = start.elapsed().as_secs();
    assert_eq!(seconds, 2, "a group stops together, and only after the one before it is gone");
    lines[..3].sort();
    let expected =
        ["post_stop a", "post_stop b", "post_stop c", "post_stop one", "parent stopped 4 killed 0"];
    assert_eq!(lines, expected);
}

#[tokio::test(start_paused = true)]
async fn an_ordered_shutdown_waits_for_a_child_that_was_told_to_stop_before() {
    let world = World::with(Settings { post_stop_takes: 5 * SECOND, ..Settings::default() }).await;
    world.look(|state| state.one.stop()).await;
    settle().await;
    assert_eq!(world.end().await, ["post_stop one", "parent stopped 1 killed 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_hangs_is_killed_and_the_others_still_stop_gracefully() {
    let world = World::with(Settings { post_stop_takes: SECOND, ..Settings::default() }).await;
    world.start_many(&["a", "b"]).await;
    world.look(|state| state.many.cast(&"a".to_owned(), ChildMsg::Hang)).await;
    settle().await;
    let lines = world.end().await;
    assert_eq!(lines, ["post_stop b", "post_stop one", "parent stopped 2 killed 1"]);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_stop_in_time_is_killed_while_its_parent_goes_on() {
    let world = World::new().await;
    let child = world.child().await.unwrap();
    child.cast(ChildMsg::Hang).unwrap();
    settle().await;
    let stopped = stop_children_in_order(vec![vec![child.get_cell()]], SECOND).await;
    assert_eq!(stopped, Stopped { gracefully: 0, killed: 1 });
    assert_eq!(child.get_status(), ActorStatus::Stopped);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_with_a_child_down_waits_for_nothing() {
    let world = World::new().await;
    Failure::Kill.hit(&world.child().await.unwrap());
    settle().await;
    let start = tokio::time::Instant::now();
    assert_eq!(world.end().await, ["parent stopped 0 killed 0"]);
    assert!(start.elapsed() < Duration::from_millis(100));
}
