//! The whole domain over a life of two VMs: ports come, go and change, POSTs fail, the process restarts.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use proptest::prelude::*;

use super::config::{ChangePolicy, RemovalPolicy};
use super::ids::{PortId, VmId};
use super::inventory::{Event, Owner, Record, Snapshot, apply};
use super::node::{Interface, NodeConfig};
use super::outbox::{Next, Outbox};
use super::port::{Port, Server, Verdict};
use super::post::{PostAnswer, PostError, PostFailure};
use super::samples::*;
use super::settle::{self, Settled, settle};
use super::vm::{Decision, Outcome, VmState, step};

const VMS: [(&str, &str); 2] = [("vm-1", "worker-1"), ("vm-2", "worker-2")];
const STATUSES: [&str; 4] = ["ACTIVE", "DOWN", "BUILD", "ERROR"];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Op {
    /// A round; port → status, odd ports are the first VM's. `None` of a VM: Nova does not know its name.
    Round {
        ports: BTreeMap<u8, &'static str>,
        is_nova_well: [bool; 2],
    },
    /// The next POST, and what becomes of it.
    Post(Option<PostFailure>),
    Pass(u32),
    /// The process starts anew with what is in the inventory.
    Restart,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let status = prop_oneof![6 => Just("ACTIVE"), 3 => prop::sample::select(STATUSES.to_vec())];
    let ports = prop::collection::btree_map(1_u8..26, status, 0..22);
    let failure = prop::sample::select(vec![PostFailure::Unavailable, PostFailure::UnknownOutcome]);
    let op = prop_oneof![
        4 => (ports, any::<[bool; 2]>(), any::<[bool; 2]>()).prop_map(|(ports, a, b)| Op::Round {
            ports,
            is_nova_well: [a[0] || b[0], a[1] || b[1]],
        }),
        4 => prop_oneof![3 => Just(None), 1 => failure.prop_map(Some)].prop_map(Op::Post),
        1 => (1_u32..400).prop_map(Op::Pass),
        1 => Just(Op::Restart),
    ];
    prop::collection::vec(op, 0..30)
}

struct World {
    policy: ChangePolicy,
    owner: Owner,
    now: Instant,
    snapshot: Snapshot,
    memory: BTreeMap<VmId, VmState>,
    outbox: Outbox,
    empty_before: BTreeSet<VmId>,
    settled: Settled,
    /// Index of every delivered port that was selected in every round since.
    steady: HashMap<PortId, u8>,
}

impl World {
    fn new(policy: ChangePolicy) -> Self {
        let now = Instant::now();
        Self {
            policy,
            owner: owner("a", 0),
            now,
            snapshot: Snapshot::default(),
            memory: BTreeMap::new(),
            outbox: Outbox::new(120 * SECOND, 1, now),
            empty_before: BTreeSet::new(),
            settled: Settled::default(),
            steady: HashMap::new(),
        }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Round { ports, is_nova_well } => self.round(ports, *is_nova_well),
            Op::Post(failure) => self.post(*failure),
            Op::Pass(seconds) => self.now += *seconds * SECOND,
            Op::Restart => self.restart(),
        }
    }

    fn restart(&mut self) {
        self.outbox = Outbox::new(120 * SECOND, 1, self.now);
        self.empty_before.clear();
        self.settled = Settled::default();
        let kept = self.snapshot.configs.get(&self.owner.id.name);
        let allocations = kept.map_or_else(BTreeMap::new, |kept| kept.allocations.clone());
        let memory = |(vm, held)| (vm, VmState { held, ..VmState::default() });
        self.memory = allocations.into_iter().map(memory).collect();
    }

    fn record_of(&self, vm: &VmId) -> Option<&Record> {
        self.snapshot.records.values().map(|record| &**record).find(|record| &record.instance_id == vm)
    }

    fn round(&mut self, ports: &BTreeMap<u8, &'static str>, is_nova_well: [bool; 2]) {
        let mut decisions = BTreeMap::new();
        for (n, (vm, node)) in VMS.into_iter().enumerate() {
            let own = ports.iter().filter(|(port, _)| usize::from(**port % 2) != n);
            let own: Vec<Port> = own.map(|(port, status)| with_status(*port, status)).collect();
            let server = if is_nova_well[n] { server(node) } else { Server::Unknown("503".to_owned()) };
            let decision = self.look(vm.into(), &own, server);
            decisions.insert(VmId::new(vm), decision);
        }
        for record in self.snapshot.records.values() {
            self.outbox.learn(Arc::clone(&record.config), record.in_doubt);
        }
        self.settled = settle(
            &decisions,
            settle::Context {
                policy: self.policy,
                approvals: &BTreeSet::new(),
                history: &self.outbox,
                empty_before: &self.empty_before,
                machines: None,
                claim: &mut |_, _| Ok(()),
            },
        );
        self.outbox.want(&self.settled.wanted);
        self.remember(&decisions);
        self.note_steady(&decisions);
    }

    fn look(&mut self, vm: VmId, ports: &[Port], server: Server) -> Decision {
        let delivered = self.record_of(&vm).map(|record| NodeConfig::clone(&record.config));
        let delivered_ports: HashSet<PortId> =
            delivered.iter().flat_map(|node| &node.interfaces).filter_map(|i| i.port_id.clone()).collect();
        let is_pinned = self.policy != ChangePolicy::Auto;
        let look = Look {
            vm: vm.clone(),
            server,
            is_pinned,
            delivered,
            delivered_ports,
            now: self.now,
            ..Look::at(ports)
        };
        let memory = self.memory.entry(vm).or_default();
        let (after, decision) = step(memory, look.input());
        *memory = after;
        decision
    }

    fn remember(&mut self, decisions: &BTreeMap<VmId, Decision>) {
        let empty = decisions.values().filter(|decision| decision.outcome == Outcome::Empty);
        self.empty_before = empty.map(|decision| decision.vm.clone()).collect();
        let decided = decisions.values().filter(|d| !matches!(d.outcome, Outcome::Skipped { .. }));
        let event = Event::Allocated {
            cluster: None,
            owner: self.owner.clone(),
            removal_policy: RemovalPolicy::Retain,
            allocations: decided.map(|decision| (decision.vm.clone(), decision.held.clone())).collect(),
            provider: "k8s".into(),
            nodes: self.settled.desired.keys().cloned().collect(),
        };
        apply(&mut self.snapshot, &event);
    }

    fn note_steady(&mut self, decisions: &BTreeMap<VmId, Decision>) {
        let verdicts = decisions.values().flat_map(|decision| &decision.verdicts);
        let selected: BTreeSet<_> =
            verdicts.filter(|v| v.verdict == Verdict::Selected).map(|v| v.port.clone()).collect();
        self.steady.retain(|port, _| selected.contains(port));
    }

    fn post(&mut self, failure: Option<PostFailure>) {
        let (id, nodes) = match self.outbox.next(self.now) {
            Next::Post { id, nodes } => (id, nodes),
            Next::Wait(moment) => {
                self.now = moment;
                return;
            }
            Next::Idle => return,
        };
        nodes.iter().for_each(|node| self.check_sent(node));
        let answer = match failure {
            None => Ok(PostAnswer::AllAccepted),
            Some(failure) => Err(PostError { failure, message: "no".to_owned(), retry_after: None }),
        };
        let finished = self.outbox.finish(id, answer, self.now);
        for accepted in &finished.accepted {
            let ports = accepted.node.interfaces.iter().filter_map(|i| Some((i.port_id.clone()?, i.id)));
            self.steady.extend(ports);
        }
        let nodes = finished.accepted.into_iter().map(|accepted| accepted.node).collect();
        let event = Event::Delivered { owner: self.owner.clone(), provider: "k8s".into(), nodes, at: at(0) };
        apply(&mut self.snapshot, &event);
    }

    /// Whatever happened, no node is ever sent what would tear a working NIC down.
    fn check_sent(&self, node: &NodeConfig) {
        let ids: Vec<u8> = node.interfaces.iter().map(|i| i.id).collect();
        assert!(
            !ids.is_empty() && ids.is_sorted_by(|a, b| a < b) && ids.iter().all(|id| *id < 10),
            "{ids:?}"
        );
        let macs: BTreeSet<_> = node.interfaces.iter().map(|i| i.mac_address).collect();
        assert_eq!(macs.len(), ids.len());
        assert!(node.interfaces.iter().all(|i| i.name == Interface::name_of(i.id)));
        for interface in &node.interfaces {
            let steady = interface.port_id.as_ref().and_then(|port| self.steady.get(port));
            assert!(steady.is_none_or(|id| *id == interface.id), "{interface:?} was multinic{steady:?}");
        }
        let delivered = self.record_of(&node.instance_id);
        for before in delivered.iter().flat_map(|record| &record.config.interfaces) {
            let is_kept = node.interfaces.contains(before);
            assert!(is_kept || self.policy == ChangePolicy::Auto, "{before:?} is not left alone");
            let is_steady = before.port_id.as_ref().is_some_and(|port| self.steady.contains_key(port));
            assert!(is_kept || !is_steady, "{before:?} qualifies and is taken away");
        }
    }

    /// Everything goes well from now on: what is wanted is delivered, and recorded.
    fn settle_down(&mut self) {
        for _ in 0..20 {
            self.post(None);
        }
        assert_eq!(self.outbox.next(self.now), Next::Idle);
        for wanted in self.settled.wanted.values() {
            let record = self.record_of(&wanted.vm);
            assert!(record.is_some_and(|record| record.config.is_same(&wanted.node)), "{wanted:?}");
        }
    }
}

fn live(policy: ChangePolicy, ops: &[Op]) -> World {
    let mut world = World::new(policy);
    ops.iter().for_each(|op| world.run(op));
    world.settle_down();
    world
}

proptest! {
    #[test]
    fn a_working_nic_is_never_renamed_nor_taken_away(
        ops in ops(),
        policy in prop::sample::select(vec![ChangePolicy::Auto, ChangePolicy::AddOnly, ChangePolicy::Approve]),
    ) {
        live(policy, &ops);
    }

    #[test]
    fn a_restart_sends_nothing_that_is_delivered(
        ops in ops(), ports in prop::collection::btree_map(1_u8..26, Just("ACTIVE"), 0..22),
    ) {
        let mut world = live(ChangePolicy::Auto, &ops);
        world.round(&ports, [true, true]);
        world.settle_down();
        let before = world.snapshot.clone();
        world.restart();
        world.round(&ports, [true, true]);
        prop_assert_eq!(world.outbox.next(world.now), Next::Idle);
        prop_assert_eq!(world.snapshot, before);
    }

    #[test]
    fn an_observed_config_is_never_sent_anything(ops in ops()) {
        let world = live(ChangePolicy::Observe, &ops);
        prop_assert!(world.snapshot.records.is_empty() && world.settled.wanted.is_empty());
    }
}
