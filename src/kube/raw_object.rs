//! An `OpenstackConfig` object before anything in it is believed.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kube::core::DynamicObject;
use multinic_actors::domain::ids::{ConfigId, ConfigName};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::openstack_config::kind;

/// Any new value of it polls at once and drops the caches.
pub const FORCE_RECONCILE: &str = "multinic.example.com/force-reconcile";
/// The ids of the changes to let through, separated by commas.
pub const APPROVE: &str = "multinic.example.com/approve";

/// What an object says. Parts of its metadata that do not concern us are gone, so that two of these are equal
/// exactly when there is nothing to do.
#[derive(Clone, PartialEq)]
pub struct RawObject {
    /// Which object.
    pub name: ConfigName,
    /// `metadata.uid`; missing in files.
    pub uid: Option<Arc<str>>,
    /// `metadata.generation`; missing in files.
    pub generation: Option<i64>,
    /// `metadata.creationTimestamp`; missing in most files.
    pub created: Option<Timestamp>,
    /// The annotation [`FORCE_RECONCILE`].
    pub force_reconcile: Option<String>,
    /// The change ids in the annotation [`APPROVE`].
    pub approvals: BTreeSet<String>,
    /// `spec` as it stands there; may hold an encrypt key.
    pub spec: Value,
    /// What is wrong with the metadata: field and problem.
    pub problems: Vec<(&'static str, &'static str)>,
}

/// One life of an object: what the API server knows of it, or what a source without one made up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Tells it from an object of the same name that was deleted.
    pub uid: Arc<str>,
    /// Grows with each change of the spec.
    pub generation: i64,
    /// When it began.
    pub created: Timestamp,
    /// Whether a later start will know `created` too.
    pub is_remembered: bool,
}

/// An object that cannot even be named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Nameless(&'static str);

impl RawObject {
    /// Takes an object apart; a missing namespace is `default`.
    ///
    /// # Errors
    /// When it has no usable name.
    pub fn from_json(object: &Value) -> Result<Self, Nameless> {
        let metadata = object.get("metadata").and_then(Value::as_object);
        let metadata = metadata.ok_or(Nameless("metadata.name is missing"))?;
        let namespace = match metadata.get("namespace") {
            None | Some(Value::Null) => "default",
            Some(Value::String(text)) if text.is_empty() => "default",
            Some(Value::String(text)) if is_object_name(text) => text,
            Some(_) => return Err(Nameless("metadata.namespace is not the name of a namespace")),
        };
        let name = match metadata.get("name") {
            Some(Value::String(text)) if is_object_name(text) => text,
            None | Some(Value::Null) => return Err(Nameless("metadata.name is missing")),
            Some(_) => {
                return Err(Nameless(
                    "metadata.name must be lower-case letters, digits, '-' and '.', at most 253",
                ));
            }
        };
        let mut raw = Self {
            name: ConfigName::new(namespace, name),
            uid: text(metadata, "uid").map(Arc::from),
            generation: metadata.get("generation").and_then(Value::as_i64),
            created: None,
            force_reconcile: None,
            approvals: BTreeSet::new(),
            spec: object.get("spec").cloned().unwrap_or_default(),
            problems: Vec::new(),
        };
        raw.read_created(metadata);
        raw.read_annotations(metadata);
        Ok(raw)
    }

    /// Takes an object of the API server apart.
    ///
    /// # Errors
    /// When it has no usable name.
    pub fn from_dynamic(object: &DynamicObject) -> Result<Self, Nameless> {
        let object = serde_json::to_value(object).map_err(|_| Nameless("the object is not JSON"))?;
        Self::from_json(&object)
    }

    /// The life that the object itself tells of: complete from an API server.
    pub fn life(&self) -> Option<Life> {
        Some(Life {
            uid: self.uid.clone()?,
            generation: self.generation?,
            created: self.created?,
            is_remembered: true,
        })
    }

    /// The identity of `life` of this object.
    pub fn id(&self, life: &Life) -> ConfigId {
        ConfigId { name: self.name.clone(), uid: life.uid.clone() }
    }

    fn read_created(&mut self, metadata: &Map<String, Value>) {
        let problem = ("metadata.creationTimestamp", "must be a time such as 2026-01-10T00:00:00Z");
        match metadata.get("creationTimestamp") {
            None | Some(Value::Null) => {}
            Some(value) => match value.as_str().map(str::parse) {
                Some(Ok(created)) => self.created = Some(created),
                _ => self.problems.push(problem),
            },
        }
    }

    fn read_annotations(&mut self, metadata: &Map<String, Value>) {
        let annotations = match metadata.get("annotations") {
            None | Some(Value::Null) => return,
            Some(Value::Object(annotations)) => annotations,
            Some(_) => return self.problems.push(("metadata.annotations", "must be an object")),
        };
        for (name, field) in [
            (FORCE_RECONCILE, "metadata.annotations[multinic.example.com/force-reconcile]"),
            (APPROVE, "metadata.annotations[multinic.example.com/approve]"),
        ] {
            if annotations.get(name).is_some_and(|value| !value.is_string() && !value.is_null()) {
                self.problems.push((field, "must be text in quotes"));
            }
        }
        self.force_reconcile = text(annotations, FORCE_RECONCILE).map(str::to_owned);
        let approvals = text(annotations, APPROVE).unwrap_or_default().split(',');
        self.approvals = approvals.map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned).collect();
    }

    /// A hash over the spec. The order of keys does not matter.
    pub fn spec_digest(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hash(&mut hasher, &self.spec);
        hasher.finalize().into()
    }

    /// A hash over all that [`super::validate::declare`] makes something of, apart from the operator's
    /// defaults. The order of keys does not matter.
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(self.spec_digest());
        let rest = (&self.force_reconcile, &self.approvals, self.problems.len());
        hasher.update(serde_json::to_vec(&rest).unwrap_or_default());
        hasher.finalize().into()
    }
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// What the API server takes as the name of a custom resource or a Secret: an RFC 1123 subdomain.
pub fn is_object_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = label.as_bytes();
        bytes.first().is_some_and(is_alphanumeric)
            && bytes.last().is_some_and(is_alphanumeric)
            && bytes.iter().all(|b| is_alphanumeric(b) || *b == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Unambiguous and independent of the order of keys, whether or not serde_json keeps that order.
fn hash(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Array(items) => {
            hasher.update(format!("[{}", items.len()));
            items.iter().for_each(|item| hash(hasher, item));
        }
        Value::Object(map) => {
            hasher.update(format!("{{{}", map.len()));
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            for (key, item) in entries {
                hasher.update(Value::from(key.as_str()).to_string());
                hash(hasher, item);
            }
        }
        scalar => hasher.update(format!("{},", scalar)),
    }
}

/// Without the spec: it may hold an encrypt key.
impl std::fmt::Debug for RawObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawObject")
            .field("name", &self.name)
            .field("uid", &self.uid)
            .field("generation", &self.generation)
            .field("created", &self.created)
            .field("problems", &self.problems)
            .field("spec", &kind(&self.spec))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(object: Value) -> RawObject {
        RawObject::from_json(&object).unwrap()
    }

    #[test]
    fn an_object_of_the_api_server_tells_its_life() {
        let object = raw(json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": 3,
                         "creationTimestamp": "2026-01-10T00:00:00Z"},
        }));
        let life = object.life().unwrap();
        assert_eq!(object.id(&life), ConfigId::new("n", "a", "u"));
        assert_eq!(life.generation, 3);
        assert_eq!(life.created.to_string(), "2026-01-10T00:00:00Z");
    }

    #[test]
    fn an_object_of_a_watch_is_the_same_as_its_json() {
        let object = json!({
            "apiVersion": "multinic.example.com/v1alpha1", "kind": "OpenstackConfig",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": 3,
                         "creationTimestamp": "2026-01-10T00:00:00Z", "annotations": {FORCE_RECONCILE: "1"}},
            "spec": {"paused": "wrong"},
        });
        let dynamic: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(RawObject::from_dynamic(&dynamic).unwrap(), raw(object));
    }

    #[test]
    fn an_object_from_a_file_may_lack_all_but_its_name() {
        let object = raw(json!({"metadata": {"name": "a"}}));
        assert_eq!(object.name, ConfigName::new("default", "a"));
        assert_eq!(object.life(), None);
        assert_eq!(object.problems, []);
    }

    #[test]
    fn what_has_no_usable_name_is_refused() {
        for metadata in [
            json!(null),
            json!({}),
            json!({"name": null}),
            json!({"name": 7}),
            json!({"name": "A"}),
            json!({"name": "../a"}),
            json!({"generateName": "a-"}),
            json!({"name": "a", "namespace": "a/b"}),
            json!({"name": "a", "namespace": 1}),
        ] {
            let object = json!({"metadata": metadata});
            assert!(RawObject::from_json(&object).is_err(), "{object}");
        }
    }

    #[test]
    fn approvals_are_split_trimmed_and_sorted() {
        let object = raw(json!({"metadata": {"name": "a", "annotations": {APPROVE: " b, a,,a ,"}}}));
        assert_eq!(Vec::from_iter(&object.approvals), ["a", "b"]);
    }

    #[test]
    fn wrong_metadata_is_a_problem_and_no_failure() {
        let object = raw(json!({"metadata": {"name": "a", "creationTimestamp": "yesterday",
            "annotations": {FORCE_RECONCILE: 7, APPROVE: ["x"]}}}));
        assert_eq!(object.problems.len(), 3, "{:?}", object.problems);
    }

    #[test]
    fn the_digest_sees_what_matters_and_nothing_else() {
        let base = raw(json!({"metadata": {"name": "a"}, "spec": {"a": 1, "b": ["x", "y"]}}));
        let same =
            raw(json!({"metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {"other": "2"}},
                              "spec": {"b": ["x", "y"], "a": 1}}));
        assert_eq!(base.digest(), same.digest());
        for other in [
            json!({"metadata": {"name": "a"}, "spec": {"a": 1, "b": ["xy"]}}),
            json!({"metadata": {"name": "a"}, "spec": {"a": 1, "b": ["y", "x"]}}),
            json!({"metadata": {"name": "a"}, "spec": {"a": "1", "b": ["x", "y"]}}),
            json!({"metadata": {"name": "a", "annotations": {FORCE_RECONCILE: "1"}}, "spec": {"a": 1, "b": ["x", "y"]}}),
            json!({"metadata": {"name": "a", "annotations": {APPROVE: "1"}}, "spec": {"a": 1, "b": ["x", "y"]}}),
        ] {
            assert_ne!(base.digest(), raw(other.clone()).digest(), "{other}");
        }
    }

    #[test]
    fn debug_does_not_show_the_spec() {
        let object =
            raw(json!({"metadata": {"name": "a"}, "spec": {"settings": {"contrabassEncryptKey": "conba"}}}));
        assert!(!format!("{object:?}").contains("conba"));
    }
}
