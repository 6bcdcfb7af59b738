//! One attempt at a time for what many configs need; who waited for it takes its outcome, good or bad.
//! So a hanging service costs everybody one deadline, not one after the other.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use multinic_actors::boundary::CloudError;
use tokio::time::Instant;

/// The newest outcome of one thing.
#[derive(Debug)]
pub(super) struct Flight<T> {
    last: tokio::sync::Mutex<Option<Landed<T>>>,
    landings: AtomicU64,
}

#[derive(Debug)]
struct Landed<T> {
    at: Instant,
    outcome: Result<T, CloudError>,
}

impl<T> Default for Flight<T> {
    fn default() -> Self {
        Self { last: tokio::sync::Mutex::new(None), landings: AtomicU64::new(0) }
    }
}

impl<T: Clone> Flight<T> {
    /// The last good outcome if `is_good` says so (it is told when it came), else that of `attempt`.
    /// An attempt that ended while this call waited for it is taken as its own.
    pub(super) async fn run(
        &self,
        is_good: impl Fn(&T, Instant) -> bool,
        attempt: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<T, CloudError> {
        let seen = self.landings.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        let waited = self.landings.load(Ordering::Acquire) != seen;
        match last.as_ref() {
            Some(Landed { outcome: Ok(value), at }) if is_good(value, *at) => return Ok(value.clone()),
            Some(Landed { outcome: Err(error), .. }) if waited => return Err(error.clone()),
            _ => {}
        }
        let outcome = attempt.await;
        *last = Some(Landed { at: Instant::now(), outcome: outcome.clone() });
        self.landings.fetch_add(1, Ordering::AcqRel);
        outcome
    }

    /// When it last came to an outcome; `None` while one is under way, or before the first.
    fn landed_at(&self) -> Option<Instant> {
        self.last.try_lock().ok()?.as_ref().map(|landed| landed.at)
    }
}

/// Flights by key, for a cache. Those that nobody asked for in a while are forgotten.
#[derive(Debug)]
pub(super) struct Flights<K, T> {
    flights: Mutex<HashMap<K, Arc<Flight<T>>>>,
}

/// Below this size nothing is forgotten.
const SMALL: usize = 256;

impl<K, T> Default for Flights<K, T> {
    fn default() -> Self {
        Self { flights: Mutex::default() }
    }
}

impl<K: Eq + Hash, T: Clone> Flights<K, T> {
    /// The flight for `key`. `keep`: how long an outcome is of use.
    pub(super) fn get(&self, key: K, keep: std::time::Duration) -> Arc<Flight<T>> {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = flights.get(&key) {
            return Arc::clone(flight);
        }
        if flights.len() >= SMALL {
            flights.retain(|_, flight| {
                Arc::strong_count(flight) > 1 || flight.landed_at().is_some_and(|at| at.elapsed() < keep)
            });
        }
        Arc::clone(flights.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multinic_actors::domain::reason::Reason;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    async fn slow(count: &AtomicUsize, outcome: Result<u32, CloudError>) -> Result<u32, CloudError> {
        count.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(30)).await;
        outcome
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_shares_the_outcome_also_a_bad_one() {
        let (flight, count) = (Flight::default(), AtomicUsize::new(0));
        for outcome in [Ok(1), Err(CloudError::new(Reason::KeystoneError, "away"))] {
            let begun = Instant::now();
            let run = || flight.run(|_, at| at > begun, slow(&count, outcome.clone()));
            let (a, b, c) = tokio::join!(run(), run(), run());
            assert_eq!([&a, &b, &c], [&outcome; 3]);
        }
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bad_outcome_does_not_last() {
        let (flight, count) = (Flight::default(), AtomicUsize::new(0));
        let away = Err(CloudError::new(Reason::KeystoneError, "away"));
        assert!(flight.run(|_, _| true, slow(&count, away)).await.is_err());
        assert_eq!(flight.run(|_, _| true, slow(&count, Ok(2))).await, Ok(2));
        assert_eq!(flight.run(|_, _| true, slow(&count, Ok(3))).await, Ok(2));
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_is_given_up_does_not_block_the_next() {
        let (flight, count) = (Flight::default(), AtomicUsize::new(0));
        let gives_up = flight.run(|_, _| true, slow(&count, Ok(1)));
        assert!(tokio::time::timeout(Duration::from_secs(1), gives_up).await.is_err());
        assert_eq!(flight.run(|_, _| true, slow(&count, Ok(2))).await, Ok(2));
    }
}
