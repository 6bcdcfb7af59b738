//! What is to be written when. No IO; time is passed in.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use multinic_actors::domain::backoff::{Backoff, BackoffPolicy, seed_for};
use multinic_actors::domain::ids::ConfigId;
use multinic_actors::domain::status::ConfigStatus;

use super::convert::{mean_the_same, object_status};
use super::write::Outcome;
use crate::kube::observed::ObservedStatuses;
use crate::kube::openstack_config::OpenstackConfigStatus;

/// Pauses before a write that failed is tried again.
const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(30),
    multiplier: 2.0,
    jitter: 0.3,
};

/// How often the time of the last success alone is written for an object whose slow interval is not known.
const DEFAULT_SLOW: Duration = Duration::from_secs(120);

/// Nobody needs that time more often than this, however short the slow interval.
const SHORTEST_SLOW: Duration = Duration::from_secs(10);

/// The states that were published, and what became of them.
pub(super) struct Queue {
    slots: HashMap<ConfigId, Slot>,
    seed: u64,
}

/// One object's.
struct Slot {
    wanted: Arc<ConfigStatus>,
    /// What stands in the object, as far as we wrote it.
    written: Option<OpenstackConfigStatus>,
    /// When that was, or when the object became known.
    since: Instant,
    /// When to look at it next; `None` when all is written.
    due: Option<Instant>,
    is_under_way: bool,
    /// Not before this, after a failure.
    retry_at: Option<Instant>,
    backoff: Backoff,
    /// What keeps it from being written, as it was told last.
    problem: Option<String>,
}

/// A status to write.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) id: ConfigId,
    pub(super) status: OpenstackConfigStatus,
    /// What stood there before.
    pub(super) before: Option<OpenstackConfigStatus>,
}

/// What there is to do.
pub(super) enum Due {
    Now(Box<Task>),
    At(Instant),
    Never,
}

impl Queue {
    pub(super) fn new(seed: u64) -> Self {
        Self { slots: HashMap::new(), seed }
    }

    pub(super) fn publish(&mut self, id: &ConfigId, state: Arc<ConfigStatus>, now: Instant) {
        let seed = self.seed;
        let slot = self.slots.entry(id.clone()).or_insert_with(|| Slot {
            wanted: Arc::clone(&state),
            written: None,
            since: now,
            due: None,
            is_under_way: false,
            retry_at: None,
            backoff: Backoff::new(RETRY, seed_for(seed, &id.to_string()), now),
            problem: None,
        });
        slot.wanted = state;
        slot.due = Some(slot.retry_at.unwrap_or(now).max(now));
    }

    pub(super) fn forget(&mut self, id: &ConfigId) {
        self.slots.remove(id);
    }

    /// The status that is due first and is to be written now, or when the first will be due.
    pub(super) fn next(&mut self, now: Instant, observed: &ObservedStatuses, time: Timestamp) -> Due {
        loop {
            let open = self.slots.iter().filter(|(_, slot)| !slot.is_under_way);
            let first = open.filter_map(|(id, slot)| Some((slot.due?, id))).min();
            let id = match first {
                None => return Due::Never,
                Some((due, _)) if due > now => return Due::At(due),
                Some((_, id)) => id.clone(),
            };
            let Some(slot) = self.slots.get_mut(&id) else { return Due::Never };
            match slot.look(&id, now, observed, time) {
                Look::Write(task) => return Due::Now(task),
                Look::Later => {}
                Look::Gone => drop(self.slots.remove(&id)),
            }
        }
    }

    /// A write has ended.
    pub(super) fn done(&mut self, id: &ConfigId, outcome: Outcome, now: Instant) {
        // Forgotten meanwhile: whatever came of it.
        let Some(slot) = self.slots.get_mut(id) else { return };
        slot.is_under_way = false;
        match outcome {
            Outcome::Written(status) => {
                if slot.problem.take().is_some() {
                    tracing::info!("{id}: its status can be written again");
                }
                slot.written = Some(*status);
                slot.since = now;
                slot.retry_at = None;
                slot.backoff.reset(now);
            }
            Outcome::Gone => drop(self.slots.remove(id)),
            Outcome::Failed { problem, detail } => {
                let pause = slot.backoff.next(now);
                if slot.problem.as_ref() != Some(&problem) {
                    tracing::warn!(
                        "{id}: its status cannot be written: {detail}; trying again in {pause:.0?}"
                    );
                    slot.problem = Some(problem);
                }
                slot.retry_at = Some(now + pause);
                slot.due = slot.retry_at;
            }
        }
    }

    /// A write ended without saying which it was.
    pub(super) fn lost(&mut self, now: Instant) {
        for slot in self.slots.values_mut().filter(|slot| slot.is_under_way) {
            slot.is_under_way = false;
            slot.due = Some(now + RETRY.initial);
        }
    }
}

enum Look {
    Write(Box<Task>),
    Later,
    Gone,
}

impl Slot {
    /// Decides about a slot that is due.
    fn look(&mut self, id: &ConfigId, now: Instant, observed: &ObservedStatuses, time: Timestamp) -> Look {
        let Some(known) = observed.get(id) else { return Look::Gone };
        let before = self.written.clone().or(known.status);
        let status = object_status(&self.wanted, before.as_ref(), time);
        let is_news = before.as_ref().is_none_or(|before| !mean_the_same(before, &status));
        let are_times_news = before.as_ref().is_some_and(|before| !has_same_times(before, &status));
        let times_at = self.since + known.slow.unwrap_or(DEFAULT_SLOW).max(SHORTEST_SLOW);
        self.due = None;
        if is_news || (are_times_news && times_at <= now) {
            self.is_under_way = true;
            return Look::Write(Box::new(Task { id: id.clone(), status, before }));
        }
        if are_times_news {
            self.due = Some(times_at);
        }
        Look::Later
    }
}

fn has_same_times(one: &OpenstackConfigStatus, other: &OpenstackConfigStatus) -> bool {
    one.last_synced_at == other.last_synced_at && one.down_port_retry == other.down_port_retry
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
