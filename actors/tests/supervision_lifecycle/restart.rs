//! A child that ends in any way is started again, later each time, and not for ever.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use multinic_actors::domain::backoff::BackoffPolicy;
use multinic_actors::domain::restart::{ExitCause, RestartPolicy};
use multinic_actors::supervision::{Fault, Hook, Outcome};

use crate::world::{ChildMsg, Failure, OnGaveUp, ParentMsg, SECOND, Settings, World, policy, settle};

/// Refuses the starts of `one` whose number, from 1 on, is wanted.
fn refuse_starts(
    fault: Fault,
    is_refused: fn(u32) -> bool,
) -> impl Fn(&str, &str, Hook) -> Option<Fault> + Send + Sync {
    let starts = AtomicU32::new(0);
    move |_, name, hook| {
        let is_start_of_one = hook == Hook::PreStart && name == "one";
        (is_start_of_one && is_refused(starts.fetch_add(1, Ordering::Relaxed) + 1)).then(|| fault.clone())
    }
}

fn refusal() -> Fault {
    Fault::Err("boom".to_owned())
}

// ---- {panic, Err, kill, stop, start refused}: restarted with back-off ----

/// The first child has just ended: it must be down, visible as such, and come back after a second.
async fn expect_one_restart(world: World, cause: ExitCause, text: &str) {
    let exit = world.last_exit();
    assert_eq!((exit.cause, exit.error.as_str()), (cause, text));
    assert_eq!((exit.outcome, exit.generation), (Outcome::RestartIn(SECOND), 1));
    assert!(!world.look(|state| state.one.cast(ChildMsg::Phase("deaf"))).await, "the child is down");
    let node = world.node("one").unwrap();
    assert_eq!((node.phase.as_str(), node.last_error.as_deref()), ("restarting", Some(text)));

    tokio::time::sleep(SECOND - Duration::from_millis(100)).await;
    assert_eq!(world.phase("one"), "restarting");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let node = world.node("one").unwrap();
    assert_eq!((node.phase.as_str(), node.restarts), ("running", 1));
    assert_eq!(node.last_error.as_deref(), Some(text), "the last error stays readable");
    assert_eq!(world.generation().await, 2);
    assert!(world.look(|state| state.one.cast(ChildMsg::Phase("working"))).await);
    settle().await;
    assert_eq!(world.phase("one"), "working");
    assert_eq!(world.tree.restarts().into_iter().collect::<Vec<_>>(), [(("child", cause), 1)]);
    assert_eq!(world.tree.restarts_by("child", cause), 1);
    world.end().await;
}

async fn expect_restart_after(failure: Failure) {
    let world = World::new().await;
    failure.hit(&world.child().await.unwrap());
    settle().await;
    expect_one_restart(world, failure.cause(), failure.text()).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_panicked_is_restarted_after_the_back_off() {
    expect_restart_after(Failure::Panic).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_handler_failed_is_restarted_after_the_back_off() {
    expect_restart_after(Failure::Err).await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_child_is_restarted_after_the_back_off() {
    expect_restart_after(Failure::Kill).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_stopped_unasked_is_restarted_after_the_back_off() {
    expect_restart_after(Failure::Stop).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_start_is_tried_again_after_the_back_off() {
    let faults = refuse_starts(refusal(), |start| start == 1);
    let world = World::with_faults(Settings::default(), faults).await;
    expect_one_restart(world, ExitCause::StartRefused, "boom").await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_pre_start_is_a_refused_start() {
    let faults = refuse_starts(Fault::Panic("boom".to_owned()), |start| start == 1);
    let world = World::with_faults(Settings::default(), faults).await;
    expect_one_restart(world, ExitCause::StartRefused, "boom").await;
}

#[tokio::test(start_paused = true)]
async fn a_start_that_hangs_is_refused_and_leaves_nothing_behind() {
    // The parent's own start waits for it: as long as a child may take.
    let faults = refuse_starts(Fault::Hang, |start| start == 2);
    let world = World::with_faults(Settings::default(), faults).await;
    Failure::Panic.hit(&world.child().await.unwrap());
    tokio::time::sleep(10 * SECOND).await;
    let exit = world.last_exit();
    assert_eq!((exit.cause, exit.error.as_str()), (ExitCause::StartRefused, "did not start within 5s"));
    assert_eq!(world.generation().await, 3);
    assert_eq!(world.phase("one"), "running");
    world.end().await;
}

// ---- {panic, Err, kill, stop, start refused}: too often ----

/// One restart a second after another until the slot gives up; then nothing more.
async fn expect_gave_up(world: World, cause: ExitCause) {
    let outcomes: Vec<_> = world.exits().iter().map(|exit| (exit.cause, exit.outcome)).collect();
    let expected = [
        (cause, Outcome::RestartIn(SECOND)),
        (cause, Outcome::RestartIn(2 * SECOND)),
        (cause, Outcome::RestartIn(4 * SECOND)),
        (cause, Outcome::GaveUp),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(world.phase("one"), "gave-up");
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(world.phase("one"), "gave-up");
    assert_eq!(world.generation().await, 4);
    assert_eq!(world.node("one").unwrap().restarts, 3);
    assert!(world.look(|state| state.one.has_given_up() && state.one.escalations() == 1).await);
    world.end().await;
}

async fn expect_giving_up_after(failure: Failure) {
    let world = World::new().await;
    for _ in 0..4 {
        failure.hit(&world.child().await.unwrap());
        tokio::time::sleep(5 * SECOND).await;
    }
    expect_gave_up(world, failure.cause()).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_panics_too_often_goes_to_its_parent() {
    expect_giving_up_after(Failure::Panic).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_fails_too_often_goes_to_its_parent() {
    expect_giving_up_after(Failure::Err).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_killed_too_often_goes_to_its_parent() {
    expect_giving_up_after(Failure::Kill).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_stops_unasked_too_often_goes_to_its_parent() {
    expect_giving_up_after(Failure::Stop).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_never_starts_goes_to_its_parent() {
    let world = World::with_faults(Settings::default(), refuse_starts(refusal(), |_| true)).await;
    tokio::time::sleep(10 * SECOND).await;
    expect_gave_up(world, ExitCause::StartRefused).await;
}

#[tokio::test(start_paused = true)]
async fn a_parent_may_try_again_later_with_the_full_intensity() {
    let settings = Settings { on_gave_up: OnGaveUp::RetryAfter(500 * SECOND), ..Settings::default() };
    let world = World::with_faults(settings, refuse_starts(refusal(), |start| start <= 4)).await;
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(world.last_exit().outcome, Outcome::GaveUp);
    assert_eq!(world.phase("one"), "gave-up", "until it is started again");
    tokio::time::sleep(500 * SECOND).await;
    assert_eq!(world.phase("one"), "running");
    assert_eq!(world.node("one").unwrap().restarts, 4);
    Failure::Panic.hit(&world.child().await.unwrap());
    settle().await;
    assert!(matches!(world.last_exit().outcome, Outcome::RestartIn(_)));
    world.end().await;
}

// ---- details ----

#[tokio::test(start_paused = true)]
async fn a_calm_life_makes_the_next_restart_quick_again() {
    let world = World::with(Settings {
        policy: RestartPolicy { calm: 60 * SECOND, ..policy() },
        ..Settings::default()
    })
    .await;
    for expected in [1, 2] {
        Failure::Panic.hit(&world.child().await.unwrap());
        tokio::time::sleep(5 * SECOND).await;
        assert_eq!(world.last_exit().outcome, Outcome::RestartIn(expected * SECOND));
    }
    tokio::time::sleep(60 * SECOND).await;
    Failure::Panic.hit(&world.child().await.unwrap());
    settle().await;
    assert_eq!(world.last_exit().outcome, Outcome::RestartIn(SECOND));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_message_that_was_overtaken_by_a_start_is_ignored() {
    let world = World::new().await;
    Failure::Panic.hit(&world.child().await.unwrap());
    settle().await;
    // The parent is busy while the timer fires; what was sent before goes first.
    world.tell(ParentMsg::Slow(3 * SECOND));
    world.tell(ParentMsg::StartOne);
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(world.generation().await, 2);
    assert_eq!(world.shared.log.lines(), ["stale restart of one"]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn starting_a_running_child_changes_nothing() {
    let world = World::new().await;
    let before = world.child().await;
    world.tell(ParentMsg::StartOne);
    assert_eq!(world.child().await, before);
    assert_eq!(world.generation().await, 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_words_of_an_earlier_generation_are_ignored() {
    let world = World::new().await;
    Failure::Panic.hit(&world.child().await.unwrap());
    settle().await;
    let ghost = world.look(|state| state.nodes[0].clone()).await;
    ghost.set_phase("ghost");
    assert_eq!(world.phase("one"), "restarting");
    tokio::time::sleep(2 * SECOND).await;
    ghost.set_phase("ghost");
    ghost.set_last_error(None);
    assert_eq!(world.phase("one"), "running");
    assert!(world.node("one").unwrap().last_error.is_some());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn children_do_not_restart_in_step_but_the_same_seed_gives_the_same_delays() {
    let backoff = BackoffPolicy { jitter: 0.1, ..policy().backoff };
    let settings = Settings { policy: RestartPolicy { backoff, ..policy() }, seed: 7, ..Settings::default() };
    let mut runs = Vec::new();
    for _ in 0..2 {
        let world = World::with(settings.clone()).await;
        world.start_many(&["a", "b"]).await;
        let mut delays = Vec::new();
        for key in ["a", "b"] {
            world.look(move |state| state.many.cast(&key.to_owned(), ChildMsg::Panic)).await;
            settle().await;
            delays.push(world.last_exit().outcome);
        }
        world.end().await;
        assert_ne!(delays[0], delays[1]);
        runs.push(delays);
    }
    assert_eq!(runs[0], runs[1]);
}
