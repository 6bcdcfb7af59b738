//! One workload cluster as it was seen last.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use multinic_actors::boundary::Changed;
use multinic_actors::domain::machines::Machines;
use multinic_actors::domain::readback::{Found, Reach};

use super::lock;

/// What is known of a cluster. The watches write it, and so does who applies; configs read it.
pub(super) struct Cluster {
    name: String,
    objects: Mutex<HashMap<String, Entry>>,
    nodes: Mutex<Nodes>,
    reach: Mutex<Reach>,
    subscribers: Mutex<HashMap<u64, Arc<Changed>>>,
    next: AtomicU64,
}

/// An object, or that it is gone, as of a version. Answers to applies and watch events overtake each other.
struct Entry {
    version: Option<u64>,
    found: Option<Arc<Found>>,
}

/// What is known of the nodes.
#[derive(Default)]
struct Nodes {
    /// The first look has ended, well or not.
    is_tried: bool,
    machines: Option<Arc<Machines>>,
}

impl Cluster {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            objects: Mutex::default(),
            nodes: Mutex::default(),
            reach: Mutex::default(),
            subscribers: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    pub(super) fn reach(&self) -> Reach {
        // Both first looks count: what a node is must be known before anything is applied to it.
        if !lock(&self.nodes).is_tried {
            return Reach::default();
        }
        lock(&self.reach).clone()
    }

    pub(super) fn found(&self, name: &str) -> Option<Arc<Found>> {
        lock(&self.objects).get(name)?.found.clone()
    }

    pub(super) fn machines(&self) -> Option<Arc<Machines>> {
        lock(&self.nodes).machines.clone()
    }

    /// Every object that there is at `version`.
    pub(super) fn listed(&self, version: Option<u64>, objects: Vec<(String, Option<u64>, Found)>) {
        let mut known = lock(&self.objects);
        let names: HashSet<&str> = objects.iter().map(|(name, ..)| name.as_str()).collect();
        // What was applied after the list was made stays.
        known.retain(|name, entry| names.contains(name.as_str()) || is_newer(entry.version, version));
        drop(names);
        for (name, version, found) in objects {
            note(&mut known, name, version, Some(found));
        }
        drop(known);
        self.tell();
    }

    /// An object is there and says this.
    pub(super) fn applied(&self, name: String, version: Option<u64>, found: Found) {
        note(&mut lock(&self.objects), name, version, Some(found));
        self.tell();
    }

    /// An object is gone.
    pub(super) fn deleted(&self, name: String, version: Option<u64>) {
        note(&mut lock(&self.objects), name, version, None);
        self.tell();
    }

    /// It can be looked at.
    pub(super) fn well(&self) {
        let mut reach = lock(&self.reach);
        if reach.is_reachable == Some(true) {
            return;
        }
        if reach.is_reachable == Some(false) {
            tracing::info!("workload cluster {}: it can be looked at again", self.name);
        }
        *reach = Reach { is_reachable: Some(true), since: Some(Timestamp::now()), problem: None };
        drop(reach);
        self.tell();
    }

    /// It cannot; `detail` is for the log.
    pub(super) fn troubled(&self, problem: &str, detail: &str) {
        let mut reach = lock(&self.reach);
        if reach.problem.as_deref() == Some(problem) {
            return;
        }
        tracing::warn!("workload cluster {}: {detail}", self.name);
        let since = match reach.is_reachable {
            Some(false) => reach.since,
            _ => Some(Timestamp::now()),
        };
        *reach = Reach { is_reachable: Some(false), since, problem: Some(problem.to_owned()) };
        drop(reach);
        self.tell();
    }

    /// Changes what is known of the nodes.
    pub(super) fn change_nodes(&self, change: impl FnOnce(&mut Machines) -> bool) {
        let mut nodes = lock(&self.nodes);
        let is_first = nodes.machines.is_none();
        let is_news = change(Arc::make_mut(nodes.machines.get_or_insert_default()));
        nodes.is_tried = true;
        drop(nodes);
        if is_first || is_news {
            self.tell();
        }
    }

    /// Its nodes cannot be read: node names are not compared.
    pub(super) fn without_nodes(&self, detail: &str) {
        let mut nodes = lock(&self.nodes);
        let is_news = !std::mem::replace(&mut nodes.is_tried, true);
        drop(nodes);
        if is_news {
            tracing::warn!(
                "workload cluster {}: its nodes are not known and not compared: {detail}",
                self.name
            );
            self.tell();
        }
    }

    fn tell(&self) {
        let subscribers: Vec<_> = lock(&self.subscribers).values().cloned().collect();
        subscribers.iter().for_each(|changed| changed());
    }
}

fn is_newer(version: Option<u64>, than: Option<u64>) -> bool {
    version.zip(than).is_some_and(|(version, than)| version > than)
}

fn note(known: &mut HashMap<String, Entry>, name: String, version: Option<u64>, found: Option<Found>) {
    if known.get(&name).is_some_and(|entry| is_newer(entry.version, version)) {
        return;
    }
    known.insert(name, Entry { version, found: found.map(Arc::new) });
}

/// Somebody who is told of changes until this is dropped.
pub(super) struct Subscription {
    cluster: Arc<Cluster>,
    id: u64,
}

impl Subscription {
    pub(super) fn new(cluster: Arc<Cluster>, changed: Changed) -> Self {
        let id = cluster.next.fetch_add(1, Ordering::Relaxed);
        let changed = Arc::new(changed);
        // What is known already is news to whoever comes later.
        changed();
        lock(&cluster.subscribers).insert(id, changed);
        Self { cluster, id }
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        lock(&self.cluster.subscribers).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use multinic_actors::domain::readback::Agent;

    use super::*;

    fn found(words: &str) -> Found {
        Found { config: None, agent: Agent::Failed(words.to_owned()) }
    }

    fn words(cluster: &Cluster) -> Option<String> {
        match &cluster.found("n")?.agent {
            Agent::Failed(words) => Some(words.clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_older_does_not_overtake() {
        let cluster = Cluster::new("test".to_owned());
        let put = |version, words: &str| cluster.applied("n".to_owned(), Some(version), found(words));
        put(5, "answer");
        put(3, "late event");
        assert_eq!(words(&cluster).as_deref(), Some("answer"));
        cluster.deleted("n".to_owned(), Some(4));
        assert_eq!(words(&cluster).as_deref(), Some("answer"));
        cluster.listed(Some(4), Vec::new());
        assert_eq!(words(&cluster).as_deref(), Some("answer"), "applied after the list was made");
        cluster.deleted("n".to_owned(), Some(6));
        put(5, "late answer");
        assert_eq!(words(&cluster), None);
        cluster.listed(Some(9), vec![("n".to_owned(), Some(8), found("listed"))]);
        assert_eq!(words(&cluster).as_deref(), Some("listed"));
        cluster.listed(Some(10), Vec::new());
        assert_eq!(words(&cluster), None);
    }

    #[test]
    fn since_when_it_is_away_does_not_move_with_the_reason() {
        let cluster = Cluster::new("test".to_owned());
        assert_eq!(cluster.reach().is_reachable, None);
        cluster.troubled("a", "a");
        assert_eq!(cluster.reach().is_reachable, None, "the nodes are not tried yet");
        cluster.without_nodes("forbidden");
        let first = cluster.reach();
        assert_eq!((first.is_reachable, first.problem.as_deref()), (Some(false), Some("a")));
        cluster.troubled("b", "b");
        let second = cluster.reach();
        assert_eq!((second.since, second.problem.as_deref()), (first.since, Some("b")));
        cluster.well();
        assert_eq!((cluster.reach().is_reachable, cluster.reach().problem), (Some(true), None));
    }
}
