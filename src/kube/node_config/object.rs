//! From a node to its object: the name, and what the labels say.

use std::collections::BTreeMap;

use kube::core::ObjectMeta;

use super::{MultiNicNodeConfig, MultiNicNodeConfigSpec};

/// The node's name, as it was sent.
pub const NODE_NAME: &str = "multinic.io/node-name";
/// The VM's UUID.
pub const INSTANCE_ID: &str = "multinic.io/instance-id";
/// For whom it was sent: the `k8sProviderID`.
pub const PROVIDER_ID: &str = "multinic.io/provider-id";

/// The longest name of an object (RFC 1123 subdomain).
const MAX_NAME: usize = 253;
/// The longest value of a label.
const MAX_LABEL: usize = 63;

/// The object of a node: `None` if its name has not one character that an object's name may have.
pub fn object_of(
    spec: MultiNicNodeConfigSpec,
    namespace: &str,
    provider_id: Option<&str>,
) -> Option<MultiNicNodeConfig> {
    let name = object_name(&spec.node_name)?;
    let known = [
        (NODE_NAME, Some(spec.node_name.as_str())),
        (INSTANCE_ID, spec.instance_id.as_deref()),
        (PROVIDER_ID, provider_id),
    ];
    let known = known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
    // What is no label's value is not lost: it stands in an annotation of the same key.
    let (labels, annotations): (BTreeMap<_, _>, BTreeMap<_, _>) =
        known.partition(|(_, value)| is_label_value(value));
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels).filter(|labels| !labels.is_empty()),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        ..ObjectMeta::default()
    };
    Some(MultiNicNodeConfig { metadata, spec, status: None })
}

/// The nearest valid object name (RFC 1123 subdomain) to a node's name; a valid one is taken as it is.
pub fn object_name(node: &str) -> Option<String> {
    let valid = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let parts = node.trim().split('.').map(|part| part.chars().map(valid).collect::<String>());
    let parts: Vec<String> = parts.map(|part| part.trim_matches('-').to_owned()).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let mut name = parts.join(".");
    name.truncate(MAX_NAME);
    let name = name.trim_end_matches(['-', '.']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// Whether Kubernetes takes it as the value of a label: at most 63 characters, letters and digits at both ends.
fn is_label_value(value: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    value.len() <= MAX_LABEL
        && value.chars().all(is_inner)
        && is_edge(value.chars().next())
        && is_edge(value.chars().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_name_becomes_the_nearest_object_name() {
        for (node, expect) in [
            ("worker-1", Some("worker-1")),
            ("node.example.com", Some("node.example.com")),
            ("Worker_1", Some("worker-1")),
            (" -a b- ", Some("a-b")),
            ("..a..b-.", Some("a.b")),
            ("노드1", Some("1")),
            ("___", None),
            ("", None),
        ] {
            assert_eq!(object_name(node).as_deref(), expect, "{node:?}");
        }
        let long = format!("{}-tail", "a".repeat(MAX_NAME - 1));
        assert_eq!(object_name(&long).unwrap(), "a".repeat(MAX_NAME - 1));
    }

    #[test]
    fn a_value_that_is_no_label_becomes_an_annotation() {
        let spec = MultiNicNodeConfigSpec {
            node_name: "worker-1".to_owned(),
            instance_id: Some("x".repeat(64)),
            ..MultiNicNodeConfigSpec::default()
        };
        let object = object_of(spec, "biz", Some("test/cluster")).unwrap();
        let keys = |map: &Option<BTreeMap<String, String>>| -> Vec<String> {
            map.iter().flat_map(|map| map.keys().cloned()).collect()
        };
        assert_eq!(keys(&object.metadata.labels), [NODE_NAME]);
        assert_eq!(keys(&object.metadata.annotations), [INSTANCE_ID, PROVIDER_ID]);
        assert_eq!(object.metadata.annotations.unwrap()[PROVIDER_ID], "test/cluster");
    }

    #[test]
    fn only_what_kubernetes_takes_is_a_label_value() {
        for (value, is_one) in [
            ("a", true),
            ("A-b_c.d", true),
            ("", false),
            ("-a", false),
            ("a.", false),
            ("a b", false),
            ("a/b", false),
        ] {
            assert_eq!(is_label_value(value), is_one, "{value:?}");
        }
        assert!(is_label_value(&"a".repeat(63)) && !is_label_value(&"a".repeat(64)));
    }
}
