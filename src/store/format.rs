//! What stands in the inventory file.
//!
//! `{"version":1,"records":[…],"configs":[…]}`. The previous operator wrote `records` alone and skips
//! what it does not know, so either can read the other's file.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use multinic_actors::boundary::Loaded;
use multinic_actors::domain::ids::ConfigName;
use multinic_actors::domain::inventory::{ConfigState, Foreign, Record, RecordKey, Snapshot};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::lenient;

/// The version that [`encode`] writes and the newest that [`decode`] reads.
pub const FORMAT_VERSION: u64 = 1;

/// How many unusable entries a warning names; the others are only counted.
const NAMED_IN_WARNING: usize = 3;

/// A file that is no inventory of ours.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Nothing in it, not even JSON.
    #[error("it is empty")]
    Empty,
    /// Cut off, overwritten or never JSON.
    #[error("it is not whole JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON of something else.
    #[error("it is JSON, but no inventory: {0}")]
    NotAnInventory(&'static str),
    /// Written by a newer release.
    #[error("it has format version {0}; this release reads up to version {FORMAT_VERSION}")]
    Newer(Value),
}

/// Reads an inventory file of this or the previous operator.
///
/// An entry that cannot be used is put into [`Snapshot::foreign`] and named in the warnings.
///
/// # Errors
/// When the text as a whole is no inventory.
pub fn decode(bytes: &[u8]) -> Result<Loaded, FormatError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.trim_ascii().is_empty() {
        return Err(FormatError::Empty);
    }
    let Value::Object(mut root) = serde_json::from_slice(bytes)? else {
        return Err(FormatError::NotAnInventory("it is not an object"));
    };
    check_version(&root)?;
    // `{}` is what an empty inventory can look like; an object of other keys is something else.
    if !root.is_empty() && !root.contains_key("records") {
        return Err(FormatError::NotAnInventory("it has no `records`"));
    }
    let records = entries(&mut root, "records")?;
    let configs = entries(&mut root, "configs")?;
    Ok(assemble(records, configs))
}

fn check_version(root: &Map<String, Value>) -> Result<(), FormatError> {
    match root.get("version") {
        None | Some(Value::Null) => Ok(()),
        Some(version) if version.as_u64().is_some_and(|v| v <= FORMAT_VERSION) => Ok(()),
        Some(version) => Err(FormatError::Newer(version.clone())),
    }
}

fn entries(root: &mut Map<String, Value>, key: &'static str) -> Result<Vec<Value>, FormatError> {
    match root.remove(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(entries)) => Ok(entries),
        Some(_) if key == "records" => Err(FormatError::NotAnInventory("`records` is not a list")),
        Some(_) => Err(FormatError::NotAnInventory("`configs` is not a list")),
    }
}

fn assemble(records: Vec<Value>, configs: Vec<Value>) -> Loaded {
    let mut snapshot = Snapshot::default();
    let mut foreign = Foreign::default();
    let mut problems = Vec::new();
    for value in records {
        match lenient::record(&value) {
            Ok(record) => keep_newest(&mut snapshot, record),
            Err(problem) => {
                problems.push(format!("record {}: {problem}", label(&value, "nodeName")));
                foreign.records.push(value);
            }
        }
    }
    for value in configs {
        match serde_json::from_value::<ConfigState>(value.clone()) {
            Ok(state) => {
                snapshot.configs.insert(state.name.clone(), Arc::new(state));
            }
            Err(problem) => {
                problems.push(format!("config {}: {problem}", label(&value, "name")));
                foreign.configs.push(value);
            }
        }
    }
    snapshot.foreign = Arc::new(foreign);
    let warnings = warning(&problems).into_iter().collect();
    Loaded { snapshot, warnings }
}

/// Two records of one node (their names differed in case only): the newer one was delivered last.
fn keep_newest(snapshot: &mut Snapshot, record: Record) {
    let key = record.key();
    let is_older = snapshot.records.get(&key).is_some_and(|known| known.updated_at > record.updated_at);
    if !is_older {
        snapshot.records.insert(key, Arc::new(record));
    }
}

fn label(value: &Value, key: &str) -> String {
    match value.get(key).and_then(Value::as_str) {
        Some(text) => format!("{:?}", text.chars().take(80).collect::<String>()),
        None => "without a name".to_owned(),
    }
}

fn warning(problems: &[String]) -> Option<String> {
    let (named, rest) = problems.split_at(problems.len().min(NAMED_IN_WARNING));
    if named.is_empty() {
        return None;
    }
    let more = match rest.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Some(format!("entries that cannot be used stay in the file as they are: {}{more}", named.join("; ")))
}

/// Writes `snapshot`, sorted, so that equal inventories are equal files.
///
/// # Errors
/// When `out` cannot take it.
pub fn encode(snapshot: &Snapshot, out: impl Write) -> std::io::Result<()> {
    #[derive(Serialize)]
    struct File<'a> {
        version: u64,
        records: Records<'a>,
        configs: Configs<'a>,
    }
    let file = File { version: FORMAT_VERSION, records: Records(snapshot), configs: Configs(snapshot) };
    serde_json::to_writer(out, &file).map_err(std::io::Error::from)
}

struct Records<'a>(&'a Snapshot);

impl Serialize for Records<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for record in self.0.records.values() {
            list.serialize_element(record.as_ref())?;
        }
        let known: BTreeSet<(&str, &str)> = self.0.records.keys().map(names).collect();
        for value in &self.0.foreign.records {
            // Once the node was delivered by us, the unreadable entry says nothing any more, and an older
            // binary would take it for the truth because it comes later.
            if !is_superseded(value, &known) {
                list.serialize_element(value)?;
            }
        }
        list.end()
    }
}

fn names(key: &RecordKey) -> (&str, &str) {
    (key.provider.as_str(), key.node.as_str())
}

fn is_superseded(value: &Value, known: &BTreeSet<(&str, &str)>) -> bool {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let node = text("nodeName").to_lowercase();
    known.contains(&(text("providerId"), node.as_str()))
}

struct Configs<'a>(&'a Snapshot);

impl Serialize for Configs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for state in self.0.configs.values() {
            list.serialize_element(state.as_ref())?;
        }
        for value in &self.0.foreign.configs {
            let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
            let name = ConfigName::new(text("namespace"), text("name"));
            if !self.0.configs.contains_key(&name) {
                list.serialize_element(value)?;
            }
        }
        list.end()
    }
}
