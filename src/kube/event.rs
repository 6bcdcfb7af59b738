//! Kubernetes Events.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};

use super::client::call;
use super::status::FIELD_MANAGER;

/// An Event that is lost is no harm: status and log say the same and more.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The API server refuses a longer note.
const MAX_NOTE: usize = 1024;

/// What happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// In one word.
    pub reason: String,
    /// Nothing is wrong.
    pub is_normal: bool,
    /// In a sentence.
    pub note: String,
}

/// Tells the API server, if it listens, what happened to `object` while the operator did `action`.
pub async fn emit(client: Client, object: ObjectReference, action: &str, happening: Happening) {
    let namespace = object.namespace.clone().unwrap_or_default();
    let name = object.name.clone().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(client, &namespace);
    let event = event(object, action, happening, Timestamp::now());
    if let Err(error) = call(TIMEOUT, api.create(&PostParams::default(), &event)).await {
        tracing::debug!("{namespace}/{name}: no Event: {}", error.detail());
    }
}

fn event(object: ObjectReference, action: &str, happening: Happening, now: Timestamp) -> Event {
    // As client-go names them; the object's name is cut so that the whole stays one.
    let name: String = object.name.as_deref().unwrap_or_default().chars().take(230).collect();
    let name = format!("{}.{:x}", name.trim_end_matches(['.', '-']), now.as_nanosecond());
    let mut note = happening.note;
    if note.len() >= MAX_NOTE {
        note.truncate(note.floor_char_boundary(MAX_NOTE - 1));
    }
    // In a pod that is the pod's name.
    let instance = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: object.namespace.clone(),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(FIELD_MANAGER.to_owned()),
        reporting_instance: Some(instance.unwrap_or_else(|| FIELD_MANAGER.to_owned())),
        action: Some(action.to_owned()),
        reason: Some(happening.reason),
        type_: Some(if happening.is_normal { "Normal" } else { "Warning" }.to_owned()),
        note: Some(note),
        regarding: Some(object),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_that_the_api_server_takes() {
        let object = ObjectReference {
            name: Some("n".repeat(229) + ".x"),
            namespace: Some("n".to_owned()),
            uid: Some("1".to_owned()),
            ..ObjectReference::default()
        };
        let happening = Happening { reason: "R".to_owned(), is_normal: true, note: "ä".repeat(1000) };
        let event = event(object, "Deliver", happening, Timestamp::UNIX_EPOCH);
        assert_eq!(event.metadata.name.unwrap(), format!("{}.0", "n".repeat(229)));
        assert_eq!(event.note.unwrap().len(), 1022);
        assert_eq!(event.regarding.unwrap().uid.unwrap(), "1");
    }
}
