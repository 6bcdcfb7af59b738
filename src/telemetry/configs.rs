//! What there is to say of each config: kept as its newest state, written out when somebody asks.
//!
//! Nothing but this holds a series of a config, so forgetting it is one removal, and what still arrives for
//! it afterwards (the answer to a POST under way) goes nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use multinic_actors::boundary::{ChangesDelivered, RoundEnded, StatusSink, Witness};
use multinic_actors::domain::ids::{ConfigId, ConfigName};
use multinic_actors::domain::port::Verdict;
use multinic_actors::domain::reason::Reason;
use multinic_actors::domain::status::{ConfigStatus, Degraded};

use super::families::{Collector, Families, label};
use super::names;
use super::recorder::MetricsHandle;

/// The metrics of all configs.
pub struct ConfigMetrics {
    /// For what is counted over all configs.
    metrics: MetricsHandle,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    configs: BTreeMap<ConfigName, Series>,
    /// Configs by state, in the order of [`State::ALL`].
    states: [u64; State::ALL.len()],
}

/// What is shown of one config.
#[derive(Clone)]
struct Series {
    id: ConfigId,
    /// Not while another replica shows it.
    is_shown: bool,
    status: Arc<ConfigStatus>,
    /// Verdicts that have a series: one that no port has any more must go back to 0.
    verdicts: BTreeSet<Verdict>,
    times: Times,
    last_round: Option<f64>,
    down_ports: u32,
    rounds: BTreeMap<Reason, u64>,
    posted: Posted,
}

/// Moments and spans that stay while the next value is not known: during a round, after a restart of the
/// config's actor.
#[derive(Clone, Copy, Default)]
struct Times {
    last_success: Option<f64>,
    token_expiry: Option<f64>,
    poll_interval: Option<f64>,
}

/// How many nodes were posted with which result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Posted {
    pub(super) accepted: u64,
    pub(super) rejected: u64,
    pub(super) failed: u64,
}

/// The first that holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Paused,
    Pending,
    NotReady,
    Degraded,
    Ready,
}

impl State {
    const ALL: [Self; 5] = [Self::Paused, Self::Pending, Self::NotReady, Self::Degraded, Self::Ready];

    fn of(status: &ConfigStatus) -> Self {
        match (status.paused, status.ready, status.degraded) {
            (true, _, _) => Self::Paused,
            (_, None, _) => Self::Pending,
            (_, Some(false), _) => Self::NotReady,
            (_, Some(true), Degraded::Healthy) => Self::Ready,
            (_, Some(true), Degraded::PartiallySynced | Degraded::Error) => Self::Degraded,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Pending => "pending",
            Self::NotReady => "not_ready",
            Self::Degraded => "degraded",
            Self::Ready => "ready",
        }
    }
}

impl fmt::Debug for ConfigMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigMetrics")
    }
}

impl ConfigMetrics {
    /// No configs yet. What is counted over all of them goes to `metrics`.
    pub fn new(metrics: MetricsHandle) -> Self {
        Self { metrics, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Every critical section leaves the map whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is shown of the config, if it is the one that is shown.
    fn change(&self, id: &ConfigId, change: impl FnOnce(&mut Series)) {
        let mut known = self.known();
        if let Some(series) = known.configs.get_mut(&id.name).filter(|series| series.id == *id) {
            change(series);
        }
    }

    /// Nothing is shown of any config until it is published again; what was counted then goes on. What has not come
    /// back since the last time is forgotten.
    pub fn stand_by(&self) {
        let mut known = self.known();
        known.configs.retain(|_, series| std::mem::take(&mut series.is_shown));
        known.states = [0; State::ALL.len()];
    }

    pub(super) fn posted(&self, id: &ConfigId, posted: Posted) {
        self.change(id, |series| {
            series.posted.accepted += posted.accepted;
            series.posted.rejected += posted.rejected;
            series.posted.failed += posted.failed;
        });
    }
}

impl Known {
    fn count(&mut self, state: State, by: i64) {
        let index = State::ALL.iter().position(|known| *known == state);
        if let Some(count) = index.and_then(|index| self.states.get_mut(index)) {
            *count = count.saturating_add_signed(by);
        }
    }
}

impl StatusSink for ConfigMetrics {
    fn publish(&self, id: &ConfigId, status: Arc<ConfigStatus>) {
        let mut known = self.known();
        if let Some(earlier) = known.configs.get(&id.name).and_then(Series::state) {
            known.count(earlier, -1);
        }
        known.count(State::of(&status), 1);
        match known.configs.get_mut(&id.name) {
            Some(series) => series.show(id, status),
            None => drop(known.configs.insert(id.name.clone(), Series::new(id, status))),
        }
    }

    fn forget(&self, id: &ConfigId) {
        let mut known = self.known();
        // An object of the same name that was created since has the series now.
        if known.configs.get(&id.name).is_some_and(|series| series.id == *id)
            && let Some(state) = known.configs.remove(&id.name).as_ref().and_then(Series::state)
        {
            known.count(state, -1);
        }
    }
}

impl Witness for ConfigMetrics {
    fn round_ended(&self, round: &RoundEnded) {
        let took = round.took.as_secs_f64();
        let result = if round.down_ports.is_some() { "ok" } else { "error" };
        self.metrics.observe(names::SYNC_DURATION, &[("result", result)], took);
        self.change(&round.id, |series| {
            *series.rounds.entry(round.reason).or_default() += 1;
            series.last_round = Some(took);
            series.down_ports = round.down_ports.unwrap_or(series.down_ports);
        });
    }

    fn changes_delivered(&self, delivered: &ChangesDelivered) {
        for wait in &delivered.waits {
            self.metrics.observe(names::CHANGE_DELIVERY, &[], wait.as_secs_f64());
        }
    }
}

impl Collector for ConfigMetrics {
    fn collect(&self, families: &mut Families) {
        let (configs, states): (Vec<_>, _) = {
            let known = self.known();
            (known.configs.values().filter(|series| series.is_shown).cloned().collect(), known.states)
        };
        for (state, count) in State::ALL.into_iter().zip(states) {
            families.sample(names::CONFIGS, &label("state", state.as_str()), count as f64);
        }
        for series in &configs {
            series.write(families);
        }
    }
}

impl Series {
    fn new(id: &ConfigId, status: Arc<ConfigStatus>) -> Self {
        let mut series = Self {
            id: id.clone(),
            is_shown: true,
            status: Arc::clone(&status),
            verdicts: BTreeSet::new(),
            times: Times::default(),
            last_round: None,
            down_ports: 0,
            rounds: BTreeMap::new(),
            posted: Posted::default(),
        };
        series.show(id, status);
        series
    }

    /// In which state it counts.
    fn state(&self) -> Option<State> {
        self.is_shown.then(|| State::of(&self.status))
    }

    fn show(&mut self, id: &ConfigId, status: Arc<ConfigStatus>) {
        self.is_shown = true;
        if self.id != *id {
            // Another life of the object: its counters go on, its moments do not.
            self.id = id.clone();
            self.times = Times::default();
        }
        self.verdicts.extend(status.ports.keys());
        self.times.take(&status);
        self.status = status;
    }

    fn write(&self, families: &mut Families) {
        let own = format!(
            "{},{}",
            label("namespace", &self.id.name.namespace),
            label("config", &self.id.name.name)
        );
        self.write_state(families, &own);
        self.write_ports(families, &own);
        self.write_counters(families, &own);
        let times = [
            (names::CONFIG_LAST_SUCCESS, self.times.last_success),
            (names::CONFIG_LAST_SYNC_DURATION, self.last_round),
            (names::CONFIG_POLL_INTERVAL, self.times.poll_interval),
            (names::CONFIG_TOKEN_EXPIRY, self.times.token_expiry),
        ];
        for (name, value) in times {
            if let Some(value) = value {
                families.sample(name, &own, value);
            }
        }
    }

    fn write_state(&self, families: &mut Families, own: &str) {
        let status = &self.status;
        let flags = [
            (names::CONFIG_READY, status.ready == Some(true)),
            (names::CONFIG_DEGRADED, status.degraded != Degraded::Healthy),
            (names::CONFIG_PAUSED, status.paused),
        ];
        for (name, is_set) in flags {
            families.sample(name, own, f64::from(u8::from(is_set)));
        }
        let nodes = &status.nodes;
        let states = [
            ("desired", Some(nodes.desired)),
            ("delivered", Some(nodes.delivered)),
            ("skipped", Some(nodes.skipped)),
            // Only of configs that look into the workload cluster.
            ("configured", nodes.configured),
            ("in_progress", nodes.in_progress),
            ("failed", nodes.failed),
        ];
        for (state, count) in states.into_iter().filter_map(|(state, count)| Some((state, count?))) {
            families.sample(names::CONFIG_NODES, &with(own, "state", state), f64::from(count));
        }
        // A config that does not look into the workload cluster has no such series.
        let agents =
            [("configured", nodes.configured), ("in_progress", nodes.in_progress), ("failed", nodes.failed)];
        for (state, count) in agents.into_iter().filter_map(|(state, count)| Some((state, count?))) {
            families.sample(names::CONFIG_NODES, &with(own, "state", state), f64::from(count));
        }
    }

    fn write_ports(&self, families: &mut Families, own: &str) {
        let count = |verdict| f64::from(self.status.ports.get(verdict).copied().unwrap_or_default());
        families.sample(names::CONFIG_INTERFACES, own, count(&Verdict::Selected));
        families.sample(names::CONFIG_DOWN_PORTS, own, f64::from(self.down_ports));
        for verdict in &self.verdicts {
            families.sample(
                names::CONFIG_PORTS,
                &with(own, "verdict", &format!("{verdict:?}")),
                count(verdict),
            );
        }
    }

    fn write_counters(&self, families: &mut Families, own: &str) {
        for (reason, count) in &self.rounds {
            families.sample(names::CONFIG_SYNCS, &with(own, "reason", &reason.to_string()), *count as f64);
        }
        let Posted { accepted, rejected, failed } = self.posted;
        for (result, count) in [("accepted", accepted), ("rejected", rejected), ("failed", failed)] {
            if count > 0 {
                families.sample(names::CONFIG_DELIVERED_NODES, &with(own, "result", result), count as f64);
            }
        }
    }
}

impl Times {
    fn take(&mut self, status: &ConfigStatus) {
        let seconds = |at: Timestamp| at.as_duration().as_secs_f64();
        self.last_success = status.last_synced_at.map(seconds).or(self.last_success);
        self.token_expiry = status.token_expires_at.map(seconds).or(self.token_expiry);
        let polls = status.last_poll_at.zip(status.next_poll_at).filter(|(last, next)| next > last);
        self.poll_interval = polls.map(|(last, next)| seconds(next) - seconds(last)).or(self.poll_interval);
    }
}

fn with(own: &str, name: &str, value: &str) -> String {
    format!("{own},{name}=\"{value}\"")
}

#[cfg(test)]
#[path = "configs_tests.rs"]
mod tests;
