//! Identifiers: thin, ordered, and valid by construction where a format is known.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the identifier as it is.
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(Arc::from(text.as_ref()))
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::new(text)
            }
        }
    };
}

text_id! {
    /// A Neutron port's UUID.
    PortId
}
text_id! {
    /// A Neutron subnet's UUID.
    SubnetId
}
text_id! {
    /// A Neutron network's UUID.
    NetworkId
}
text_id! {
    /// A Keystone project's id.
    ProjectId
}
text_id! {
    /// Where a config's nodes are delivered: the `k8sProviderID`. Node names are unique within one.
    ProviderId
}

/// A Nova server's UUID, lower case: OpenStack compares `device_id` without case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct VmId(Arc<str>);

impl VmId {
    /// Lower-cases and trims the identifier.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(Arc::from(text.as_ref().trim().to_ascii_lowercase()))
    }

    /// The identifier as text, lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for VmId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl fmt::Display for VmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for VmId {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// A MAC address; shown lower case with colons, read in any usual spelling (`AA-BB-…`, `aabb…`, `aabb.…`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac([u8; 6]);

/// A text that is no MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a MAC address")]
pub struct MacError(String);

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let error = || MacError(text.chars().take(40).collect());
        let digits: Vec<u8> = text
            .trim()
            .chars()
            .filter(|c| !matches!(c, ':' | '-' | '.'))
            .map(|c| c.to_digit(16).map(|d| d as u8))
            .collect::<Option<_>>()
            .ok_or_else(error)?;
        let pairs: Vec<u8> =
            digits.chunks(2).map(|pair| pair.iter().fold(0, |sum, d| sum << 4 | d)).collect();
        match (digits.len(), <[u8; 6]>::try_from(pairs)) {
            (12, Ok(octets)) => Ok(Self(octets)),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Mac {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A Kubernetes node name that the node agent can use as a label value too: a lower-case RFC 1123
/// subdomain of at most 63 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(Arc<str>);

/// A name that no Kubernetes node can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a lower-case RFC 1123 subdomain of at most 63 characters")]
pub struct NodeNameError(String);

impl NodeName {
    /// Lower-cases `text`, as kubelet does, and checks it.
    ///
    /// # Errors
    /// When the result is no RFC 1123 subdomain or is longer than 63 characters.
    pub fn new(text: &str) -> Result<Self, NodeNameError> {
        let name = text.to_lowercase();
        if name.len() <= 63 && name.split('.').all(is_dns_label) {
            Ok(Self(Arc::from(name)))
        } else {
            Err(NodeNameError(text.chars().take(80).collect()))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_dns_label(label: &str) -> bool {
    let is_alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.first().is_some_and(is_alphanumeric)
        && bytes.last().is_some_and(is_alphanumeric)
        && bytes.iter().all(|b| is_alphanumeric(b) || *b == b'-')
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for NodeName {
    type Error = NodeNameError;

    fn try_from(text: String) -> Result<Self, NodeNameError> {
        Self::new(&text)
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0.to_string()
    }
}

/// Namespace and name of an `OpenstackConfig`, without its uid: what survives a re-creation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConfigName {
    /// The object's namespace.
    pub namespace: Arc<str>,
    /// The object's name.
    pub name: Arc<str>,
}

impl ConfigName {
    /// `namespace/name`.
    pub fn new(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        Self { namespace: Arc::from(namespace.as_ref()), name: Arc::from(name.as_ref()) }
    }
}

impl fmt::Display for ConfigName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One life of one `OpenstackConfig`: a re-created object has another uid and is another config.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConfigId {
    /// Namespace and name.
    #[serde(flatten)]
    pub name: ConfigName,
    /// The object's uid.
    pub uid: Arc<str>,
}

impl ConfigId {
    /// The identity of one life of an object.
    pub fn new(namespace: impl AsRef<str>, name: impl AsRef<str>, uid: impl AsRef<str>) -> Self {
        Self { name: ConfigName::new(namespace, name), uid: Arc::from(uid.as_ref()) }
    }
}

impl fmt::Display for ConfigId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.uid)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mac_is_read_in_any_usual_spelling() {
        for text in ["FA:16:3E:00:00:0A", "fa-16-3e-00-00-0a", "fa163e00000a", "fa16.3e00.000a"] {
            assert_eq!(text.parse::<Mac>().unwrap().to_string(), "fa:16:3e:00:00:0a");
        }
    }

    #[test]
    fn what_is_no_mac_is_refused() {
        for text in
            ["", "fa:16:3e:00:00", "fa:16:3e:00:00:0a:0b", "fa:16:3e:00:00:zz", "fa:16:3e:00:00:0", "é"]
        {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }

    #[test]
    fn node_names_are_lower_cased_and_checked() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(NodeName::new(text).ok().as_ref().map(NodeName::as_str), expect, "{text:?}");
        };
        check("Worker-1", Some("worker-1"));
        check("infra-3.example.internal", Some("infra-3.example.internal"));
        check("worker_2", None);
        check("", None);
        check("-a", None);
        check("a-", None);
        check("a..b", None);
        check("한국", None);
        check(&"a".repeat(63), Some(&"a".repeat(63)));
        check(&"a".repeat(64), None);
    }

    #[test]
    fn vm_ids_compare_without_case() {
        assert_eq!(VmId::new(" ABC "), VmId::new("abc"));
    }

    #[test]
    fn ids_are_read_from_a_file_as_they_are_made() {
        let vm: VmId = serde_json::from_str("\" VM-1\"").unwrap();
        assert_eq!(vm, VmId::new("vm-1"));
        let name: NodeName = serde_json::from_str("\"Worker-1\"").unwrap();
        assert_eq!(name.as_str(), "worker-1");
        assert!(serde_json::from_str::<NodeName>("\"worker_1\"").is_err());
        assert!(serde_json::from_str::<Mac>("\"fa:16\"").is_err());
        assert_eq!(
            serde_json::to_string(&"FA-16-3E-00-00-0A".parse::<Mac>().unwrap()).unwrap(),
            "\"fa:16:3e:00:00:0a\""
        );
    }

    #[test]
    fn what_is_wrong_is_shown_but_not_at_any_length() {
        let error = NodeName::new(&"한".repeat(5000)).unwrap_err().to_string();
        assert!(error.len() < 400 && error.contains("RFC 1123"), "{error}");
        assert!("é".repeat(5000).parse::<Mac>().unwrap_err().to_string().len() < 400);
    }

    #[test]
    fn macs_are_ordered_as_numbers() {
        let mut macs: Vec<Mac> = ["fa:16:3e:00:00:0a", "FA:16:3E:00:00:09", "0a:ff:ff:ff:ff:ff"]
            .into_iter()
            .map(|text| text.parse().unwrap())
            .collect();
        macs.sort();
        let texts: Vec<_> = macs.iter().map(Mac::to_string).collect();
        assert_eq!(texts, ["0a:ff:ff:ff:ff:ff", "fa:16:3e:00:00:09", "fa:16:3e:00:00:0a"]);
    }

    proptest! {
        #[test]
        fn a_mac_reads_back_in_every_spelling(octets: [u8; 6]) {
            let mac = Mac(octets);
            let text = mac.to_string();
            for spelling in [text.clone(), text.to_uppercase(), text.replace(':', "-"), text.replace(':', "")] {
                prop_assert_eq!(spelling.parse(), Ok(mac));
            }
        }

        #[test]
        fn any_text_is_a_name_or_an_error_and_a_name_is_its_own_name(text in ".{0,80}") {
            if let Ok(name) = NodeName::new(&text) {
                prop_assert!(name.as_str().len() <= 63 && name.as_str().is_ascii());
                prop_assert_eq!(NodeName::new(name.as_str()), Ok(name));
            }
        }

        #[test]
        fn any_text_is_a_mac_or_an_error(text in ".{0,30}") {
            if let Ok(mac) = text.parse::<Mac>() {
                prop_assert_eq!(mac.to_string().parse(), Ok(mac));
            }
        }
    }
}
