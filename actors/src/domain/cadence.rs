//! When to look again.

use std::time::{Duration, Instant};

use super::backoff::{Backoff, BackoffPolicy, Jitter};
use super::config::Polling;

/// How far an interval may be off: ±10 %.
const JITTER: f64 = 0.1;

/// What decides about the next poll.
#[derive(Clone, Debug)]
pub struct Cadence {
    polling: Polling,
    fast_until: Option<Instant>,
    backoff: Backoff,
    jitter: Jitter,
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundEnd {
    /// Something changed.
    Changed,
    /// Nothing did.
    Unchanged,
    /// It failed; the service may have asked us to wait.
    Failed {
        /// `Retry-After`.
        retry_after: Option<Duration>,
    },
}

impl Cadence {
    /// A config that was never polled. Equal seeds give equal intervals.
    pub fn new(polling: Polling, seed: u64, now: Instant) -> Self {
        let backoff = Backoff::new(BackoffPolicy::doubling(polling.error, polling.slow * 2), seed, now);
        Self { polling, fast_until: None, backoff, jitter: Jitter::new(seed) }
    }

    /// The intervals changed.
    pub fn set_polling(&mut self, polling: Polling, seed: u64, now: Instant) {
        if self.polling != polling {
            *self = Self { fast_until: self.fast_until, ..Self::new(polling, seed, now) };
        }
    }

    /// Takes in how a round ended and gives the time to the next one.
    pub fn next(&mut self, end: RoundEnd, now: Instant) -> Duration {
        match end {
            RoundEnd::Failed { retry_after } => return self.next_after_failure(retry_after, now),
            RoundEnd::Changed => self.fast_until = Some(now + self.polling.fast_window),
            RoundEnd::Unchanged => {}
        }
        self.backoff.reset(now);
        let is_fast = self.fast_until.is_some_and(|until| now < until);
        let base = if is_fast { self.polling.fast } else { self.polling.slow };
        self.jitter.spread(base, JITTER)
    }

    fn next_after_failure(&mut self, retry_after: Option<Duration>, now: Instant) -> Duration {
        let wait = self.backoff.next(now);
        retry_after.map_or(wait, |asked| wait.max(self.jitter.at_least(asked)))
    }
}

/// When the first poll of the `n`th config is due after a start: 10 ms apart, at most over `fast`.
pub fn first_poll_delay(nth: u32, fast: Duration) -> Duration {
    const APART: Duration = Duration::from_millis(10);
    let delay = APART.saturating_mul(nth);
    if delay <= fast || fast.is_zero() {
        return delay.min(fast);
    }
    Duration::from_nanos((delay.as_nanos() % fast.as_nanos()) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::SECOND;
    use super::*;

    const POLLING: Polling = Polling {
        fast: Duration::from_secs(20),
        slow: Duration::from_secs(120),
        error: Duration::from_secs(30),
        fast_window: Duration::from_secs(180),
        resync: None,
    };

    fn failed(retry_after: Option<u64>) -> RoundEnd {
        RoundEnd::Failed { retry_after: retry_after.map(Duration::from_secs) }
    }

    /// Within ±10 % of `base`.
    fn is_about(wait: Duration, base: Duration) -> bool {
        wait >= base.mul_f64(0.9) && wait <= base.mul_f64(1.1)
    }

    fn check(cadence: &mut Cadence, end: RoundEnd, now: Instant, base: Duration) {
        let wait = cadence.next(end, now);
        assert!(is_about(wait, base), "{wait:?} is not about {base:?}");
    }

    #[test]
    fn a_config_that_never_changed_is_polled_slowly() {
        let now = Instant::now();
        let mut cadence = Cadence::new(POLLING, 1, now);
        check(&mut cadence, RoundEnd::Unchanged, now, POLLING.slow);
    }

    #[test]
    fn a_change_opens_the_fast_window_and_the_next_one_opens_it_again() {
        let start = Instant::now();
        let mut cadence = Cadence::new(POLLING, 1, start);
        check(&mut cadence, RoundEnd::Changed, start, POLLING.fast);
        check(&mut cadence, RoundEnd::Unchanged, start + 179 * SECOND, POLLING.fast);
        check(&mut cadence, RoundEnd::Unchanged, start + 180 * SECOND, POLLING.slow);
        check(&mut cadence, RoundEnd::Changed, start + 500 * SECOND, POLLING.fast);
        check(&mut cadence, RoundEnd::Changed, start + 600 * SECOND, POLLING.fast);
        check(&mut cadence, RoundEnd::Unchanged, start + 779 * SECOND, POLLING.fast);
        check(&mut cadence, RoundEnd::Unchanged, start + 781 * SECOND, POLLING.slow);
    }

    #[test]
    fn without_a_window_a_change_makes_nothing_faster() {
        let now = Instant::now();
        let polling = Polling { fast_window: Duration::ZERO, ..POLLING };
        check(&mut Cadence::new(polling, 1, now), RoundEnd::Changed, now, POLLING.slow);
    }

    #[test]
    fn failures_wait_longer_and_longer_up_to_twice_the_slow_interval() {
        let now = Instant::now();
        let mut cadence = Cadence::new(POLLING, 1, now);
        for seconds in [30, 60, 120, 240, 240, 240] {
            let wait = cadence.next(failed(None), now);
            assert!(is_about(wait, seconds * SECOND) && wait <= 240 * SECOND, "{wait:?}");
        }
        cadence.next(RoundEnd::Unchanged, now);
        check(&mut cadence, failed(None), now, POLLING.error);
    }

    #[test]
    fn a_failure_does_not_close_the_fast_window() {
        let start = Instant::now();
        let mut cadence = Cadence::new(POLLING, 1, start);
        cadence.next(RoundEnd::Changed, start);
        cadence.next(failed(None), start + 20 * SECOND);
        check(&mut cadence, RoundEnd::Unchanged, start + 60 * SECOND, POLLING.fast);
    }

    #[test]
    fn an_error_interval_above_the_cap_is_cut() {
        let now = Instant::now();
        let polling = Polling { error: Duration::from_secs(3600), ..POLLING };
        assert!(Cadence::new(polling, 1, now).next(failed(None), now) <= 240 * SECOND);
    }

    #[test]
    fn what_the_service_asked_for_is_kept_but_not_what_cannot_be_meant() {
        let wait = |asked: u64| {
            let now = Instant::now();
            Cadence::new(POLLING, 1, now).next(failed(Some(asked)), now)
        };
        assert!(is_about(wait(0), POLLING.error) && is_about(wait(1), POLLING.error));
        assert!((600 * SECOND..=660 * SECOND).contains(&wait(600)));
        assert!((3600 * SECOND..=3960 * SECOND).contains(&wait(u64::MAX / 2)));
    }

    #[test]
    fn new_intervals_count_at_once_and_the_window_stays_open() {
        let start = Instant::now();
        let mut cadence = Cadence::new(POLLING, 1, start);
        cadence.next(RoundEnd::Changed, start);
        let quick = Polling { fast: SECOND, slow: 2 * SECOND, error: SECOND, ..POLLING };
        cadence.set_polling(quick, 1, start);
        check(&mut cadence, RoundEnd::Unchanged, start + SECOND, SECOND);
        check(&mut cadence, RoundEnd::Unchanged, start + 200 * SECOND, 2 * SECOND);
        check(&mut cadence, failed(None), start + 200 * SECOND, SECOND);
    }

    #[test]
    fn equal_intervals_do_not_start_the_back_off_over() {
        let now = Instant::now();
        let mut cadence = Cadence::new(POLLING, 1, now);
        cadence.next(failed(None), now);
        cadence.set_polling(POLLING, 1, now);
        check(&mut cadence, failed(None), now, 2 * POLLING.error);
    }

    #[test]
    fn first_polls_are_ten_milliseconds_apart_and_none_is_later_than_the_fast_interval() {
        let ms = Duration::from_millis;
        let fast = Duration::from_secs(20);
        assert_eq!(first_poll_delay(0, fast), Duration::ZERO);
        assert_eq!(first_poll_delay(1, fast), ms(10));
        assert_eq!(first_poll_delay(2000, fast), fast);
        assert_eq!(first_poll_delay(2001, fast), ms(10));
        assert_eq!(first_poll_delay(5, ms(35)), ms(15));
        assert_eq!(first_poll_delay(7, Duration::ZERO), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn every_interval_is_within_a_tenth_of_its_base(
            seed: u64, ends in prop::collection::vec((0_u8..3, 0_u64..300), 1..30),
        ) {
            let mut now = Instant::now();
            let mut cadence = Cadence::new(POLLING, seed, now);
            let mut fast_until = now;
            for (end, seconds) in ends {
                now += Duration::from_secs(seconds);
                match end {
                    0 => {
                        fast_until = now + POLLING.fast_window;
                        prop_assert!(is_about(cadence.next(RoundEnd::Changed, now), POLLING.fast));
                    }
                    1 => {
                        let base = if now < fast_until { POLLING.fast } else { POLLING.slow };
                        prop_assert!(is_about(cadence.next(RoundEnd::Unchanged, now), base));
                    }
                    _ => {
                        let wait = cadence.next(failed(None), now);
                        prop_assert!(wait >= POLLING.error.mul_f64(0.9) && wait <= POLLING.slow * 2);
                    }
                }
            }
        }

        #[test]
        fn a_first_poll_is_never_later_than_the_fast_interval(n: u32, fast in 0_u64..100_000) {
            let fast = Duration::from_millis(fast);
            prop_assert!(first_poll_delay(n, fast) <= fast);
        }

        #[test]
        fn configs_of_one_cloud_do_not_move_in_step(a: u64, b: u64) {
            prop_assume!(a != b);
            let now = Instant::now();
            let next = |seed| Cadence::new(POLLING, seed, now).next(RoundEnd::Unchanged, now);
            prop_assert_ne!(next(a), next(b));
        }
    }
}
