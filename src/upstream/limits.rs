//! When a request to a cloud may start: so many at once, so many a second, and not while the service
//! asked to be left alone. Whoever waits is served in turn, config by config, events before polls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use multinic_actors::boundary::Urgency;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::error::ErrorKind;
use super::queue::{Answer, Queue, Waiter};
use crate::telemetry::names;

/// A pause up to this length is waited out in the queue; at a longer one the caller is told, so that a
/// round ends and says why instead of hanging.
const LONGEST_QUIET_WAIT: Duration = Duration::from_secs(10);
/// An idle cloud is forgotten after this time; its bucket is full again long before.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// One request in seventeen minutes: a rate of nothing would be a queue without end.
const LOWEST_RATE: f64 = 0.001;

/// What one cloud is asked at most, over all configs that lead to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CloudLimits {
    /// Requests at once.
    pub max_in_flight: usize,
    /// Requests per second, in the long run.
    pub rate: f64,
    /// Requests that may start at once after a quiet time.
    pub burst: u32,
}

impl Default for CloudLimits {
    fn default() -> Self {
        Self { max_in_flight: 4, rate: 10.0, burst: 20 }
    }
}

/// Who wants to ask whom.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The cloud: Keystone's base URL.
    pub cloud: Arc<str>,
    /// The service: `neutron`.
    pub service: &'static str,
    /// On whose behalf: turns go round between these.
    pub config: Arc<str>,
    /// Who is waiting.
    pub urgency: Urgency,
    /// The metric label `cloud`: the provider id.
    pub label: Arc<str>,
}

/// Not now: the service asked for a rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resting {
    /// [`ErrorKind::Paused`].
    pub kind: ErrorKind,
    /// How long the rest still lasts.
    pub remaining: Duration,
}

/// All clouds' limits.
#[derive(Debug)]
pub struct Limiter {
    limits: CloudLimits,
    clouds: Mutex<HashMap<Arc<str>, Arc<Cloud>>>,
}

impl Limiter {
    /// Every cloud gets these limits; at least one request, and one at once.
    pub fn new(limits: CloudLimits) -> Self {
        let limits = CloudLimits {
            max_in_flight: limits.max_in_flight.max(1),
            rate: limits.rate.max(LOWEST_RATE),
            burst: limits.burst.max(1),
        };
        Self { limits, clouds: Mutex::default() }
    }

    /// Waits for the turn. The request may run as long as the permit lives.
    ///
    /// # Errors
    /// When the service asked for a rest that lasts a while yet.
    pub async fn acquire(&self, turn: &Turn) -> Result<Permit, Resting> {
        let cloud = self.cloud(&turn.cloud);
        let mut queued = cloud.enqueue(turn);
        if let Ok(at_once) = queued.try_recv() {
            return at_once;
        }
        let started = Instant::now();
        let outcome = queued.await;
        cloud.lock().note_wait(turn, started.elapsed());
        // The sender lives in the cloud's queue, and we hold the cloud: it is always used.
        outcome.unwrap_or_else(|_| {
            Err(Resting { kind: ErrorKind::Paused { code: 503 }, remaining: Duration::ZERO })
        })
    }

    /// The service answered with `code` and wants to be left alone for `wait`.
    pub fn pause(&self, turn: &Turn, code: u16, wait: Duration) {
        let cloud = self.cloud(&turn.cloud);
        let mut state = cloud.lock();
        let until = Instant::now() + wait;
        match state.pauses.get(turn.service) {
            Some(pause) if pause.until >= until => {}
            _ => {
                state.pauses.insert(turn.service, Pause { until, code });
            }
        }
        if wait > LONGEST_QUIET_WAIT {
            state.send_away(turn.service, code, wait);
        }
    }

    fn cloud(&self, name: &Arc<str>) -> Arc<Cloud> {
        let mut clouds = self.clouds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cloud) = clouds.get(name) {
            return Arc::clone(cloud);
        }
        clouds.retain(|_, cloud| !cloud.lock().is_forgettable());
        let cloud = Arc::new_cyclic(|me| Cloud {
            me: me.clone(),
            limits: self.limits,
            state: Mutex::new(State::new(self.limits)),
        });
        clouds.insert(Arc::clone(name), Arc::clone(&cloud));
        cloud
    }
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Instant,
    code: u16,
}

#[derive(Debug)]
struct Cloud {
    me: Weak<Cloud>,
    limits: CloudLimits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    in_flight: usize,
    tokens: f64,
    /// When `tokens` was true.
    refilled: Instant,
    events: Queue,
    routine: Queue,
    pauses: HashMap<&'static str, Pause>,
    /// When a task will look at the queues again.
    alarm: Option<Instant>,
    /// Fractions of a second that the metric (whole seconds) does not have yet.
    unreported: HashMap<(Arc<str>, &'static str), Duration>,
}

impl State {
    fn new(limits: CloudLimits) -> Self {
        Self {
            in_flight: 0,
            tokens: f64::from(limits.burst),
            refilled: Instant::now(),
            events: Queue::default(),
            routine: Queue::default(),
            pauses: HashMap::new(),
            alarm: None,
            unreported: HashMap::new(),
        }
    }

    fn is_forgettable(&self) -> bool {
        self.in_flight == 0
            && self.events.is_empty()
            && self.routine.is_empty()
            && self.pauses.values().all(|pause| pause.until <= Instant::now())
            && self.refilled.elapsed() > FORGET_AFTER
    }

    fn refill(&mut self, limits: CloudLimits, now: Instant) {
        let gained = (now - self.refilled).as_secs_f64() * limits.rate;
        self.tokens = (self.tokens + gained).min(f64::from(limits.burst));
        self.refilled = now;
    }

    fn next(&mut self) -> Option<Waiter> {
        let pauses = &self.pauses;
        let is_free = |service: &'static str| !pauses.contains_key(service);
        self.events.next(is_free).or_else(|| self.routine.next(is_free))
    }

    fn is_anyone_waiting(&self) -> bool {
        !self.events.is_empty() || !self.routine.is_empty()
    }

    fn send_away(&mut self, service: &'static str, code: u16, remaining: Duration) {
        for queue in [&mut self.events, &mut self.routine] {
            for waiter in queue.take_all(service) {
                let kind = ErrorKind::Paused { code };
                let _ = waiter.answer.send(Err(Resting { kind, remaining }));
            }
        }
    }

    fn note_wait(&mut self, turn: &Turn, waited: Duration) {
        let key = (Arc::clone(&turn.label), turn.service);
        let total = self.unreported.entry(key).or_default();
        *total += waited;
        let seconds = total.as_secs();
        *total -= Duration::from_secs(seconds);
        metrics::counter!(
            names::UPSTREAM_THROTTLE,
            "cloud" => turn.label.to_string(),
            "service" => turn.service,
        )
        .increment(seconds);
    }
}

impl Cloud {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&self, turn: &Turn) -> oneshot::Receiver<Answer> {
        let (answer, queued) = oneshot::channel();
        let mut state = self.lock();
        let now = Instant::now();
        let rest = state.pauses.get(turn.service).map(|pause| (pause.code, pause.until - now));
        if let Some((code, remaining)) = rest.filter(|(_, remaining)| *remaining > LONGEST_QUIET_WAIT) {
            let kind = ErrorKind::Paused { code };
            let _ = answer.send(Err(Resting { kind, remaining }));
            return queued;
        }
        let queue = match turn.urgency {
            Urgency::Event => &mut state.events,
            Urgency::Routine => &mut state.routine,
        };
        let service = turn.service;
        queue.push(&turn.config, Waiter { service, answer });
        self.serve(&mut state);
        queued
    }

    /// Lets start whoever may start now, and sees to it that somebody looks again when the next may.
    fn serve(&self, state: &mut State) {
        let now = Instant::now();
        state.refill(self.limits, now);
        state.pauses.retain(|_, pause| pause.until > now);
        while state.in_flight < self.limits.max_in_flight && state.is_anyone_waiting() {
            if state.tokens < 1.0 {
                let wait = Duration::from_secs_f64((1.0 - state.tokens) / self.limits.rate);
                // A millisecond on top: rounding must not wake us just before the token is there.
                self.look_again(state, now + wait + Duration::from_millis(1));
                return;
            }
            let Some(waiter) = state.next() else {
                if let Some(end) = state.pauses.values().map(|pause| pause.until).min() {
                    self.look_again(state, end);
                }
                return;
            };
            let Some(me) = self.me.upgrade() else { return };
            if waiter.answer.is_closed() {
                continue;
            }
            state.in_flight += 1;
            state.tokens -= 1.0;
            if let Err(Ok(mut unwanted)) = waiter.answer.send(Ok(Permit(Some(me)))) {
                // It gave up in this very moment. Its permit must not lock the state we hold.
                unwanted.0 = None;
                state.in_flight -= 1;
                state.tokens += 1.0;
            }
        }
    }

    fn look_again(&self, state: &mut State, at: Instant) {
        if state.alarm.is_some_and(|alarm| alarm <= at) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        state.alarm = Some(at);
        let me = self.me.clone();
        runtime.spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(cloud) = me.upgrade() {
                let mut state = cloud.lock();
                state.alarm = None;
                cloud.serve(&mut state);
            }
        });
    }
}

/// The right to have one request under way.
#[derive(Debug)]
pub struct Permit(Option<Arc<Cloud>>);

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(cloud) = self.0.take() {
            let mut state = cloud.lock();
            state.in_flight -= 1;
            cloud.serve(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(cloud: &str, config: &str, service: &'static str, urgency: Urgency) -> Turn {
        Turn {
            cloud: Arc::from(cloud),
            service,
            config: Arc::from(config),
            urgency,
            label: Arc::from("provider"),
        }
    }

    fn routine(config: &str) -> Turn {
        turn("a", config, "neutron", Urgency::Routine)
    }

    fn limiter(max_in_flight: usize, rate: f64, burst: u32) -> Arc<Limiter> {
        Arc::new(Limiter::new(CloudLimits { max_in_flight, rate, burst }))
    }

    /// Starts a task that waits for `turn`, then writes `name` to the log and gives the permit back.
    async fn queue(limiter: &Arc<Limiter>, log: &Arc<Mutex<Vec<String>>>, name: &str, turn: Turn) {
        let (limiter, log, name) = (Arc::clone(limiter), Arc::clone(log), name.to_owned());
        tokio::spawn(async move {
            let _permit = limiter.acquire(&turn).await.unwrap();
            log.lock().unwrap().push(name);
        });
        tokio::task::yield_now().await;
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_at_once_than_allowed() {
        let limiter = limiter(2, 1000.0, 100);
        let first = limiter.acquire(&routine("x")).await.unwrap();
        let _second = limiter.acquire(&routine("x")).await.unwrap();
        let mut third = Box::pin(async { limiter.acquire(&routine("x")).await });
        assert!(futures::poll!(&mut third).is_pending());
        drop(first);
        assert!(futures::poll!(&mut third).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let limiter = limiter(4, 10.0, 20);
        let begun = Instant::now();
        for _ in 0..20 {
            limiter.acquire(&routine("x")).await.unwrap();
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for _ in 0..10 {
            limiter.acquire(&routine("x")).await.unwrap();
        }
        let took = begun.elapsed().as_secs_f64();
        assert!((1.0..1.1).contains(&took), "{took}");
    }

    #[tokio::test(start_paused = true)]
    async fn configs_take_turns_and_events_go_first() {
        let limiter = limiter(1, 1000.0, 100);
        let log = Arc::default();
        let held = limiter.acquire(&routine("x")).await.unwrap();
        for (name, turn) in [
            ("a1", routine("a")),
            ("a2", routine("a")),
            ("a3", routine("a")),
            ("b1", routine("b")),
            ("c1", turn("a", "c", "neutron", Urgency::Event)),
        ] {
            queue(&limiter, &log, name, turn).await;
        }
        drop(held);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(*log.lock().unwrap(), ["c1", "a1", "b1", "a2", "a3"]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_cloud_does_not_hold_up_another() {
        let limiter = limiter(1, 0.001, 1);
        let _hanging = limiter.acquire(&routine("x")).await.unwrap();
        let other = turn("b", "x", "neutron", Urgency::Routine);
        assert!(limiter.acquire(&other).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_pause_is_waited_out_and_only_by_its_service() {
        let limiter = limiter(4, 10.0, 20);
        limiter.pause(&routine("x"), 429, Duration::from_secs(3));
        let nova = turn("a", "x", "nova", Urgency::Routine);
        let begun = Instant::now();
        limiter.acquire(&nova).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        limiter.acquire(&routine("x")).await.unwrap();
        assert!(begun.elapsed() >= Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_pause_is_reported_also_to_those_who_wait_already() {
        let limiter = limiter(1, 10.0, 20);
        let held = limiter.acquire(&routine("x")).await.unwrap();
        let waiting = {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move { limiter.acquire(&routine("y")).await.map(drop) })
        };
        tokio::task::yield_now().await;
        limiter.pause(&routine("x"), 503, Duration::from_secs(60));
        assert_eq!(waiting.await.unwrap().unwrap_err().kind, ErrorKind::Paused { code: 503 });
        let refused = limiter.acquire(&routine("x")).await.unwrap_err();
        assert_eq!(refused.remaining, Duration::from_secs(60));
        tokio::time::sleep(Duration::from_secs(61)).await;
        drop(held);
        assert!(limiter.acquire(&routine("x")).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_leaves_no_hole() {
        let limiter = limiter(1, 1000.0, 100);
        let held = limiter.acquire(&routine("x")).await.unwrap();
        {
            let a = routine("a");
            let mut gives_up = Box::pin(limiter.acquire(&a));
            assert!(futures::poll!(&mut gives_up).is_pending());
        }
        let b = routine("b");
        let mut stays = Box::pin(limiter.acquire(&b));
        assert!(futures::poll!(&mut stays).is_pending());
        drop(held);
        assert!(futures::poll!(&mut stays).is_ready());
    }
}
