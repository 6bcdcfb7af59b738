//! Which Events an object gets: one when the verdict on it becomes another, none when it is confirmed.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource as _;
use multinic_actors::domain::ids::ConfigId;

use crate::kube::event::Happening;
use crate::kube::openstack_config::{OpenstackConfig, OpenstackConfigStatus};

/// What happened between two statuses that is worth an Event.
pub(super) fn transitions(
    before: Option<&OpenstackConfigStatus>,
    after: &OpenstackConfigStatus,
) -> Vec<Happening> {
    let news = |look: fn(&OpenstackConfigStatus) -> Option<Happening>| {
        let now = look(after)?;
        let is_news = before.and_then(look).is_none_or(|before| before.reason != now.reason);
        is_news.then_some(now)
    };
    let is_failure = |transition: &Happening| !transition.is_normal;
    // That agents are done is news only after one had failed; not known as it is, it may be as it was.
    let had_failed = before.and_then(agents).as_ref().is_some_and(is_failure);
    let agents = news(agents).filter(|now| is_failure(now) || had_failed);
    news(verdict).into_iter().chain(agents).collect()
}

/// What the workload cluster and its agents say, in one word.
fn agents(status: &OpenstackConfigStatus) -> Option<Happening> {
    let configured = status.conditions.iter().find(|condition| condition.type_ == "Configured")?;
    (configured.status != "Unknown").then(|| Happening {
        reason: configured.reason.clone(),
        is_normal: configured.status == "True",
        note: configured.message.clone(),
    })
}

/// The verdict in one word; `None` while there is none.
fn verdict(status: &OpenstackConfigStatus) -> Option<Happening> {
    let find = |kind: &str| status.conditions.iter().find(|condition| condition.type_ == kind);
    let ready = find("Ready")?;
    let partial = find("Degraded").filter(|degraded| degraded.status == "True");
    let (reason, is_normal, note) = match (ready.status.as_str(), partial) {
        ("False", _) => (ready.reason.as_str(), false, &ready.message),
        ("True", Some(degraded)) => (degraded.reason.as_str(), false, &degraded.message),
        // Synced and NoChange alike: all that is wanted is delivered.
        ("True", None) => ("Synced", true, &ready.message),
        _ => return None,
    };
    Some(Happening { reason: reason.to_owned(), is_normal, note: note.clone() })
}

/// The object that an Event is about.
pub(super) fn reference(id: &ConfigId) -> ObjectReference {
    ObjectReference {
        api_version: Some(OpenstackConfig::api_version(&()).into_owned()),
        kind: Some(OpenstackConfig::kind(&()).into_owned()),
        name: Some(id.name.name.to_string()),
        namespace: Some(id.name.namespace.to_string()),
        uid: Some(id.uid.to_string()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use multinic_actors::domain::readback::Reach;
    use multinic_actors::domain::reason::Reason;
    use multinic_actors::domain::status::{Configured, ConfiguredReason, Degraded, WorkloadStatus};

    use super::super::convert::{object_status, tests::state};
    use super::*;

    fn status(reason: Reason, degraded: Degraded) -> OpenstackConfigStatus {
        let mut state = state(reason);
        state.degraded = degraded;
        object_status(&state, None, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn an_event_tells_of_a_change_of_the_verdict_only() {
        let (synced, unchanged) = (Reason::Synced, Reason::NoChange);
        let well = status(synced, Degraded::Healthy);
        let reason = |before: Option<&OpenstackConfigStatus>, after: &OpenstackConfigStatus| {
            let told = transitions(before, after);
            assert!(told.len() < 2, "{told:?}");
            told.into_iter().next().map(|transition| (transition.reason, transition.is_normal))
        };
        let expect = |reason: &str, is_normal| Some((reason.to_owned(), is_normal));
        assert_eq!(reason(None, &status(Reason::Pending, Degraded::Healthy)), None);
        assert_eq!(reason(None, &well), expect("Synced", true));
        assert_eq!(reason(Some(&well), &status(unchanged, Degraded::Healthy)), None);
        let partial = status(unchanged, Degraded::PartiallySynced);
        assert_eq!(reason(Some(&well), &partial), expect("PartiallySynced", false));
        let bad = status(Reason::NovaError, Degraded::Error);
        assert_eq!(reason(Some(&partial), &bad), expect("NovaError", false));
        assert_eq!(reason(Some(&bad), &bad), None);
        assert_eq!(reason(Some(&bad), &well), expect("Synced", true));
    }

    fn agents_say(status: Option<bool>, reason: ConfiguredReason) -> OpenstackConfigStatus {
        let mut state = state(Reason::NoChange);
        state.workload = Some(WorkloadStatus {
            mode: "Apply",
            reach: Reach::default(),
            configured: Configured { status, reason, message: "why".to_owned() },
        });
        object_status(&state, None, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn an_event_tells_of_an_agents_failure_and_of_its_end() {
        let well = agents_say(Some(true), ConfiguredReason::Configured);
        let busy = agents_say(None, ConfiguredReason::InProgress);
        let failed = agents_say(Some(false), ConfiguredReason::AgentFailed);
        let drifted = agents_say(Some(false), ConfiguredReason::Drifted);
        let told = |before: &OpenstackConfigStatus, after: &OpenstackConfigStatus| {
            let told = transitions(Some(before), after).into_iter();
            told.map(|transition| (transition.reason, transition.is_normal)).collect::<Vec<_>>()
        };
        let one = |reason: &str, is_normal| vec![(reason.to_owned(), is_normal)];
        assert_eq!(told(&busy, &well), []);
        assert_eq!(told(&well, &busy), []);
        assert_eq!(told(&busy, &failed), one("AgentFailed", false));
        assert_eq!(told(&failed, &failed), []);
        assert_eq!(told(&failed, &drifted), one("Drifted", false));
        assert_eq!(told(&failed, &well), one("Configured", true));
    }
}
