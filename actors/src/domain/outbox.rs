//! What has to be sent to where it is delivered: the newest state per node, one batch under way.
//!
//! A slow or dead receiver never makes a queue: a node has one wanted state, the newest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backoff::{Backoff, BackoffPolicy, Jitter};
use super::ids::{NodeName, VmId};
use super::node::NodeConfig;
use super::post::{NodeResult, PostAnswer, PostError, PostFailure};
use super::settle::{History, Wanted};
use crate::planted::{self, Bug};

mod cluster;
mod delivered;

use delivered::Delivered;

/// How many nodes a batch may have.
pub const MAX_BATCH_NODES: usize = 100;
/// How large a batch may be, in bytes of JSON.
pub const MAX_BATCH_BYTES: usize = 1024 * 1024;
/// The first pause after a failed POST.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// So many refused batches may follow one another at once; a receiver that takes none at all gets pauses.
const PATIENT_REFUSALS: u32 = 8;
/// The pause before a part of a batch that was answered with 500 is tried again.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// The state of one config's deliveries.
#[derive(Clone, Debug)]
pub struct Outbox {
    entries: BTreeMap<NodeName, Entry>,
    delivered: Delivered,
    /// Nodes that may have something else than `delivered` says: a POST for them ended with no answer, or with
    /// one that does not say that it was not carried out.
    in_doubt: BTreeSet<NodeName>,
    flight: Option<Flight>,
    /// Parts of a refused batch that are still to be tried, each on its own.
    probes: VecDeque<Probe>,
    has_server_error: bool,
    /// Batches refused since one was taken.
    refused_in_a_row: u32,
    rest: Duration,
    backoff: Backoff,
    jitter: Jitter,
    not_before: Option<Instant>,
    failure: Option<String>,
    flights: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    vm: VmId,
    wanted: Arc<NodeConfig>,
    /// Send it even if it is delivered.
    must_send: bool,
    refusal: Option<Refusal>,
}

#[derive(Clone, Debug)]
struct Refusal {
    content: Arc<NodeConfig>,
    until: Instant,
    why: Why,
}

/// Why a node was refused.
#[derive(Clone, Debug)]
struct Why {
    message: String,
    /// Another applier owns a field of it.
    is_conflict: bool,
}

impl Why {
    fn told(message: String) -> Self {
        Self { message, is_conflict: false }
    }
}

#[derive(Clone, Debug)]
struct Probe {
    nodes: Vec<NodeName>,
    has_server_error: bool,
}

/// What became of one node of a flight.
type NodeAnswer = (Arc<NodeConfig>, Result<(), Why>);

#[derive(Clone, Debug)]
struct Flight {
    id: u64,
    nodes: Vec<Arc<NodeConfig>>,
    /// Nodes that had to be sent even if delivered, and have to be again unless this flight is taken.
    owed: Vec<NodeName>,
    probe: Option<Probe>,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this batch; answer with [`Outbox::finish`] and the same id.
    Post {
        /// Names the flight.
        id: u64,
        /// The batch.
        nodes: Vec<Arc<NodeConfig>>,
    },
    /// Nothing before this moment.
    Wait(Instant),
    /// Nothing at all.
    Idle,
}

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Nodes that were taken, and whether that changed what they have.
    pub accepted: Vec<Accepted>,
    /// How many nodes were refused.
    pub refused: usize,
    /// Why the batch as a whole failed.
    pub failure: Option<String>,
}

/// A node that was taken, wanted still or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its VM.
    pub vm: VmId,
    /// What it had, as far as is known.
    pub before: Option<Arc<NodeConfig>>,
    /// What it has now.
    pub node: Arc<NodeConfig>,
    /// `false` for a mere re-send.
    pub is_change: bool,
}

impl Outbox {
    /// An outbox that knows nothing yet. `rest` (the slow interval) is how long a refused content rests
    /// and the longest pause between tries. Equal seeds give equal pauses.
    pub fn new(rest: Duration, seed: u64, now: Instant) -> Self {
        Self {
            entries: BTreeMap::new(),
            delivered: Delivered::default(),
            in_doubt: BTreeSet::new(),
            flight: None,
            probes: VecDeque::new(),
            has_server_error: false,
            refused_in_a_row: 0,
            rest,
            backoff: Backoff::new(BackoffPolicy::doubling(FIRST_PAUSE, rest), seed, now),
            jitter: Jitter::new(seed),
            not_before: None,
            failure: None,
            flights: 0,
        }
    }

    /// The receiver may judge otherwise now (another address, another interval): nothing that it refused
    /// counts, and nothing waits. What is under way is still answered.
    pub fn start_over(&mut self, rest: Duration, seed: u64, now: Instant) {
        let fresh = Self::new(rest, seed, now);
        let mut entries = std::mem::take(&mut self.entries);
        entries.values_mut().for_each(|entry| entry.refusal = None);
        *self = Self {
            entries,
            delivered: std::mem::take(&mut self.delivered),
            in_doubt: std::mem::take(&mut self.in_doubt),
            flight: self.flight.take(),
            flights: self.flights,
            ..fresh
        };
    }

    /// Takes over what the inventory knows, and whether that is in doubt. What was delivered since is newer and
    /// stays.
    pub fn learn(&mut self, delivered: Arc<NodeConfig>, is_in_doubt: bool) {
        if self.delivered.get(&delivered.node_name).is_some() {
            return;
        }
        if is_in_doubt {
            self.doubt(delivered.node_name.clone());
        }
        self.delivered.insert(delivered);
    }

    /// What VMs other than these were sent does not count any more.
    pub fn retain_vms(&mut self, vms: &BTreeSet<VmId>) {
        self.delivered.retain_vms(vms);
    }

    /// Another config delivered this to the node, later than anything that was sent from here, or something else
    /// of which nothing was heard.
    pub fn learn_foreign(&mut self, delivered: Arc<NodeConfig>, is_in_doubt: bool) {
        if is_in_doubt {
            self.doubt(delivered.node_name.clone());
        }
        self.delivered.insert(delivered);
    }

    /// The node is another config's: nothing is known of it any more, nothing is sent to it, and the answer
    /// to a POST under way does not count for it.
    pub fn forget(&mut self, node: &NodeName) {
        self.delivered.remove(node);
        self.in_doubt.remove(node);
        self.entries.remove(node);
        if let Some(flight) = &mut self.flight {
            flight.nodes.retain(|sent| &sent.node_name != node);
        }
    }

    /// The node may have been sent something of which nothing was heard: whatever is wanted next is sent.
    pub fn doubt(&mut self, node: NodeName) {
        if !planted::is(Bug::NoDoubt) {
            self.in_doubt.insert(node);
        }
    }

    /// What is to be sent and is not what the node has, as far as is known.
    pub fn changes(&self) -> impl Iterator<Item = &Arc<NodeConfig>> {
        self.entries
            .iter()
            .filter(|(name, entry)| self.is_changed(name, entry))
            .map(|(_, entry)| &entry.wanted)
    }

    /// What a node was sent.
    pub fn delivered_at(&self, node: &NodeName) -> Option<&Arc<NodeConfig>> {
        self.delivered.get(node)
    }

    /// What a VM was sent; the wanted node's, should it have two.
    pub fn delivered_to(&self, vm: &VmId) -> Option<&Arc<NodeConfig>> {
        let is_wanted = |name: &&NodeName| self.entries.get(*name).is_some_and(|entry| &entry.vm == vm);
        let name = self.delivered.names_of(vm).find(is_wanted);
        self.delivered.get(name.or_else(|| self.delivered.names_of(vm).next())?)
    }

    /// Replaces what is wanted. What is no longer in it will not be sent.
    pub fn want(&mut self, wanted: &BTreeMap<NodeName, Wanted>) {
        let mut before = std::mem::take(&mut self.entries);
        for (name, wanted) in wanted {
            let mut entry = before.remove(name).filter(|entry| entry.vm == wanted.vm).unwrap_or(Entry {
                vm: wanted.vm.clone(),
                wanted: Arc::clone(&wanted.node),
                must_send: false,
                refusal: None,
            });
            entry.wanted = Arc::clone(&wanted.node);
            self.entries.insert(name.clone(), entry);
        }
    }

    /// Sends the node once more even if it is delivered.
    pub fn resend(&mut self, node: &NodeName) {
        if let Some(entry) = self.entries.get_mut(node) {
            entry.must_send = true;
        }
    }

    /// Sends every node once more.
    pub fn resend_all(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.must_send = true);
    }

    /// How much is kept: entries of all tables together.
    pub fn size(&self) -> usize {
        self.entries.len() + self.delivered.len() + self.in_doubt.len() + self.probes.len()
    }

    /// Whether a batch is under way.
    pub fn is_posting(&self) -> bool {
        self.flight.is_some()
    }

    /// Whether the node is in the batch that is under way.
    pub fn is_under_way(&self, name: &NodeName) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.nodes.iter().any(|node| node.node_name == *name))
    }

    /// Whether the node has what is wanted for it.
    pub fn is_delivered(&self, name: &NodeName) -> bool {
        self.entries.get(name).is_some_and(|entry| !self.is_changed(name, entry))
    }

    /// Nodes that do not have yet what is wanted for them, refused ones left out.
    pub fn outstanding(&self) -> impl Iterator<Item = &NodeName> {
        self.entries
            .iter()
            .filter(|(name, entry)| self.is_changed(name, entry) && !is_refused(entry))
            .map(|(name, _)| name)
    }

    /// Nodes whose wanted content was refused: VM and the receiver's words.
    pub fn refused(&self) -> impl Iterator<Item = (&NodeName, &VmId, &str)> {
        self.entries.iter().filter_map(|(name, entry)| {
            let refusal = entry.refusal.as_ref().filter(|r| r.content.is_same(&entry.wanted))?;
            Some((name, &entry.vm, refusal.why.message.as_str()))
        })
    }

    /// Why some wanted change is undelivered: the last POST's failure, until a POST succeeds.
    pub fn failure(&self) -> Option<&str> {
        let failure = self.failure.as_deref()?;
        self.outstanding().next().map(|_| failure)
    }

    fn is_changed(&self, name: &NodeName, entry: &Entry) -> bool {
        !self.delivered.get(name).is_some_and(|delivered| delivered.is_same(&entry.wanted))
    }

    fn is_due(&self, name: &NodeName, entry: &Entry, now: Instant) -> bool {
        let is_resting =
            entry.refusal.as_ref().is_some_and(|r| r.content.is_same(&entry.wanted) && now < r.until);
        let is_wanted = entry.must_send || self.in_doubt.contains(name) || self.is_changed(name, entry);
        is_wanted && !is_resting
    }

    /// The next batch, or when to ask again.
    pub fn next(&mut self, now: Instant) -> Next {
        if self.flight.is_some() {
            return Next::Idle;
        }
        if let Some(moment) = self.not_before.filter(|moment| now < *moment) {
            return match self.has_due(moment) {
                true => Next::Wait(moment),
                false => self.wait_for_refused(),
            };
        }
        self.not_before = None;
        while let Some(probe) = self.probes.pop_front() {
            let nodes = self.due(probe.nodes.iter(), now);
            if !nodes.is_empty() {
                return self.depart(nodes, Some(probe));
            }
        }
        let nodes = self.due(self.entries.keys(), now);
        if nodes.is_empty() { self.wait_for_refused() } else { self.depart(nodes, None) }
    }

    fn has_due(&self, at: Instant) -> bool {
        self.entries.iter().any(|(name, entry)| self.is_due(name, entry, at))
    }

    fn wait_for_refused(&self) -> Next {
        let ends = self.entries.iter().filter_map(|(name, entry)| {
            let until = entry.refusal.as_ref()?.until;
            self.is_due(name, entry, until).then_some(until)
        });
        ends.min().map_or(Next::Idle, Next::Wait)
    }

    fn due<'a>(&self, names: impl Iterator<Item = &'a NodeName>, now: Instant) -> Vec<Arc<NodeConfig>> {
        let mut bytes = 0;
        let due = names.filter_map(|name| {
            let entry = self.entries.get(name)?;
            self.is_due(name, entry, now).then(|| Arc::clone(&entry.wanted))
        });
        due.take(MAX_BATCH_NODES)
            .take_while(|node| {
                let is_first = bytes == 0;
                bytes += serde_json::to_vec(node).map_or(0, |json| json.len() + 1);
                is_first || bytes < MAX_BATCH_BYTES
            })
            .collect()
    }

    /// Flight `id` did not leave after all.
    pub fn abandon(&mut self, id: u64) {
        let Some(flight) = self.flight.take_if(|flight| flight.id == id) else {
            return;
        };
        flight.owed.iter().for_each(|node| self.resend(node));
        if let Some(probe) = flight.probe {
            self.probes.push_front(probe);
        }
    }

    fn depart(&mut self, nodes: Vec<Arc<NodeConfig>>, probe: Option<Probe>) -> Next {
        self.flights += 1;
        let id = self.flights;
        let owed = self.take_owed(&nodes);
        self.flight = Some(Flight { id, nodes: nodes.clone(), owed, probe });
        Next::Post { id, nodes }
    }

    /// What is asked for from now on is asked for anew: this departure does not answer it.
    fn take_owed(&mut self, nodes: &[Arc<NodeConfig>]) -> Vec<NodeName> {
        let names = nodes.iter().map(|node| &node.node_name);
        let is_owed = |name: &&NodeName| {
            self.entries.get_mut(*name).is_some_and(|entry| std::mem::take(&mut entry.must_send))
        };
        names.filter(is_owed).cloned().collect()
    }

    /// Takes in the answer to flight `id`.
    pub fn finish(&mut self, id: u64, answer: Result<PostAnswer, PostError>, now: Instant) -> Finished {
        let Some(flight) = self.flight.take_if(|flight| flight.id == id) else {
            return Finished::default();
        };
        let results = match answer {
            Ok(PostAnswer::AllAccepted) => {
                flight.nodes.iter().map(|node| (Arc::clone(node), Ok(()))).collect()
            }
            Ok(PostAnswer::PerNode(results)) => match_results(&flight.nodes, results),
            Err(error) => {
                flight.owed.iter().for_each(|node| self.resend(node));
                return self.failed(flight, error, now);
            }
        };
        self.answered(results, &flight.owed, now)
    }

    fn answered(&mut self, results: Vec<NodeAnswer>, owed: &[NodeName], now: Instant) -> Finished {
        let mut finished = Finished::default();
        for (node, result) in results {
            match result {
                Ok(()) => finished.accepted.push(self.accept(node)),
                Err(why) => {
                    if owed.contains(&node.node_name) {
                        self.resend(&node.node_name);
                    }
                    // What failed may be half done: a deadline there, a connection to the cluster lost.
                    if !why.is_conflict {
                        self.doubt(node.node_name.clone());
                    }
                    finished.refused += self.refuse(&node, why, now);
                }
            }
        }
        self.refused_in_a_row = 0;
        self.backoff.reset(now);
        self.not_before = None;
        self.has_server_error = false;
        self.failure = None;
        finished
    }

    /// What was taken counts, also when nothing is wanted of the node any more.
    fn accept(&mut self, node: Arc<NodeConfig>) -> Accepted {
        let newest = self.entries.get(&node.node_name).map(|entry| Arc::clone(&entry.wanted));
        let has = newest.filter(|_| planted::is(Bug::OutboxForgetsTheNewest)).unwrap_or(Arc::clone(&node));
        let before = self.delivered.insert(has);
        self.in_doubt.remove(&node.node_name);
        self.delivered.forget_other_names(&node.instance_id, &node.node_name);
        let is_change = !before.as_ref().is_some_and(|before| before.is_same(&node));
        if let Some(entry) = self.entries.get_mut(&node.node_name) {
            entry.refusal = None;
        }
        Accepted { vm: node.instance_id.clone(), before, node, is_change }
    }

    fn refuse(&mut self, node: &Arc<NodeConfig>, why: Why, now: Instant) -> usize {
        let until = now + self.rest;
        let Some(entry) = self.entries.get_mut(&node.node_name) else {
            return 0;
        };
        entry.refusal = Some(Refusal { content: Arc::clone(node), until, why });
        1
    }

    fn failed(&mut self, flight: Flight, error: PostError, now: Instant) -> Finished {
        let failure = Some(error.message.clone());
        if error.failure.leaves_doubt() {
            flight.nodes.iter().for_each(|node| self.doubt(node.node_name.clone()));
        }
        match error.failure {
            PostFailure::Refused => {
                self.refused_in_a_row += 1;
                if self.refused_in_a_row > PATIENT_REFUSALS {
                    self.not_before = Some(now + self.probe_pause());
                }
                let refused = self.bisect(&flight, &error.message, now);
                return Finished { refused, failure, ..Finished::default() };
            }
            PostFailure::ServerError if self.was_server_error(&flight) => {
                self.not_before = Some(now + self.probe_pause());
                let refused = self.bisect(&flight, &error.message, now);
                return Finished { refused, failure, ..Finished::default() };
            }
            PostFailure::ServerError => self.note_server_error(&flight),
            PostFailure::UnknownOutcome => {
                for sent in flight.nodes.iter().filter(|_| planted::is(Bug::OldListSentAgain)) {
                    let entry = self.entries.get_mut(&sent.node_name);
                    entry.into_iter().for_each(|entry| entry.wanted = Arc::clone(sent));
                }
                self.probes.clear();
            }
            PostFailure::Unavailable | PostFailure::Rejected => self.probes.clear(),
        }
        self.pause(error, flight.probe.is_some(), now);
        Finished { failure, ..Finished::default() }
    }

    fn was_server_error(&self, flight: &Flight) -> bool {
        flight.probe.as_ref().map_or(self.has_server_error, |probe| probe.has_server_error)
    }

    fn note_server_error(&mut self, flight: &Flight) {
        match &flight.probe {
            Some(probe) => self.probes.push_front(Probe { has_server_error: true, ..probe.clone() }),
            None => self.has_server_error = true,
        }
    }

    fn probe_pause(&mut self) -> Duration {
        self.jitter.spread(PROBE_PAUSE, 0.1)
    }

    fn pause(&mut self, error: PostError, is_probe: bool, now: Instant) {
        let is_probing = is_probe && error.failure == PostFailure::ServerError;
        let pause = if is_probing { self.probe_pause() } else { self.backoff.next(now) };
        let asked = error.retry_after.map_or(Duration::ZERO, |asked| self.jitter.at_least(asked));
        self.not_before = Some(now + pause.max(asked));
        self.failure = Some(error.message);
    }

    /// One bad node must not hold back the others: halves are tried on their own, down to the node.
    fn bisect(&mut self, flight: &Flight, message: &str, now: Instant) -> usize {
        self.has_server_error = false;
        if let [node] = flight.nodes.as_slice() {
            return self.refuse(node, Why::told(message.to_owned()), now);
        }
        let names: Vec<_> = flight.nodes.iter().map(|node| node.node_name.clone()).collect();
        let (left, right) = names.split_at(names.len() / 2);
        for half in [left, right] {
            self.probes.push_back(Probe { nodes: half.to_vec(), has_server_error: false });
        }
        0
    }
}

impl History for Outbox {
    fn at_node(&self, node: &NodeName) -> Option<Arc<NodeConfig>> {
        self.delivered_at(node).cloned()
    }

    fn of_vm(&self, vm: &VmId) -> Option<Arc<NodeConfig>> {
        self.delivered_to(vm).cloned()
    }
}

fn is_refused(entry: &Entry) -> bool {
    entry.refusal.as_ref().is_some_and(|refusal| refusal.content.is_same(&entry.wanted))
}

/// A node that the answer does not name was not taken.
fn match_results(nodes: &[Arc<NodeConfig>], results: Vec<NodeResult>) -> Vec<NodeAnswer> {
    let judged = |result: NodeResult| {
        let is_conflict = result.is_conflict;
        (result.node, result.result.map_err(|message| Why { message, is_conflict }))
    };
    let mut by_name: BTreeMap<NodeName, Result<(), Why>> = results.into_iter().map(judged).collect();
    let unnamed = || Err(Why::told("the answer does not name this node".to_owned()));
    nodes
        .iter()
        .map(|node| (Arc::clone(node), by_name.remove(&node.node_name).unwrap_or_else(unnamed)))
        .collect()
}

#[cfg(test)]
mod tests;
