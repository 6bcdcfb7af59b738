//! Sees every look and every POST, and holds them to the invariants at the moment at which they happen.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use multinic_actors::boundary::{PostAnswer, PostError, PostFailure};
use multinic_actors::domain::config::Config;
use multinic_actors::domain::ids::{ConfigId, ConfigName, NodeName, ProviderId, VmId};
use multinic_actors::domain::inventory::{Record, RecordKey, Snapshot};
use multinic_actors::domain::node::NodeConfig;
use multinic_actors::domain::port::Observation;
use multinic_actors::domain::status::ConfigStatus;
use multinic_actors::testing::{FakeStore, Faults, Post, TestClock, Watch};

use crate::checks::describe;
use crate::known::{Declared, History, Inner, LookRecord};
use crate::model::{self, Expect};

pub const SECOND: Duration = Duration::from_secs(1);
/// How many looks of a config are remembered.
const MEMORY: usize = 64;
/// How long a look may stay without effect while nobody is hurt: logins and looks may be slow meanwhile.
pub const LAG: Duration = Duration::from_secs(60);
/// For how long an actor that was hurt may bring things into disorder: slow handlers take up to 200 s.
pub const DISORDER: Duration = Duration::from_secs(260);
/// In which window polls and logins are counted.
pub const WINDOW: Duration = Duration::from_secs(600);

/// What must never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    NothingDeliveredIsForgotten,
    NoPostBeforeItsAllocationIsKept,
    NothingWantedIsForgotten,
    NoStaleStateAfterANewerOne,
    NoWrongOrPartialInterface,
    NoRenameUnderSticky,
    NoNeedlessPost,
    NothingThatThePolicyForbids,
    NoNodeOfAnother,
    NothingFromThePausedOrGone,
    PollsAndLoginsWithinBounds,
    NoActorLeftOrOrphaned,
    MemoryBounded,
    TheTruthInTheEnd,
    DownPortsAreSentAgain,
    NothingAfterTheEnd,
    NothingBreaks,
}

/// An invariant that did not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    pub invariant: Invariant,
    pub at: Duration,
    pub text: String,
}

/// What a run consisted of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub looks: u64,
    pub logins: u64,
    pub posts: u64,
    pub nodes_sent: u64,
    pub restarts: u64,
    /// POSTs while nobody was hurt: every check holds for them.
    pub calm_posts: u64,
}

impl Counts {
    pub fn add(&mut self, more: Self) {
        self.looks += more.looks;
        self.logins += more.logins;
        self.posts += more.posts;
        self.nodes_sent += more.nodes_sent;
        self.restarts += more.restarts;
        self.calm_posts += more.calm_posts;
    }
}

/// Clones are one monitor.
#[derive(Clone)]
pub struct Monitor {
    clock: TestClock,
    inner: Arc<Mutex<Inner>>,
}

impl Monitor {
    pub fn new(clock: TestClock, faults: Faults, store: FakeStore) -> Self {
        let inner = Inner { faults, store, ..Inner::default() };
        Self { clock, inner: Arc::new(Mutex::new(inner)) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn violates(&self, invariant: Invariant, text: impl Into<String>) {
        self.inner().now_violates(invariant, self.clock.elapsed(), text.into());
    }

    /// The first violation.
    pub fn violation(&self) -> Option<Violation> {
        self.inner().violations.first().cloned()
    }

    pub fn counts(&self) -> Counts {
        self.inner().counts
    }

    /// Everything that left or came back, ordered by time and sender.
    pub fn effects(&self) -> Vec<String> {
        let mut effects = self.inner().effects.clone();
        effects.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        effects.into_iter().map(|(at, who, what)| format!("{at:.3?} {who}: {what}")).collect()
    }

    /// What the store holds now belongs to the effects.
    pub fn note_store(&self, content: &Snapshot) {
        let (now, digest, records) = (self.clock.elapsed(), digest_of(content), content.records.len());
        let text = format!("holds {records} records, {digest:016x}");
        self.inner().effects.push((now, "store".to_owned(), text));
    }

    /// A process began, over what the store held.
    pub fn process_began(&self, restarts: impl Fn() -> u64 + Send + Sync + 'static) {
        let mut inner = self.inner();
        inner.restarts = Some(Box::new(restarts));
        inner.restarts_seen = 0;
    }

    /// A process ended: what it had heard and not kept is lost. `may_lose`: the store had refused writes, or
    /// lost its last one.
    pub fn process_ended(&self, kept: &Snapshot, may_lose: bool) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.note_restarts(now);
        inner.unsettle(now);
        let mut forgotten = Vec::new();
        for ((provider, node), track) in &mut inner.nodes {
            track.is_owed = false;
            let found = record_at(kept, provider, node);
            let is_known = track.base.iter().any(|base| found.is_some_and(|r| r.config.is_same(base)));
            if is_known || (found.is_none() && track.maybe_none) || track.base.is_empty() {
                track.lost_indices |= may_lose;
                continue;
            }
            if !may_lose {
                forgotten.push(format!(
                    "{node} had {:?}, kept is {:?}",
                    track.base,
                    found.map(|r| &r.config)
                ));
            }
            track.lost_indices = true;
            match found {
                Some(record) => track.base.push(Arc::clone(&record.config)),
                None => track.maybe_none = true,
            }
        }
        for text in forgotten {
            inner.now_violates(Invariant::NothingDeliveredIsForgotten, now, text);
        }
        inner.restarts = None;
    }

    /// An order to hurt was given, or met.
    pub fn hurt(&self, for_how_long: Duration) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.unsettle(now);
        inner.disorder_until = inner.disorder_until.max(now + for_how_long);
    }

    /// The store is slow or refuses, until then.
    pub fn store_is_sick(&self, until: Duration) {
        let mut inner = self.inner();
        inner.store_sick_until = inner.store_sick_until.max(until);
    }

    /// The store may refuse, until then: memory counts as kept.
    pub fn store_may_refuse(&self, until: Duration) {
        self.inner().store_refuses_until = until;
    }

    /// Whether nobody was hurt for a while.
    pub fn is_calm(&self) -> bool {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.note_restarts(now);
        now >= inner.disorder_until
    }

    /// An object looks like this now.
    pub fn declared(&self, config: Arc<Config>) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        let name = config.id.name.clone();
        inner.nudges.push_back(now);
        for look in inner.looks.get_mut(&name).into_iter().flatten().filter(|look| look.at == now) {
            look.is_unsure = true;
        }
        let is_another = inner.declared.get(&name).is_none_or(|before| before.config.id != config.id);
        // DOWN ports of an earlier life may have come up.
        for track in inner.nodes.values_mut().filter(|_| is_another) {
            track.may_resend.insert(name.clone());
            track.is_owed = false;
        }
        if is_another {
            inner.lives_changed = now;
        }
        inner.gone.remove(&name);
        inner.declared.insert(name, Declared { config, since: now });
    }

    /// An object is gone.
    pub fn removed(&self, name: &ConfigName) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.declared.remove(name);
        inner.gone.insert(name.clone(), now);
        inner.lives_changed = now;
        inner.nudges.push_back(now);
    }

    /// The records of these VMs may go by `Prune`.
    pub fn may_be_pruned(&self) {
        for track in self.inner().nodes.values_mut() {
            track.maybe_none = true;
        }
    }

    /// Holds what the operator keeps against what was answered.
    pub fn check_kept(&self, applied: &Snapshot) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.note_restarts(now);
        if now < inner.disorder_until {
            return;
        }
        let mut forgotten = Vec::new();
        for ((provider, node), track) in &inner.nodes {
            if track.maybe_none || track.base.is_empty() || now.saturating_sub(track.answered) < 60 * SECOND {
                continue;
            }
            let found = record_at(applied, provider, node);
            if !found.is_some_and(|record| track.base.iter().any(|base| record.config.is_same(base))) {
                forgotten.push(format!("{node} has {:?}, known is {found:?}", track.base));
            }
        }
        for text in forgotten {
            inner.now_violates(Invariant::NothingDeliveredIsForgotten, now, text);
        }
    }

    /// What the operator may take for a node's delivered list.
    pub fn bases(&self, provider: &ProviderId, vm: &VmId) -> Vec<Arc<NodeConfig>> {
        self.inner().base_of(provider, vm).map_or_else(Vec::new, |track| track.base.clone())
    }

    /// What the model says of a config's VMs, given what the cloud says now and nothing else is under way.
    pub fn expect_now(&self, config: &Config, seen: &Observation) -> BTreeMap<VmId, Expect> {
        let (now, inner) = (self.clock.elapsed(), self.inner());
        model::expect(
            config,
            seen,
            &History { inner: &inner, provider: &config.provider, now, is_calm: true },
        )
    }
}

/// The same for the same content, in every process.
fn digest_of(content: &impl std::fmt::Debug) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{content:?}").hash(&mut hasher);
    hasher.finish()
}

fn record_at<'a>(kept: &'a Snapshot, provider: &ProviderId, node: &NodeName) -> Option<&'a Arc<Record>> {
    kept.records.get(&RecordKey { provider: provider.clone(), node: node.clone() })
}

impl Watch for Monitor {
    fn login(&self, config: &Arc<Config>) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.counts.logins += 1;
        inner.note_restarts(now);
        let times = inner.logins.entry(config.id.name.clone()).or_default();
        times.push_back(now);
        while times.front().is_some_and(|first| now.saturating_sub(*first) > WINDOW) {
            times.pop_front();
        }
        let count = times.len();
        inner.check_rate("logins", count, config, now);
    }

    fn look_began(&self, config: &Arc<Config>) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.counts.looks += 1;
        inner.note_restarts(now);
        let fastest = config.polling.fast.min(config.polling.error);
        let times = inner.begun.entry(config.id.name.clone()).or_default();
        times.push_back((now, fastest));
        while times.front().is_some_and(|(first, _)| now.saturating_sub(*first) > WINDOW) {
            times.pop_front();
        }
        let count = times.len();
        inner.check_rate("looks", count, config, now);
    }

    fn looked(&self, config: &Arc<Config>, seen: &Observation) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.note_restarts(now);
        inner.note_ports(seen, now);
        let is_calm = now >= inner.disorder_until;
        let past = History { inner: &inner, provider: &config.provider, now, is_calm };
        let vms = model::expect(config, seen, &past);
        inner.note_downs(&config.id.name, &vms, now);
        for expect in vms.values() {
            if let Expect::Node(node) = expect {
                inner.ever_expected.extend(node.must.values().map(|facts| facts.port.clone()));
            }
        }
        inner.numbers += 1;
        let look = LookRecord {
            number: inner.numbers,
            at: now,
            order: config.rules.order,
            provider: config.provider.clone(),
            vms,
            is_unsure: !is_calm,
        };
        let looks = inner.looks.entry(config.id.name.clone()).or_default();
        looks.push_back(look);
        if looks.len() > MEMORY {
            looks.pop_front();
        }
        inner.check_patience(config, now);
    }

    fn posting(&self, number: usize, config: &Arc<Config>, nodes: &[Arc<NodeConfig>]) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.counts.posts += 1;
        inner.counts.nodes_sent += nodes.len() as u64;
        inner.note_restarts(now);
        inner.counts.calm_posts += u64::from(now >= inner.disorder_until);
        let hashes: Vec<_> = nodes.iter().map(|n| format!("{}={}", n.node_name, n.hash())).collect();
        let who = config.id.name.to_string();
        let _ = number;
        inner.effects.push((now, who, format!("POST to {} {}", config.provider, hashes.join(" "))));
        inner.check_sender(config, now);
        inner.check_reign(config, now);
        for node in nodes {
            if let Err((invariant, text)) = inner.check_post(config, node, now) {
                let sent = describe(node);
                let text = format!("{} sent {sent}: {text}", config.id);
                inner.now_violates(invariant, now, text);
            }
            let key = (config.provider.clone(), node.node_name.clone());
            let track = inner.nodes.entry(key).or_default();
            track.departed = now;
            track.is_in_doubt = true;
            track.is_owed = true;
            track.may_resend.remove(&config.id.name);
            track.by = Some(config.id.name.clone());
        }
    }

    fn shown(&self, id: &ConfigId, status: &ConfigStatus) {
        let (now, digest) = (self.clock.elapsed(), digest_of(status));
        let text = format!("shows {} {digest:016x}", status.reason);
        self.inner().effects.push((now, id.name.to_string(), text));
    }

    fn taken(&self, config: &Arc<Config>, node: &Arc<NodeConfig>) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        let ports = node.interfaces.iter().filter_map(|interface| interface.port_id.clone());
        inner.ever_delivered.extend(ports);
        inner.check_reign(config, now);
        inner.effects.push((now, config.id.name.to_string(), format!("taken {}", node.node_name)));
    }

    fn answered(&self, _number: usize, config: &Arc<Config>, post: &Post) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.note_restarts(now);
        let answer = format!("answered {:?}", post.answer);
        inner.effects.push((now, config.id.name.to_string(), answer));
        let is_known = |error: &PostError| error.failure != PostFailure::UnknownOutcome;
        if post.answer.as_ref().is_some_and(|answer| answer.as_ref().err().is_none_or(is_known)) {
            for node in &post.nodes {
                let key = (config.provider.clone(), node.node_name.clone());
                inner.nodes.entry(key).or_default().is_owed = false;
            }
        }
        let Some(Ok(answer)) = &post.answer else { return };
        for node in &post.nodes {
            let is_taken = match answer {
                PostAnswer::AllAccepted => true,
                PostAnswer::PerNode(results) => {
                    results.iter().any(|result| result.node == node.node_name && result.result.is_ok())
                }
            };
            if is_taken {
                inner.acknowledge(&config.provider, node, now);
            }
        }
    }
}
