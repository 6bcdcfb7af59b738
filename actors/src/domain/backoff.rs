//! Growing delays: how long to wait before the next try, for restarts, failed polls and failed POSTs.
//!
//! The only module that names the `backoff` crate, which is unmaintained. Of it only the growth is used:
//! its own randomization draws from the thread's generator, so the jitter here comes from a seed.

use std::time::{Duration, Instant};

use backoff::backoff::Backoff as _;
use backoff::exponential::ExponentialBackoff;

/// How delays grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffPolicy {
    /// The first delay, before jitter.
    pub initial: Duration,
    /// The largest delay, before and after jitter.
    pub max: Duration,
    /// What each delay is multiplied with to give the next; at least 1.
    pub multiplier: f64,
    /// The share of a delay that jitter adds or takes at most: `0.1` is ±10 %.
    pub jitter: f64,
}

impl BackoffPolicy {
    /// Doubles from `initial` to `max` with ±10 % of jitter.
    pub const fn doubling(initial: Duration, max: Duration) -> Self {
        Self { initial, max, multiplier: 2.0, jitter: 0.1 }
    }
}

/// A running back-off: gives one delay after the other, until something went well.
#[derive(Clone, Debug)]
pub struct Backoff {
    policy: BackoffPolicy,
    growth: ExponentialBackoff<PassedIn>,
    jitter: Jitter,
    attempts: u32,
}

impl Backoff {
    /// A back-off that has not failed yet. The same `jitter` seed gives the same delays.
    pub fn new(policy: BackoffPolicy, jitter_seed: u64, now: Instant) -> Self {
        let initial = policy.initial.min(policy.max);
        let growth = ExponentialBackoff {
            current_interval: initial,
            initial_interval: initial,
            randomization_factor: 0.0,
            multiplier: policy.multiplier.max(1.0),
            max_interval: policy.max,
            start_time: now,
            max_elapsed_time: None,
            clock: PassedIn(now),
        };
        Self { policy, growth, jitter: Jitter::new(jitter_seed), attempts: 0 }
    }

    /// The delay before the next try, after one that failed at `now`.
    pub fn next(&mut self, now: Instant) -> Duration {
        self.attempts = self.attempts.saturating_add(1);
        self.growth.clock = PassedIn(now);
        // The interval is read before the step: what the step returns is up to one random nanosecond longer.
        let delay = self.growth.current_interval;
        self.growth.next_backoff();
        self.jitter.spread(delay, self.policy.jitter).min(self.policy.max)
    }

    /// Starts over: something went well at `now`.
    pub fn reset(&mut self, now: Instant) {
        self.attempts = 0;
        self.growth.clock = PassedIn(now);
        self.growth.reset();
    }

    /// Failed tries since the last reset.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

/// The moment that the caller gave, in place of the system's clock.
#[derive(Clone, Copy, Debug)]
struct PassedIn(Instant);

impl backoff::Clock for PassedIn {
    fn now(&self) -> Instant {
        self.0
    }
}

/// A `Retry-After` beyond this is taken for a mistake.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// A small seeded source of jitter (SplitMix64): eight bytes, since every actor has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jitter {
    state: u64,
}

impl Jitter {
    /// A source; the same seed gives the same sequence.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// `delay` changed by at most ± `ratio` of itself.
    pub fn spread(&mut self, delay: Duration, ratio: f64) -> Duration {
        let ratio = ratio.clamp(0.0, 1.0);
        let factor = 1.0 + ratio * (2.0 * self.unit() - 1.0);
        delay.mul_f64(factor)
    }

    /// How long to wait when a service asked for `retry_after`: that long, and up to 10 % more, so that
    /// nobody comes back in step with the others.
    pub fn at_least(&mut self, retry_after: Duration) -> Duration {
        retry_after.min(MAX_RETRY_AFTER).mul_f64(1.0 + 0.1 * self.unit())
    }

    /// The next number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        // 53 bits are what an f64 holds exactly.
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A seed of its own for `name` (FNV-1a over it, mixed with `seed`); the same in every process and release.
pub fn seed_for(seed: u64, name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn backoff(jitter: f64, seed: u64) -> (Backoff, Instant) {
        let now = Instant::now();
        let policy = BackoffPolicy { jitter, ..BackoffPolicy::doubling(SECOND, 10 * SECOND) };
        (Backoff::new(policy, seed, now), now)
    }

    fn delays(jitter: f64, seed: u64) -> Vec<Duration> {
        let (mut backoff, now) = backoff(jitter, seed);
        (0..6).map(|_| backoff.next(now)).collect()
    }

    #[test]
    fn delays_double_up_to_the_maximum() {
        let seconds: Vec<_> = delays(0.0, 1).iter().map(Duration::as_secs).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn without_jitter_a_delay_is_exact_to_the_nanosecond() {
        for _ in 0..200 {
            assert_eq!(delays(0.0, 1)[3], 8 * SECOND);
        }
    }

    #[test]
    fn jitter_stays_within_its_share_and_below_the_maximum() {
        for seed in 0..200 {
            let all = delays(0.1, seed);
            let exact = [1.0, 2.0, 4.0, 8.0, 10.0, 10.0];
            for (delay, exact) in all.iter().zip(exact) {
                let seconds = delay.as_secs_f64();
                assert!(seconds >= exact * 0.9 && seconds <= f64::min(exact * 1.1, 10.0), "{all:?}");
            }
        }
    }

    #[test]
    fn one_seed_gives_one_sequence_and_names_give_different_ones() {
        assert_eq!(delays(0.1, 7), delays(0.1, 7));
        assert_ne!(delays(0.1, seed_for(7, "a")), delays(0.1, seed_for(7, "b")));
    }

    #[test]
    fn a_reset_starts_over() {
        let (mut backoff, now) = backoff(0.0, 1);
        backoff.next(now);
        backoff.next(now);
        assert_eq!(backoff.attempts(), 2);
        backoff.reset(now);
        assert_eq!(backoff.attempts(), 0);
        assert_eq!(backoff.next(now), SECOND);
    }

    #[test]
    fn an_initial_delay_above_the_maximum_is_cut() {
        let now = Instant::now();
        let policy = BackoffPolicy::doubling(20 * SECOND, SECOND);
        assert!(Backoff::new(policy, 1, now).next(now) <= SECOND);
    }

    #[test]
    fn a_service_that_names_a_pause_gets_it_and_a_little_more_up_to_an_hour() {
        for seed in 0..200 {
            let mut jitter = Jitter::new(seed);
            assert!((60 * SECOND..=66 * SECOND).contains(&jitter.at_least(60 * SECOND)));
            assert!((3600 * SECOND..=3960 * SECOND).contains(&jitter.at_least(Duration::MAX)));
            assert_eq!(jitter.at_least(Duration::ZERO), Duration::ZERO);
        }
    }
}
