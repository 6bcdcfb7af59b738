//! Whether and when a child that ended is started again.
//!
//! Back-off between restarts; too many of them in a window go to the parent; a calm spell forgives.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use crate::domain::backoff::{Backoff, BackoffPolicy};

/// Why a child ended, or did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitCause {
    /// It panicked.
    Panic,
    /// A handler of it returned an error: its state is suspect.
    Error,
    /// It was killed, or its task was cancelled.
    Killed,
    /// It stopped, and its parent had not asked for that.
    Stopped,
    /// Its start failed: `pre_start` returned an error, panicked or took too long.
    StartRefused,
}

impl ExitCause {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Panic, Self::Error, Self::Killed, Self::Stopped, Self::StartRefused];

    /// The word for metric labels and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Error => "error",
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::StartRefused => "start_refused",
        }
    }
}

impl fmt::Display for ExitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What happens to a child that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start it again after this long.
    RestartAfter(Duration),
    /// It fails too often: the parent decides.
    Escalate,
}

/// How often and how fast a child is started again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RestartPolicy {
    /// The delays before restarts.
    pub backoff: BackoffPolicy,
    /// This many restarts within `window` are allowed; the next one escalates. 0 never restarts.
    pub max_restarts: u32,
    /// The window of the intensity.
    pub window: Duration,
    /// A child that ran this long is forgiven: its back-off and its escalations start over.
    pub calm: Duration,
}

impl Default for RestartPolicy {
    /// Quick at first (a lost VM decision costs one round), then seconds; ten in five minutes are too many.
    fn default() -> Self {
        Self {
            backoff: BackoffPolicy::doubling(Duration::from_millis(100), Duration::from_secs(30)),
            max_restarts: 10,
            window: Duration::from_secs(300),
            calm: Duration::from_secs(60),
        }
    }
}

/// What one child's exits have come to.
#[derive(Clone, Debug)]
pub struct RestartState {
    policy: RestartPolicy,
    backoff: Backoff,
    /// The restarts that still lie in the window, oldest first.
    recent: VecDeque<Instant>,
    running_since: Option<Instant>,
    last_cause: Option<ExitCause>,
    escalations: u32,
}

impl RestartState {
    /// The state of a child that has not been started yet.
    pub fn new(policy: RestartPolicy, jitter_seed: u64, now: Instant) -> Self {
        Self {
            policy,
            backoff: Backoff::new(policy.backoff, jitter_seed, now),
            recent: VecDeque::new(),
            running_since: None,
            last_cause: None,
            escalations: 0,
        }
    }

    /// Why the child ended last.
    pub fn last_cause(&self) -> Option<ExitCause> {
        self.last_cause
    }

    /// How many times in a row, without a calm spell, the child went to its parent.
    pub fn escalations(&self) -> u32 {
        self.escalations
    }
}

/// The child runs since `now`.
pub fn on_start(mut state: RestartState, now: Instant) -> RestartState {
    state.running_since = Some(now);
    state
}

/// The child ended, or refused to start, at `now`.
///
/// After an escalation the window is empty: a parent that tries again grants the full intensity anew.
pub fn on_exit(mut state: RestartState, now: Instant, cause: ExitCause) -> (RestartState, Verdict) {
    state.last_cause = Some(cause);
    let was_calm =
        state.running_since.take().is_some_and(|since| now.duration_since(since) >= state.policy.calm);
    if was_calm {
        state.backoff.reset(now);
        state.escalations = 0;
    }
    state.recent.retain(|restart| now.duration_since(*restart) < state.policy.window);
    if state.recent.len() >= state.policy.max_restarts as usize {
        state.recent.clear();
        state.escalations = state.escalations.saturating_add(1);
        return (state, Verdict::Escalate);
    }
    state.recent.push_back(now);
    let delay = state.backoff.next(now);
    (state, Verdict::RestartAfter(delay))
}

/// The child ended because one of its own failed too often: starting it again at once would only repeat
/// that. Goes to the parent like the last of too many restarts.
pub fn on_child_gave_up(mut state: RestartState, now: Instant, cause: ExitCause) -> (RestartState, Verdict) {
    state.last_cause = Some(cause);
    // Its life was as long as its child took to fail so often: only a much longer one was calm.
    let was_calm =
        state.running_since.take().is_some_and(|since| now.duration_since(since) >= 2 * state.policy.window);
    if was_calm {
        state.backoff.reset(now);
        state.escalations = 0;
    }
    state.recent.clear();
    state.escalations = state.escalations.saturating_add(1);
    (state, Verdict::Escalate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn policy() -> RestartPolicy {
        RestartPolicy {
            backoff: BackoffPolicy { jitter: 0.0, ..BackoffPolicy::doubling(SECOND, 60 * SECOND) },
            max_restarts: 3,
            window: 100 * SECOND,
            calm: 50 * SECOND,
        }
    }

    /// Runs a child that starts at once and ends after each of `lives` seconds; gives the verdicts.
    fn verdicts(lives: &[u64]) -> Vec<Verdict> {
        let mut now = Instant::now();
        let mut state = RestartState::new(policy(), 1, now);
        lives
            .iter()
            .map(|life| {
                state = on_start(state.clone(), now);
                now += Duration::from_secs(*life);
                let (next, verdict) = on_exit(state.clone(), now, ExitCause::Panic);
                state = next;
                verdict
            })
            .collect()
    }

    fn after(seconds: u64) -> Verdict {
        Verdict::RestartAfter(Duration::from_secs(seconds))
    }

    #[test]
    fn restarts_come_with_growing_delays_and_then_escalate() {
        assert_eq!(verdicts(&[0, 0, 0, 0]), [after(1), after(2), after(4), Verdict::Escalate]);
    }

    #[test]
    fn a_calm_life_resets_the_back_off() {
        assert_eq!(verdicts(&[0, 0, 50, 0]), [after(1), after(2), after(1), Verdict::Escalate]);
    }

    #[test]
    fn restarts_older_than_the_window_do_not_count() {
        assert_eq!(verdicts(&[0, 49, 49, 49]), [after(1), after(2), after(4), after(8)]);
    }

    #[test]
    fn after_an_escalation_the_full_intensity_is_granted_again() {
        let all = verdicts(&[0; 8]);
        assert_eq!(all.iter().filter(|verdict| **verdict == Verdict::Escalate).count(), 2);
        assert_eq!(all[7], Verdict::Escalate);
    }

    #[test]
    fn a_refused_start_is_no_calm_life() {
        let start = Instant::now();
        let state = on_start(RestartState::new(policy(), 1, start), start);
        let (state, first) = on_exit(state, start, ExitCause::Panic);
        let (state, second) = on_exit(state, start + 60 * SECOND, ExitCause::StartRefused);
        assert_eq!((first, second), (after(1), after(2)));
        assert_eq!(state.last_cause(), Some(ExitCause::StartRefused));
    }

    #[test]
    fn escalations_count_until_a_calm_life() {
        let mut now = Instant::now();
        let none = RestartPolicy { max_restarts: 0, ..policy() };
        let mut state = RestartState::new(none, 1, now);
        for expected in 1..=2 {
            state = on_exit(on_start(state, now), now, ExitCause::Error).0;
            assert_eq!(state.escalations(), expected);
        }
        state = on_start(state, now);
        now += 50 * SECOND;
        assert_eq!(on_exit(state, now, ExitCause::Error).0.escalations(), 1);
    }

    #[test]
    fn a_child_whose_own_child_gave_up_escalates_at_once_until_a_life_much_longer_than_the_window() {
        let mut now = Instant::now();
        let mut state = RestartState::new(policy(), 1, now);
        for (life, expected) in [(0, 1), (150, 2), (150, 3), (200, 1)] {
            state = on_start(state, now);
            now += Duration::from_secs(life);
            let (next, verdict) = on_child_gave_up(state, now, ExitCause::Error);
            assert_eq!((verdict, next.escalations()), (Verdict::Escalate, expected));
            state = next;
        }
    }
}
