//! From what lists and watches bring to what is told: which objects came, changed or went. No IO.

use std::collections::{BTreeMap, BTreeSet};

use multinic_actors::domain::ids::ConfigName;

use super::Scope;
use crate::kube::raw_object::{Life, RawObject};
use crate::kube::validate::{Defaults, declare};
use crate::source::SourceEvent;

/// What was told so far.
pub(super) struct Tracker {
    defaults: Defaults,
    told: BTreeMap<ConfigName, (Life, RawObject)>,
    /// Scopes that were not listed yet.
    unlisted: BTreeSet<Scope>,
    is_synced: bool,
}

impl Tracker {
    pub(super) fn new(defaults: Defaults, scopes: BTreeSet<Scope>) -> Self {
        Self { defaults, told: BTreeMap::new(), unlisted: scopes, is_synced: false }
    }

    /// A scope was listed completely: what is not in the list has gone, however it went.
    pub(super) fn listed(&mut self, scope: &Scope, objects: Vec<RawObject>) -> Vec<SourceEvent> {
        let names: BTreeSet<&ConfigName> = objects.iter().map(|raw| &raw.name).collect();
        let is_gone = |name: &ConfigName| scope.covers(&name.namespace) && !names.contains(name);
        let gone = self.told.extract_if(.., |name, _| is_gone(name));
        let mut events: Vec<_> = gone.map(|(_, (life, raw))| SourceEvent::Delete(raw.id(&life))).collect();
        for raw in objects {
            events.extend(self.applied(raw));
        }
        self.unlisted.remove(scope);
        if self.unlisted.is_empty() && !self.is_synced {
            self.is_synced = true;
            events.push(SourceEvent::Synced);
        }
        events
    }

    /// An object is there, or has changed. What changed only its status or what is not ours is no event.
    pub(super) fn applied(&mut self, raw: RawObject) -> Vec<SourceEvent> {
        let Some(life) = raw.life() else {
            tracing::error!(
                "{}: the API server gives it no uid, generation or creation time; left out",
                raw.name
            );
            return Vec::new();
        };
        let mut events = Vec::new();
        match self.told.get(&raw.name) {
            Some((told, before)) if *told == life && *before == raw => return events,
            // It was deleted and created again while nobody listened.
            Some((told, before)) if told.uid != life.uid => events.push(SourceEvent::Delete(before.id(told))),
            _ => {}
        }
        events.push(SourceEvent::Apply(declare(&raw, &life, &self.defaults)));
        self.told.insert(raw.name.clone(), (life, raw));
        events
    }

    /// An object has gone; not one of the same name that was created since.
    pub(super) fn deleted(&mut self, raw: &RawObject) -> Vec<SourceEvent> {
        let is_it = |(life, _): &mut (Life, RawObject)| raw.uid.as_ref().is_none_or(|uid| *uid == life.uid);
        match self.told.get_mut(&raw.name).is_some_and(is_it) {
            false => Vec::new(),
            true => {
                let gone = self.told.remove(&raw.name);
                gone.map(|(life, raw)| SourceEvent::Delete(raw.id(&life))).into_iter().collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(name: &str, uid: &str, generation: i64) -> RawObject {
        let (namespace, name) = name.split_once('/').unwrap();
        let object = json!({"metadata": {"namespace": namespace, "name": name, "uid": uid,
            "generation": generation, "creationTimestamp": "2026-01-10T00:00:00Z"}, "spec": {}});
        RawObject::from_json(&object).unwrap()
    }

    fn scope(namespace: &str) -> Scope {
        Scope((!namespace.is_empty()).then(|| namespace.to_owned()))
    }

    fn tracker(namespaces: &[&str]) -> Tracker {
        Tracker::new(Defaults::default(), namespaces.iter().map(|name| scope(name)).collect())
    }

    fn told(events: Vec<SourceEvent>) -> Vec<String> {
        let told = |event: SourceEvent| match event {
            SourceEvent::Apply(declared) => format!("+{}", declared.id()),
            SourceEvent::Delete(id) => format!("-{id}"),
            SourceEvent::Synced => "synced".to_owned(),
            other => format!("{other:?}"),
        };
        events.into_iter().map(told).collect()
    }

    #[test]
    fn a_list_tells_what_is_new_what_changed_and_what_has_gone() {
        let mut tracker = tracker(&[""]);
        let all = ["n/a", "n/b", "m/c"].map(|name| object(name, "1", 1)).to_vec();
        assert_eq!(told(tracker.listed(&scope(""), all.clone())), ["+n/a/1", "+n/b/1", "+m/c/1", "synced"]);
        assert_eq!(told(tracker.listed(&scope(""), all)), [""; 0]);
        let after = vec![object("n/a", "1", 2), object("m/c", "2", 1)];
        assert_eq!(told(tracker.listed(&scope(""), after)), ["-n/b/1", "+n/a/1", "-m/c/1", "+m/c/2"]);
    }

    #[test]
    fn the_list_of_one_namespace_says_nothing_about_another() {
        let mut tracker = tracker(&["n", "m"]);
        assert_eq!(told(tracker.listed(&scope("n"), vec![object("n/a", "1", 1)])), ["+n/a/1"]);
        assert_eq!(told(tracker.listed(&scope("n"), vec![])), ["-n/a/1"]);
        assert_eq!(told(tracker.listed(&scope("m"), vec![object("m/b", "1", 1)])), ["+m/b/1", "synced"]);
        assert_eq!(told(tracker.listed(&scope("n"), vec![])), [""; 0]);
    }

    #[test]
    fn a_change_of_the_status_is_no_event() {
        let mut tracker = tracker(&[""]);
        let with = |pointer: &str, value: Value| {
            let mut object = json!({"metadata": {"namespace": "n", "name": "a", "uid": "1", "generation": 1,
                "creationTimestamp": "2026-01-10T00:00:00Z"}, "spec": {}, "status": {}});
            *object.pointer_mut(pointer).unwrap() = value;
            RawObject::from_json(&object).unwrap()
        };
        assert_eq!(told(tracker.applied(with("/status", json!({})))), ["+n/a/1"]);
        assert_eq!(told(tracker.applied(with("/status", json!({"lastError": "x"})))), [""; 0]);
        assert_eq!(told(tracker.applied(with("/metadata/generation", json!(2)))), ["+n/a/1"]);
    }

    #[test]
    fn the_late_news_of_a_deletion_does_not_take_the_successor_away() {
        let mut tracker = tracker(&[""]);
        tracker.applied(object("n/a", "1", 1));
        assert_eq!(told(tracker.applied(object("n/a", "2", 1))), ["-n/a/1", "+n/a/2"]);
        assert_eq!(told(tracker.deleted(&object("n/a", "1", 1))), [""; 0]);
        assert_eq!(told(tracker.deleted(&object("n/a", "2", 1))), ["-n/a/2"]);
        assert_eq!(told(tracker.deleted(&object("n/a", "2", 1))), [""; 0]);
    }

    #[test]
    fn an_object_that_cannot_be_used_is_told_as_that() {
        let mut tracker = tracker(&[""]);
        let events = tracker.applied(object("n/a", "1", 1));
        let [SourceEvent::Apply(declared)] = &events[..] else { panic!("{events:?}") };
        assert!(matches!(declared, multinic_actors::domain::config::Declared::Invalid(_)));
    }
}
