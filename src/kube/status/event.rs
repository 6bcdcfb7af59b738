//! Kubernetes Events: one when the verdict on an object becomes another, none when it is confirmed.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use multinic_actors::domain::ids::ConfigId;

use super::FIELD_MANAGER;
use crate::kube::client::call;
use crate::kube::openstack_config::{OpenstackConfig, OpenstackConfigStatus};

/// An Event that is lost is no harm: the status says the same and more.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The API server refuses a longer note.
const MAX_NOTE: usize = 1024;

/// What happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transition {
    reason: String,
    is_normal: bool,
    note: String,
}

/// What happened between two statuses that is worth an Event.
pub(super) fn transitions(
    before: Option<&OpenstackConfigStatus>,
    after: &OpenstackConfigStatus,
) -> Vec<Transition> {
    let news = |look: fn(&OpenstackConfigStatus) -> Option<Transition>| {
        let now = look(after)?;
        let is_news = before.and_then(look).is_none_or(|before| before.reason != now.reason);
        is_news.then_some(now)
    };
    let is_failure = |transition: &Transition| !transition.is_normal;
    // That agents are done is news only after one had failed; not known as it is, it may be as it was.
    let had_failed = before.and_then(agents).as_ref().is_some_and(is_failure);
    let agents = news(agents).filter(|now| is_failure(now) || had_failed);
    news(verdict).into_iter().chain(agents).collect()
}

/// What the workload cluster and its agents say, in one word.
fn agents(status: &OpenstackConfigStatus) -> Option<Transition> {
    let configured = status.conditions.iter().find(|condition| condition.type_ == "Configured")?;
    (configured.status != "Unknown").then(|| Transition {
        reason: configured.reason.clone(),
        is_normal: configured.status == "True",
        note: configured.message.clone(),
    })
}

/// The verdict in one word; `None` while there is none.
fn verdict(status: &OpenstackConfigStatus) -> Option<Transition> {
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
    Some(Transition { reason: reason.to_owned(), is_normal, note: note.clone() })
}

/// Tells the API server, if it listens.
pub(super) async fn emit(client: Client, id: &ConfigId, transition: Transition) {
    let api: Api<Event> = Api::namespaced(client, &id.name.namespace);
    let event = event(id, transition, Timestamp::now());
    if let Err(error) = call(TIMEOUT, api.create(&PostParams::default(), &event)).await {
        tracing::debug!("{id}: no Event: {}", error.detail());
    }
}

fn event(id: &ConfigId, transition: Transition, now: Timestamp) -> Event {
    let object = &id.name;
    // As client-go names them; the object's name is cut so that the whole stays one.
    let name: String = object.name.chars().take(230).collect();
    let name = format!("{}.{:x}", name.trim_end_matches(['.', '-']), now.as_nanosecond());
    let mut note = transition.note;
    if note.len() >= MAX_NOTE {
        note.truncate(note.floor_char_boundary(MAX_NOTE - 1));
    }
    // In a pod that is the pod's name.
    let instance = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(object.namespace.to_string()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(FIELD_MANAGER.to_owned()),
        reporting_instance: Some(instance.unwrap_or_else(|| FIELD_MANAGER.to_owned())),
        action: Some("Deliver".to_owned()),
        reason: Some(transition.reason),
        type_: Some(if transition.is_normal { "Normal" } else { "Warning" }.to_owned()),
        note: Some(note),
        regarding: Some(ObjectReference {
            api_version: Some(OpenstackConfig::api_version(&()).into_owned()),
            kind: Some(OpenstackConfig::kind(&()).into_owned()),
            name: Some(object.name.to_string()),
            namespace: Some(object.namespace.to_string()),
            uid: Some(id.uid.to_string()),
            ..ObjectReference::default()
        }),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn an_event_is_one_that_the_api_server_takes() {
        let long = "n".repeat(229) + ".x";
        let transition = Transition { reason: "R".to_owned(), is_normal: true, note: "ä".repeat(1000) };
        let event = event(&ConfigId::new("n", &long, "1"), transition, Timestamp::UNIX_EPOCH);
        assert_eq!(event.metadata.name.unwrap(), format!("{}.0", "n".repeat(229)));
        assert_eq!(event.note.unwrap().len(), 1022);
        assert_eq!(event.regarding.unwrap().uid.unwrap(), "1");
    }
}
