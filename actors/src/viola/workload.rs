//! Looking into the workload cluster: what the agents say, what has drifted, and its repair.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{State, Viola, ViolaMsg};
use crate::boundary::WorkloadView;
use crate::config::ConfigMsg;
use crate::domain::drift::{Drifts, Rule};
use crate::domain::machines::Machines;
use crate::domain::progress::WorkloadReport;
use crate::domain::readback::{self, ReadBack};
use crate::domain::reason::SkipReason;
use crate::supervision::{Ticket, TimerSlot, now};

/// Looks follow each other no faster: a cluster whose agents all speak at once brings many changes.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// A workload cluster that is looked at.
pub(super) struct Followed {
    view: Box<dyn WorkloadView>,
    /// A change was told and is not looked at yet.
    is_told: Arc<AtomicBool>,
    look: TimerSlot,
    looked_at: Option<Instant>,
    was_reachable: bool,
    drifts: Drifts,
    back: ReadBack,
}

impl Followed {
    /// Whether the first look of its adapter has ended, well or not.
    pub(super) fn is_known(&self) -> bool {
        self.view.reach().is_reachable.is_some()
    }
}

impl Viola {
    /// Follows the config's workload cluster, if it names one, instead of the one before.
    pub(super) fn follow(&self, state: &mut State) {
        let is_told = Arc::new(AtomicBool::new(false));
        let (me, told) = (state.me.clone(), Arc::clone(&is_told));
        let changed = Box::new(move || {
            if !told.swap(true, Ordering::AcqRel) {
                let _ = me.send_message(ViolaMsg::WorkloadChanged);
            }
        });
        state.followed = self.workload.follow(&state.config, changed).map(|view| Followed {
            view,
            is_told,
            look: TimerSlot::new(),
            looked_at: None,
            was_reachable: false,
            drifts: Drifts::default(),
            back: ReadBack::default(),
        });
    }

    pub(super) fn workload_changed(&self, state: &mut State) {
        let Some(followed) = &mut state.followed else { return };
        let wait = followed.looked_at.map_or(Duration::ZERO, |at| (at + LOOK_PAUSE).duration_since(now()));
        if wait.is_zero() {
            self.look(state);
        } else {
            followed.look.arm(wait, &state.me, ViolaMsg::LookDue);
        }
    }

    /// What was on its way has arrived, or something else is wanted: what is there means something else now.
    pub(super) fn look_soon(&self, state: &mut State) {
        if let Some(followed) = &state.followed
            && !followed.is_told.swap(true, Ordering::AcqRel)
        {
            let _ = state.me.send_message(ViolaMsg::WorkloadChanged);
        }
    }

    pub(super) fn look_due(&self, state: &mut State, ticket: Ticket) {
        if state.followed.as_mut().is_some_and(|followed| followed.look.accept(ticket)) {
            self.look(state);
        }
    }

    /// Compares what was delivered with what is there, repairs what may be repaired, and tells the config.
    pub(super) fn look(&self, state: &mut State) {
        let Some(mut followed) = state.followed.take() else { return };
        // What is told from here on is looked at again.
        followed.is_told.store(false, Ordering::Release);
        followed.looked_at = Some(now());
        let is_reachable = followed.view.reach().is_reachable == Some(true);
        if is_reachable && !followed.was_reachable {
            state.outbox.hurry();
        }
        followed.was_reachable = is_reachable;
        if is_reachable {
            let delivered = state.config.vms.iter().filter_map(|vm| state.outbox.delivered_to(vm));
            followed.back = readback::compare(
                delivered,
                |node| followed.view.found(node),
                |node| state.outbox.is_settled(node),
            );
            self.repair(state, &mut followed);
        }
        let is_mismatch_news = state.is_mismatch_news(&followed);
        state.followed = Some(followed);
        if is_mismatch_news {
            let _ = state.owner.send_message(ConfigMsg::NodesChanged);
        }
        self.settle_if_complete(state);
        self.pump(state);
        self.report(state);
    }

    fn repair(&self, state: &mut State, followed: &mut Followed) {
        let rule = state.drift_rule();
        followed.drifts.observe(&followed.back.drifting, rule, now());
        let repairs = state.config.delivery.direct().is_some() && !state.config.paused;
        if repairs {
            for node in followed.drifts.repair(rule, now()) {
                let how = if followed.view.found(&node).is_some() { "was changed" } else { "is gone" };
                tracing::info!(
                    "{}: the config of node {node} {how}, it is applied again",
                    state.config.id.name
                );
                state.outbox.resend(&node);
            }
        }
        match followed.drifts.next(rule, repairs, now()) {
            Some(at) => followed.look.arm(at.duration_since(now()), &state.me, ViolaMsg::LookDue),
            None => followed.look.cancel(),
        }
    }
}

impl State {
    /// The workload cluster's nodes, if they are known.
    pub(super) fn machines(&self) -> Option<Arc<Machines>> {
        self.followed.as_ref()?.view.machines()
    }

    fn drift_rule(&self) -> Rule {
        Rule { grace: self.config.polling.fast, rest: self.config.polling.slow }
    }

    /// Whether the cluster's nodes tell otherwise by now than when the last round was settled.
    fn is_mismatch_news(&self, followed: &Followed) -> bool {
        let Some(machines) = followed.view.machines() else { return false };
        self.gathering.is_none()
            && self.decisions.iter().any(|(vm, decision)| {
                let Some(node) = &decision.node else { return false };
                let skipped = self.settled.skipped.get(vm).map(|(reason, _)| *reason);
                let is_desired = self.settled.desired.get(node).is_some_and(|node| &node.instance_id == vm);
                match skipped {
                    Some(SkipReason::NodeMismatch) => machines.mismatch(node, vm).is_none(),
                    _ => is_desired && machines.mismatch(node, vm).is_some(),
                }
            })
    }

    pub(super) fn workload_report(&self) -> Option<WorkloadReport> {
        let followed = self.followed.as_ref()?;
        let lasting = followed.drifts.lasting(self.drift_rule(), now());
        Some(WorkloadReport {
            reach: followed.view.reach(),
            configured: followed.back.configured,
            in_progress: followed.back.in_progress,
            failed: followed.back.failed.clone(),
            drifted: lasting.cloned().collect(),
            conflicts: self
                .outbox
                .conflicts()
                .map(|(node, words)| (node.clone(), words.to_owned()))
                .collect(),
        })
    }
}
