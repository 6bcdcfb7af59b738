use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::samples::*;
use super::*;

fn key(node: &str) -> RecordKey {
    RecordKey { provider: "k8s".into(), node: name(node) }
}

fn departing(owner: &Owner, nodes: &[&str]) -> Event {
    let nodes = nodes.iter().map(|name| NodeName::new(name).unwrap()).collect();
    Event::Departing { owner: owner.clone(), provider: "k8s".into(), nodes }
}

fn delivered(owner: &Owner, nodes: &[NodeConfig], seconds: i64) -> Event {
    Event::Delivered { owner: owner.clone(), provider: "k8s".into(), nodes: shared(nodes), at: at(seconds) }
}

fn allocated(owner: &Owner, allocations: &[(&str, &[u8])], nodes: &[&str]) -> Event {
    let hold = |(index, n): (usize, &u8)| Held { index: index as u8, port: Some(port_id(*n)), mac: mac(*n) };
    Event::Allocated {
        cluster: None,
        owner: owner.clone(),
        removal_policy: RemovalPolicy::Retain,
        allocations: allocations
            .iter()
            .map(|(vm, ports)| (VmId::new(vm), ports.iter().enumerate().map(hold).collect()))
            .collect(),
        provider: "k8s".into(),
        nodes: nodes.iter().map(|text| name(text)).collect(),
    }
}

fn retry(fast_attempts: u32) -> DownPortRetry {
    DownPortRetry { hash: "00".to_owned(), last_attempt: Some(at(3)), fast_attempts }
}

fn pruned(owner: &Owner, keep: &[&str]) -> Event {
    Event::Pruned { name: owner.id.name.clone(), keep: keep.iter().map(VmId::new).collect() }
}

fn after(events: &[Event]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for event in events {
        apply(&mut snapshot, event);
    }
    snapshot
}

fn record<'a>(snapshot: &'a Snapshot, node: &str) -> &'a Record {
    &snapshot.records[&key(node)]
}

fn state<'a>(snapshot: &'a Snapshot, owner: &Owner) -> &'a ConfigState {
    &snapshot.configs[&owner.id.name]
}

#[test]
fn a_delivered_node_is_recorded_with_its_hash_owner_and_time() {
    let a = owner("a", 0);
    let snapshot = after(&[delivered(&a, &[worker(&[(0, 1)])], 10)]);
    let expect = Record {
        provider_id: "k8s".into(),
        node_name: name("worker-1"),
        instance_id: "vm-1".into(),
        config: Arc::new(worker(&[(0, 1)])),
        last_config_hash: worker(&[(0, 1)]).hash(),
        updated_at: at(10),
        in_doubt: false,
        owner: Some(a),
    };
    assert_eq!(record(&snapshot, "worker-1"), &expect);
    assert_eq!(expect.key(), key("worker-1"));
}

#[test]
fn a_re_send_leaves_the_record_as_it_is() {
    let a = owner("a", 0);
    let mut snapshot = after(&[delivered(&a, &[worker(&[(0, 1)])], 10)]);
    let before = snapshot.clone();
    assert!(!apply(&mut snapshot, &delivered(&a, &[worker(&[(0, 1)])], 99)));
    assert_eq!(snapshot, before);
    assert!(apply(&mut snapshot, &delivered(&a, &[worker(&[(0, 2)])], 100)));
    assert_eq!(record(&snapshot, "worker-1").updated_at, at(100));
}

#[test]
fn a_post_without_an_answer_leaves_its_nodes_in_doubt() {
    let a = owner("a", 0);
    let (first, second) = (worker(&[(0, 1)]), worker(&[(0, 2)]));
    let left =
        after(&[delivered(&a, std::slice::from_ref(&first), 1), departing(&a, &["worker-1", "unknown"])]);
    assert_eq!(left.records.len(), 1);
    assert!(record(&left, "worker-1").in_doubt && record(&left, "worker-1").config.is_same(&first));
    assert!(through_json(record(&left, "worker-1")).in_doubt);
    assert_eq!(state(&left, &a).revision, 2, "other stores are told too");
    for taken in [&second, &first] {
        let mut answered = left.clone();
        assert!(apply(&mut answered, &delivered(&a, std::slice::from_ref(taken), 2)));
        assert!(
            !record(&answered, "worker-1").in_doubt && record(&answered, "worker-1").config.is_same(taken)
        );
        assert_eq!(state(&answered, &a).revision, 3);
    }
    let mut again = left.clone();
    assert!(!apply(&mut again, &departing(&a, &["worker-1"])), "one write is enough");
}

#[test]
fn a_re_send_by_another_object_changes_the_owner_and_not_the_time() {
    let (a, b) = (owner("a", 0), owner("b", 0));
    let mut snapshot = after(&[delivered(&a, &[worker(&[(0, 1)])], 10)]);
    assert!(apply(&mut snapshot, &delivered(&b, &[worker(&[(0, 1)])], 99)));
    let record = record(&snapshot, "worker-1");
    assert_eq!((record.updated_at, &record.owner), (at(10), &Some(b)));
}

#[test]
fn a_renamed_vm_moves_its_record_within_its_target() {
    let a = owner("a", 0);
    let elsewhere = Event::Delivered {
        owner: a.clone(),
        provider: "other".into(),
        nodes: shared(&[node("old", "vm-1", &[(0, 1)])]),
        at: at(1),
    };
    let snapshot = after(&[
        elsewhere,
        delivered(&a, &[node("old", "vm-1", &[(0, 1)]), node("n", "vm-2", &[(0, 2)])], 2),
        delivered(&a, &[node("new", "vm-1", &[(0, 1)])], 3),
    ]);
    let keys: Vec<_> =
        snapshot.records.keys().map(|key| (key.provider.as_str(), key.node.as_str())).collect();
    assert_eq!(keys, [("k8s", "n"), ("k8s", "new"), ("other", "old")]);
}

#[test]
fn two_vms_that_swapped_their_names_have_one_record_each() {
    let a = owner("a", 0);
    let snapshot = after(&[
        delivered(&a, &[node("x", "vm-1", &[(0, 1)]), node("y", "vm-2", &[(0, 2)])], 1),
        delivered(&a, &[node("x", "vm-2", &[(0, 2)]), node("y", "vm-1", &[(0, 1)])], 2),
    ]);
    assert_eq!(record(&snapshot, "x").instance_id, "vm-2".into());
    assert_eq!(record(&snapshot, "y").instance_id, "vm-1".into());
}

#[test]
fn a_rebuilt_vm_replaces_the_record() {
    let a = owner("a", 0);
    let snapshot = after(&[
        delivered(&a, &[node("x", "vm-1", &[(0, 1)])], 1),
        delivered(&a, &[node("x", "vm-9", &[(0, 1)])], 2),
    ]);
    assert_eq!(snapshot.records.len(), 1);
    assert_eq!(
        (&record(&snapshot, "x").instance_id, record(&snapshot, "x").updated_at),
        (&"vm-9".into(), at(2))
    );
}

#[test]
fn allocations_are_kept_per_vm_and_an_empty_one_goes() {
    let a = owner("a", 0);
    let mut snapshot = after(&[
        allocated(&a, &[("vm-1", &[1, 2]), ("vm-2", &[3])], &[]),
        allocated(&a, &[("vm-1", &[1, 2, 4])], &[]),
        allocated(&a, &[("vm-2", &[])], &[]),
    ]);
    let allocations = &state(&snapshot, &a).allocations;
    assert_eq!(allocations.len(), 1);
    assert_eq!(allocations[&VmId::new("vm-1")].len(), 3);
    assert!(!apply(&mut snapshot, &allocated(&a, &[("vm-2", &[])], &[])));
}

#[test]
fn an_allocation_claims_records_that_say_no_owner_and_makes_none() {
    let a = owner("a", 0);
    let mut snapshot = after(&[delivered(&a, &[worker(&[(0, 1)])], 10)]);
    disown(&mut snapshot, &key("worker-1"));
    assert!(apply(&mut snapshot, &allocated(&a, &[], &["worker-1", "unknown"])));
    assert_eq!(snapshot.records.len(), 1);
    let record = record(&snapshot, "worker-1");
    assert_eq!((record.owner.as_ref(), record.updated_at), (Some(&a), at(10)));
}

#[test]
fn an_object_made_anew_goes_on_with_what_was_kept() {
    let old = owner("a", 0);
    let mut anew = owner("a", 500);
    anew.id.uid = "another".into();
    let first_seen = |owner: &Owner| Event::FirstSeen { owner: owner.clone() };
    let snapshot = after(&[first_seen(&old), allocated(&old, &[("vm-1", &[1])], &[]), first_seen(&anew)]);
    let state = state(&snapshot, &anew);
    assert_eq!((state.uid.as_ref(), state.first_seen, state.allocations.len()), ("another", Some(at(0)), 1));
}

#[test]
fn the_down_port_retry_comes_and_goes() {
    let a = owner("a", 0);
    let event = |retry| Event::DownPorts { owner: a.clone(), retry };
    let mut snapshot = after(&[event(Some(retry(1)))]);
    assert_eq!(state(&snapshot, &a).down_port_retry, Some(retry(1)));
    assert!(apply(&mut snapshot, &event(None)));
    assert!(!apply(&mut snapshot, &event(None)));
    assert_eq!(state(&snapshot, &a).down_port_retry, None);
}

#[test]
fn pruning_takes_the_own_records_of_vms_that_are_gone() {
    let (a, b) = (owner("a", 0), owner("b", 0));
    let mut snapshot = after(&[
        delivered(&a, &[node("x", "vm-1", &[(0, 1)]), node("y", "vm-2", &[(0, 2)])], 1),
        delivered(&b, &[node("z", "vm-3", &[(0, 3)])], 1),
        delivered(&a, &[node("w", "vm-4", &[(0, 4)])], 1),
        allocated(&a, &[("vm-1", &[1]), ("vm-2", &[2])], &[]),
    ]);
    disown(&mut snapshot, &key("w"));
    assert!(apply(&mut snapshot, &pruned(&a, &["vm-1"])));
    let nodes: Vec<_> = snapshot.records.keys().map(|key| key.node.as_str()).collect();
    assert_eq!(nodes, ["w", "x", "z"], "another's, and nobody's, stay");
    assert_eq!(state(&snapshot, &a).allocations.len(), 1);
    assert!(!apply(&mut snapshot, &pruned(&a, &["vm-1"])));
}

#[test]
fn pruning_a_deleted_object_leaves_nothing_of_it() {
    let (a, b) = (owner("a", 0), owner("b", 0));
    let mut snapshot = after(&[
        delivered(&a, &[worker(&[(0, 1)])], 1),
        allocated(&a, &[("vm-1", &[1])], &[]),
        allocated(&b, &[("vm-2", &[2])], &[]),
    ]);
    assert!(apply(&mut snapshot, &pruned(&a, &[])));
    assert!(snapshot.records.is_empty());
    assert_eq!(snapshot.configs.keys().collect::<Vec<_>>(), [&b.id.name]);
    assert!(!apply(&mut snapshot, &pruned(&a, &[])));
}

#[test]
fn a_snapshot_taken_before_is_not_touched_by_what_comes_after() {
    let a = owner("a", 0);
    let mut snapshot =
        after(&[delivered(&a, &[worker(&[(0, 1)])], 1), allocated(&a, &[("vm-1", &[1])], &[])]);
    let (earlier, copy) = (
        snapshot.clone(),
        after(&[delivered(&a, &[worker(&[(0, 1)])], 1), allocated(&a, &[("vm-1", &[1])], &[])]),
    );
    apply(&mut snapshot, &delivered(&a, &[worker(&[(0, 2)])], 2));
    apply(&mut snapshot, &allocated(&a, &[("vm-1", &[2])], &[]));
    assert_eq!(earlier, copy);
}

fn through_json<T: Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

#[test]
fn records_and_states_come_back_as_they_were_written() {
    let a = owner("a", 0);
    let snapshot = after(&[
        delivered(&a, &[worker(&[(0, 1), (3, 2)])], 1),
        allocated(&a, &[("vm-1", &[1])], &[]),
        Event::FirstSeen { owner: a.clone() },
        Event::DownPorts { owner: a.clone(), retry: Some(retry(2)) },
    ]);
    assert_eq!(&through_json(record(&snapshot, "worker-1")), record(&snapshot, "worker-1"));
    assert_eq!(&through_json(state(&snapshot, &a)), state(&snapshot, &a));
    let bare = ConfigState::new(&a);
    assert_eq!(through_json(&bare), bare);
}

#[test]
fn the_spelling_of_the_file_is_the_documented_one() {
    let a = owner("a", 0);
    let snapshot = after(&[
        delivered(&a, &[worker(&[(0, 1)])], 1),
        allocated(&a, &[("vm-1", &[1])], &[]),
        Event::DownPorts { owner: a.clone(), retry: Some(retry(2)) },
    ]);
    assert_eq!(
        serde_json::to_value(record(&snapshot, "worker-1")).unwrap(),
        json!({
            "providerId": "k8s", "nodeName": "worker-1", "instanceId": "vm-1",
            "config": {"nodeName": "worker-1", "instanceId": "vm-1", "interfaces": [{
                "id": 0, "name": "multinic0", "macAddress": "fa:16:3e:00:00:01",
                "address": "192.168.10.1", "cidr": "192.168.10.0/24", "mtu": 1450,
                "portId": "p001", "deviceId": "vm-1", "networkId": "net-a", "subnetId": "sub-a",
            }]},
            "lastConfigHash": worker(&[(0, 1)]).hash().as_str(),
            "updatedAt": "2026-02-01T00:00:01Z",
            "owner": {"namespace": "ns", "name": "a", "uid": "uid-a", "created": "2026-02-01T00:00:00Z"},
        })
    );
    assert_eq!(
        serde_json::to_value(state(&snapshot, &a)).unwrap(),
        json!({
            "namespace": "ns", "name": "a", "uid": "uid-a", "revision": 3, "removalPolicy": "Retain",
            "allocations": {"vm-1": [{"index": 0, "port": "p001", "mac": "fa:16:3e:00:00:01"}]},
            "downPortRetry": {"hash": "00", "lastAttempt": "2026-02-01T00:00:03Z", "fastAttempts": 2},
        })
    );
}

#[test]
fn a_record_of_the_previous_operator_loads_and_counts_as_delivered() {
    let record: Record = serde_json::from_value(json!({
        "providerId": "k8s", "nodeName": "Worker-1", "instanceId": "VM-1",
        "config": {"nodeName": "worker-1", "instanceId": "vm-1", "interfaces": [
            {"name": "multinic0", "macAddress": "FA:16:3E:00:00:01", "address": "192.168.10.1",
             "cidr": "192.168.10.0/24", "mtu": 1450},
            {"id": 1, "name": "multinic1", "macAddress": "fa:16:3e:00:00:02", "address": "192.168.10.2",
             "cidr": "192.168.10.0/24", "mtu": 1450, "portId": "p002", "unknown": true},
        ]},
        "lastConfigHash": "whatever it was", "updatedAt": "2025-11-30T09:00:00.123456789+09:00",
    }))
    .unwrap();
    assert!(record.config.is_same(&worker(&[(0, 1), (1, 2)])));
    assert_eq!((record.key(), record.owner), (key("worker-1"), None));
    assert_eq!(record.updated_at, time("2025-11-30T00:00:00.123456789Z"));
}

#[test]
fn a_state_with_nothing_but_its_name_loads() {
    let value: Value = json!({"namespace": "ns", "name": "a", "uid": "uid-a"});
    let state: ConfigState = serde_json::from_value(value).unwrap();
    assert_eq!(state, ConfigState::new(&owner("a", 0)));
    let held: Held = serde_json::from_value(json!({"index": 3, "mac": "FA-16-3E-00-00-01"})).unwrap();
    assert_eq!(held, Held { index: 3, port: None, mac: mac(1) });
}

fn owners() -> impl Strategy<Value = Owner> {
    prop::sample::select(vec![owner("a", 0), owner("b", 5)])
}

/// A delivery of up to four VMs, each as the node of its own name or of another's.
fn deliveries() -> impl Strategy<Value = Event> {
    let names = Just(vec!["n0", "n1", "n2", "n3"]).prop_shuffle();
    (owners(), names, prop::collection::vec(0_u8..4, 1..4), 0_i64..1000).prop_map(
        |(owner, names, ports, seconds)| {
            let vms = ["vm-0", "vm-1", "vm-2", "vm-3"];
            let nodes = vms.iter().zip(names).zip(ports).map(|((vm, text), n)| node(text, vm, &[(0, n)]));
            delivered(&owner, &nodes.collect::<Vec<_>>(), seconds)
        },
    )
}

fn events() -> impl Strategy<Value = Event> {
    let vm = prop::sample::select(vec!["vm-0", "vm-1", "vm-2"]);
    prop_oneof![
        4 => deliveries(),
        2 => (owners(), vm.clone(), prop::collection::vec(0_u8..9, 0..4))
            .prop_map(|(owner, vm, ports)| allocated(&owner, &[(vm, &ports)], &["n0", "n9"])),
        1 => (owners(), prop::option::of(0_u32..3))
            .prop_map(|(owner, n)| Event::DownPorts { owner, retry: n.map(retry) }),
        1 => owners().prop_map(|owner| Event::FirstSeen { owner }),
        1 => (owners(), prop::collection::vec(vm, 0..3)).prop_map(|(owner, keep)| pruned(&owner, &keep)),
    ]
}

proptest! {
    #[test]
    fn an_event_twice_is_an_event_once(events in prop::collection::vec(events(), 1..12)) {
        let mut snapshot = Snapshot::default();
        for event in &events {
            let before = snapshot.clone();
            let is_changed = apply(&mut snapshot, event);
            prop_assert_eq!(is_changed, snapshot != before);
            let once = snapshot.clone();
            prop_assert!(!apply(&mut snapshot, event));
            prop_assert_eq!(&snapshot, &once);
        }
    }

    #[test]
    fn every_record_stands_under_its_key_and_every_vm_has_one(
        events in prop::collection::vec(events(), 1..12),
    ) {
        let snapshot = after(&events);
        let mut vms = BTreeSet::new();
        for (key, record) in &snapshot.records {
            prop_assert_eq!(key, &record.key());
            prop_assert_eq!(&record.config.node_name, &record.node_name);
            prop_assert_eq!(&record.config.instance_id, &record.instance_id);
            prop_assert_eq!(&record.last_config_hash, &record.config.hash());
            prop_assert!(vms.insert(record.instance_id.clone()), "two records of {}", record.instance_id);
        }
        for (name, state) in &snapshot.configs {
            prop_assert_eq!(name, &state.name);
            prop_assert!(state.allocations.values().all(|held| !held.is_empty()));
        }
    }

    #[test]
    fn whatever_is_kept_comes_back_from_the_file(events in prop::collection::vec(events(), 1..12)) {
        let snapshot = after(&events);
        for record in snapshot.records.values() {
            prop_assert_eq!(&through_json::<Record>(record), &**record);
        }
        for state in snapshot.configs.values() {
            prop_assert_eq!(&through_json::<ConfigState>(state), &**state);
        }
    }
}

fn restored(from: &Snapshot, owner: &Owner) -> Event {
    let name = &owner.id.name;
    Event::Restored {
        state: Arc::clone(&from.configs[name]),
        records: from.records.of_owner(name).cloned().collect(),
    }
}

#[test]
fn every_change_of_a_config_or_of_its_records_counts_once_and_nothing_else_does() {
    let (a, b) = (owner("a", 0), owner("b", 1));
    let mut snapshot = Snapshot::default();
    let mut step = |event: &Event, expect: [u64; 2]| {
        apply(&mut snapshot, event);
        let revision = |owner: &Owner| snapshot.configs.get(&owner.id.name).map_or(0, |state| state.revision);
        assert_eq!([revision(&a), revision(&b)], expect, "{event:?}");
    };
    step(&allocated(&a, &[("vm-1", &[1])], &[]), [1, 0]);
    step(&allocated(&a, &[("vm-1", &[1])], &[]), [1, 0]);
    step(&delivered(&a, &[worker(&[(0, 1)])], 10), [2, 0]);
    step(&delivered(&a, &[worker(&[(0, 1)])], 20), [2, 0]);
    step(&Event::DownPorts { owner: a.clone(), retry: Some(retry(1)) }, [3, 0]);
    step(&allocated(&b, &[], &["worker-1"]), [4, 1]);
    step(&pruned(&b, &["other"]), [4, 2]);
}

#[test]
fn of_two_copies_of_a_config_the_newer_one_counts() {
    let (a, b) = (owner("a", 0), owner("b", 1));
    let events = [
        allocated(&a, &[("vm-1", &[1])], &[]),
        delivered(&a, &[worker(&[(0, 1)])], 10),
        delivered(&a, &[worker(&[(0, 1), (1, 2)])], 20),
    ];
    let (old, new) = (after(&events[..2]), after(&events));
    let with_b = |snapshot: &Snapshot| {
        let mut snapshot = snapshot.clone();
        apply(&mut snapshot, &Event::FirstSeen { owner: b.clone() });
        snapshot
    };
    let (mut behind, mut ahead) = (with_b(&old), with_b(&new));
    assert!(apply(&mut behind, &restored(&new, &a)));
    assert_eq!(behind, with_b(&new));
    assert!(!apply(&mut behind, &restored(&new, &a)), "known");
    assert!(!apply(&mut ahead, &restored(&old, &a)), "older");
    assert_eq!(ahead, with_b(&new));
    let mut empty = Snapshot::default();
    assert!(apply(&mut empty, &restored(&new, &a)));
    assert_eq!(empty, new);
}

#[test]
fn a_record_that_the_previous_operator_wrote_later_stays_and_decides_alone() {
    let a = owner("a", 0);
    let kept = after(&[allocated(&a, &[("vm-1", &[1])], &[]), delivered(&a, &[worker(&[(0, 1)])], 10)]);
    let vm = record(&kept, "worker-1").instance_id.clone();
    let mut later = Record::clone(record(&kept, "worker-1"));
    (later.updated_at, later.owner) = (at(20), None);
    let mut file = Snapshot::default();
    file.records.insert(key("worker-1"), Arc::new(later.clone()));
    assert!(apply(&mut file, &restored(&kept, &a)));
    assert_eq!(*record(&file, "worker-1"), later);
    assert!(!state(&file, &a).allocations.contains_key(&vm));
}
