use proptest::prelude::*;

use super::super::samples::*;
use super::*;

const POLICIES: [ChangePolicy; 4] =
    [ChangePolicy::Auto, ChangePolicy::AddOnly, ChangePolicy::Approve, ChangePolicy::Observe];

fn nobody() -> BTreeSet<String> {
    BTreeSet::new()
}

fn release_of(policy: ChangePolicy, delivered: Option<&NodeConfig>, desired: &NodeConfig) -> Release {
    release(policy, delivered, &Arc::new(desired.clone()), &nobody())
}

fn edited(node: &NodeConfig, edit: impl FnOnce(&mut Interface)) -> NodeConfig {
    let mut node = node.clone();
    edit(&mut node.interfaces[0]);
    node
}

/// For each policy: what is sent (`None` = nothing), and the words of what waits.
fn check(
    delivered: Option<&NodeConfig>,
    desired: &NodeConfig,
    expect: [(Option<&NodeConfig>, Option<&str>); 4],
) {
    for (policy, (send, what)) in POLICIES.into_iter().zip(expect) {
        let release = release_of(policy, delivered, desired);
        assert_eq!(release.send.as_deref(), send, "{policy:?}");
        assert_eq!(release.pending.as_ref().map(|pending| pending.what.as_str()), what, "{policy:?}");
        if let Some(pending) = release.pending {
            assert_eq!((pending.node, pending.change_id), (desired.node_name.clone(), change_id(desired)));
        }
    }
}

#[test]
fn the_difference_is_told_by_mac() {
    let before = worker(&[(0, 1), (1, 2), (2, 3), (3, 4)]);
    let mut after = worker(&[(0, 1), (2, 3), (4, 4), (5, 5)]);
    after.interfaces[1].mtu = 9000;
    let change = diff(&before, &after);
    let expect = Change {
        added: vec![mac(5)],
        removed: vec![mac(2)],
        renamed: vec![mac(4)],
        readdressed: vec![mac(3)],
    };
    assert_eq!(change, expect);
    assert!(!change.is_only_additions() && !change.is_empty());
}

#[test]
fn address_range_and_mtu_are_the_address_and_where_it_came_from_is_not() {
    let before = worker(&[(0, 1)]);
    for after in [
        edited(&before, |nic| nic.address = "192.168.10.77".parse().unwrap()),
        edited(&before, |nic| nic.cidr = "192.168.10.0/25".parse().unwrap()),
        edited(&before, |nic| nic.mtu = 1400),
    ] {
        assert_eq!(diff(&before, &after).readdressed, [mac(1)]);
    }
    let after = edited(&before, |nic| (nic.port_id, nic.network_id, nic.subnet_id) = (None, None, None));
    assert!(diff(&before, &after).is_empty());
}

#[test]
fn another_name_at_the_same_index_is_a_rename() {
    let before = edited(&worker(&[(0, 1)]), |nic| nic.name = "net1".to_owned());
    assert_eq!(diff(&before, &worker(&[(0, 1)])).renamed, [mac(1)]);
}

#[test]
fn a_new_node_is_sent_unless_it_is_only_observed() {
    let desired = worker(&[(0, 1), (1, 2)]);
    let first = "deliver 2 interfaces for the first time";
    let all = (Some(&desired), None);
    check(None, &desired, [all, all, all, (None, Some(first))]);
}

#[test]
fn an_unchanged_node_waits_for_nothing() {
    let same = worker(&[(0, 1)]);
    let all = (Some(&same), None);
    check(Some(&same), &same, [all, all, all, (None, None)]);
}

#[test]
fn additions_pass() {
    let (before, after) = (worker(&[(0, 1)]), worker(&[(0, 1), (1, 2)]));
    let all = (Some(&after), None);
    let what = "add fa:16:3e:00:00:02 as multinic1 (192.168.10.2)";
    check(Some(&before), &after, [all, all, all, (None, Some(what))]);
}

#[test]
fn a_rename_waits_and_an_addition_beside_it_goes_to_a_free_index() {
    let (before, after) = (worker(&[(0, 2)]), worker(&[(0, 1), (1, 2)]));
    let what = "add fa:16:3e:00:00:01 as multinic0 (192.168.10.1); \
                rename fa:16:3e:00:00:02 from multinic0 to multinic1";
    let meanwhile = worker(&[(0, 2), (1, 1)]);
    let held = (Some(&meanwhile), Some(what));
    check(Some(&before), &after, [(Some(&after), None), held, held, (None, Some(what))]);
}

#[test]
fn a_removal_waits() {
    let (before, after) = (worker(&[(0, 1), (1, 2)]), worker(&[(1, 2)]));
    let what = "remove fa:16:3e:00:00:01 (multinic0, 192.168.10.1)";
    let held = (Some(&before), Some(what));
    check(Some(&before), &after, [(Some(&after), None), held, held, (None, Some(what))]);
}

#[test]
fn a_change_of_the_address_waits() {
    let before = worker(&[(0, 1)]);
    let after = edited(&before, |nic| {
        (nic.address, nic.cidr, nic.mtu) =
            ("10.1.0.9".parse().unwrap(), "10.1.0.0/16".parse().unwrap(), 9000);
    });
    let what = "change fa:16:3e:00:00:01 from 192.168.10.1 in 192.168.10.0/24 mtu 1450 \
                to 10.1.0.9 in 10.1.0.0/16 mtu 9000";
    let held = (Some(&before), Some(what));
    check(Some(&before), &after, [(Some(&after), None), held, held, (None, Some(what))]);
}

#[test]
fn a_new_nic_that_takes_over_an_address_waits_with_the_change_it_belongs_to() {
    let before = worker(&[(0, 1)]);
    let mut after = worker(&[(0, 1), (1, 2)]);
    after.interfaces[1].address = before.interfaces[0].address;
    after.interfaces[0].address = "192.168.10.77".parse().unwrap();
    for policy in [ChangePolicy::AddOnly, ChangePolicy::Approve] {
        let release = release_of(policy, Some(&before), &after);
        assert_eq!(release.send.as_deref(), Some(&before));
        assert!(release.pending.is_some());
    }
}

#[test]
fn a_rebuilt_vm_counts_as_a_new_node() {
    let (before, after) = (worker(&[(0, 1), (1, 2)]), node("worker-1", "vm-9", &[(0, 5)]));
    let all = (Some(&after), None);
    let first = "deliver 1 interfaces for the first time";
    check(Some(&before), &after, [all, all, all, (None, Some(first))]);
}

#[test]
fn a_node_that_only_got_another_name_says_so() {
    let (before, after) = (worker(&[(0, 1)]), node("worker-9", "vm-1", &[(0, 1)]));
    let all = (Some(&after), None);
    check(Some(&before), &after, [all, all, all, (None, Some("move from node worker-1 to worker-9"))]);
}

#[test]
fn an_approval_lets_exactly_the_shown_list_through() {
    let (before, after) = (worker(&[(0, 2)]), Arc::new(worker(&[(0, 1), (1, 2)])));
    let shown = release_of(ChangePolicy::Approve, Some(&before), &after).pending.unwrap().change_id;
    let approved = BTreeSet::from(["someone-elses".to_owned(), shown]);
    let passed = release(ChangePolicy::Approve, Some(&before), &after, &approved);
    assert_eq!(passed, Release { send: Some(Arc::clone(&after)), pending: None });
    // Another list has another id, and an approval means nothing to the other policies.
    let other = Arc::new(worker(&[(0, 1)]));
    assert!(release(ChangePolicy::Approve, Some(&before), &other, &approved).pending.is_some());
    assert!(release(ChangePolicy::AddOnly, Some(&before), &after, &approved).pending.is_some());
    assert!(release(ChangePolicy::Observe, Some(&before), &after, &approved).pending.is_some());
}

#[test]
fn a_full_node_takes_no_addition() {
    let full: Vec<(u8, u8)> = (0..10).map(|index| (index, index + 1)).collect();
    let before = worker(&full);
    let mut wanted = full.clone();
    wanted[3] = (3, 99);
    let release = release_of(ChangePolicy::AddOnly, Some(&before), &worker(&wanted));
    assert_eq!(release.send.as_deref(), Some(&before));
    assert!(release.pending.is_some());
}

/// Up to ten NICs of a small set, at any indices.
fn lists() -> impl Strategy<Value = NodeConfig> {
    let indices = Just((0_u8..10).collect::<Vec<_>>()).prop_shuffle();
    let ports = Just((1_u8..14).collect::<Vec<_>>()).prop_shuffle();
    let mtus = prop::collection::vec(prop::sample::select(vec![1450_u16, 9000]), 10);
    (indices, ports, mtus, 0_usize..=10).prop_map(|(mut indices, ports, mtus, count)| {
        indices.truncate(count);
        indices.sort_unstable();
        let mut node = worker(&indices.into_iter().zip(ports).collect::<Vec<_>>());
        node.interfaces.iter_mut().zip(mtus).for_each(|(nic, mtu)| nic.mtu = mtu);
        node
    })
}

proptest! {
    #[test]
    fn a_held_change_never_touches_a_delivered_nic(delivered in lists(), desired in lists()) {
        for policy in [ChangePolicy::AddOnly, ChangePolicy::Approve] {
            let release = release_of(policy, Some(&delivered), &desired);
            let sent = release.send.unwrap();
            for nic in &delivered.interfaces {
                prop_assert!(sent.interfaces.contains(nic), "{:?} lost {:?}", policy, nic);
            }
            let indices: Vec<u8> = sent.interfaces.iter().map(|nic| nic.id).collect();
            prop_assert!(indices.is_sorted_by(|a, b| a < b) && indices.len() <= MAX_INTERFACES);
            prop_assert!(sent.interfaces.iter().all(|nic| nic.name == Interface::name_of(nic.id)));
            let wanted: Vec<Mac> = desired.interfaces.iter().map(|nic| nic.mac_address).collect();
            let is_known = |nic: &&Interface| !delivered.interfaces.contains(nic);
            for nic in sent.interfaces.iter().filter(is_known) {
                prop_assert!(wanted.contains(&nic.mac_address));
            }
            prop_assert_eq!(release.pending.is_some(), !diff(&delivered, &desired).is_only_additions());
        }
    }

    #[test]
    fn a_held_change_comes_to_rest_with_the_same_id(delivered in lists(), desired in lists()) {
        let first = release_of(ChangePolicy::Approve, Some(&delivered), &desired);
        let sent = first.send.unwrap();
        let second = release_of(ChangePolicy::Approve, Some(&sent), &desired);
        prop_assert_eq!(second.send.unwrap(), sent);
        let ids = |pending: Option<PendingChange>| pending.map(|pending| pending.change_id);
        prop_assert_eq!(ids(second.pending), ids(first.pending));
    }

    #[test]
    fn auto_sends_what_is_desired_and_observe_sends_nothing(delivered in lists(), desired in lists()) {
        let auto = release_of(ChangePolicy::Auto, Some(&delivered), &desired);
        prop_assert_eq!(auto, Release { send: Some(Arc::new(desired.clone())), pending: None });
        let observed = release_of(ChangePolicy::Observe, Some(&delivered), &desired);
        prop_assert_eq!(observed.send, None);
        prop_assert_eq!(observed.pending.is_none(), delivered.is_same(&desired));
    }

    #[test]
    fn what_waits_is_told_in_words(delivered in lists(), desired in lists()) {
        prop_assert_eq!(describe(&delivered, &desired).is_empty(), delivered.is_same(&desired));
    }

    #[test]
    fn the_change_id_names_the_list_and_nothing_else(a in lists(), b in lists()) {
        prop_assert_eq!(change_id(&a) == change_id(&b), a.is_same(&b));
    }
}
