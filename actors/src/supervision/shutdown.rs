//! Ending children in order, so that every `post_stop` runs.
//!
//! ractor kills the children of an actor that ends, without their `post_stop`, and its own
//! `stop_children_and_wait` does not wait for a child that was told to stop before.

use std::time::Duration;

use futures::future::join_all;
use ractor::ActorCell;
use tokio::time::Instant;

/// How long a killed actor gets to be gone: until its next `await`.
const KILL_GRACE: Duration = Duration::from_secs(1);

/// What an ordered shutdown came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Children that ended by themselves.
    pub gracefully: usize,
    /// Children that had to be killed.
    pub killed: usize,
}

/// Stops `groups` one after the other, the members of a group together, and waits until each is gone. A
/// parent calls it in its `post_stop`. Every group gets its share of what is left of `timeout`; who is not
/// gone by then is killed, and its own children with it. The actors come from
/// [`super::ChildSlot::expect_stop`] and [`super::ChildSet::expect_stop_all`].
pub async fn stop_children_in_order(groups: Vec<Vec<ActorCell>>, timeout: Duration) -> Stopped {
    let deadline = Instant::now() + timeout;
    let mut stopped = Stopped::default();
    let mut groups_left = u32::try_from(groups.len()).unwrap_or(u32::MAX);
    for group in groups {
        let share = deadline.saturating_duration_since(Instant::now()) / groups_left;
        groups_left -= 1;
        for ended_gracefully in join_all(group.into_iter().map(|child| stop(child, share))).await {
            if ended_gracefully {
                stopped.gracefully += 1;
            } else {
                stopped.killed += 1;
            }
        }
    }
    stopped
}

async fn stop(child: ActorCell, timeout: Duration) -> bool {
    child.stop(None);
    if child.wait(Some(timeout)).await.is_ok() {
        return true;
    }
    child.kill();
    let _ = child.wait(Some(KILL_GRACE)).await;
    false
}
