//! The supervision tree as metrics. Trees come and go with the reigns of a process; its counters stay.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use multinic_actors::ACTOR_KINDS;
use multinic_actors::domain::restart::ExitCause;
use multinic_actors::supervision::{Stopwatch, Tree};

use super::families::{Collector, Families, label};
use super::names;
use super::recorder::MetricsHandle;

/// Actors and their restarts by kind; all kinds are there from the start.
#[derive(Debug, Default)]
pub struct TreeMetrics(Mutex<Trees>);

#[derive(Debug, Default)]
struct Trees {
    current: Option<Tree>,
    /// Restarts of the trees that are gone.
    earlier: BTreeMap<(&'static str, ExitCause), u64>,
}

impl TreeMetrics {
    fn trees(&self) -> MutexGuard<'_, Trees> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This tree counts from now on, or none.
    pub fn set(&self, tree: Option<Tree>) {
        let mut trees = self.trees();
        if let Some(ended) = std::mem::replace(&mut trees.current, tree) {
            for (what, count) in ended.restarts() {
                *trees.earlier.entry(what).or_default() += count;
            }
        }
    }
}

impl Collector for TreeMetrics {
    fn collect(&self, families: &mut Families) {
        let trees = self.trees();
        let running = trees.current.as_ref().map(Tree::count_by_kind).unwrap_or_default();
        let restarts = trees.current.as_ref().map(Tree::restarts).unwrap_or_default();
        for kind in ACTOR_KINDS {
            let own = label("kind", kind);
            let count = running.get(kind).copied().unwrap_or_default();
            families.sample(names::ACTORS, &own, count as f64);
            for cause in ExitCause::ALL {
                let counts = [&trees.earlier, &restarts].map(|counts| counts.get(&(kind, cause)).copied());
                let count: u64 = counts.into_iter().flatten().sum();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_counted_on_when_the_next_reign_begins() {
        let metrics = TreeMetrics::default();
        let restarts = || {
            let mut families = Families::default();
            metrics.collect(&mut families);
            let text = families.text();
            let line = format!("{}{{kind=\"root\",cause=\"error\"}} ", names::ACTOR_RESTARTS);
            text.lines().find_map(|found| found.strip_prefix(&line)).unwrap().to_owned()
        };
        assert_eq!(restarts(), "0");
        for expected in ["1", "2"] {
            let tree = Tree::new("root", "root");
            metrics.set(Some(tree.clone()));
            tree.note_root_restart();
            assert_eq!(restarts(), expected);
            metrics.set(None);
            assert_eq!(restarts(), expected, "of a replica that stands by");
        }
    }
}
