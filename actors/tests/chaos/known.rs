//! What the monitor knows: nodes by their POSTs, looks by what they showed, and how sure all that is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use multinic_actors::domain::config::{Config, InterfaceOrder};
use multinic_actors::domain::ids::{ConfigName, Mac, NodeName, PortId, ProviderId, VmId};
use multinic_actors::domain::node::NodeConfig;
use multinic_actors::domain::port::{Observation, Port};
use multinic_actors::testing::{FakeStore, Faults};

use crate::model::{Expect, Past, Sure};
use crate::monitor::{Counts, DISORDER, Invariant, SECOND, Violation};

pub type NodeKey = (ProviderId, NodeName);

/// What is known of a node from the POSTs alone.
#[derive(Default)]
pub struct Track {
    /// What the operator may take for delivered: one list, or several where an answer may not have been
    /// heard or kept.
    pub base: Vec<Arc<NodeConfig>>,
    /// It may as well know of nothing.
    pub maybe_none: bool,
    /// A POST left and no good answer came.
    pub is_in_doubt: bool,
    /// A POST left and nobody knows whether it was carried out.
    pub is_owed: bool,
    /// By whom it may be sent once more for a reason of its own: DOWN ports before a restart.
    pub may_resend: BTreeSet<ConfigName>,
    /// Allocations were lost with the store.
    pub lost_indices: bool,
    pub before: Vec<Arc<NodeConfig>>,
    pub departed: Duration,
    pub answered: Duration,
    pub by: Option<ConfigName>,
    /// The last look that a POST carried.
    pub carried: Option<(ConfigName, u64)>,
}

pub struct LookRecord {
    pub number: u64,
    pub at: Duration,
    pub order: InterfaceOrder,
    pub provider: ProviderId,
    pub vms: BTreeMap<VmId, Expect>,
    /// Its result may have been dropped: the spec changed, or an actor was hurt.
    pub is_unsure: bool,
}

/// The DOWN ports of a VM's node as the looks saw them.
#[derive(Default)]
pub struct Downs {
    pub is_down: bool,
    pub last_news: Duration,
}

pub struct Declared {
    pub config: Arc<Config>,
    pub since: Duration,
}

#[derive(Default)]
pub struct Inner {
    pub looks: BTreeMap<ConfigName, VecDeque<LookRecord>>,
    pub numbers: u64,
    pub nodes: BTreeMap<NodeKey, Track>,
    pub of_vm: BTreeMap<(ProviderId, VmId), NodeName>,
    pub downs: BTreeMap<(ConfigName, VmId), Downs>,
    /// MACs that two ports of one VM had at the same time.
    pub doubled: BTreeSet<Mac>,
    pub in_build_since: BTreeMap<PortId, Duration>,
    pub ever_delivered: BTreeSet<PortId>,
    /// Ports that qualified once: an index may have been kept for them.
    pub ever_expected: BTreeSet<PortId>,
    pub declared: BTreeMap<ConfigName, Declared>,
    pub gone: BTreeMap<ConfigName, Duration>,
    pub restarts: Option<Box<dyn Fn() -> u64 + Send + Sync>>,
    pub restarts_seen: u64,
    pub faults: Faults,
    pub store: FakeStore,
    pub fault_met: Option<tokio::time::Instant>,
    /// When an object began or ended last: its nodes may change hands.
    pub lives_changed: Duration,
    pub disorder_until: Duration,
    pub store_sick_until: Duration,
    pub store_refuses_until: Duration,
    pub begun: BTreeMap<ConfigName, VecDeque<(Duration, Duration)>>,
    pub logins: BTreeMap<ConfigName, VecDeque<Duration>>,
    pub nudges: VecDeque<Duration>,
    pub violations: Vec<Violation>,
    pub effects: Vec<(Duration, String, String)>,
    pub counts: Counts,
}

impl Inner {
    pub fn now_violates(&mut self, invariant: Invariant, at: Duration, text: String) {
        self.violations.push(Violation { invariant, at, text });
    }

    pub fn base_of(&self, provider: &ProviderId, vm: &VmId) -> Option<&Track> {
        let node = self.of_vm.get(&(provider.clone(), vm.clone()))?;
        self.nodes.get(&(provider.clone(), node.clone()))
    }

    /// An actor or the process was hurt at `now`: who had just been answered may not have heard it.
    pub fn unsettle(&mut self, now: Duration) {
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
            track.may_resend.extend(self.declared.keys().cloned());
        }
        let recent = now.saturating_sub(300 * SECOND);
        let looks = self.looks.values_mut().flatten();
        looks.filter(|look| look.at >= recent).for_each(|look| look.is_unsure = true);
        self.nudges.push_back(now);
    }

    pub fn note_restarts(&mut self, now: Duration) {
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

pub struct History<'a> {
    pub inner: &'a Inner,
    pub provider: &'a ProviderId,
    pub now: Duration,
    pub is_calm: bool,
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
            false if self.inner.ever_expected.contains(&port.id) => Sure::Maybe,
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

impl Inner {
    pub fn acknowledge(&mut self, provider: &ProviderId, node: &Arc<NodeConfig>, now: Duration) {
        let disorder = now < self.disorder_until;
        let is_elsewhere = |(of, at): &(&NodeKey, &mut Track)| {
            of.0 == *provider
                && of.1 != node.node_name
                && at.base.iter().any(|b| b.instance_id == node.instance_id)
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
        self.of_vm
            .retain(|(of, vm), name| of != provider || *name != node.node_name || *vm == node.instance_id);
        self.of_vm.insert((provider.clone(), node.instance_id.clone()), node.node_name.clone());
    }

    pub fn note_ports(&mut self, seen: &Observation, now: Duration) {
        for ports in seen.ports.values() {
            let mut macs = BTreeSet::new();
            let macs = ports.iter().flatten().map(|port| port.mac).filter(|mac| !macs.insert(*mac));
            self.doubled.extend(macs.collect::<Vec<_>>());
        }
        for port in seen.ports.values().flatten().flatten() {
            if port.status.as_deref() == Some("BUILD") {
                self.in_build_since.entry(port.id.clone()).or_insert(now);
            } else {
                self.in_build_since.remove(&port.id);
            }
        }
    }

    pub fn note_downs(&mut self, name: &ConfigName, vms: &BTreeMap<VmId, Expect>, now: Duration) {
        for (vm, expect) in vms {
            let is_down = match expect {
                Expect::Node(node) => node.must.values().chain(node.may.values()).any(|facts| facts.is_down),
                Expect::Unclear => true,
                // What was DOWN before is not looked at meanwhile.
                Expect::Silence(_) => continue,
            };
            let downs = self.downs.entry((name.clone(), vm.clone())).or_default();
            if is_down || downs.is_down {
                downs.last_news = now;
            }
            downs.is_down = is_down;
        }
    }
}
