//! Nodes with DOWN ports are sent again until the ports are no longer DOWN.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::ids::PortId;
use super::status::DownPortRetry;
use crate::planted::{self, Bug};

/// The rule's settings.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The first `fast_retry_max` re-sends go at this interval.
    pub fast: Duration,
    /// The later ones at this.
    pub slow: Duration,
    /// How many go fast.
    pub fast_retry_max: u32,
}

/// First 16 hex digits of the SHA-256 over the sorted port ids, one a line.
pub fn hash_of(ports: &BTreeSet<PortId>) -> String {
    let mut digest = Sha256::new();
    for port in ports {
        digest.update(port.as_str().as_bytes());
        digest.update(b"\n");
    }
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The retry state for the ports that are DOWN now: the earlier one if they are the same ports.
pub fn observe(
    state: Option<DownPortRetry>,
    down: &BTreeSet<PortId>,
    now: Timestamp,
) -> Option<DownPortRetry> {
    if down.is_empty() {
        return state.filter(|_| planted::is(Bug::DownCounterNeverResets));
    }
    let hash = hash_of(down);
    match state {
        Some(same) if same.hash == hash => Some(same),
        // The count starts with this look: the change itself is sent by itself.
        _ => Some(DownPortRetry { hash, last_attempt: Some(now), fast_attempts: 0 }),
    }
}

/// How long until the next re-send. A wall clock that jumped never makes it longer than the interval.
pub fn due_in(state: &DownPortRetry, rule: Rule, now: Timestamp) -> Duration {
    let interval = if state.fast_attempts < rule.fast_retry_max { rule.fast } else { rule.slow };
    let Some(last) = state.last_attempt else {
        return Duration::ZERO;
    };
    match Duration::try_from(now.duration_since(last)) {
        Ok(passed) => interval.saturating_sub(passed),
        Err(_) => interval,
    }
}

/// A re-send was answered with success.
pub fn attempted(state: &mut DownPortRetry, rule: Rule, now: Timestamp) {
    if state.fast_attempts < rule.fast_retry_max {
        state.fast_attempts += 1;
    }
    state.last_attempt = Some(now);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::{SECOND, at, port_id};
    use super::*;

    const RULE: Rule =
        Rule { fast: Duration::from_secs(20), slow: Duration::from_secs(120), fast_retry_max: 5 };

    fn ports(numbers: &[u8]) -> BTreeSet<PortId> {
        numbers.iter().map(|n| port_id(*n)).collect()
    }

    fn seen(numbers: &[u8], seconds: i64) -> DownPortRetry {
        observe(None, &ports(numbers), at(seconds)).unwrap()
    }

    #[test]
    fn the_first_re_send_comes_one_fast_interval_after_the_look() {
        let state = seen(&[1], 0);
        assert_eq!((state.last_attempt, state.fast_attempts), (Some(at(0)), 0));
        assert_eq!(due_in(&state, RULE, at(0)), 20 * SECOND);
        assert_eq!(due_in(&state, RULE, at(15)), 5 * SECOND);
        assert_eq!(due_in(&state, RULE, at(20)), Duration::ZERO);
        assert_eq!(due_in(&state, RULE, at(9999)), Duration::ZERO);
    }

    #[test]
    fn five_re_sends_go_fast_and_all_later_ones_slow() {
        let mut state = seen(&[1], 0);
        let mut intervals = Vec::new();
        for n in 1..=8 {
            attempted(&mut state, RULE, at(n));
            intervals.push(due_in(&state, RULE, at(n)).as_secs());
        }
        assert_eq!(intervals, [20, 20, 20, 20, 120, 120, 120, 120]);
        assert_eq!((state.fast_attempts, state.last_attempt), (5, Some(at(8))));
    }

    #[test]
    fn the_same_ports_go_on_counting_and_others_start_over() {
        let mut state = seen(&[1, 2], 0);
        attempted(&mut state, RULE, at(20));
        assert_eq!(observe(Some(state.clone()), &ports(&[2, 1]), at(30)), Some(state.clone()));
        for other in [&[1][..], &[1, 2, 3]] {
            assert_eq!(observe(Some(state.clone()), &ports(other), at(30)), Some(seen(other, 30)));
        }
        assert_eq!(observe(Some(state), &ports(&[]), at(30)), None);
        assert_eq!(observe(None, &ports(&[]), at(30)), None);
    }

    #[test]
    fn a_state_from_a_file_that_knows_no_attempt_is_due_at_once() {
        let state = DownPortRetry { last_attempt: None, ..seen(&[1], 0) };
        assert_eq!(due_in(&state, RULE, at(0)), Duration::ZERO);
    }

    #[test]
    fn a_raised_or_lowered_limit_counts_from_now_on() {
        let mut state = seen(&[1], 0);
        (0..5).for_each(|n| attempted(&mut state, RULE, at(n)));
        let raised = Rule { fast_retry_max: 6, ..RULE };
        assert_eq!(due_in(&state, raised, at(4)), RULE.fast);
        let lowered = Rule { fast_retry_max: 1, ..RULE };
        assert_eq!(due_in(&state, lowered, at(4)), RULE.slow);
        attempted(&mut state, lowered, at(9));
        assert_eq!(state.fast_attempts, 5);
    }

    #[test]
    fn the_hash_names_the_set_of_ports() {
        assert_eq!(hash_of(&ports(&[1, 2])), hash_of(&ports(&[2, 1])));
        assert_eq!(hash_of(&ports(&[1])).len(), 16);
        let joined = BTreeSet::from([PortId::new("a"), PortId::new("b")]);
        assert_ne!(hash_of(&joined), hash_of(&BTreeSet::from([PortId::new("ab")])));
        // The same in every release: it is in status and file.
        assert_eq!(hash_of(&joined), "911169ddaaf146af");
    }

    proptest! {
        #[test]
        fn no_jump_of_the_clock_makes_the_wait_longer_than_the_interval(
            last in -1_000_000_i64..1_000_000, now in -1_000_000_i64..1_000_000, attempts in 0_u32..9,
        ) {
            let state = DownPortRetry { last_attempt: Some(at(last)), fast_attempts: attempts, ..seen(&[1], 0) };
            let interval = if attempts < 5 { RULE.fast } else { RULE.slow };
            let wait = due_in(&state, RULE, at(now));
            prop_assert!(wait <= interval);
            if now >= last {
                let passed = Duration::from_secs((now - last) as u64);
                prop_assert_eq!(wait, interval.saturating_sub(passed));
            }
        }
    }
}
