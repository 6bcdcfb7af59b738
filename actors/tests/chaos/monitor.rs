//! Sees every look and every POST, and holds them to the invariants at the moment at which they happen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use multinic_actors::boundary::PostAnswer;
use multinic_actors::domain::config::{ChangePolicy, Config, InterfaceOrder};
use multinic_actors::domain::ids::{ConfigName, NodeName, PortId, ProviderId, VmId};
use multinic_actors::domain::inventory::Snapshot;
use multinic_actors::domain::node::{Interface, NodeConfig};
use multinic_actors::domain::port::{Observation, Port};
use multinic_actors::testing::{Faults, Post, TestClock, Watch};

use crate::model::{self, Expect, Past, Sure};

const SECOND: Duration = Duration::from_secs(1);
/// How many looks of a config are remembered.
const MEMORY: usize = 64;
/// How long a look may stay without effect while nobody is hurt: logins and looks may be slow meanwhile.
const LAG: Duration = Duration::from_secs(60);
/// For how long an actor that was hurt may bring things into disorder: slow handlers take up to 200 s.
pub const DISORDER: Duration = Duration::from_secs(260);
/// In which window polls and logins are counted.
const WINDOW: Duration = Duration::from_secs(600);

/// What must never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    NothingDeliveredIsForgotten,
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
    NothingBreaks,
}

/// An invariant that did not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    pub invariant: Invariant,
    pub at: Duration,
    pub text: String,
}

pub type NodeKey = (ProviderId, NodeName);

/// What is known of a node from the POSTs alone.
#[derive(Default)]
struct Track {
    /// What the operator may take for delivered: one list, or several where an answer may not have been
    /// heard or kept.
    base: Vec<Arc<NodeConfig>>,
    /// It may as well know of nothing.
    maybe_none: bool,
    /// A POST left and no good answer came.
    is_in_doubt: bool,
    /// It may be sent once more for a reason of its own: DOWN ports before a restart.
    may_resend: bool,
    /// Allocations were lost with the store.
    lost_indices: bool,
    before: Vec<Arc<NodeConfig>>,
    departed: Duration,
    answered: Duration,
    by: Option<ConfigName>,
    /// The last look that a POST carried.
    carried: Option<(ConfigName, u64)>,
}

struct LookRecord {
    number: u64,
    at: Duration,
    order: InterfaceOrder,
    provider: ProviderId,
    vms: BTreeMap<VmId, Expect>,
    /// Its result may have been dropped: the spec changed, or an actor was hurt.
    is_unsure: bool,
}

/// The DOWN ports of a VM's node as the looks saw them.
#[derive(Default)]
struct Downs {
    is_down: bool,
    last_news: Duration,
}

struct Declared {
    config: Arc<Config>,
    since: Duration,
}

#[derive(Default)]
struct Inner {
    looks: BTreeMap<ConfigName, VecDeque<LookRecord>>,
    numbers: u64,
    nodes: BTreeMap<NodeKey, Track>,
    of_vm: BTreeMap<(ProviderId, VmId), NodeName>,
    downs: BTreeMap<(ProviderId, VmId), Downs>,
    in_build_since: BTreeMap<PortId, Duration>,
    ever_delivered: BTreeSet<PortId>,
    declared: BTreeMap<ConfigName, Declared>,
    gone: BTreeMap<ConfigName, Duration>,
    restarts: Option<Box<dyn Fn() -> u64 + Send + Sync>>,
    restarts_seen: u64,
    faults: Faults,
    fault_met: Option<tokio::time::Instant>,
    disorder_until: Duration,
    store_sick_until: Duration,
    begun: BTreeMap<ConfigName, VecDeque<(Duration, Duration)>>,
    logins: BTreeMap<ConfigName, VecDeque<Duration>>,
    nudges: VecDeque<Duration>,
    violations: Vec<Violation>,
    effects: Vec<(Duration, String, String)>,
    pub counts: Counts,
}

/// What a run consisted of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub looks: u64,
    pub logins: u64,
    pub posts: u64,
    pub nodes_sent: u64,
    pub restarts: u64,
}

impl Counts {
    pub fn add(&mut self, more: Self) {
        self.looks += more.looks;
        self.logins += more.logins;
        self.posts += more.posts;
        self.nodes_sent += more.nodes_sent;
        self.restarts += more.restarts;
    }
}

/// Clones are one monitor.
#[derive(Clone)]
pub struct Monitor {
    clock: TestClock,
    inner: Arc<Mutex<Inner>>,
}

impl Inner {
    fn now_violates(&mut self, invariant: Invariant, at: Duration, text: String) {
        self.violations.push(Violation { invariant, at, text });
    }

    fn base_of(&self, provider: &ProviderId, vm: &VmId) -> Option<&Track> {
        let node = self.of_vm.get(&(provider.clone(), vm.clone()))?;
        self.nodes.get(&(provider.clone(), node.clone()))
    }

    /// An actor or the process was hurt at `now`: who had just been answered may not have heard it.
    fn unsettle(&mut self, now: Duration) {
        self.disorder_until = self.disorder_until.max(now + DISORDER);
        let window = if now < self.store_sick_until { 1200 * SECOND } else { 60 * SECOND };
        for track in self.nodes.values_mut() {
            if now.saturating_sub(track.answered) <= window && track.answered > Duration::ZERO {
                let before = std::mem::take(&mut track.before);
                track.maybe_none |= before.is_empty();
                track.base.extend(before);
                track.is_in_doubt = true;
            }
            // DOWN ports may have come up while nobody looked.
            track.may_resend = true;
        }
        let recent = now.saturating_sub(300 * SECOND);
        let looks = self.looks.values_mut().flatten();
        looks.filter(|look| look.at >= recent).for_each(|look| look.is_unsure = true);
        self.nudges.push_back(now);
    }

    fn note_restarts(&mut self, now: Duration) {
        let restarts = self.restarts.as_ref().map_or(0, |read| read());
        if restarts != self.restarts_seen {
            let more = restarts.saturating_sub(self.restarts_seen);
            self.counts.restarts += more;
            self.restarts_seen = restarts;
            (1..more.min(20)).for_each(|_| self.nudges.push_back(now));
            self.unsettle(now);
        }
        let met = self.faults.last_met();
        if met != self.fault_met {
            self.fault_met = met;
            self.unsettle(now);
        }
    }
}

struct History<'a> {
    inner: &'a Inner,
    provider: &'a ProviderId,
    now: Duration,
    is_calm: bool,
}

impl Past for History<'_> {
    fn was_delivered(&self, vm: &VmId, port: &Port) -> Sure {
        let has = |node: &Arc<NodeConfig>| {
            node.instance_id == *vm && node.interfaces.iter().any(|i| i.port_id.as_ref() == Some(&port.id))
        };
        let track = self.inner.base_of(self.provider, vm);
        let is_sure = track.is_some_and(|track| {
            let is_kept = self.now.saturating_sub(track.answered) > SECOND && !track.maybe_none;
            is_kept && !track.base.is_empty() && track.base.iter().all(has)
        });
        match is_sure && self.is_calm {
            true => Sure::Yes,
            // Also by its MAC: a port that was made anew.
            false if self.inner.ever_delivered.contains(&port.id) => Sure::Maybe,
            false => match track.is_some_and(|track| {
                let of = track.base.iter().flat_map(|node| &node.interfaces);
                of.into_iter().any(|i| i.mac_address == port.mac)
            }) {
                true => Sure::Maybe,
                false => Sure::No,
            },
        }
    }

    fn in_build_for(&self, port: &PortId) -> Duration {
        let since = self.inner.in_build_since.get(port).copied().unwrap_or(self.now);
        self.now.saturating_sub(since)
    }
}

impl Monitor {
    pub fn new(clock: TestClock, faults: Faults) -> Self {
        let inner = Inner { faults, ..Inner::default() };
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
            let found = kept.records_at(provider).find(|record| record.node_name == *node);
            let is_known = track.base.iter().any(|base| found.is_some_and(|r| r.config.is_same(base)));
            if is_known || (found.is_none() && track.maybe_none) || track.base.is_empty() {
                track.lost_indices |= may_lose;
                continue;
            }
            if !may_lose {
                forgotten.push(format!("{node} had {:?}, kept is {:?}", track.base, found.map(|r| &r.config)));
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
        inner.gone.remove(&name);
        inner.declared.insert(name, Declared { config, since: now });
    }

    /// An object is gone.
    pub fn removed(&self, name: &ConfigName) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.declared.remove(name);
        inner.gone.insert(name.clone(), now);
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
            let found = applied.records_at(provider).find(|record| record.node_name == *node);
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
        model::expect(config, seen, &History { inner: &inner, provider: &config.provider, now, is_calm: true })
    }
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
        inner.note_builds(seen, now);
        let is_calm = now >= inner.disorder_until;
        let past = History { inner: &inner, provider: &config.provider, now, is_calm };
        let vms = model::expect(config, seen, &past);
        inner.note_downs(&config.provider, &vms, now);
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
    }

    fn posting(&self, number: usize, config: &Arc<Config>, nodes: &[Arc<NodeConfig>]) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.counts.posts += 1;
        inner.counts.nodes_sent += nodes.len() as u64;
        inner.note_restarts(now);
        let hashes: Vec<_> = nodes.iter().map(|n| format!("{}={}", n.node_name, n.hash())).collect();
        let who = config.id.name.to_string();
        let _ = number;
        inner.effects.push((now, who, format!("POST to {} {}", config.provider, hashes.join(" "))));
        inner.check_sender(config, now);
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
            track.may_resend = false;
            track.by = Some(config.id.name.clone());
        }
    }

    fn taken(&self, config: &Arc<Config>, node: &Arc<NodeConfig>) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        let ports = node.interfaces.iter().filter_map(|interface| interface.port_id.clone());
        inner.ever_delivered.extend(ports);
        inner.effects.push((now, config.id.name.to_string(), format!("taken {}", node.node_name)));
    }

    fn answered(&self, _number: usize, config: &Arc<Config>, post: &Post) {
        let (now, mut inner) = (self.clock.elapsed(), self.inner());
        inner.note_restarts(now);
        let answer = format!("answered {:?}", post.answer);
        inner.effects.push((now, config.id.name.to_string(), answer));
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

impl Inner {
    fn acknowledge(&mut self, provider: &ProviderId, node: &Arc<NodeConfig>, now: Duration) {
        let disorder = now < self.disorder_until;
        let is_elsewhere = |(of, at): &(&NodeKey, &mut Track)| {
            of.0 == *provider && of.1 != node.node_name && at.base.iter().any(|b| b.instance_id == node.instance_id)
        };
        // A VM that was renamed has its record under the new name only.
        for (_, track) in self.nodes.iter_mut().filter(is_elsewhere) {
            track.maybe_none = true;
        }
        let track = self.nodes.entry((provider.clone(), node.node_name.clone())).or_default();
        track.before = std::mem::replace(&mut track.base, vec![Arc::clone(node)]);
        track.answered = now;
        track.maybe_none = false;
        track.lost_indices = false;
        track.is_in_doubt = false;
        if disorder {
            // It may not be heard, or not kept.
            track.base.extend(track.before.clone());
            track.maybe_none |= track.before.is_empty();
            track.is_in_doubt = true;
        }
        self.of_vm.retain(|(of, vm), name| {
            of != provider || *name != node.node_name || *vm == node.instance_id
        });
        self.of_vm.insert((provider.clone(), node.instance_id.clone()), node.node_name.clone());
    }

    fn note_builds(&mut self, seen: &Observation, now: Duration) {
        for port in seen.ports.values().flatten().flatten() {
            if port.status.as_deref() == Some("BUILD") {
                self.in_build_since.entry(port.id.clone()).or_insert(now);
            } else {
                self.in_build_since.remove(&port.id);
            }
        }
    }

    fn note_downs(&mut self, provider: &ProviderId, vms: &BTreeMap<VmId, Expect>, now: Duration) {
        for (vm, expect) in vms {
            let is_down = match expect {
                Expect::Node(node) => node.must.values().chain(node.may.values()).any(|facts| facts.is_down),
                Expect::Unclear => true,
                // What was DOWN before is not looked at meanwhile.
                Expect::Silence(_) => continue,
            };
            let downs = self.downs.entry((provider.clone(), vm.clone())).or_default();
            if is_down || downs.is_down {
                downs.last_news = now;
            }
            downs.is_down = is_down;
        }
    }

    fn check_rate(&mut self, what: &str, count: usize, config: &Config, now: Duration) {
        while self.nudges.front().is_some_and(|first| now.saturating_sub(*first) > WINDOW + LAG) {
            self.nudges.pop_front();
        }
        let times = self.begun.get(&config.id.name).into_iter().flatten();
        let fastest = times.map(|(_, fastest)| *fastest).min().unwrap_or(config.polling.fast);
        let fastest = fastest.min(config.polling.fast);
        let by_timer = WINDOW.as_secs_f64() / (0.9 * fastest.as_secs_f64());
        let bound = by_timer.ceil() as usize + 3 * self.nudges.len() + 6;
        if count > bound {
            let text = format!("{}: {count} {what} in ten minutes, at most {bound} have a reason", config.id);
            self.now_violates(Invariant::PollsAndLoginsWithinBounds, now, text);
        }
    }

    /// Who may send at all.
    fn check_sender(&mut self, config: &Arc<Config>, now: Duration) {
        let name = &config.id.name;
        let problem = match self.declared.get(name) {
            None => {
                let since = self.gone.get(name).copied().unwrap_or_default();
                (now.saturating_sub(since) > 30 * SECOND).then(|| format!("{name} is gone since {since:.1?}"))
            }
            Some(declared) => {
                let is_settled = now.saturating_sub(declared.since) > 30 * SECOND;
                let is_old = declared.config.generation != config.generation;
                if is_settled && is_old {
                    Some(format!("{name} was changed at {:.1?}, and the old spec is used", declared.since))
                } else {
                    (config.paused).then(|| format!("{name} is paused"))
                }
            }
        };
        if let Some(problem) = problem.filter(|_| now >= self.disorder_until) {
            self.now_violates(Invariant::NothingFromThePausedOrGone, now, problem);
        }
    }

    fn check_post(
        &mut self,
        config: &Arc<Config>,
        sent: &Arc<NodeConfig>,
        now: Duration,
    ) -> Result<(), (Invariant, String)> {
        is_valid(sent).map_err(|text| (Invariant::NoWrongOrPartialInterface, text))?;
        if config.change_policy == ChangePolicy::Observe {
            return Err((Invariant::NothingThatThePolicyForbids, "nothing may be sent at all".to_owned()));
        }
        let order = self.check_look(config, sent, now)?;
        if order == Some(InterfaceOrder::Sticky) {
            self.check_names(config, sent)?;
        }
        self.check_policy(config, sent, now)?;
        self.check_owner(config, sent, now)?;
        self.check_need(config, sent, now)
    }

    /// What is sent must be what a look showed, the newest that counts, and none older than the last one sent.
    /// Gives the order of interfaces of that look.
    fn check_look(
        &mut self,
        config: &Arc<Config>,
        sent: &Arc<NodeConfig>,
        now: Duration,
    ) -> Result<Option<InterfaceOrder>, (Invariant, String)> {
        let name = &config.id.name;
        let key = (config.provider.clone(), sent.node_name.clone());
        let track = self.base_of(&config.provider, &sent.instance_id);
        let base: Vec<_> = track.map_or_else(Vec::new, |track| track.base.clone());
        let is_known = track.is_some_and(|track| !track.maybe_none && !track.lost_indices);
        let is_held = config.change_policy != ChangePolicy::Auto;
        let mut problem = "no look showed its VM".to_owned();
        let mut fitting: Vec<(u64, InterfaceOrder)> = Vec::new();
        for look in self.looks.get(name).into_iter().flatten().filter(|l| l.provider == config.provider) {
            let fits = match look.vms.get(&sent.instance_id) {
                None => continue,
                Some(Expect::Unclear) => Ok(()),
                Some(Expect::Silence(why)) => Err((*why).to_owned()),
                Some(Expect::Node(node)) if is_held && !base.is_empty() => adds_only_what_is(node, sent, &base),
                Some(Expect::Node(node)) => {
                    let known = if is_known { base.as_slice() } else { &[] };
                    model::is_whole(node, look.order, sent, known)
                }
            };
            match fits {
                Ok(()) => fitting.push((look.number, look.order)),
                Err(text) => problem = text,
            }
        }
        if fitting.is_empty() {
            return Err((Invariant::NoWrongOrPartialInterface, problem));
        }
        let carried = self.nodes.get(&key).and_then(|track| track.carried.clone());
        let at_least = carried.filter(|(by, _)| by == name).map_or(0, |(_, number)| number);
        let Some(&(number, order)) = fitting.iter().find(|(number, _)| *number >= at_least) else {
            let text = format!("look {} showed it, look {at_least} was sent before", fitting[0].0);
            return Err((Invariant::NoStaleStateAfterANewerOne, text));
        };
        let newest_fitting = fitting.last().map_or(0, |(number, _)| *number);
        let newer = self.looks.get(name).into_iter().flatten().find(|look| {
            let counts = !look.is_unsure && now.saturating_sub(look.at) > LAG;
            counts && look.number > newest_fitting && look.provider == config.provider
        });
        if let Some(newer) = newer.filter(|_| now >= self.disorder_until) {
            let text = format!(
                "look {newest_fitting} showed it, look {} at {:.1?} did not: {problem}",
                newer.number, newer.at
            );
            return Err((Invariant::NoStaleStateAfterANewerOne, text));
        }
        self.nodes.entry(key).or_default().carried = Some((name.clone(), number));
        let by_others = self.looks.get(name).into_iter().flatten();
        let is_mixed = by_others.rev().take(4).any(|look| look.order != InterfaceOrder::Sticky);
        Ok((!is_mixed).then_some(order))
    }

    fn check_names(&self, config: &Config, sent: &NodeConfig) -> Result<(), (Invariant, String)> {
        let Some(track) = self.base_of(&config.provider, &sent.instance_id) else {
            return Ok(());
        };
        if track.lost_indices || track.maybe_none || track.base.is_empty() {
            return Ok(());
        }
        let renames = |base: &Arc<NodeConfig>| {
            let known = base.interfaces.iter().filter(|_| base.instance_id == sent.instance_id);
            known
                .flat_map(|old| sent.interfaces.iter().map(move |new| (old, new)))
                .find(|(old, new)| old.mac_address == new.mac_address && old.name != new.name)
                .map(|(old, new)| format!("{} was {} and is {}", old.mac_address, old.name, new.name))
        };
        let renames: Vec<_> = track.base.iter().map(renames).collect();
        match renames.into_iter().collect::<Option<Vec<_>>>() {
            Some(all) => Err((Invariant::NoRenameUnderSticky, all.join("; "))),
            None => Ok(()),
        }
    }

    fn check_policy(
        &self,
        config: &Config,
        sent: &NodeConfig,
        now: Duration,
    ) -> Result<(), (Invariant, String)> {
        let is_approved = config.change_policy == ChangePolicy::Approve
            && config.approvals.iter().any(|id| sent.hash().as_str().starts_with(id.as_str()));
        if config.change_policy == ChangePolicy::Auto || is_approved {
            return Ok(());
        }
        let Some(track) = self.base_of(&config.provider, &sent.instance_id) else {
            return Ok(());
        };
        let is_sure = !track.maybe_none && now >= self.disorder_until;
        let taken: Vec<_> = track.base.iter().filter_map(|base| taken_by(sent, base)).collect();
        if is_sure && !taken.is_empty() && taken.len() == track.base.len() {
            let text = format!("{:?} takes or changes {:?}", config.change_policy, taken[0]);
            return Err((Invariant::NothingThatThePolicyForbids, text));
        }
        Ok(())
    }

    /// An older object that has wanted the node for long is its owner.
    fn check_owner(
        &self,
        config: &Config,
        sent: &NodeConfig,
        now: Duration,
    ) -> Result<(), (Invariant, String)> {
        let rank = |config: &Config| (config.created, config.id.name.clone());
        for other in self.declared.values() {
            let is_older = rank(&other.config) < rank(config) && other.config.provider == config.provider;
            let is_steady = now.saturating_sub(other.since) > 1500 * SECOND && !other.config.paused;
            if !is_older || !is_steady || now < self.disorder_until {
                continue;
            }
            let looks = self.looks.get(&other.config.id.name).into_iter().flatten().rev();
            let recent: Vec<_> = looks.take_while(|l| now.saturating_sub(l.at) < 1500 * SECOND).collect();
            let wants = |look: &&LookRecord| {
                look.vms.values().any(|expect| {
                    matches!(expect, Expect::Node(node) if node.name == sent.node_name.as_str() && !node.must.is_empty())
                })
            };
            let for_long = recent.last().is_some_and(|look| now.saturating_sub(look.at) > 800 * SECOND);
            if recent.len() > 2 && for_long && recent.iter().all(wants) {
                let text = format!("the node is {}'s", other.config.id.name);
                return Err((Invariant::NoNodeOfAnother, text));
            }
        }
        Ok(())
    }

    fn check_need(
        &self,
        config: &Config,
        sent: &NodeConfig,
        now: Duration,
    ) -> Result<(), (Invariant, String)> {
        let Some(track) = self.base_of(&config.provider, &sent.instance_id) else {
            return Ok(());
        };
        let is_same = track.base.len() == 1 && track.base[0].is_same(sent);
        let is_excused = track.is_in_doubt || track.may_resend || track.maybe_none;
        if !is_same || is_excused || config.polling.resync.is_some() || now < self.disorder_until {
            return Ok(());
        }
        let downs = self.downs.get(&(config.provider.clone(), sent.instance_id.clone()));
        let has_news = downs.is_some_and(|downs| downs.is_down || downs.last_news >= track.departed);
        if !has_news {
            return Err((Invariant::NoNeedlessPost, "it has exactly that".to_owned()));
        }
        let pause = now.saturating_sub(track.departed);
        if downs.is_some_and(|downs| downs.is_down && downs.last_news < track.departed)
            && pause < config.polling.fast.mul_f64(0.5)
        {
            let text = format!("a DOWN port, but sent {pause:.1?} ago");
            return Err((Invariant::NoNeedlessPost, text));
        }
        Ok(())
    }
}

/// A NIC of the same VM that is gone or is another one now.
fn taken_by<'a>(sent: &NodeConfig, base: &'a NodeConfig) -> Option<&'a Interface> {
    let essence = |i: &Interface| (i.id, i.name.clone(), i.mac_address, i.address, i.cidr, i.mtu);
    let of_vm = base.interfaces.iter().filter(|_| base.instance_id == sent.instance_id);
    of_vm.into_iter().find(|old| !sent.interfaces.iter().any(|new| essence(new) == essence(old)))
}

/// Under a policy: everything that the node did not have is what the look shows.
fn adds_only_what_is(
    node: &model::Node,
    sent: &NodeConfig,
    base: &[Arc<NodeConfig>],
) -> Result<(), String> {
    let had = |mac| base.iter().flat_map(|base| &base.interfaces).any(|i| i.mac_address == mac);
    for interface in &sent.interfaces {
        let mac = interface.mac_address;
        let facts = node.must.get(&mac).or_else(|| node.may.get(&mac));
        let is_so = |facts: &model::Facts| {
            (interface.address, interface.cidr, i64::from(interface.mtu)) == (facts.address, facts.cidr, facts.mtu)
        };
        if !facts.is_some_and(is_so) && !had(mac) {
            return Err(format!("{mac} is neither new nor was it there"));
        }
    }
    Ok(())
}

/// By the documents of the node agent, not by the product's own check.
fn is_valid(node: &NodeConfig) -> Result<(), String> {
    let mut names = BTreeSet::new();
    let mut macs = BTreeSet::new();
    for interface in &node.interfaces {
        let is_named = interface.name == format!("multinic{}", interface.id) && interface.id <= 9;
        let is_sound = interface.cidr.contains(&interface.address) && (68..=9000).contains(&interface.mtu);
        if !is_named || !is_sound {
            return Err(format!("{interface:?} is not valid"));
        }
        if !names.insert(interface.name.clone()) || !macs.insert(interface.mac_address) {
            return Err(format!("{} or {} is there twice", interface.name, interface.mac_address));
        }
    }
    if node.interfaces.is_empty() || node.interfaces.len() > 10 {
        return Err(format!("{} interfaces", node.interfaces.len()));
    }
    Ok(())
}

/// A node's list in one line.
pub fn describe(node: &NodeConfig) -> String {
    let interfaces: Vec<_> = node
        .interfaces
        .iter()
        .map(|i| format!("{}={}@{}/{}", i.name.trim_start_matches("multinic"), i.mac_address, i.address, i.mtu))
        .collect();
    format!("{} ({}) [{}]", node.node_name, node.instance_id, interfaces.join(" "))
}
