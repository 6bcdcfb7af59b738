//! The supervision tree as metrics.

use std::time::Duration;

use multinic_actors::ACTOR_KINDS;
use multinic_actors::domain::restart::ExitCause;
use multinic_actors::supervision::{Stopwatch, Tree};

use super::families::{Collector, Families, label};
use super::names;
use super::recorder::MetricsHandle;

/// Actors and their restarts by kind; all kinds are there from the start.
#[derive(Clone, Debug)]
pub struct TreeMetrics(pub Tree);

impl Collector for TreeMetrics {
    fn collect(&self, families: &mut Families) {
        let (running, restarts) = (self.0.count_by_kind(), self.0.restarts());
        for kind in ACTOR_KINDS {
            let own = label("kind", kind);
            let count = running.get(kind).copied().unwrap_or_default();
            families.sample(names::ACTORS, &own, count as f64);
            for cause in ExitCause::ALL {
                let count = restarts.get(&(kind, cause)).copied().unwrap_or_default();
                let labels = format!("{own},{}", label("cause", cause.as_str()));
                families.sample(names::ACTOR_RESTARTS, &labels, count as f64);
            }
        }
    }
}

/// How long actors take for a message.
#[derive(Debug)]
pub struct HandleTimes(pub MetricsHandle);

impl Stopwatch for HandleTimes {
    fn handled(&self, kind: &'static str, took: Duration) {
        self.0.observe(names::ACTOR_HANDLE, &[("kind", kind)], took.as_secs_f64());
    }
}
