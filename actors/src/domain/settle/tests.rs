use std::cell::RefCell;

use super::super::port::PortVerdict;
use super::super::samples::*;
use super::*;

/// What was delivered; node → list.
#[derive(Default)]
struct Records(Vec<Arc<NodeConfig>>);

impl History for Records {
    fn at_node(&self, node: &NodeName) -> Option<Arc<NodeConfig>> {
        self.0.iter().find(|record| &record.node_name == node).cloned()
    }
    fn of_vm(&self, vm: &VmId) -> Option<Arc<NodeConfig>> {
        self.0.iter().find(|record| &record.instance_id == vm).cloned()
    }
}

/// A settling with what a test leaves open filled in.
struct Given {
    policy: ChangePolicy,
    approvals: BTreeSet<String>,
    records: Records,
    empty_before: BTreeSet<VmId>,
    foreign: BTreeSet<NodeName>,
    asked: RefCell<Vec<String>>,
}

fn given(records: &[NodeConfig]) -> Given {
    Given {
        policy: ChangePolicy::Auto,
        approvals: BTreeSet::new(),
        records: Records(shared(records)),
        empty_before: BTreeSet::new(),
        foreign: BTreeSet::new(),
        asked: RefCell::default(),
    }
}

impl Given {
    fn settle(&self, decisions: &[Decision]) -> Settled {
        let decisions = decisions.iter().map(|d| (d.vm.clone(), d.clone())).collect();
        let mut claim = |node: &NodeName, vm: &VmId| {
            self.asked.borrow_mut().push(format!("{node} for {vm}"));
            if self.foreign.contains(node) { Err("ns/other".to_owned()) } else { Ok(()) }
        };
        settle(
            &decisions,
            Context {
                policy: self.policy,
                approvals: &self.approvals,
                history: &self.records,
                empty_before: &self.empty_before,
                machines: None,
                claim: &mut claim,
            },
        )
    }
}

fn decision(vm: &str, outcome: Outcome) -> Decision {
    let verdict = match outcome {
        Outcome::Empty => Verdict::StatusNotAllowed,
        _ => Verdict::Selected,
    };
    let port = PortVerdict { port: port_id(1), verdict, detail: String::new(), interface: None };
    Decision { vm: vm.into(), node: None, outcome, verdicts: vec![port], held: Vec::new() }
}

fn deliver(node: NodeConfig) -> Decision {
    deliver_down(node, &[])
}

fn deliver_down(node: NodeConfig, down: &[u8]) -> Decision {
    let down = down.iter().map(|n| port_id(*n)).collect();
    decision(node.instance_id.clone().as_str(), Outcome::Deliver { node: Arc::new(node), down })
}

fn empty(vm: &str) -> Decision {
    decision(vm, Outcome::Empty)
}

fn skipped(vm: &str, reason: SkipReason) -> Decision {
    decision(vm, Outcome::skipped(reason, "why"))
}

fn wanted(settled: &Settled) -> Vec<(&str, &str)> {
    settled.wanted.iter().map(|(name, wanted)| (name.as_str(), wanted.vm.as_str())).collect()
}

fn skips(settled: &Settled) -> Vec<(&str, SkipReason)> {
    settled.skipped.iter().map(|(vm, (reason, _))| (vm.as_str(), *reason)).collect()
}

fn message<'a>(settled: &'a Settled, vm: &str) -> &'a str {
    &settled.skipped[&VmId::new(vm)].1
}

#[test]
fn every_vm_with_its_own_node_is_wanted() {
    let settled = given(&[]).settle(&[
        deliver(node("a", "vm-1", &[(0, 1)])),
        deliver(node("b", "vm-2", &[(0, 2)])),
        empty("vm-3"),
        skipped("vm-4", SkipReason::NodeNameUnknown),
    ]);
    assert_eq!(wanted(&settled), [("a", "vm-1"), ("b", "vm-2")]);
    assert_eq!(skips(&settled), [("vm-4", SkipReason::NodeNameUnknown)]);
    assert_eq!(settled.desired.len(), 2);
    // A skipped VM has ports that should be delivered, an empty one has none.
    assert_eq!(settled.desired_vms, 3);
}

#[test]
fn of_two_new_vms_with_one_name_none_is_sent() {
    let both = [deliver(node("a", "vm-1", &[(0, 1)])), deliver(node("a", "vm-2", &[(0, 2)]))];
    let given = given(&[]);
    let settled = given.settle(&both);
    assert!(settled.wanted.is_empty() && settled.desired.is_empty());
    assert_eq!(skips(&settled), [("vm-1", SkipReason::NodeConflict), ("vm-2", SkipReason::NodeConflict)]);
    let text = "VMs vm-1, vm-2 are all named a: give each its own name";
    assert_eq!((message(&settled, "vm-1"), message(&settled, "vm-2")), (text, text));
    assert!(given.asked.borrow().is_empty(), "no other config may lose a node to this");
}

#[test]
fn the_vm_that_was_delivered_keeps_the_node() {
    let both = [deliver(node("a", "vm-1", &[(0, 1)])), deliver(node("a", "vm-2", &[(0, 2)]))];
    let settled = given(&[node("a", "vm-2", &[(0, 2)])]).settle(&both);
    assert_eq!(wanted(&settled), [("a", "vm-2")]);
    assert_eq!(message(&settled, "vm-1"), "node a is VM vm-2's");
}

#[test]
fn a_holder_that_is_skipped_or_empty_keeps_the_node_too() {
    for holder in [skipped("vm-2", SkipReason::InvalidPort), empty("vm-2")] {
        let settled =
            given(&[node("a", "vm-2", &[(0, 2)])]).settle(&[deliver(node("a", "vm-1", &[(0, 1)])), holder]);
        assert!(settled.wanted.is_empty());
        assert_eq!(settled.skipped[&VmId::new("vm-1")].0, SkipReason::NodeConflict);
    }
}

#[test]
fn a_rebuilt_vm_replaces_the_one_that_is_no_longer_listed() {
    let settled = given(&[node("a", "vm-1", &[(0, 1)])]).settle(&[deliver(node("a", "vm-9", &[(0, 9)]))]);
    assert_eq!(wanted(&settled), [("a", "vm-9")]);
    assert!(settled.skipped.is_empty());
}

#[test]
fn a_rebuilt_vm_is_a_new_machine_to_every_policy() {
    for (policy, is_sent) in
        [(ChangePolicy::AddOnly, true), (ChangePolicy::Approve, true), (ChangePolicy::Observe, false)]
    {
        let settled = Given { policy, ..given(&[node("a", "vm-1", &[(0, 1), (1, 2)])]) }
            .settle(&[deliver(node("a", "vm-9", &[(0, 9)]))]);
        assert_eq!(!settled.wanted.is_empty(), is_sent, "{policy:?}");
    }
}

#[test]
fn two_heirs_of_a_vm_that_is_gone_get_nothing() {
    let settled = given(&[node("a", "vm-1", &[(0, 1)])])
        .settle(&[deliver(node("a", "vm-8", &[(0, 8)])), deliver(node("a", "vm-9", &[(0, 9)]))]);
    assert!(settled.wanted.is_empty());
    assert_eq!(skips(&settled), [("vm-8", SkipReason::NodeConflict), ("vm-9", SkipReason::NodeConflict)]);
}

#[test]
fn two_vms_may_swap_their_names() {
    let settled = given(&[node("a", "vm-1", &[(0, 1)]), node("b", "vm-2", &[(0, 2)])])
        .settle(&[deliver(node("b", "vm-1", &[(0, 1)])), deliver(node("a", "vm-2", &[(0, 2)]))]);
    assert_eq!(wanted(&settled), [("a", "vm-2"), ("b", "vm-1")]);
    assert!(settled.skipped.is_empty());
}

#[test]
fn a_name_that_its_holder_left_is_free_for_one_other() {
    let records = [node("a", "vm-1", &[(0, 1)])];
    let moved = deliver(node("b", "vm-1", &[(0, 1)]));
    let settled = given(&records).settle(&[moved.clone(), deliver(node("a", "vm-2", &[(0, 2)]))]);
    assert_eq!(wanted(&settled), [("a", "vm-2"), ("b", "vm-1")]);
    let settled = given(&records).settle(&[
        moved,
        deliver(node("a", "vm-2", &[(0, 2)])),
        deliver(node("a", "vm-3", &[(0, 3)])),
    ]);
    assert_eq!(wanted(&settled), [("b", "vm-1")]);
}

#[test]
fn a_node_of_another_config_is_refused_and_the_rest_goes_on() {
    let settled = Given { foreign: [name("a")].into(), ..given(&[]) }
        .settle(&[deliver(node("a", "vm-1", &[(0, 1)])), deliver(node("b", "vm-2", &[(0, 2)]))]);
    assert_eq!(wanted(&settled), [("b", "vm-2")]);
    assert_eq!(message(&settled, "vm-1"), "node a belongs to ns/other");
    assert!(!settled.desired.contains_key(&name("a")));
}

#[test]
fn a_node_is_claimed_for_the_vm_that_keeps_it_only() {
    let given = given(&[node("a", "vm-2", &[(0, 2)])]);
    given.settle(&[
        deliver(node("a", "vm-1", &[(0, 1)])),
        deliver(node("a", "vm-2", &[(0, 2)])),
        empty("vm-3"),
        skipped("vm-4", SkipReason::InvalidPort),
    ]);
    assert_eq!(*given.asked.borrow(), ["a for vm-2"]);
}

#[test]
fn a_delivered_node_whose_last_interface_went_is_stale_at_the_second_look() {
    let records = [node("a", "vm-1", &[(0, 1), (1, 2)])];
    let first = given(&records).settle(&[empty("vm-1")]);
    assert!(first.skipped.is_empty() && first.wanted.is_empty());
    let second = Given { empty_before: ["vm-1".into()].into(), ..given(&records) }.settle(&[empty("vm-1")]);
    assert!(second.wanted.is_empty(), "its delivered config stays");
    let text = "node a was delivered 2 interfaces and has none now; its delivered config stays";
    assert_eq!((skips(&second), message(&second, "vm-1")), (vec![("vm-1", SkipReason::StaleNode)], text));
}

#[test]
fn a_vm_without_ports_yet_is_never_stale() {
    let settled = Given { empty_before: ["vm-1".into()].into(), ..given(&[]) }.settle(&[empty("vm-1")]);
    assert_eq!(settled, Settled::default());
}

#[test]
fn a_vm_that_has_interfaces_again_is_not_stale() {
    let settled = Given { empty_before: ["vm-1".into()].into(), ..given(&[worker(&[(0, 1)])]) }
        .settle(&[deliver(worker(&[(0, 1)]))]);
    assert_eq!(wanted(&settled), [("worker-1", "vm-1")]);
    assert!(settled.skipped.is_empty());
}

#[test]
fn what_the_policy_holds_back_is_skipped_pending_and_still_desired() {
    let (before, after) = (worker(&[(0, 2)]), worker(&[(0, 1), (1, 2)]));
    let given = Given { policy: ChangePolicy::Approve, ..given(std::slice::from_ref(&before)) };
    let settled = given.settle(&[deliver(after.clone())]);
    assert_eq!(skips(&settled), [("vm-1", SkipReason::ChangeHeld)]);
    assert_eq!(*settled.desired[&name("worker-1")], after);
    assert_eq!(*settled.wanted[&name("worker-1")].node, worker(&[(0, 2), (1, 1)]));
    let id = settled.pending[0].change_id.clone();
    assert!(message(&settled, "vm-1").starts_with(&format!("change {id} waits: ")));

    let approved = Given { approvals: [id].into(), ..given }.settle(&[deliver(after.clone())]);
    assert_eq!(*approved.wanted[&name("worker-1")].node, after);
    assert!(approved.skipped.is_empty() && approved.pending.is_empty());
}

#[test]
fn an_observed_config_wants_nothing_and_tells_all() {
    let given = Given { policy: ChangePolicy::Observe, ..given(&[worker(&[(0, 1)])]) };
    let settled = given.settle(&[
        deliver(worker(&[(0, 1)])),
        deliver(node("worker-2", "vm-2", &[(0, 2)])),
        deliver(node("worker-3", "vm-3", &[(0, 3)])),
    ]);
    assert!(settled.wanted.is_empty());
    assert_eq!(skips(&settled), [("vm-2", SkipReason::ChangeHeld), ("vm-3", SkipReason::ChangeHeld)]);
    let nodes: Vec<_> = settled.pending.iter().map(|pending| pending.node.as_str()).collect();
    assert_eq!(nodes, ["worker-2", "worker-3"]);
    assert_eq!((settled.desired.len(), settled.desired_vms), (3, 3));
}

#[test]
fn the_policy_compares_with_what_the_vm_had_under_its_earlier_name() {
    let given = Given { policy: ChangePolicy::AddOnly, ..given(&[worker(&[(0, 1), (1, 2)])]) };
    let settled = given.settle(&[deliver(node("worker-9", "vm-1", &[(0, 1)]))]);
    assert_eq!(settled.wanted[&name("worker-9")].node.interfaces.len(), 2);
    assert_eq!(skips(&settled), [("vm-1", SkipReason::ChangeHeld)]);
}

#[test]
fn only_down_ports_that_are_sent_are_waited_for() {
    let settled = given(&[]).settle(&[deliver_down(worker(&[(0, 1), (1, 2)]), &[2])]);
    assert_eq!(settled.wanted[&name("worker-1")].down, [port_id(2)].into());
    // Under a policy a port that stays out is not waited for.
    let full: Vec<(u8, u8)> = (0..10).map(|index| (index, index + 1)).collect();
    let mut after = full.clone();
    after[0] = (0, 99);
    let settled = Given { policy: ChangePolicy::AddOnly, ..given(&[worker(&full)]) }
        .settle(&[deliver_down(worker(&after), &[3, 99])]);
    assert_eq!(settled.wanted[&name("worker-1")].down, [port_id(3)].into());
}

#[test]
fn the_result_is_the_same_every_time() {
    let records = [node("a", "vm-2", &[(0, 2)])];
    let all = [
        deliver(node("a", "vm-1", &[(0, 1)])),
        deliver(node("a", "vm-2", &[(0, 2)])),
        deliver(node("c", "vm-3", &[(0, 3)])),
        empty("vm-4"),
    ];
    let mut reversed = all.clone();
    reversed.reverse();
    assert_eq!(given(&records).settle(&all), given(&records).settle(&reversed));
}
