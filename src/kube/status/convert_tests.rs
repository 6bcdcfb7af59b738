use multinic_actors::domain::config::InvalidConfig;
use multinic_actors::domain::ids::{ConfigId, NodeName, VmId};
use multinic_actors::domain::progress::{gave_up, invalid};
use multinic_actors::domain::reason::SkipReason;
use multinic_actors::domain::status::{self, NodeCounts};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A state with nothing wrong.
pub(in crate::kube::status) fn state(reason: Reason) -> ConfigStatus {
    let mut state = gave_up(ConfigId::new("n", "a", "1"), 3, "x");
    (state.reason, state.ready, state.message) = (reason, reason.ready(), format!("about {reason}"));
    let is_bad = reason.ready() == Some(false);
    state.degraded = if is_bad { Degraded::Error } else { Degraded::Healthy };
    state.last_error = is_bad.then(|| state.message.clone());
    state.nodes = NodeCounts { desired: 2, delivered: 1, skipped: 0, ..NodeCounts::default() };
    state
}

fn condition<'a>(status: &'a OpenstackConfigStatus, kind: &str) -> Option<(&'a str, &'a str, i64)> {
    let found = status.conditions.iter().find(|condition| condition.type_ == kind)?;
    let since = found.last_transition_time.0.as_second() - at(0).as_second();
    Some((&found.status, &found.reason, since))
}

#[test]
fn every_part_of_a_state_has_its_place() {
    let mut state = state(Reason::Synced);
    state.degraded = Degraded::PartiallySynced;
    state.last_synced_at = Some("2026-01-10T00:00:01.7Z".parse().unwrap());
    state.nodes.skipped = 1;
    state.down_port_retry =
        Some(status::DownPortRetry { hash: "h".to_owned(), last_attempt: Some(at(1)), fast_attempts: 4 });
    let (vm, reason) = (VmId::new("vm"), SkipReason::NodeConflict);
    state.skipped = vec![status::SkippedVm { vm, reason, message: "why".to_owned() }];
    let (node, change_id) = (NodeName::new("node").unwrap(), "c".to_owned());
    state.pending_changes = vec![status::PendingChange { node, change_id, what: "remove".to_owned() }];
    let status = serde_json::to_value(object_status(&state, None, at(0))).unwrap();
    let expect = serde_json::json!({
        "observedGeneration": 3,
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Synced", "message": "about Synced",
             "observedGeneration": 3, "lastTransitionTime": "2027-01-15T08:00:00Z"},
            {"type": "Degraded", "status": "True", "reason": "PartiallySynced", "observedGeneration": 3,
             "message": "1 VMs are left out, see status.skipped", "lastTransitionTime": "2027-01-15T08:00:00Z"},
        ],
        "lastSyncedAt": "2026-01-10T00:00:01Z",
        "downPortRetry": {"hash": "h", "lastAttempt": "2027-01-15T08:00:01Z", "fastAttempts": 4},
        "nodes": {"summary": "1/2", "desired": 2, "delivered": 1, "skipped": 1},
        "skipped": [{"vm": "vm", "reason": "NodeConflict", "message": "why"}],
        "pendingChanges": [{"node": "node", "changeId": "c", "what": "remove"}],
    });
    assert_eq!(status, expect);
}

#[test]
fn a_transition_is_a_change_of_the_status_not_of_the_reason() {
    let first = object_status(&state(Reason::Synced), None, at(0));
    let second = object_status(&state(Reason::NoChange), Some(&first), at(10));
    assert_eq!(condition(&second, "Ready"), Some(("True", "NoChange", 0)));
    let third = object_status(&state(Reason::NovaError), Some(&second), at(20));
    assert_eq!(condition(&third, "Ready"), Some(("False", "NovaError", 20)));
    assert_eq!(condition(&third, "Degraded"), Some(("True", "Error", 20)));
    let fourth = object_status(&state(Reason::KeystoneError), Some(&third), at(30));
    assert_eq!(condition(&fourth, "Ready"), Some(("False", "KeystoneError", 20)));
}

#[test]
fn before_the_first_round_an_object_keeps_the_verdict_it_has() {
    let pending = state(Reason::Pending);
    assert_eq!(condition(&object_status(&pending, None, at(0)), "Ready"), Some(("Unknown", "Pending", 0)));
    let before = object_status(&state(Reason::Synced), None, at(0));
    assert_eq!(object_status(&pending, Some(&before), at(10)), before);
    let mut paused = pending.clone();
    paused.paused = true;
    let status = object_status(&paused, Some(&before), at(10));
    assert_eq!(condition(&status, "Ready"), Some(("True", "Synced", 0)));
    assert_eq!(condition(&status, "Paused"), Some(("True", "Paused", 10)));
    let resumed = object_status(&state(Reason::NoChange), Some(&status), at(20));
    assert_eq!(condition(&resumed, "Paused"), None);
}

#[test]
fn what_an_object_waits_for_is_shown_whatever_verdict_it_has() {
    let before = object_status(&state(Reason::Synced), None, at(0));
    let message = "waits until release n/b lets it go".to_owned();
    let (id, reason) = (ConfigId::new("n", "a", "1"), Reason::Pending);
    let waiting = invalid(&InvalidConfig { id, generation: 3, reason, message: message.clone() });
    let status = object_status(&waiting, Some(&before), at(10));
    assert_eq!(condition(&status, "Ready"), Some(("Unknown", "Pending", 10)));
    assert_eq!((&status.conditions[0].message, status.last_error.as_ref()), (&message, Some(&message)));
    let after = object_status(&state(Reason::NoChange), Some(&status), at(20));
    assert_eq!(condition(&after, "Ready"), Some(("True", "NoChange", 20)));
}

#[test]
fn the_last_success_outlives_a_restart_that_begins_with_an_error() {
    let mut good = state(Reason::Synced);
    good.last_synced_at = Some(at(5));
    let before = object_status(&good, None, at(5));
    let after = object_status(&state(Reason::NovaError), Some(&before), at(10));
    assert_eq!(after.last_synced_at, Some(Time(at(5))));
    assert_eq!(after.last_error.as_deref(), Some("about NovaError"));
}

#[test]
fn times_alone_and_conditions_of_others_are_no_change() {
    let mut state = state(Reason::NoChange);
    state.last_synced_at = Some(at(0));
    let before = object_status(&state, None, at(0));
    state.last_synced_at = Some(at(60));
    let after = object_status(&state, Some(&before), at(60));
    assert!(mean_the_same(&before, &after));
    let mut with_other = before.clone();
    let other = Condition { type_: "Other".to_owned(), ..before.conditions[0].clone() };
    with_other.conditions.insert(0, other);
    assert!(mean_the_same(&with_other, &after));
    state.message = "other words".to_owned();
    assert!(!mean_the_same(&before, &object_status(&state, Some(&before), at(60))));
}
