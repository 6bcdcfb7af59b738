//! From the state of a config to the status of its object. No IO; time is passed in.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use multinic_actors::domain::reason::Reason;
use multinic_actors::domain::status::{ConfigStatus, Degraded, MAX_LISTED, NodeCounts};

use super::openstack_config::{DownPortRetry, Nodes, OpenstackConfigStatus, PendingChange, SkippedVm};

/// The status to write for a state, after the one that stands there.
pub(super) fn status_of(
    state: &ConfigStatus,
    before: Option<&OpenstackConfigStatus>,
    now: Timestamp,
) -> OpenstackConfigStatus {
    let known = before.filter(|before| condition(before, "Ready").is_some());
    let mut status = match known {
        // Right after a start nothing is known yet: what an earlier run found stays.
        Some(before) if state.reason == Reason::Pending => before.clone(),
        _ => fresh(state, before),
    };
    status.conditions.retain(|condition| condition.type_ != "Paused");
    if state.paused {
        status.conditions.push(of(state, "Paused", "True", "Paused", "no polls and no sends"));
    }
    for condition in &mut status.conditions {
        let earlier = before.and_then(|before| self::condition(before, &condition.type_));
        condition.last_transition_time = match earlier {
            Some(earlier) if earlier.status == condition.status => earlier.last_transition_time.clone(),
            _ => whole_seconds(now),
        };
    }
    status
}

/// Whether only the time of the last success differs.
pub(super) fn differs_in_time_only(a: &OpenstackConfigStatus, b: &OpenstackConfigStatus) -> bool {
    let a = OpenstackConfigStatus { last_synced_at: b.last_synced_at.clone(), ..a.clone() };
    a == *b
}

fn fresh(state: &ConfigStatus, before: Option<&OpenstackConfigStatus>) -> OpenstackConfigStatus {
    let ready = match state.ready {
        None => "Unknown",
        Some(true) => "True",
        Some(false) => "False",
    };
    let (degraded, reason) = match state.degraded {
        Degraded::Healthy => ("False", "Healthy"),
        Degraded::PartiallySynced => ("True", "PartiallySynced"),
        Degraded::Error => ("True", "Error"),
    };
    let about_degraded = match state.degraded {
        Degraded::Healthy => String::new(),
        Degraded::PartiallySynced => format!("VMs left out: {}", state.nodes.skipped),
        Degraded::Error => state.message.clone(),
    };
    OpenstackConfigStatus {
        observed_generation: Some(state.observed_generation),
        conditions: vec![
            of(state, "Ready", ready, &state.reason.to_string(), &state.message),
            of(state, "Degraded", degraded, reason, &about_degraded),
        ],
        // A run that has not had a success yet does not know of those of earlier runs.
        last_synced_at: state
            .last_synced_at
            .map(whole_seconds)
            .or_else(|| before.and_then(|before| before.last_synced_at.clone())),
        last_error: state.last_error.clone(),
        down_port_retry: state.down_port_retry.as_ref().map(|retry| DownPortRetry {
            hash: Some(retry.hash.clone()),
            last_attempt: retry.last_attempt.map(whole_seconds),
            fast_attempts: Some(int(retry.fast_attempts)),
        }),
        nodes: Some(nodes(state.nodes)),
        skipped: state
            .skipped
            .iter()
            .take(MAX_LISTED)
            .map(|skipped| SkippedVm {
                vm: skipped.vm.to_string(),
                reason: skipped.reason.to_string(),
                message: skipped.message.clone(),
            })
            .collect(),
        failed: Vec::new(),
        pending_changes: state
            .pending_changes
            .iter()
            .take(MAX_LISTED)
            .map(|change| PendingChange {
                node: change.node.to_string(),
                change_id: change.change_id.clone(),
                what: change.what.clone(),
            })
            .collect(),
    }
}

fn nodes(counts: NodeCounts) -> Nodes {
    Nodes {
        summary: Some(format!("{}/{}", counts.delivered, counts.desired)),
        desired: Some(int(counts.desired)),
        delivered: Some(int(counts.delivered)),
        skipped: Some(int(counts.skipped)),
        ..Nodes::default()
    }
}

fn of(state: &ConfigStatus, type_: &str, status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: Some(state.observed_generation),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

fn condition<'a>(status: &'a OpenstackConfigStatus, type_: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// As the API server keeps it: what is read back must equal what was written.
fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn int(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use multinic_actors::domain::ids::ConfigId;

    use super::*;

    fn state(reason: Reason) -> ConfigStatus {
        ConfigStatus {
            id: ConfigId::new("n", "a", "1"),
            observed_generation: 3,
            ready: reason.ready(),
            reason,
            message: format!("about {reason}"),
            degraded: if reason.ready() == Some(false) { Degraded::Error } else { Degraded::Healthy },
            paused: false,
            last_synced_at: None,
            last_error: None,
            down_port_retry: None,
            nodes: NodeCounts { desired: 3, delivered: 2, skipped: 1 },
            skipped: Vec::new(),
            pending_changes: Vec::new(),
            ports: BTreeMap::new(),
            vms: Vec::new(),
            next_poll_at: None,
            last_poll_at: None,
            last_error_detail: None,
            token_expires_at: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millisecond(second * 1000 + 321).expect("a time")
    }

    fn shown(status: &OpenstackConfigStatus) -> Vec<String> {
        let show = |c: &Condition| {
            format!("{}={} {} {}", c.type_, c.status, c.reason, c.last_transition_time.0.as_second())
        };
        status.conditions.iter().map(show).collect()
    }

    #[test]
    fn a_condition_keeps_its_time_as_long_as_it_keeps_its_status() {
        let synced = status_of(&state(Reason::Synced), None, at(10));
        assert_eq!(shown(&synced), ["Ready=True Synced 10", "Degraded=False Healthy 10"]);
        assert_eq!(synced.nodes.as_ref().and_then(|n| n.summary.as_deref()), Some("2/3"));
        let unchanged = status_of(&state(Reason::NoChange), Some(&synced), at(20));
        assert_eq!(shown(&unchanged), ["Ready=True NoChange 10", "Degraded=False Healthy 10"]);
        let failed = status_of(&state(Reason::NovaError), Some(&unchanged), at(30));
        assert_eq!(shown(&failed), ["Ready=False NovaError 30", "Degraded=True Error 30"]);
    }

    #[test]
    fn a_start_does_not_forget_what_an_earlier_run_found() {
        assert_eq!(shown(&status_of(&state(Reason::Pending), None, at(1)))[0], "Ready=Unknown Pending 1");
        let state_then = ConfigStatus { last_synced_at: Some(at(9)), ..state(Reason::Synced) };
        let before = status_of(&state_then, None, at(10));
        assert_eq!(status_of(&state(Reason::Pending), Some(&before), at(20)), before);
        let failed = status_of(&state(Reason::NovaError), Some(&before), at(20));
        assert_eq!(failed.last_synced_at, before.last_synced_at);
        let paused = ConfigStatus { paused: true, ..state(Reason::Pending) };
        let paused = status_of(&paused, Some(&before), at(20));
        assert_eq!(shown(&paused)[2], "Paused=True Paused 20");
        assert_eq!(shown(&status_of(&state(Reason::Pending), Some(&paused), at(30))), shown(&before));
    }

    #[test]
    fn what_is_read_back_is_what_was_written() {
        let state = ConfigStatus { last_synced_at: Some(at(9)), ..state(Reason::Synced) };
        let status = status_of(&state, None, at(10));
        let json = serde_json::to_value(&status).expect("JSON");
        let back: OpenstackConfigStatus = serde_json::from_value(json).expect("a status");
        assert_eq!(back, status);
        let later = ConfigStatus { last_synced_at: Some(at(99)), ..state };
        let later = status_of(&later, Some(&back), at(100));
        assert!(later != status && differs_in_time_only(&later, &status));
    }
}
