//! A parent is a child too: what its end means for those below it.

use multinic_actors::domain::restart::ExitCause;
use multinic_actors::supervision::Outcome;
use multinic_actors::supervision::testing::{assert_no_actor_left, live_actors};

use crate::world::{Failure, OnGaveUp, ParentMsg, SECOND, Settings, World, settle};

#[tokio::test(start_paused = true)]
async fn a_parent_that_failed_takes_its_children_along_and_starts_them_anew() {
    let world = World::new().await;
    world.start_many(&["a"]).await;
    let before = world.parent();
    world.tell(ParentMsg::Fail);
    settle().await;
    assert_eq!((world.parent_node().phase.as_str(), world.parent_node().children.len()), ("restarting", 0));
    assert!(live_actors(&world.tree).is_empty(), "its children were killed");
    tokio::time::sleep(2 * SECOND).await;
    assert_ne!(world.parent(), before);
    assert_eq!((world.parent_node().restarts, world.phase("one")), (1, "running".to_owned()));
    assert_eq!(world.node("a"), None, "what the new parent does not start does not exist");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_ends_over_a_child_takes_the_failure_one_level_up() {
    let world = World::with(Settings { on_gave_up: OnGaveUp::Fail, ..Settings::default() }).await;
    for _ in 0..4 {
        Failure::Panic.hit(&world.child().await.unwrap());
        tokio::time::sleep(5 * SECOND).await;
    }
    let exit = world.last_exit();
    assert_eq!(
        (exit.kind, exit.cause, exit.outcome),
        ("parent", ExitCause::Error, Outcome::RestartIn(SECOND))
    );
    assert_eq!(exit.error, "child one: panic: boom, gave up");
    assert_eq!(world.parent_node().last_error, Some(exit.error));
    assert_eq!((world.phase("one"), world.generation().await), ("running".to_owned(), 1));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_parent_killed_with_a_restart_pending_leaves_nothing_behind() {
    let world = World::new().await;
    world.start_many(&["a", "b"]).await;
    Failure::Panic.hit(&world.child().await.unwrap());
    settle().await;
    world.parent().kill();
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!((world.parent_node().phase.as_str(), world.phase("one")), ("running", "running".to_owned()));
    assert_eq!(live_actors(&world.tree).len(), 2, "the parent and its child");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_root_leaves_no_actor() {
    let world = World::new().await;
    world.start_many(&["a", "b"]).await;
    world.outer.kill();
    assert_no_actor_left(&world.tree).await;
}
