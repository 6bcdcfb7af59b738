//! What stands in a file: YAML or JSON documents with `OpenstackConfig` and `Secret` objects.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use multinic_actors::boundary::BoxFuture;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;

use crate::kube::openstack_config::kind;
use crate::kube::raw_object::{RawObject, is_object_name};
use crate::secrets::{SecretData, SecretError, SecretSource};

/// The objects of a file, in its order.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// `OpenstackConfig` objects.
    pub configs: Vec<RawObject>,
    /// `Secret` objects.
    pub secrets: Vec<Secret>,
}

/// A `Secret` object.
#[derive(Clone, Debug)]
pub struct Secret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its data, decoded.
    pub data: SecretData,
}

/// The objects that could be read, and what is wrong with the rest.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// What could be read.
    pub objects: Objects,
    /// What could not.
    pub problem: Option<String>,
}

/// Which language a text is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// YAML; takes JSON as well.
    Yaml,
    /// JSON, one value or several one after the other.
    Json,
}

/// Reads all documents of `text`. Objects of other kinds are passed over: people keep them together.
pub fn parse(text: &str, format: Format) -> Parsed {
    // Some editors mark UTF-8 by a byte order mark, which is not part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let documents = match format {
        Format::Yaml => yaml_documents(text),
        Format::Json => json_documents(text),
    };
    let mut objects = Objects::default();
    let mut problems = Vec::new();
    match documents {
        Err(problem) => problems.push(problem),
        Ok(documents) => {
            for (index, document) in documents.iter().enumerate() {
                if let Err(problem) = objects.add(document) {
                    problems.push(format!("document {}: {problem}", index + 1));
                }
            }
        }
    }
    Parsed { objects, problem: (!problems.is_empty()).then(|| problems.join("; ")) }
}

fn json_documents(text: &str) -> Result<Vec<Value>, String> {
    serde_json::Deserializer::from_str(text)
        .into_iter()
        .collect::<Result<_, _>>()
        .map_err(|error| format!("is not JSON: line {} column {}", error.line(), error.column()))
}

fn yaml_documents(text: &str) -> Result<Vec<Value>, String> {
    yaml_serde::Deserializer::from_str(text)
        .map(|document| {
            // By way of YAML's own value: that refuses double keys and resolves `<<`.
            let mut value = yaml_serde::Value::deserialize(document)?;
            value.apply_merge()?;
            Ok(value)
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error: yaml_serde::Error| match error.location() {
            Some(at) => format!("is not YAML: line {} column {}", at.line(), at.column()),
            // The parser's own words may quote the text, and that may be a secret.
            None => "is not YAML".to_owned(),
        })?
        .into_iter()
        .map(|value| serde_json::to_value(value).map_err(|_| "has keys that are no text".to_owned()))
        .collect()
}

const API_VERSION: &str = "multinic.example.com/v1alpha1";

/// Whether somebody wrote an object for this operator and missed its kind.
fn is_meant_for_us(api_version: &str, object_kind: &str) -> bool {
    let group = api_version.split('/').next().unwrap_or_default();
    group.eq_ignore_ascii_case("multinic.example.com")
        || object_kind.to_ascii_lowercase().starts_with("openstackconfig")
}

impl Objects {
    /// These, and those of `others` that are not among them by name.
    pub(super) fn and_others_of(mut self, others: &Self) -> Self {
        let is_new_config = |other: &&RawObject| self.configs.iter().all(|own| own.name != other.name);
        let configs: Vec<_> = others.configs.iter().filter(is_new_config).cloned().collect();
        let is_other =
            |own: &Secret, other: &Secret| (&own.namespace, &own.name) != (&other.namespace, &other.name);
        let is_new_secret = |other: &&Secret| self.secrets.iter().all(|own| is_other(own, other));
        let secrets: Vec<_> = others.secrets.iter().filter(is_new_secret).cloned().collect();
        self.configs.extend(configs);
        self.secrets.extend(secrets);
        self
    }

    fn add(&mut self, document: &Value) -> Result<(), String> {
        if document.is_null() {
            return Ok(());
        }
        let word = |key: &str| document.get(key).and_then(Value::as_str);
        let Some(object_kind) = word("kind") else {
            return Err(format!("is {} without a kind", kind(document)));
        };
        match (word("apiVersion").unwrap_or_default(), object_kind) {
            (API_VERSION, "OpenstackConfig") => {
                self.configs.push(RawObject::from_json(document).map_err(|error| error.to_string())?);
            }
            (_, "OpenstackConfig") => {
                return Err(format!("apiVersion of an OpenstackConfig must be {API_VERSION}"));
            }
            ("v1", "Secret") => self.secrets.push(read_secret(document)?),
            (_, "Secret") => return Err("apiVersion of a Secret must be v1".to_owned()),
            (_, "List" | "OpenstackConfigList" | "SecretList") => {
                for item in document.get("items").and_then(Value::as_array).into_iter().flatten() {
                    self.add(item)?;
                }
            }
            (version, object_kind) if is_meant_for_us(version, object_kind) => {
                return Err(format!(
                    "{object_kind:.80} of {version:.80} is no kind of this operator; it knows \
                     OpenstackConfig of {API_VERSION}"
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// The Secret of that name, the first if there are several.
    pub(super) fn secret(&self, namespace: &str, name: &str) -> Option<&SecretData> {
        let found = self.secrets.iter().find(|secret| secret.namespace == namespace && secret.name == name);
        found.map(|secret| &secret.data)
    }
}

/// The Secrets of one file, for a plan that reads nothing else.
impl SecretSource for Objects {
    fn get(&self, namespace: &str, name: &str) -> BoxFuture<'_, Result<Option<SecretData>, SecretError>> {
        let found = self.secret(namespace, name).cloned();
        Box::pin(async move { Ok(found) })
    }
}

/// Messages name keys, never values.
fn read_secret(object: &Value) -> Result<Secret, String> {
    let metadata = |key: &str| match object.pointer(&format!("/metadata/{key}")) {
        Some(Value::String(text)) if !text.is_empty() => Some(text.as_str()),
        _ => None,
    };
    let name = metadata("name").filter(|name| is_object_name(name));
    let name = name.ok_or("metadata.name of a Secret is missing or no name")?;
    let mut secret = Secret {
        namespace: metadata("namespace").unwrap_or("default").to_owned(),
        name: name.to_owned(),
        data: SecretData::default(),
    };
    let problem = |field: &str, key: &str, what: &str| format!("Secret {name}: {field}.{key} {what}");
    for (key, value) in entries(object, "data", name)? {
        // Long values are often broken into lines.
        let text: String = value
            .as_str()
            .ok_or_else(|| problem("data", key, "must be base64 text in quotes"))?
            .split_whitespace()
            .collect();
        let bytes = STANDARD.decode(text).map_err(|_| problem("data", key, "is not base64"))?;
        secret.data.insert_bytes(key, bytes);
    }
    for (key, value) in entries(object, "stringData", name)? {
        let text = value.as_str().ok_or_else(|| problem("stringData", key, "must be text in quotes"))?;
        secret.data.insert(key, SecretString::from(text));
    }
    Ok(secret)
}

/// The entries of a field that are not null.
fn entries<'a>(object: &'a Value, field: &str, name: &str) -> Result<Vec<(&'a str, &'a Value)>, String> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(map)) => {
            let there = map.iter().filter(|(_, value)| !value.is_null());
            Ok(there.map(|(key, value)| (key.as_str(), value)).collect())
        }
        Some(_) => Err(format!("Secret {name}: {field} must be an object")),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;
    use crate::secrets::NoText;

    fn names(parsed: &Parsed) -> Vec<String> {
        parsed.objects.configs.iter().map(|config| config.name.to_string()).collect()
    }

    #[test]
    fn documents_lists_and_other_kinds_may_stand_in_one_file() {
        let parsed = parse(
            "---\n# nothing\n---\napiVersion: multinic.example.com/v1alpha1\nkind: OpenstackConfig\n\
             metadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n---\n\
             apiVersion: v1\nkind: List\nitems:\n- apiVersion: multinic.example.com/v1alpha1\n  \
             kind: OpenstackConfig\n  metadata: {name: b, namespace: n}\n- apiVersion: v1\n  kind: Secret\n  \
             metadata: {name: s}\n  stringData: {k: v}\n",
            Format::Yaml,
        );
        assert_eq!(parsed.problem, None);
        assert_eq!(names(&parsed), ["default/a", "n/b"]);
        assert!(parsed.objects.secret("default", "s").is_some());
    }

    #[test]
    fn json_values_may_follow_one_another() {
        let one = r#"{"apiVersion": "multinic.example.com/v1alpha1", "kind": "OpenstackConfig", "metadata": {"name": "NAME"}}"#;
        let text = format!("{}\n{}", one.replace("NAME", "a"), one.replace("NAME", "b"));
        assert_eq!(names(&parse(&text, Format::Json)), ["default/a", "default/b"]);
        assert_eq!(parse("", Format::Json).problem, None);
    }

    #[test]
    fn anchors_and_merges_are_resolved() {
        let parsed = parse(
            "apiVersion: multinic.example.com/v1alpha1\nkind: OpenstackConfig\nmetadata: {name: a}\n\
             x: &x {projectID: p}\nspec: {credentials: {<<: *x, k8sProviderID: k}}\n",
            Format::Yaml,
        );
        let credentials = &parsed.objects.configs[0].spec["credentials"];
        assert_eq!(credentials, &serde_json::json!({"projectID": "p", "k8sProviderID": "k"}));
    }

    #[test]
    fn secrets_are_decoded_and_kept_as_they_are() {
        let parsed = parse(
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: n}\ndata:\n  a: |\n    Y29uYmFF\n    \
             bmNyeXB0MjAyNQo=\n  both: eA==\n  binary: /w==\n  none: null\nstringData: {both: ' y '}\n",
            Format::Yaml,
        );
        let data = parsed.objects.secret("n", "s").unwrap();
        for (key, text) in [("a", "conbaEncrypt2025\n"), ("both", " y ")] {
            assert_eq!(data.text(key).unwrap().expose_secret(), text);
        }
        assert_eq!(data.text("binary").unwrap_err(), NoText::Binary("binary".to_owned()));
        assert_eq!(data.text("none").unwrap_err(), NoText::Absent("none".to_owned()));
        assert!(!format!("{parsed:?}").contains("conba"));
    }

    #[test]
    fn what_cannot_be_read_is_told_without_its_content() {
        let check = |text: &str, format: Format, expect: &str| {
            let problem = parse(text, format).problem.expect(text);
            assert!(problem.contains(expect), "{text}: {problem}");
            assert!(!problem.contains("pa55"), "{problem}");
        };
        let secret = |rest: &str| format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n{rest}");
        check("a: [pa55", Format::Yaml, "is not YAML: line");
        check("a: pa55\na: pa55", Format::Yaml, "is not YAML");
        check("a: *pa55", Format::Yaml, "is not YAML");
        check("{\"a\": pa55}", Format::Json, "is not JSON: line 1");
        check("pa55", Format::Yaml, "document 1: is text without a kind");
        check("[pa55]", Format::Yaml, "is a list without a kind");
        check("kind: OpenstackConfig\nmetadata: {name: a}", Format::Yaml, "apiVersion");
        check(
            "apiVersion: multinic.example.com/v1alpha1\nkind: OpenstackConfig",
            Format::Yaml,
            "metadata.name is missing",
        );
        check("apiVersion: v1\nkind: Secret\nmetadata: {}", Format::Yaml, "metadata.name of a Secret");
        check(&secret("data: {k: pa55!}"), Format::Yaml, "Secret s: data.k is not base64");
        check(&secret("data: {k: 55}"), Format::Yaml, "data.k must be base64 text in quotes");
        check(&secret("stringData: {k: 1234}"), Format::Yaml, "stringData.k must be text in quotes");
        check(&secret("data: pa55"), Format::Yaml, "data must be an object");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        let yaml =
            "\u{feff}apiVersion: multinic.example.com/v1alpha1\nkind: OpenstackConfig\nmetadata: {name: a}\n";
        let parsed = parse(yaml, Format::Yaml);
        assert_eq!((names(&parsed), parsed.problem), (vec!["default/a".to_owned()], None));
        assert_eq!(parse("\u{feff}{\"kind\": \"Pod\"}", Format::Json).problem, None);
    }

    #[test]
    fn a_kind_that_is_nearly_ours_is_a_problem_and_another_is_not() {
        let problem = |version: &str, kind: &str| {
            parse(&format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n"), Format::Yaml)
                .problem
        };
        for (version, kind) in [
            ("multinic.example.com/v1alpha1", "OpenStackConfig"),
            ("multinic.example.com/v1alpha1", "OpenstackConfigs"),
            ("multinic.example.com/v1alpha1", "Config"),
            ("multinic.example.com/v1", "openstackconfig"),
            ("v1", "OpenStackConfig"),
        ] {
            let problem = problem(version, kind).expect(kind);
            let expect = format!(
                "document 1: {kind} of {version} is no kind of this operator; it knows OpenstackConfig of \
                 multinic.example.com/v1alpha1"
            );
            assert_eq!(problem, expect);
        }
        for (version, kind) in [
            ("multinic.io/v1alpha1", "MultiNicNodeConfig"),
            ("infrastructure.cluster.x-k8s.io/v1beta1", "OpenStackCluster"),
            ("v1", "ConfigMap"),
        ] {
            assert_eq!(problem(version, kind), None, "{kind}");
        }
    }

    #[test]
    fn what_can_be_read_beside_a_bad_document_is_kept() {
        let parsed = parse(
            "kind: 7\n---\napiVersion: multinic.example.com/v1alpha1\nkind: OpenstackConfig\nmetadata: {name: a}\n",
            Format::Yaml,
        );
        assert_eq!(names(&parsed), ["default/a"]);
        assert!(parsed.problem.is_some());
    }
}
