//! A config's state as gauges.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use multinic_actors::boundary::StatusSink;
use multinic_actors::domain::ids::{ConfigId, ConfigName};
use multinic_actors::domain::port::Verdict;
use multinic_actors::domain::status::{ConfigStatus, Degraded};

use super::names;
use super::recorder::MetricsHandle;

/// Sets the gauges of each config and counts the configs by state.
pub struct MetricsStatusSink {
    metrics: MetricsHandle,
    known: Mutex<BTreeMap<ConfigName, Known>>,
}

/// What was last shown of a config.
struct Known {
    id: ConfigId,
    state: State,
    /// Verdicts that have a series: one that no port has any more must go back to 0.
    verdicts: BTreeSet<Verdict>,
    /// What agents say has series.
    has_agents: bool,
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

impl fmt::Debug for MetricsStatusSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsStatusSink")
    }
}

impl MetricsStatusSink {
    /// A sink that writes to `metrics`.
    pub fn new(metrics: MetricsHandle) -> Self {
        let sink = Self { metrics, known: Mutex::default() };
        sink.count_states(&BTreeMap::new());
        sink
    }

    fn count_states(&self, known: &BTreeMap<ConfigName, Known>) {
        for state in State::ALL {
            let count = known.values().filter(|known| known.state == state).count();
            self.metrics.gauge(names::CONFIGS, &[("state", state.as_str())], count as f64);
        }
    }

    fn show(&self, status: &ConfigStatus, earlier: Option<&Known>) {
        let flag = |value: bool| f64::from(u8::from(value));
        self.set(status, names::CONFIG_READY, flag(status.ready == Some(true)));
        let is_degraded = status.degraded != Degraded::Healthy;
        self.set(status, names::CONFIG_DEGRADED, flag(is_degraded));
        self.set(status, names::CONFIG_PAUSED, flag(status.paused));
        self.show_nodes(status, earlier);
        self.show_ports(status, earlier);
        self.show_times(status);
    }

    fn show_nodes(&self, status: &ConfigStatus, earlier: Option<&Known>) {
        let nodes = &status.nodes;
        let states = [("desired", nodes.desired), ("delivered", nodes.delivered), ("skipped", nodes.skipped)];
        for (state, count) in states {
            let label = Some(("state", state));
            self.set_with(status, names::CONFIG_NODES, label, f64::from(count));
        }
        let agents =
            [("configured", nodes.configured), ("in_progress", nodes.in_progress), ("failed", nodes.failed)];
        for (state, count) in agents {
            // A config that does not look into the workload cluster has no such series.
            if count.is_some() || earlier.is_some_and(|known| known.has_agents) {
                let count = count.map_or(0.0, f64::from);
                self.set_with(status, names::CONFIG_NODES, Some(("state", state)), count);
            }
        }
    }

    fn show_ports(&self, status: &ConfigStatus, earlier: Option<&Known>) {
        let selected = status.ports.get(&Verdict::Selected).copied().unwrap_or_default();
        self.set(status, names::CONFIG_INTERFACES, f64::from(selected));
        let gone = earlier.iter().flat_map(|known| &known.verdicts);
        let verdicts: BTreeSet<&Verdict> = gone.chain(status.ports.keys()).collect();
        for verdict in verdicts {
            let count = status.ports.get(verdict).copied().unwrap_or_default();
            let word = format!("{verdict:?}");
            self.set_with(status, names::CONFIG_PORTS, Some(("verdict", &word)), f64::from(count));
        }
    }

    fn show_times(&self, status: &ConfigStatus) {
        let seconds = |at: Timestamp| at.as_duration().as_secs_f64();
        if let Some(at) = status.last_synced_at {
            self.set(status, names::CONFIG_LAST_SUCCESS, seconds(at));
        }
        if let Some(at) = status.token_expires_at {
            self.set(status, names::CONFIG_TOKEN_EXPIRY, seconds(at));
        }
        if let (Some(last), Some(next)) = (status.last_poll_at, status.next_poll_at)
            && next > last
        {
            self.set(status, names::CONFIG_POLL_INTERVAL, seconds(next) - seconds(last));
        }
    }

    fn set(&self, status: &ConfigStatus, name: &'static str, value: f64) {
        self.set_with(status, name, None, value);
    }

    fn set_with(
        &self,
        status: &ConfigStatus,
        name: &'static str,
        label: Option<(&'static str, &str)>,
        value: f64,
    ) {
        let config = &status.id.name;
        let mut labels = vec![("namespace", config.namespace.as_ref()), ("config", config.name.as_ref())];
        labels.extend(label);
        self.metrics.gauge(name, &labels, value);
    }
}

impl StatusSink for MetricsStatusSink {
    fn publish(&self, id: &ConfigId, status: Arc<ConfigStatus>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = known.get(&id.name);
        self.show(&status, earlier);
        let state = State::of(&status);
        let is_moved = earlier.is_none_or(|earlier| earlier.state != state);
        let mut verdicts: BTreeSet<Verdict> = status.ports.keys().copied().collect();
        verdicts.extend(earlier.into_iter().flat_map(|known| known.verdicts.iter().copied()));
        let has_agents =
            status.nodes.configured.is_some() || earlier.is_some_and(|earlier| earlier.has_agents);
        let now = Known { id: id.clone(), state, verdicts, has_agents };
        known.insert(id.name.clone(), now);
        if is_moved {
            self.count_states(&known);
        }
    }

    fn forget(&self, id: &ConfigId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // An object of the same name that was created since has the series now.
        if known.get(&id.name).is_some_and(|known| known.id != *id) {
            return;
        }
        known.remove(&id.name);
        self.metrics.forget_config(&id.name.namespace, &id.name.name);
        self.count_states(&known);
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
