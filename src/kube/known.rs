//! From one word of the API server to the next: which objects came, changed or went. No IO.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::DynamicObject;
use multinic_actors::domain::ids::ConfigName;

use super::raw_object::{Life, RawObject};
use super::validate::{Defaults, declare};
use crate::source_dir::SourceEvent;

/// What is watched: one namespace, or all of them.
pub(super) type Scope = Option<String>;

/// The objects that are known to exist, as they were told.
pub(super) struct Known {
    defaults: Defaults,
    told: BTreeMap<ConfigName, (Life, RawObject)>,
    /// Scopes that were not listed yet.
    unlisted: BTreeSet<Scope>,
}

impl Known {
    pub(super) fn new(defaults: Defaults, scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self { defaults, told: BTreeMap::new(), unlisted: scopes.into_iter().collect() }
    }

    /// Everything there is in a scope now: what is not in it is gone.
    pub(super) fn listed(&mut self, scope: &Scope, objects: &[DynamicObject]) -> Vec<SourceEvent> {
        let raws: Vec<RawObject> = objects.iter().filter_map(raw).collect();
        let there: BTreeSet<&ConfigName> = raws.iter().map(|raw| &raw.name).collect();
        let is_in_scope =
            |name: &ConfigName| scope.as_ref().is_none_or(|namespace| **namespace == *name.namespace);
        let gone = self.told.extract_if(.., |name, _| is_in_scope(name) && !there.contains(name));
        let mut events: Vec<_> = gone.map(|(_, (life, raw))| SourceEvent::Delete(raw.id(&life))).collect();
        for raw in raws {
            self.tell(raw, &mut events);
        }
        if self.unlisted.remove(scope) && self.unlisted.is_empty() {
            events.push(SourceEvent::Synced);
        }
        events
    }

    /// An object is new or was changed. A change of its status alone is none.
    pub(super) fn applied(&mut self, object: &DynamicObject) -> Vec<SourceEvent> {
        let mut events = Vec::new();
        if let Some(raw) = raw(object) {
            self.tell(raw, &mut events);
        }
        events
    }

    /// An object is gone; one of the same name that came after it is not.
    pub(super) fn deleted(&mut self, object: &DynamicObject) -> Vec<SourceEvent> {
        let Some(raw) = raw(object) else { return Vec::new() };
        match self.told.get(&raw.name) {
            Some((life, _)) if raw.uid.as_ref() == Some(&life.uid) => {
                let id = raw.id(life);
                self.told.remove(&raw.name);
                vec![SourceEvent::Delete(id)]
            }
            _ => Vec::new(),
        }
    }

    fn tell(&mut self, raw: RawObject, events: &mut Vec<SourceEvent>) {
        let Some(life) = raw.life() else {
            tracing::warn!(config = %raw.name, "an object without uid, generation or creation time is passed over");
            return;
        };
        match self.told.get(&raw.name) {
            Some((told, before)) if *told == life && *before == raw => return,
            Some((told, before)) if told.uid != life.uid => {
                events.push(SourceEvent::Delete(before.id(told)));
            }
            _ => {}
        }
        events.push(SourceEvent::Apply(declare(&raw, &life, &self.defaults)));
        self.told.insert(raw.name.clone(), (life, raw));
    }
}

/// The API server refuses objects without a usable name.
fn raw(object: &DynamicObject) -> Option<RawObject> {
    RawObject::from_dynamic(object)
        .inspect_err(|error| tracing::warn!("an object is passed over: {error}"))
        .ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(namespace: &str, name: &str, uid: &str, more: Value) -> DynamicObject {
        let mut object = json!({
            "apiVersion": "multinic.example.com/v1alpha1", "kind": "OpenstackConfig",
            "metadata": {"namespace": namespace, "name": name, "uid": uid, "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {},
        });
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
        serde_json::from_value(object).expect("an object")
    }

    fn plain(name: &str, uid: &str) -> DynamicObject {
        object("n", name, uid, json!({}))
    }

    fn words(events: Vec<SourceEvent>) -> Vec<String> {
        let word = |event: SourceEvent| match event {
            SourceEvent::Apply(declared) => format!("+{}/{}", declared.id().name, declared.id().uid),
            SourceEvent::Delete(id) => format!("-{}/{}", id.name, id.uid),
            other => format!("{other:?}"),
        };
        events.into_iter().map(word).collect()
    }

    fn all() -> Known {
        Known::new(Defaults::default(), [None])
    }

    #[test]
    fn a_list_tells_what_came_and_what_went_and_is_synced_once() {
        let mut known = all();
        assert_eq!(
            words(known.listed(&None, &[plain("a", "1"), plain("b", "2")])),
            ["+n/a/1", "+n/b/2", "Synced"]
        );
        assert_eq!(words(known.listed(&None, &[plain("b", "2"), plain("c", "3")])), ["-n/a/1", "+n/c/3"]);
    }

    #[test]
    fn every_scope_must_be_listed_and_a_list_says_nothing_about_the_others() {
        let scopes = ["n", "m"].map(|name| Some(name.to_owned()));
        let mut known = Known::new(Defaults::default(), scopes.clone());
        assert_eq!(words(known.listed(&scopes[0], &[plain("a", "1")])), ["+n/a/1"]);
        assert_eq!(
            words(known.listed(&scopes[1], &[object("m", "a", "2", json!({}))])),
            ["+m/a/2", "Synced"]
        );
        assert_eq!(words(known.listed(&scopes[1], &[])), ["-m/a/2"]);
    }

    #[test]
    fn a_status_alone_is_no_change() {
        let mut known = all();
        known.listed(&None, &[plain("a", "1")]);
        assert!(
            known.applied(&object("n", "a", "1", json!({"status": {"observedGeneration": 1}}))).is_empty()
        );
        let changed = object("n", "a", "1", json!({"spec": {"paused": true}}));
        assert_eq!(words(known.applied(&changed)), ["+n/a/1"]);
    }

    #[test]
    fn a_new_life_ends_the_old_one_and_a_late_end_of_the_old_one_is_passed_over() {
        let mut known = all();
        known.listed(&None, &[plain("a", "1")]);
        assert_eq!(words(known.applied(&plain("a", "2"))), ["-n/a/1", "+n/a/2"]);
        assert!(known.deleted(&plain("a", "1")).is_empty());
        assert_eq!(words(known.deleted(&plain("a", "2"))), ["-n/a/2"]);
        assert!(known.deleted(&plain("a", "2")).is_empty());
    }
}
