use std::sync::Arc;

use proptest::prelude::*;

use super::super::inventory::{Event, apply};
use super::super::node::NodeConfig;
use super::super::samples::*;
use super::*;

fn key(node: &str) -> RecordKey {
    RecordKey { provider: "k8s".into(), node: name(node) }
}

fn ask(claims: &mut Claims, node: &str, owner: &Owner, vm: &str) -> Claimed {
    claims.claim(&key(node), owner, &vm.into())
}

fn refused(owner: &Owner) -> Claimed {
    Claimed::Refused(owner.id.name.clone())
}

fn owns(claims: &Claims, node: &str, owner: &Owner) -> bool {
    claims.nodes.get(&key(node)).is_some_and(|claim| claim.owner.id.name == owner.id.name)
}

fn vms(ids: &[&str]) -> BTreeSet<VmId> {
    ids.iter().map(VmId::new).collect()
}

/// `old` is the older of two objects.
fn pair() -> (Owner, Owner) {
    (owner("old", 0), owner("young", 10))
}

#[test]
fn a_free_node_is_granted_and_granted_again() {
    let (old, _) = pair();
    let mut claims = Claims::default();
    assert!(!owns(&claims, "n", &old));
    assert_eq!(ask(&mut claims, "n", &old, "vm-1"), Claimed::Granted);
    assert_eq!(ask(&mut claims, "n", &old, "vm-1"), Claimed::Granted);
    assert!(owns(&claims, "n", &old));
}

#[test]
fn the_older_object_takes_over_and_the_younger_is_refused_from_then_on() {
    let (old, young) = pair();
    let mut claims = Claims::default();
    ask(&mut claims, "n", &young, "vm-1");
    assert_eq!(ask(&mut claims, "n", &old, "vm-1"), Claimed::TakenOver(young.id.name.clone()));
    for _ in 0..3 {
        assert_eq!(ask(&mut claims, "n", &young, "vm-1"), refused(&old));
        assert_eq!(ask(&mut claims, "n", &old, "vm-1"), Claimed::Granted);
    }
}

#[test]
fn of_two_objects_of_one_age_the_first_by_name_wins() {
    let (a, b) = (owner("a", 5), owner("b", 5));
    let mut claims = Claims::default();
    ask(&mut claims, "n", &b, "vm-1");
    assert_eq!(ask(&mut claims, "n", &a, "vm-1"), Claimed::TakenOver(b.id.name.clone()));
    assert_eq!(ask(&mut claims, "n", &b, "vm-1"), refused(&a));
}

#[test]
fn one_node_name_at_two_targets_is_two_nodes() {
    let (old, young) = pair();
    let mut claims = Claims::default();
    ask(&mut claims, "n", &old, "vm-1");
    let elsewhere = RecordKey { provider: "other".into(), node: name("n") };
    assert_eq!(claims.claim(&elsewhere, &young, &"vm-1".into()), Claimed::Granted);
}

#[test]
fn nobody_takes_a_node_over_while_it_is_posted() {
    let (old, young) = pair();
    let mut claims = Claims::default();
    ask(&mut claims, "n", &young, "vm-1");
    assert_eq!(claims.begin_post(&[key("n")], &young.id.name), []);
    assert_eq!(ask(&mut claims, "n", &old, "vm-1"), refused(&young));
    claims.end_post(&old.id.name);
    assert_eq!(ask(&mut claims, "n", &old, "vm-1"), refused(&young));
    claims.end_post(&young.id.name);
    assert_eq!(ask(&mut claims, "n", &old, "vm-1"), Claimed::TakenOver(young.id.name));
}

#[test]
fn a_post_that_nobody_waits_for_holds_no_node_and_is_not_forgotten() {
    let (old, young) = pair();
    let mut claims = Claims::default();
    ask(&mut claims, "n", &young, "vm-1");
    ask(&mut claims, "m", &young, "vm-2");
    assert_eq!(claims.begin_post(&[key("n"), key("m")], &young.id.name), []);
    claims.doubt_post(&old.id.name);
    assert_eq!(ask(&mut claims, "n", &old, "vm-1"), refused(&young), "that was another's POST");
    claims.doubt_post(&young.id.name);
    assert_eq!(ask(&mut claims, "n", &old, "vm-1"), Claimed::TakenOver(young.id.name.clone()));
    assert_eq!(claims.end_post(&young.id.name), [key("m")]);
    assert_eq!(claims.end_post(&young.id.name), []);
}

#[test]
fn a_post_names_the_nodes_that_were_lost_or_never_claimed() {
    let (old, young) = pair();
    let mut claims = Claims::default();
    ask(&mut claims, "kept", &young, "vm-1");
    ask(&mut claims, "lost", &young, "vm-2");
    ask(&mut claims, "lost", &old, "vm-2");
    let keys = [key("kept"), key("lost"), key("unknown")];
    assert_eq!(claims.begin_post(&keys, &young.id.name), [name("lost"), name("unknown")]);
}

#[test]
fn a_vm_taken_out_frees_its_node_once_its_post_is_over() {
    let (old, young) = pair();
    let mut claims = Claims::default();
    ask(&mut claims, "n", &old, "vm-1");
    claims.begin_post(&[key("n")], &old.id.name);
    claims.retain_vms(&old.id.name, &"k8s".into(), &vms(&[]));
    assert_eq!(ask(&mut claims, "n", &young, "vm-1"), refused(&old));
    claims.end_post(&old.id.name);
    claims.retain_vms(&old.id.name, &"k8s".into(), &vms(&[]));
    assert_eq!(ask(&mut claims, "n", &young, "vm-1"), Claimed::Granted);
}

#[test]
fn only_listed_vms_at_the_present_target_keep_their_nodes_and_others_are_not_touched() {
    let (old, young) = pair();
    let mut claims = Claims::default();
    ask(&mut claims, "a", &old, "vm-1");
    ask(&mut claims, "b", &old, "vm-2");
    ask(&mut claims, "c", &young, "vm-2");
    claims.retain_vms(&old.id.name, &"k8s".into(), &vms(&["vm-1"]));
    assert!(owns(&claims, "a", &old) && !owns(&claims, "b", &old) && owns(&claims, "c", &young));
    claims.retain_vms(&old.id.name, &"elsewhere".into(), &vms(&["vm-1"]));
    assert!(!owns(&claims, "a", &old) && owns(&claims, "c", &young));
}

#[test]
fn a_deleted_object_frees_all_its_nodes_and_no_others() {
    let (old, young) = pair();
    let mut claims = Claims::default();
    ask(&mut claims, "a", &old, "vm-1");
    ask(&mut claims, "b", &young, "vm-2");
    claims.release(&old.id.name);
    assert_eq!(ask(&mut claims, "a", &young, "vm-1"), Claimed::Granted);
    assert!(owns(&claims, "b", &young));
}

#[test]
fn claims_of_objects_that_do_not_exist_go_when_all_are_known() {
    let (old, young) = pair();
    let mut claims = Claims::default();
    ask(&mut claims, "a", &old, "vm-1");
    ask(&mut claims, "b", &young, "vm-2");
    claims.retain_configs(&[young.id.name.clone()].into());
    assert!(!owns(&claims, "a", &old) && owns(&claims, "b", &young));
}

#[test]
fn an_object_made_anew_has_its_nodes_and_its_new_age() {
    let (old, young) = pair();
    let mut claims = Claims::default();
    ask(&mut claims, "n", &old, "vm-1");
    let mut anew = owner("old", 99);
    anew.id.uid = Arc::from("another");
    assert_eq!(ask(&mut claims, "n", &anew, "vm-1"), Claimed::Granted);
    assert_eq!(ask(&mut claims, "n", &young, "vm-1"), Claimed::TakenOver(anew.id.name));
}

#[test]
fn a_renamed_vm_frees_the_node_that_it_was_and_only_that() {
    let (old, young) = pair();
    let mut claims = Claims::default();
    for (node, owner, vm) in [("was", &old, "vm-1"), ("is", &old, "vm-1"), ("other", &old, "vm-2")] {
        ask(&mut claims, node, owner, vm);
    }
    ask(&mut claims, "foreign", &young, "vm-1");
    claims.retain_nodes(&old.id.name, &BTreeMap::from([("vm-1".into(), name("is"))]));
    assert!(!owns(&claims, "was", &old) && owns(&claims, "is", &old) && owns(&claims, "other", &old));
    assert!(owns(&claims, "foreign", &young));
}

#[test]
fn a_renamed_vm_keeps_the_node_that_it_was_while_that_is_posted() {
    let (old, _) = pair();
    let mut claims = Claims::default();
    ask(&mut claims, "was", &old, "vm-1");
    claims.begin_post(&[key("was")], &old.id.name);
    claims.retain_nodes(&old.id.name, &BTreeMap::from([("vm-1".into(), name("is"))]));
    assert!(owns(&claims, "was", &old));
}

#[test]
fn a_rebuilt_vm_has_the_node_and_the_list_of_vms_knows_it() {
    let (old, _) = pair();
    let mut claims = Claims::default();
    ask(&mut claims, "n", &old, "vm-1");
    assert_eq!(ask(&mut claims, "n", &old, "vm-9"), Claimed::Granted);
    claims.retain_vms(&old.id.name, &"k8s".into(), &vms(&["vm-9"]));
    assert!(owns(&claims, "n", &old));
}

#[test]
fn a_restart_does_not_reverse_who_owns_what() {
    let (old, young) = pair();
    let mut snapshot = Snapshot::default();
    let event = |owner: &Owner, node: NodeConfig| Event::Delivered {
        owner: owner.clone(),
        provider: "k8s".into(),
        nodes: shared(&[node]),
        at: at(0),
    };
    apply(&mut snapshot, &event(&old, node("mine", "vm-1", &[(0, 1)])));
    apply(&mut snapshot, &event(&young, node("yours", "vm-2", &[(0, 2)])));
    let mut claims = Claims::default();
    claims.learn(&snapshot);
    // The younger one asks first.
    assert_eq!(ask(&mut claims, "mine", &young, "vm-1"), refused(&old));
    assert_eq!(ask(&mut claims, "yours", &young, "vm-2"), Claimed::Granted);
    // The VM is known too.
    claims.retain_vms(&old.id.name, &"k8s".into(), &vms(&["vm-1"]));
    assert!(owns(&claims, "mine", &old));
}

#[test]
fn a_record_without_an_owner_is_nobodys_yet() {
    let (old, young) = pair();
    let mut snapshot = Snapshot::default();
    let nodes = shared(&[worker(&[(0, 1)])]);
    apply(&mut snapshot, &Event::Delivered { owner: old, provider: "k8s".into(), nodes, at: at(0) });
    disown(&mut snapshot, &key("worker-1"));
    let mut claims = Claims::default();
    claims.learn(&snapshot);
    assert_eq!(ask(&mut claims, "worker-1", &young, "vm-1"), Claimed::Granted);
}

#[test]
fn what_is_claimed_and_posted_since_outlives_a_second_look_at_the_inventory() {
    let (old, young) = pair();
    let mut snapshot = Snapshot::default();
    let nodes = shared(&[node("n", "vm-1", &[(0, 1)]), node("m", "vm-2", &[(0, 2)])]);
    apply(&mut snapshot, &Event::Delivered { owner: old.clone(), provider: "k8s".into(), nodes, at: at(0) });
    let mut claims = Claims::default();
    // Not in the inventory yet, and another owner than the inventory knows.
    ask(&mut claims, "fresh", &young, "vm-3");
    ask(&mut claims, "n", &young, "vm-1");
    assert_eq!(claims.begin_post(&[key("fresh"), key("n")], &young.id.name), []);
    claims.learn(&snapshot);
    assert_eq!(ask(&mut claims, "fresh", &old, "vm-3"), refused(&young));
    assert_eq!(ask(&mut claims, "n", &old, "vm-1"), refused(&young));
    assert!(owns(&claims, "m", &old), "what nobody has claimed is as the inventory says");
    assert_eq!(claims.end_post(&young.id.name), [key("fresh"), key("n")]);
}

proptest! {
    /// Objects of few ages, so that some are equally old; each asks several times in any order.
    #[test]
    fn the_owner_does_not_depend_on_who_asks_first(
        ages in prop::collection::vec(0_i64..3, 2..6),
        order in prop::collection::vec(0_usize..6, 0..20),
    ) {
        let owners: Vec<Owner> =
            ages.iter().enumerate().map(|(n, age)| owner(&format!("o{n}"), *age)).collect();
        let mut claims = Claims::default();
        for asking in order.iter().filter_map(|n| owners.get(*n)).chain(&owners) {
            ask(&mut claims, "n", asking, "vm-1");
        }
        let oldest = owners.iter().min_by_key(|o| (o.created, o.id.name.clone())).unwrap();
        prop_assert!(owns(&claims, "n", oldest));
        for other in owners.iter().filter(|other| other.id != oldest.id) {
            prop_assert_eq!(ask(&mut claims, "n", other, "vm-1"), refused(oldest));
        }
    }
}
