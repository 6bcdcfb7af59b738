use std::collections::BTreeSet;

use super::super::samples::{SECOND, name, nic, node};
use super::*;

mod failures;
mod model;

const REST: Duration = Duration::from_secs(120);

/// An outbox, its clock, and short words for what is done to it.
struct Bench {
    outbox: Outbox,
    now: Instant,
}

fn bench() -> Bench {
    let now = Instant::now();
    Bench { outbox: Outbox::new(REST, 7, now), now }
}

/// Node `text` with the interface of port `n`.
fn list(text: &str, n: u8) -> Arc<NodeConfig> {
    Arc::new(node(text, &format!("vm-{text}"), &[(0, n)]))
}

fn wanted(nodes: &[(&str, u8)]) -> BTreeMap<NodeName, Wanted> {
    let want = |(text, n): &(&str, u8)| {
        let node = list(text, *n);
        (name(text), Wanted { vm: node.instance_id.clone(), node, down: BTreeSet::new() })
    };
    nodes.iter().map(want).collect()
}

fn error(failure: PostFailure) -> PostError {
    PostError { failure, message: format!("{failure:?}"), retry_after: None }
}

fn result(text: &str, result: Result<(), &str>) -> NodeResult {
    NodeResult { node: name(text), result: result.map_err(str::to_owned), is_conflict: false }
}

impl Bench {
    fn want(&mut self, nodes: &[(&str, u8)]) {
        self.outbox.want(&wanted(nodes));
    }

    /// The batch that departs now.
    fn depart(&mut self) -> (u64, Vec<(String, u8)>) {
        match self.outbox.next(self.now) {
            Next::Post { id, nodes } => (id, nodes.iter().map(|node| row(node)).collect()),
            other => panic!("nothing departs: {other:?}"),
        }
    }

    fn departs(&mut self, expect: &[(&str, u8)]) -> u64 {
        let (id, nodes) = self.depart();
        let nodes: Vec<_> = nodes.iter().map(|(text, n)| (text.as_str(), *n)).collect();
        assert_eq!(nodes, expect);
        id
    }

    fn accept(&mut self, id: u64) -> Finished {
        self.outbox.finish(id, Ok(PostAnswer::AllAccepted), self.now)
    }

    fn fail(&mut self, id: u64, failure: PostFailure) -> Finished {
        self.outbox.finish(id, Err(error(failure)), self.now)
    }

    /// Lets time pass until the outbox wants to be asked again; gives how long that was.
    fn wait(&mut self) -> Duration {
        let Next::Wait(moment) = self.outbox.next(self.now) else { panic!("nothing to wait for") };
        assert!(moment > self.now, "waiting for the past is a hot loop");
        let wait = moment - self.now;
        self.now = moment;
        wait
    }

    fn is_idle(&mut self) -> bool {
        self.outbox.next(self.now) == Next::Idle
    }

    fn delivers(&mut self, nodes: &[(&str, u8)]) {
        self.want(nodes);
        let (id, _) = self.depart();
        self.accept(id);
    }

    fn refused(&self) -> Vec<(&str, &str)> {
        self.outbox.refused().map(|(name, _, words)| (name.as_str(), words)).collect()
    }

    fn outstanding(&self) -> Vec<&str> {
        self.outbox.outstanding().map(NodeName::as_str).collect()
    }
}

fn row(node: &NodeConfig) -> (String, u8) {
    (node.node_name.to_string(), node.interfaces[0].address.octets()[3])
}

#[test]
fn what_is_wanted_is_sent_once() {
    let mut bench = bench();
    assert!(bench.is_idle());
    bench.want(&[("a", 1), ("b", 2)]);
    assert_eq!(bench.outstanding(), ["a", "b"]);
    let id = bench.departs(&[("a", 1), ("b", 2)]);
    assert!(bench.outbox.is_posting() && bench.is_idle());
    let finished = bench.accept(id);
    assert_eq!(finished.accepted.len(), 2);
    assert!(finished.accepted.iter().all(|accepted| accepted.is_change));
    assert_eq!((finished.refused, finished.failure), (0, None));
    assert!(bench.is_idle() && bench.outbox.is_delivered(&name("a")) && bench.outstanding().is_empty());
    bench.want(&[("a", 1), ("b", 3)]);
    bench.departs(&[("b", 3)]);
}

#[test]
fn what_the_inventory_knows_is_not_sent_again() {
    let mut bench = bench();
    bench.outbox.learn(list("a", 1), false);
    bench.want(&[("a", 1)]);
    assert!(bench.is_idle() && bench.outbox.is_delivered(&name("a")));
}

#[test]
fn what_was_delivered_since_is_newer_than_the_inventory() {
    let mut bench = bench();
    bench.delivers(&[("a", 2)]);
    bench.outbox.learn(list("a", 1), false);
    assert_eq!(bench.outbox.delivered_at(&name("a")), Some(&list("a", 2)));
}

#[test]
fn a_difference_that_the_agent_does_not_see_is_no_change() {
    let mut bench = bench();
    bench.delivers(&[("a", 1)]);
    let mut other = wanted(&[("a", 1)]);
    let entry = other.get_mut(&name("a")).unwrap();
    Arc::make_mut(&mut entry.node).interfaces[0].port_id = None;
    bench.outbox.want(&other);
    assert!(bench.is_idle());
}

#[test]
fn only_the_newest_state_is_sent_after_a_failure() {
    let mut bench = bench();
    bench.want(&[("a", 1)]);
    let id = bench.departs(&[("a", 1)]);
    bench.want(&[("a", 2)]);
    bench.want(&[("a", 3)]);
    bench.fail(id, PostFailure::Unavailable);
    bench.wait();
    bench.departs(&[("a", 3)]);
}

#[test]
fn what_changed_during_a_post_is_sent_after_it() {
    let mut bench = bench();
    bench.want(&[("a", 1)]);
    let id = bench.departs(&[("a", 1)]);
    bench.want(&[("a", 2)]);
    bench.accept(id);
    assert_eq!(bench.outbox.delivered_at(&name("a")), Some(&list("a", 1)));
    bench.departs(&[("a", 2)]);
}

#[test]
fn a_node_that_is_no_longer_wanted_is_not_sent() {
    let mut bench = bench();
    bench.want(&[("a", 1), ("b", 1)]);
    let id = bench.departs(&[("a", 1), ("b", 1)]);
    bench.fail(id, PostFailure::Unavailable);
    bench.want(&[("b", 1)]);
    bench.wait();
    bench.departs(&[("b", 1)]);
}

#[test]
fn a_node_that_stopped_being_wanted_during_its_post_was_delivered_all_the_same() {
    let mut bench = bench();
    bench.want(&[("a", 1)]);
    let id = bench.departs(&[("a", 1)]);
    bench.want(&[]);
    let finished = bench.accept(id);
    assert_eq!(
        finished.accepted,
        [Accepted { vm: "vm-a".into(), before: None, node: list("a", 1), is_change: true }]
    );
}

#[test]
fn a_node_that_was_lost_to_another_config_during_its_post_is_not_recorded() {
    let mut bench = bench();
    bench.want(&[("a", 1), ("b", 1)]);
    let (id, _) = bench.depart();
    bench.outbox.forget(&name("a"));
    let finished = bench.accept(id);
    assert_eq!(finished.accepted.iter().map(|a| row(&a.node)).collect::<Vec<_>>(), [("b".to_owned(), 1)]);
    assert_eq!(bench.outbox.delivered_at(&name("a")), None);
}

#[test]
fn a_renamed_vm_has_one_record() {
    let mut bench = bench();
    bench.outbox.learn(Arc::new(node("old", "vm-1", &[(0, 1)])), false);
    let moved = Arc::new(node("new", "vm-1", &[(0, 1)]));
    let want = Wanted { vm: "vm-1".into(), node: Arc::clone(&moved), down: BTreeSet::new() };
    bench.outbox.want(&[(name("new"), want)].into());
    assert_eq!(bench.outbox.delivered_to(&"vm-1".into()).unwrap().node_name.as_str(), "old");
    let (id, _) = bench.depart();
    bench.accept(id);
    assert_eq!(bench.outbox.delivered_at(&name("old")), None);
    assert_eq!(bench.outbox.delivered_to(&"vm-1".into()), Some(&moved));
}

#[test]
fn two_vms_that_swap_their_names_both_arrive() {
    let mut bench = bench();
    bench.outbox.learn(Arc::new(node("a", "vm-1", &[(0, 1)])), false);
    bench.outbox.learn(Arc::new(node("b", "vm-2", &[(0, 2)])), false);
    let want = |text: &str, vm: &str, n| {
        let node = Arc::new(node(text, vm, &[(0, n)]));
        (name(text), Wanted { vm: vm.into(), node, down: BTreeSet::new() })
    };
    bench.outbox.want(&[want("a", "vm-2", 2), want("b", "vm-1", 1)].into());
    let (id, nodes) = bench.depart();
    assert_eq!(nodes.len(), 2);
    assert_eq!(bench.accept(id).accepted.len(), 2);
    assert!(bench.is_idle());
}

#[test]
fn a_re_send_is_no_change_and_happens_once() {
    let mut bench = bench();
    bench.delivers(&[("a", 1), ("b", 1)]);
    bench.outbox.resend(&name("a"));
    bench.outbox.resend(&name("unknown"));
    let id = bench.departs(&[("a", 1)]);
    assert!(!bench.accept(id).accepted[0].is_change);
    assert!(bench.is_idle());
    bench.outbox.resend_all();
    let id = bench.departs(&[("a", 1), ("b", 1)]);
    bench.accept(id);
    assert!(bench.is_idle());
}

#[test]
fn a_re_send_that_is_asked_for_during_a_post_comes_after_it() {
    let mut bench = bench();
    bench.delivers(&[("a", 1)]);
    bench.outbox.resend(&name("a"));
    let id = bench.departs(&[("a", 1)]);
    // The port came up while the re-send was under way.
    bench.outbox.resend(&name("a"));
    bench.accept(id);
    let id = bench.departs(&[("a", 1)]);
    bench.accept(id);
    assert!(bench.is_idle());
}

#[test]
fn a_re_send_that_failed_is_tried_again() {
    for failure in [PostFailure::Unavailable, PostFailure::Rejected, PostFailure::ServerError] {
        let mut bench = bench();
        bench.delivers(&[("a", 1)]);
        bench.outbox.resend(&name("a"));
        let id = bench.departs(&[("a", 1)]);
        bench.fail(id, failure);
        bench.wait();
        bench.departs(&[("a", 1)]);
    }
}

#[test]
fn a_re_send_that_was_refused_rests_and_is_tried_again() {
    let mut bench = bench();
    bench.delivers(&[("a", 1)]);
    bench.outbox.resend(&name("a"));
    let id = bench.departs(&[("a", 1)]);
    assert_eq!(bench.fail(id, PostFailure::Refused).refused, 1);
    assert_eq!(bench.wait(), REST);
    let id = bench.departs(&[("a", 1)]);
    bench.accept(id);
    assert!(bench.is_idle() && bench.refused().is_empty());
}

#[test]
fn a_refused_content_that_is_delivered_otherwise_is_not_waited_for() {
    let mut bench = bench();
    bench.want(&[("a", 1)]);
    let id = bench.departs(&[("a", 1)]);
    bench.fail(id, PostFailure::Refused);
    bench.outbox.learn(list("a", 1), false);
    bench.now += 2 * REST;
    assert!(bench.is_idle());
}

#[test]
fn after_an_unknown_outcome_the_newest_state_is_sent_once_more() {
    let mut bench = bench();
    bench.delivers(&[("a", 1)]);
    bench.want(&[("a", 2)]);
    let id = bench.departs(&[("a", 2)]);
    bench.fail(id, PostFailure::UnknownOutcome);
    // What is known to be delivered is wanted again, but the other one may have arrived.
    bench.want(&[("a", 1)]);
    assert!(bench.outstanding().is_empty());
    bench.wait();
    let id = bench.departs(&[("a", 1)]);
    bench.accept(id);
    assert!(bench.is_idle());
}

#[test]
fn an_unknown_outcome_is_not_forgotten_while_the_node_is_skipped() {
    let mut bench = bench();
    bench.delivers(&[("a", 1)]);
    bench.want(&[("a", 2)]);
    let id = bench.departs(&[("a", 2)]);
    bench.fail(id, PostFailure::UnknownOutcome);
    bench.want(&[]);
    bench.now += REST;
    assert!(bench.is_idle());
    bench.want(&[("a", 1)]);
    let id = bench.departs(&[("a", 1)]);
    bench.accept(id);
    bench.want(&[]);
    bench.want(&[("a", 1)]);
    assert!(bench.is_idle());
}

#[test]
fn what_may_be_half_done_is_put_right_although_it_was_taken_back() {
    use PostFailure::{Refused, Rejected, ServerError, Unavailable, UnknownOutcome};
    for (failure, is_in_doubt) in [
        (UnknownOutcome, true),
        (ServerError, true),
        (Unavailable, false),
        (Refused, false),
        (Rejected, false),
    ] {
        let mut bench = bench();
        bench.delivers(&[("a", 1)]);
        bench.want(&[("a", 2)]);
        let id = bench.departs(&[("a", 2)]);
        bench.fail(id, failure);
        bench.want(&[("a", 1)]);
        bench.now += REST;
        let next = bench.outbox.next(bench.now);
        assert_eq!(matches!(next, Next::Post { .. }), is_in_doubt, "{failure:?}: {next:?}");
    }
}

#[test]
fn a_node_that_failed_alone_may_be_half_done() {
    let mut bench = bench();
    bench.delivers(&[("a", 1), ("b", 1)]);
    bench.want(&[("a", 2), ("b", 2)]);
    let id = bench.departs(&[("a", 2), ("b", 2)]);
    let results = vec![result("a", Err("timed out")), result("b", Ok(()))];
    bench.outbox.finish(id, Ok(PostAnswer::PerNode(results)), bench.now);
    bench.want(&[("a", 1), ("b", 2)]);
    let id = bench.departs(&[("a", 1)]);
    bench.accept(id);
    assert!(bench.is_idle());
}

#[test]
fn a_record_in_doubt_is_sent_once_although_it_is_wanted() {
    let mut bench = bench();
    bench.outbox.learn(list("a", 1), true);
    bench.want(&[("a", 1)]);
    let id = bench.departs(&[("a", 1)]);
    bench.accept(id);
    bench.outbox.learn(list("a", 1), true);
    assert!(bench.is_idle(), "what the inventory has not taken in yet is older than the answer");
}

#[test]
fn an_answer_to_another_flight_changes_nothing() {
    let mut bench = bench();
    bench.want(&[("a", 1)]);
    let id = bench.departs(&[("a", 1)]);
    assert_eq!(bench.accept(id + 1), Finished::default());
    assert!(bench.outbox.is_posting());
    bench.accept(id);
    assert_eq!(bench.accept(id), Finished::default());
    assert_eq!(bench.outbox.delivered_at(&name("a")), Some(&list("a", 1)));
}

#[test]
fn a_flight_that_did_not_leave_departs_again_with_all_it_owed() {
    let mut bench = bench();
    bench.delivers(&[("a", 1)]);
    bench.outbox.resend(&name("a"));
    let id = bench.departs(&[("a", 1)]);
    bench.outbox.abandon(id);
    bench.departs(&[("a", 1)]);
}

#[test]
fn a_batch_has_a_hundred_nodes_at_most() {
    let mut bench = bench();
    let names: Vec<String> = (0..250).map(|n| format!("n{n:03}")).collect();
    bench.want(&names.iter().map(|text| (text.as_str(), 1)).collect::<Vec<_>>());
    for expect in [100, 100, 50] {
        let (id, nodes) = bench.depart();
        assert_eq!(nodes.len(), expect);
        bench.accept(id);
    }
    assert!(bench.is_idle());
}

#[test]
fn a_batch_has_one_mebibyte_at_most_but_always_a_node() {
    let mut bench = bench();
    let mut wanted = BTreeMap::new();
    for (n, size) in [2_000_000, 500_000, 500_000, 100_000].into_iter().enumerate() {
        let node_name = format!("n{n}");
        let mut node = node(&node_name, &format!("vm-{n}"), &[(0, 1)]);
        node.interfaces = vec![super::super::node::Interface { name: "x".repeat(size), ..nic(0, 1) }];
        let vm = node.instance_id.clone();
        wanted.insert(name(&node_name), Wanted { vm, node: Arc::new(node), down: BTreeSet::new() });
    }
    bench.outbox.want(&wanted);
    let mut batches = Vec::new();
    while let Next::Post { id, nodes } = bench.outbox.next(bench.now) {
        batches.push(nodes.len());
        let bytes = serde_json::to_vec(&nodes).unwrap().len();
        assert!(nodes.len() == 1 || bytes <= MAX_BATCH_BYTES, "{bytes}");
        bench.accept(id);
    }
    assert_eq!(batches, [1, 2, 1]);
}

#[test]
fn another_receiver_owes_nothing_to_the_failures_of_the_old_one() {
    let mut bench = bench();
    bench.delivers(&[("a", 1)]);
    bench.want(&[("a", 1), ("b", 1), ("c", 1)]);
    let (id, _) = bench.depart();
    let results = vec![result("b", Err("no"))];
    bench.outbox.finish(id, Ok(PostAnswer::PerNode(results)), bench.now);
    bench.want(&[("a", 1), ("b", 1), ("c", 2)]);
    let (id, _) = bench.depart();
    bench.fail(id, PostFailure::Rejected);
    bench.outbox.start_over(REST, 7, bench.now);
    bench.want(&[("a", 1), ("b", 1), ("c", 2)]);
    let later = bench.departs(&[("b", 1), ("c", 2)]);
    assert_ne!(later, id);
}
