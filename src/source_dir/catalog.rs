//! From one look at the folder to the next: which objects came, changed or went. No IO; time is passed in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use multinic_actors::domain::ids::ConfigName;
use sha2::{Digest, Sha256};

use super::reader::Scan;
use crate::kube::raw_object::{Life, RawObject};
use crate::kube::validate::{Defaults, declare};
use crate::source::SourceEvent;

/// What was told so far.
pub(super) struct Catalog {
    dir: PathBuf,
    defaults: Defaults,
    /// When objects without a creation time were first seen, those of earlier runs included.
    first_seen: BTreeMap<ConfigName, Timestamp>,
    /// Whether somebody notes those times for later runs.
    is_remembered: bool,
    /// Generations of objects that have none of their own, with the digest of what they count; kept when an
    /// object goes, as it may come back.
    generations: BTreeMap<ConfigName, (i64, [u8; 32])>,
    told: BTreeMap<ConfigName, (Life, RawObject)>,
    problems: BTreeMap<PathBuf, String>,
    is_synced: bool,
}

impl Catalog {
    /// `first_seen`: what earlier runs noted; `None` where nobody notes anything.
    pub(super) fn new(
        dir: PathBuf,
        defaults: Defaults,
        first_seen: Option<BTreeMap<ConfigName, Timestamp>>,
    ) -> Self {
        Self {
            dir,
            defaults,
            is_remembered: first_seen.is_some(),
            first_seen: first_seen.unwrap_or_default(),
            generations: BTreeMap::new(),
            told: BTreeMap::new(),
            problems: BTreeMap::new(),
            is_synced: false,
        }
    }

    /// What is to be told after a look at the folder. A folder that cannot be read says nothing about its
    /// objects: they go on.
    pub(super) fn update(&mut self, scan: Result<Scan, String>, now: Timestamp) -> Vec<SourceEvent> {
        let scan = match scan {
            Ok(scan) => scan,
            Err(problem) => {
                let mut problems = self.problems.clone();
                problems
                    .insert(self.dir.clone(), format!("{problem}; its objects go on as they were last read"));
                return self.tell_problems(problems);
            }
        };
        let (objects, problems) = sort_out(&scan);
        let mut events = self.tell_deleted(&objects);
        for raw in objects.into_values() {
            self.tell_object(raw, now, &mut events);
        }
        // While a file cannot be read, the list of objects is not complete: nobody may be taken for gone.
        let is_complete = scan.files.values().all(|seen| seen.problem.is_none());
        events.extend(self.tell_problems(problems));
        if is_complete && !self.is_synced {
            self.is_synced = true;
            events.push(SourceEvent::Synced);
        }
        events
    }

    fn tell_deleted(&mut self, objects: &BTreeMap<&ConfigName, &RawObject>) -> Vec<SourceEvent> {
        let gone = self.told.extract_if(.., |name, _| !objects.contains_key(name));
        gone.map(|(_, (life, raw))| SourceEvent::Delete(raw.id(&life))).collect()
    }

    fn tell_object(&mut self, raw: &RawObject, now: Timestamp, events: &mut Vec<SourceEvent>) {
        let life = self.life(raw, now, events);
        match self.told.get(&raw.name) {
            Some((told, before)) if *told == life && before == raw => return,
            Some((told, before)) if told.uid != life.uid => {
                events.push(SourceEvent::Delete(before.id(told)));
            }
            _ => {}
        }
        events.push(SourceEvent::Apply(declare(raw, &life, &self.defaults)));
        self.told.insert(raw.name.clone(), (life, raw.clone()));
    }

    fn life(&mut self, raw: &RawObject, now: Timestamp, events: &mut Vec<SourceEvent>) -> Life {
        let created = raw.created.unwrap_or_else(|| {
            *self.first_seen.entry(raw.name.clone()).or_insert_with(|| {
                let name = raw.name.clone();
                // As the API server would note it.
                let at = Timestamp::from_second(now.as_second()).unwrap_or(now);
                if self.is_remembered {
                    events.push(SourceEvent::FirstSeen { name, at });
                }
                at
            })
        });
        Life {
            uid: raw.uid.clone().unwrap_or_else(|| stable_uid(&raw.name)),
            generation: raw.generation.unwrap_or_else(|| self.count(raw)),
            created,
            is_remembered: raw.created.is_some() || self.is_remembered,
        }
    }

    /// As the API server counts: one more with each change of the spec.
    fn count(&mut self, raw: &RawObject) -> i64 {
        let digest = raw.spec_digest();
        let (generation, counted) = self.generations.entry(raw.name.clone()).or_insert((1, digest));
        if *counted != digest {
            *generation += 1;
            *counted = digest;
        }
        *generation
    }

    fn tell_problems(&mut self, problems: BTreeMap<PathBuf, String>) -> Vec<SourceEvent> {
        let recovered = self.problems.keys().filter(|path| !problems.contains_key(*path));
        let mut events: Vec<_> =
            recovered.map(|path| SourceEvent::FileRecovered { path: path.clone() }).collect();
        for (path, problem) in &problems {
            if self.problems.get(path) != Some(problem) {
                let (path, problem) = (path.clone(), problem.clone());
                events.push(SourceEvent::FileProblem { path, problem });
            }
        }
        self.problems = problems;
        events
    }
}

/// The objects that count and what is wrong with the files. Of two objects with one name the first counts, by
/// the order of file names.
fn sort_out(scan: &Scan) -> (BTreeMap<&ConfigName, &RawObject>, BTreeMap<PathBuf, String>) {
    let mut objects = BTreeMap::new();
    let mut owners: BTreeMap<(&str, String), &Path> = BTreeMap::new();
    let mut problems = BTreeMap::new();
    for (path, seen) in &scan.files {
        let mut found: Vec<String> = seen.problem.iter().cloned().collect();
        let mut is_first = |kind: &'static str, name: String| match owners.get(&(kind, name.clone())) {
            Some(owner) => {
                let owner = owner.file_name().unwrap_or_default().display();
                found
                    .push(format!("{kind} {name} is in {owner} already and does not count here; remove one"));
                false
            }
            None => {
                owners.insert((kind, name), path.as_path());
                true
            }
        };
        for raw in &seen.objects.configs {
            if is_first("OpenstackConfig", raw.name.to_string()) {
                objects.insert(&raw.name, raw);
            }
        }
        for secret in &seen.objects.secrets {
            is_first("Secret", format!("{}/{}", secret.namespace, secret.name));
        }
        if !found.is_empty() {
            problems.insert(path.clone(), found.join("; "));
        }
    }
    (objects, problems)
}

/// The uid of an object that has none: always the same for one name, so that a file that is written anew is not
/// another life, and in the form of a UUID (version 8, RFC 9562).
fn stable_uid(name: &ConfigName) -> Arc<str> {
    let digest = Sha256::digest(format!("multinic.example.com/OpenstackConfig/{name}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    format!("{a}-{b}-{c}-{d}-{e}").into()
}

#[cfg(test)]
mod tests;
