//! From a config's state to what its object's status says.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use multinic_actors::domain::reason::Reason;
use multinic_actors::domain::status::{ConfigStatus, Degraded};

use crate::kube::openstack_config::{
    DownPortRetry, FailedNode, Nodes, OpenstackConfigStatus, PendingChange, SkippedVm,
};

/// The status for `state`, where the object's status said `before`.
///
/// What a fresh process does not know yet stays as it was: before the first round an object that was worked on
/// before keeps its verdict, and the last success stays the last success. Why it has to wait is no such thing.
pub fn object_status(
    state: &ConfigStatus,
    before: Option<&OpenstackConfigStatus>,
    now: Timestamp,
) -> OpenstackConfigStatus {
    let empty = OpenstackConfigStatus::default();
    let before = before.unwrap_or(&empty);
    let mut status = if is_kept(state, before) { before.clone() } else { fresh(state, before) };
    status.conditions = conditions(state, before, now);
    status
}

/// Nothing is known yet that could take the place of the verdict before. What an object waits for is known: it is
/// told as an error, and a person may have to do something about it.
fn is_kept(state: &ConfigStatus, before: &OpenstackConfigStatus) -> bool {
    let waits = state.last_error.as_ref() == Some(&state.message);
    state.reason == Reason::Pending && !waits && has_verdict(before)
}

fn has_verdict(status: &OpenstackConfigStatus) -> bool {
    status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status != "Unknown")
}

fn fresh(state: &ConfigStatus, before: &OpenstackConfigStatus) -> OpenstackConfigStatus {
    let retry = state.down_port_retry.as_ref().map(|retry| DownPortRetry {
        hash: Some(retry.hash.clone()),
        last_attempt: retry.last_attempt.map(time),
        fast_attempts: Some(count(retry.fast_attempts)),
    });
    let nodes = state.nodes;
    let skipped = state.skipped.iter().map(|skipped| SkippedVm {
        vm: skipped.vm.to_string(),
        reason: skipped.reason.to_string(),
        message: skipped.message.clone(),
    });
    let pending = state.pending_changes.iter().map(|change| PendingChange {
        node: change.node.to_string(),
        change_id: change.change_id.clone(),
        what: change.what.clone(),
    });
    let failed = state
        .failed
        .iter()
        .map(|failed| FailedNode { node: failed.node.to_string(), reason: failed.reason.clone() });
    OpenstackConfigStatus {
        observed_generation: (state.observed_generation > 0).then_some(state.observed_generation),
        conditions: Vec::new(),
        last_synced_at: state.last_synced_at.map(time).or_else(|| before.last_synced_at.clone()),
        last_error: state.last_error.clone(),
        down_port_retry: retry,
        nodes: Some(Nodes {
            summary: Some(format!("{}/{}", nodes.delivered, nodes.desired)),
            desired: Some(count(nodes.desired)),
            delivered: Some(count(nodes.delivered)),
            skipped: Some(count(nodes.skipped)),
            configured: nodes.configured.map(count),
            in_progress: nodes.in_progress.map(count),
            failed: nodes.failed.map(count),
        }),
        skipped: skipped.collect(),
        failed: failed.collect(),
        pending_changes: pending.collect(),
    }
}

fn conditions(state: &ConfigStatus, before: &OpenstackConfigStatus, now: Timestamp) -> Vec<Condition> {
    let find = |kind: &str| before.conditions.iter().find(|condition| condition.type_ == kind);
    let condition = |kind: &str, status: &str, reason: &str, message: String| {
        let unchanged = find(kind).filter(|condition| condition.status == status);
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: (state.observed_generation > 0).then_some(state.observed_generation),
            last_transition_time: unchanged
                .map_or_else(|| time(now), |condition| condition.last_transition_time.clone()),
        }
    };
    let mut conditions: Vec<Condition> = match is_kept(state, before) {
        true => ["Ready", "Degraded", "Configured"].into_iter().filter_map(find).cloned().collect(),
        false => {
            let (degraded, reason, message) = degraded(state);
            let configured = state.workload.as_ref().map(|workload| &workload.configured);
            let configured = configured.map(|configured| {
                let reason = configured.reason.to_string();
                condition("Configured", truth(configured.status), &reason, configured.message.clone())
            });
            let both = [
                condition("Ready", truth(state.ready), &state.reason.to_string(), state.message.clone()),
                condition("Degraded", degraded, reason, message),
            ];
            both.into_iter().chain(configured).collect()
        }
    };
    if state.paused {
        let message = "spec.paused is true: nothing is looked at and nothing is sent";
        conditions.push(condition("Paused", "True", "Paused", message.to_owned()));
    }
    conditions
}

fn truth(value: Option<bool>) -> &'static str {
    match value {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    }
}

fn degraded(state: &ConfigStatus) -> (&'static str, &'static str, String) {
    match state.degraded {
        Degraded::Error => ("True", "Error", state.message.clone()),
        Degraded::PartiallySynced => {
            let message = format!("{} VMs are left out, see status.skipped", state.nodes.skipped);
            ("True", "PartiallySynced", message)
        }
        Degraded::Healthy => ("False", "Healthy", "no VM is left out".to_owned()),
    }
}

/// Times in a status are whole seconds, as everywhere in Kubernetes.
fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The conditions that the operator writes.
const OURS: [&str; 4] = ["Ready", "Degraded", "Configured", "Paused"];

/// Whether two statuses say the same apart from times that move with each round.
pub(super) fn mean_the_same(one: &OpenstackConfigStatus, other: &OpenstackConfigStatus) -> bool {
    let without_times = |status: &OpenstackConfigStatus| {
        let mut status = status.clone();
        status.last_synced_at = None;
        if let Some(retry) = &mut status.down_port_retry {
            retry.last_attempt = None;
        }
        // Others may have conditions of their own there, in any order.
        status.conditions.retain(|condition| OURS.contains(&condition.type_.as_str()));
        status.conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        status
    };
    without_times(one) == without_times(other)
}

#[cfg(test)]
#[path = "convert_tests.rs"]
pub(super) mod tests;
