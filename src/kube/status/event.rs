//! Which Events an object gets: one when the verdict on it becomes another, none when it is confirmed.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource as _;
use multinic_actors::domain::ids::ConfigId;

use crate::kube::event::Happening;
use crate::kube::openstack_config::{OpenstackConfig, OpenstackConfigStatus};

/// What happened between two statuses, if it is worth an Event.
pub(super) fn transition(
    before: Option<&OpenstackConfigStatus>,
    after: &OpenstackConfigStatus,
) -> Option<Happening> {
    let now = verdict(after)?;
    let is_news = before.and_then(verdict).is_none_or(|before| before.reason != now.reason);
    is_news.then_some(now)
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
    use multinic_actors::domain::reason::Reason;
    use multinic_actors::domain::status::Degraded;

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
            transition(before, after).map(|transition| (transition.reason, transition.is_normal))
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
}
