//! How the state of a config lies in ConfigMaps: names, compression, parts. No IO.
//!
//! One ConfigMap, the head, `multinic-state-<name>` beside the object. Small states are plain JSON in it, larger
//! ones gzip; what is too large for one ConfigMap lies in parts that the head names, each written before it and
//! never changed. So the head is the switch: whoever reads it finds a whole state.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use multinic_actors::domain::ids::ConfigName;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What the head's name begins with.
const HEAD: &str = "multinic-state-";
/// What a part's name begins with. No head has such a name: there a dash follows `state`.
const PART: &str = "multinic-statepart-";
/// A Kubernetes name has at most so many characters.
const NAME_MAX: usize = 253;
/// On heads and parts, for people and for `kubectl get configmap -l`.
pub const LABEL: &str = "multinic.example.com/state";
/// More than any state has: a damaged or malicious head must not fill the memory.
const UNPACKED_MAX: u64 = 256 << 20;
/// The layout that is written, and the newest that is read.
const LAYOUT: &str = "1";

pub(super) const CONFIG: &str = "config";
const DIGEST: &str = "digest";
const FORMAT: &str = "format";
const HOLDER: &str = "holder";
const LAYOUT_KEY: &str = "layout";
const PARTS: &str = "parts";
const REVISION: &str = "revision";
const PLAIN_KEY: &str = "state.json";
const GZIP_KEY: &str = "state.json.gz";

/// From which size on a state is compressed, and divided.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Plain up to here: people can read it.
    pub plain: usize,
    /// A ConfigMap may have 1 MiB with all its keys.
    pub part: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { plain: 16 << 10, part: 900 << 10 }
    }
}

/// A state as it lies in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// How often what it tells has changed.
    pub revision: u64,
    /// Which release works on the config; empty: nobody does, or the only one there is.
    pub holder: String,
    digest: String,
    body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Body {
    Plain(String),
    Gzip(Vec<u8>),
    Parts(Vec<(String, Vec<u8>)>),
}

/// A ConfigMap that holds no usable state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Somebody wrote into it, or it was cut.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// A later release wrote it.
    #[error("it has layout {0}; this release reads up to layout {LAYOUT}")]
    Newer(String),
}

fn damaged(what: impl std::fmt::Display) -> LayoutError {
    LayoutError::Damaged(what.to_string())
}

/// The name of the head of a config.
pub fn head_name(config: &ConfigName) -> String {
    let name: &str = &config.name;
    if HEAD.len() + name.len() <= NAME_MAX {
        return format!("{HEAD}{name}");
    }
    // A name may not end in a dot or dash before the hash: the cut is made visible by two dashes.
    let kept = name.get(..200).unwrap_or_default().trim_end_matches(['.', '-']);
    format!("{HEAD}{kept}--{}", short_hash(name.as_bytes()))
}

fn short_hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..8])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Packed {
    /// Packs `json`, the state of `config` at `revision`.
    pub fn new(config: &ConfigName, revision: u64, holder: &str, json: String, sizes: Sizes) -> Self {
        let digest = hex(&Sha256::digest(json.as_bytes()));
        let body = match json.len() <= sizes.plain {
            true => Body::Plain(json),
            false => compressed(config, &digest, &json, sizes),
        };
        Self { revision, holder: holder.to_owned(), digest, body }
    }

    /// The parts that must be there before the head.
    pub fn parts(&self) -> &[(String, Vec<u8>)] {
        match &self.body {
            Body::Parts(parts) => parts,
            Body::Plain(_) | Body::Gzip(_) => &[],
        }
    }

    /// The head as a new object.
    pub fn head(&self, config: &ConfigName) -> ConfigMap {
        let mut map = bare(config, head_name(config), "head");
        let mut data: BTreeMap<String, String> = [
            (CONFIG, config.to_string()),
            (DIGEST, self.digest.clone()),
            (HOLDER, self.holder.clone()),
            (LAYOUT_KEY, LAYOUT.to_owned()),
            (REVISION, self.revision.to_string()),
            (FORMAT, self.format().to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        match &self.body {
            Body::Plain(json) => drop(data.insert(PLAIN_KEY.to_owned(), json.clone())),
            Body::Gzip(bytes) => {
                map.binary_data = Some([(GZIP_KEY.to_owned(), ByteString(bytes.clone()))].into());
            }
            Body::Parts(parts) => {
                let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
                data.insert(PARTS.to_owned(), names.join(" "));
            }
        }
        map.data = Some(data);
        map
    }

    /// The head as a merge patch of the one at `version`, refused if it has changed since. What a head of
    /// another size had is taken away, whoever wrote it.
    pub fn patch(&self, config: &ConfigName, version: &str) -> Value {
        let head = self.head(config);
        let mut data = json!({PLAIN_KEY: null, PARTS: null});
        for (key, value) in head.data.unwrap_or_default() {
            data[key] = Value::String(value);
        }
        let binary = head.binary_data.and_then(|mut binary| binary.remove(GZIP_KEY));
        json!({
            "metadata": {"resourceVersion": version, "labels": head.metadata.labels},
            "data": data,
            "binaryData": {GZIP_KEY: binary},
        })
    }

    fn format(&self) -> &'static str {
        match &self.body {
            Body::Plain(_) => "json",
            Body::Gzip(_) => "gzip",
            Body::Parts(_) => "gzip-parts",
        }
    }
}

/// Only who holds it, as a merge patch of the head at `version`.
pub fn holder_patch(holder: &str, version: &str) -> Value {
    json!({"metadata": {"resourceVersion": version}, "data": {HOLDER: holder}})
}

/// A part as an object.
pub fn part(config: &ConfigName, name: &str, bytes: &[u8]) -> ConfigMap {
    let mut map = bare(config, name.to_owned(), "part");
    map.data = Some([(CONFIG.to_owned(), config.to_string())].into());
    map.binary_data = Some([(GZIP_KEY.to_owned(), ByteString(bytes.to_vec()))].into());
    map
}

/// A ConfigMap without ownerReference: it must outlive the object, which has another uid when it is restored.
fn bare(config: &ConfigName, name: String, kind: &str) -> ConfigMap {
    let labels = [("app.kubernetes.io/managed-by", "multinic-operator"), (LABEL, kind)];
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: Some(config.namespace.to_string()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

fn compressed(config: &ConfigName, digest: &str, json: &str, sizes: Sizes) -> Body {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Into memory: that does not fail.
    let _ = encoder.write_all(json.as_bytes());
    let bytes = encoder.finish().unwrap_or_default();
    if bytes.len() <= sizes.part {
        return Body::Gzip(bytes);
    }
    // Named after what is in them: a part that is there is right, and no two states share one.
    let stem = short_hash(format!("{config} {digest}").as_bytes());
    let parts = bytes.chunks(sizes.part).enumerate();
    Body::Parts(parts.map(|(n, chunk)| (format!("{PART}{stem}-{n}"), chunk.to_vec())).collect())
}

/// What a head says before its state is unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// As in [`Packed`].
    pub revision: u64,
    /// As in [`Packed`].
    pub holder: String,
    /// The parts it names.
    pub parts: Vec<String>,
    digest: String,
    inline: Option<Inline>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Inline {
    Plain(String),
    Gzip(Vec<u8>),
}

impl Head {
    /// Reads a head.
    ///
    /// # Errors
    /// When it is none of ours, or of a later release.
    pub fn read(map: ConfigMap) -> Result<Self, LayoutError> {
        let data = map.data.unwrap_or_default();
        let text = |key: &str| data.get(key).map(String::as_str);
        match text(LAYOUT_KEY) {
            Some(LAYOUT) => {}
            Some(other) => return Err(LayoutError::Newer(other.chars().take(20).collect())),
            None => return Err(damaged("it has no `layout`")),
        }
        let inline = match text(FORMAT) {
            Some("json") => Some(Inline::Plain(
                text(PLAIN_KEY).ok_or_else(|| damaged("it has no state.json"))?.to_owned(),
            )),
            Some("gzip") => {
                let bytes = map.binary_data.and_then(|mut binary| binary.remove(GZIP_KEY));
                Some(Inline::Gzip(bytes.ok_or_else(|| damaged("it has no state.json.gz"))?.0))
            }
            Some("gzip-parts") => None,
            _ => return Err(damaged("its `format` is unknown")),
        };
        let revision = text(REVISION).and_then(|text| text.parse().ok());
        Ok(Self {
            revision: revision.ok_or_else(|| damaged("its `revision` is no number"))?,
            // Whoever frees a config by hand may just take the key away.
            holder: text(HOLDER).unwrap_or_default().trim().to_owned(),
            parts: text(PARTS).unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
            digest: text(DIGEST).unwrap_or_default().to_owned(),
            inline,
        })
    }

    /// The state as JSON; `parts` are those that it names, in order.
    ///
    /// # Errors
    /// When they do not fit together.
    pub fn unpack(&self, parts: Vec<ConfigMap>) -> Result<Vec<u8>, LayoutError> {
        let json = match &self.inline {
            Some(Inline::Plain(json)) => json.clone().into_bytes(),
            Some(Inline::Gzip(bytes)) => inflate(bytes)?,
            None => {
                let mut bytes = Vec::new();
                for mut part in parts {
                    let chunk = part.binary_data.as_mut().and_then(|binary| binary.remove(GZIP_KEY));
                    bytes.extend(chunk.ok_or_else(|| damaged("a part is empty"))?.0);
                }
                inflate(&bytes)?
            }
        };
        match hex(&Sha256::digest(&json)) == self.digest {
            true => Ok(json),
            false => Err(damaged("its content does not fit its digest")),
        }
    }
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, LayoutError> {
    let mut json = Vec::new();
    GzDecoder::new(bytes).take(UNPACKED_MAX).read_to_end(&mut json).map_err(damaged)?;
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Sizes = Sizes { plain: 40, part: 64 };

    fn config() -> ConfigName {
        ConfigName::new("n", "a")
    }

    /// As the API server would give it back.
    fn stored(packed: &Packed) -> (ConfigMap, Vec<ConfigMap>) {
        let parts = packed.parts().iter().map(|(name, bytes)| part(&config(), name, bytes));
        (packed.head(&config()), parts.collect())
    }

    fn noise(length: usize) -> String {
        let digests = (0..).map(|n: u32| short_hash(&n.to_be_bytes()));
        digests.flat_map(|text| text.chars().collect::<Vec<_>>()).take(length).collect()
    }

    #[test]
    fn a_state_of_any_size_comes_back_as_it_was() {
        for (length, format, parts) in [(10, "json", 0), (41, "gzip", 0), (2_000, "gzip-parts", 19)] {
            let json = noise(length);
            let packed = Packed::new(&config(), 7, "h", json.clone(), SMALL);
            let (map, stored_parts) = stored(&packed);
            assert_eq!(map.data.as_ref().unwrap()["format"], format);
            let head = Head::read(map).unwrap();
            assert_eq!((head.revision, head.holder.as_str()), (7, "h"));
            assert_eq!(head.parts.len(), stored_parts.len());
            assert!(head.parts.len() >= parts.min(10), "{length}: {} parts", head.parts.len());
            assert_eq!(head.unpack(stored_parts).unwrap(), json.into_bytes());
        }
    }

    #[test]
    fn no_object_is_larger_than_the_api_server_takes() {
        let packed = Packed::new(&config(), 1, "", noise(2 << 20), Sizes::default());
        assert!(packed.parts().len() > 1);
        assert!(packed.parts().iter().all(|(_, bytes)| bytes.len() <= 900 << 10));
    }

    #[test]
    fn what_does_not_fit_together_is_told_and_not_used() {
        let packed = Packed::new(&config(), 1, "", noise(2_000), SMALL);
        let (map, parts) = stored(&packed);
        let head = Head::read(map.clone()).unwrap();
        assert!(matches!(head.unpack(parts[1..].to_vec()), Err(LayoutError::Damaged(_))));
        let mut other = map.clone();
        other.data.as_mut().unwrap().insert("digest".to_owned(), "00".to_owned());
        let error = Head::read(other).unwrap().unpack(parts).unwrap_err().to_string();
        assert_eq!(error, "it is damaged: its content does not fit its digest");
        let mut newer = map;
        newer.data.as_mut().unwrap().insert("layout".to_owned(), "2".to_owned());
        assert_eq!(Head::read(newer).unwrap_err(), LayoutError::Newer("2".to_owned()));
        assert!(matches!(Head::read(ConfigMap::default()), Err(LayoutError::Damaged(_))));
    }

    #[test]
    fn a_patch_takes_away_what_another_size_left() {
        let plain = Packed::new(&config(), 2, "", "{}".to_owned(), SMALL).patch(&config(), "5");
        assert_eq!(plain["metadata"]["resourceVersion"], "5");
        assert_eq!(
            (&plain["data"]["parts"], &plain["binaryData"]["state.json.gz"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(plain["data"]["state.json"], "{}");
        let gzip = Packed::new(&config(), 3, "", noise(50), SMALL).patch(&config(), "6");
        assert_eq!(gzip["data"]["state.json"], Value::Null);
        assert!(gzip["binaryData"]["state.json.gz"].is_string());
    }

    #[test]
    fn names_are_names_whatever_the_object_is_called() {
        assert_eq!(head_name(&config()), "multinic-state-a");
        let long =
            |end: &str| head_name(&ConfigName::new("n", "x".repeat(199) + "." + &"y".repeat(50) + end));
        assert!(long("a").len() <= NAME_MAX);
        assert_ne!(long("a"), long("b"));
        assert!(!long("a").contains(".-"), "{}", long("a"));
        let packed = Packed::new(&config(), 1, "", noise(2_000), SMALL);
        assert!(packed.parts().iter().all(|(name, _)| !name.starts_with(HEAD)));
    }
}
