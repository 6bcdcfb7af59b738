use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;

use super::super::samples::*;
use super::*;

/// Port `n`, qualifying, in the first target subnet.
fn one(n: u8) -> Candidate {
    ranked(n, 0)
}

fn ranked(n: u8, subnet_rank: usize) -> Candidate {
    Candidate {
        port: port_id(n),
        mac: mac(n),
        address: format!("192.168.10.{n}").parse().unwrap(),
        subnet_rank,
        is_down: false,
    }
}

fn some(ports: &[u8]) -> Vec<Candidate> {
    ports.iter().map(|n| one(*n)).collect()
}

fn ids(ports: &[u8]) -> Vec<(PortId, Mac)> {
    ports.iter().map(|n| (port_id(*n), mac(*n))).collect()
}

fn held(index: u8, n: u8) -> Held {
    Held { index, port: Some(port_id(n)), mac: mac(n) }
}

fn assigned(allocation: &Allocation) -> Vec<(u8, &str)> {
    allocation.assigned.iter().map(|(index, candidate)| (*index, candidate.port.as_str())).collect()
}

/// Sticky, with every qualifying port existing, and those beside them.
struct Given<'a> {
    delivered: Option<NodeConfig>,
    held: &'a [Held],
    resting: &'a [u8],
    is_pinned: bool,
}

const NOTHING: Given<'_> = Given { delivered: None, held: &[], resting: &[], is_pinned: false };

impl Given<'_> {
    fn sticky(&self, qualifying: &[u8]) -> Allocation {
        let existing: Vec<u8> = qualifying.iter().chain(self.resting).copied().collect();
        let claims = Claims {
            delivered: self.delivered.as_ref(),
            held: self.held,
            existing: &ids(&existing),
            is_pinned: self.is_pinned,
        };
        allocate(InterfaceOrder::Sticky, some(qualifying), claims)
    }
}

fn renumber(order: InterfaceOrder, candidates: Vec<Candidate>) -> Allocation {
    let claims = Claims { delivered: None, held: &[], existing: &[], is_pinned: false };
    allocate(order, candidates, claims)
}

#[test]
fn an_allocation_that_was_never_delivered_holds_too() {
    let given = Given { held: &[held(0, 5), held(1, 7)], ..NOTHING };
    assert_eq!(assigned(&given.sticky(&[1, 5, 7])), [(0, "p005"), (1, "p007"), (2, "p001")]);
}

#[test]
fn what_was_delivered_counts_before_what_was_allocated() {
    let given = Given { delivered: Some(worker(&[(4, 1)])), held: &[held(0, 1), held(4, 2)], ..NOTHING };
    assert_eq!(assigned(&given.sticky(&[1, 2])), [(0, "p002"), (4, "p001")]);
}

#[test]
fn a_successor_that_is_allocated_but_not_delivered_yet_keeps_its_index() {
    // Port 1 was delivered as multinic0 and is gone, port 5 took its index and is on its way.
    let given =
        Given { delivered: Some(worker(&[(0, 1), (1, 3)])), held: &[held(0, 5), held(1, 3)], ..NOTHING };
    assert_eq!(assigned(&given.sticky(&[2, 3, 5])), [(0, "p005"), (1, "p003"), (2, "p002")]);
}

#[test]
fn a_delivered_port_that_qualifies_again_gets_its_index_back_from_its_successor() {
    let given = Given { delivered: Some(worker(&[(0, 1)])), held: &[held(0, 5)], ..NOTHING };
    assert_eq!(assigned(&given.sticky(&[1, 5])), [(0, "p001"), (1, "p005")]);
}

#[test]
fn the_index_of_a_port_that_does_not_qualify_for_a_while_is_kept_free_for_it() {
    let delivered = || Some(worker(&[(0, 1), (1, 2)]));
    let away = Given { delivered: delivered(), resting: &[1], ..NOTHING }.sticky(&[2, 3]);
    assert_eq!(assigned(&away), [(1, "p002"), (2, "p003")]);
    assert_eq!(away.held, [held(0, 1), held(1, 2), held(2, 3)]);
    let back = Given { delivered: Some(worker(&[(1, 2), (2, 3)])), held: &away.held, ..NOTHING };
    assert_eq!(assigned(&back.sticky(&[1, 2, 3])), [(0, "p001"), (1, "p002"), (2, "p003")]);
}

#[test]
fn a_kept_index_is_given_away_only_when_no_other_is_left() {
    let nine: Vec<u8> = (11..20).collect();
    let given = Given { held: &[held(0, 1)], resting: &[1], ..NOTHING };
    let allocation = given.sticky(&nine);
    assert!(!allocation.assigned.contains_key(&0));
    assert_eq!(allocation.held.len(), 10);
    let ten: Vec<u8> = (11..21).collect();
    let allocation = given.sticky(&ten);
    assert_eq!(allocation.assigned.len(), 10);
    assert!(allocation.cut.is_empty());
    assert!(!allocation.held.contains(&held(0, 1)));
}

#[test]
fn the_index_of_a_port_that_is_gone_is_free() {
    let given =
        Given { delivered: Some(worker(&[(0, 1), (1, 2)])), held: &[held(0, 1), held(1, 2)], ..NOTHING };
    let allocation = given.sticky(&[2, 3]);
    assert_eq!(assigned(&allocation), [(0, "p003"), (1, "p002")]);
    assert_eq!(allocation.held, [held(0, 3), held(1, 2)]);
}

#[test]
fn a_pinned_index_stays_empty_when_its_port_is_gone() {
    let given = Given { delivered: Some(worker(&[(0, 1), (1, 2)])), is_pinned: true, ..NOTHING };
    let allocation = given.sticky(&[2, 3]);
    assert_eq!(assigned(&allocation), [(1, "p002"), (2, "p003")]);
    assert_eq!(allocation.held, [held(0, 1), held(1, 2), held(2, 3)]);
}

#[test]
fn a_pinned_index_is_not_given_away_even_when_it_is_the_last_one() {
    let delivered = worker(&(0..10).map(|index| (index, index + 1)).collect::<Vec<_>>());
    let given = Given { delivered: Some(delivered), is_pinned: true, ..NOTHING };
    let allocation = given.sticky(&[2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(allocation.assigned.len(), 9);
    assert_eq!(allocation.cut, some(&[11]));
}

#[test]
fn a_port_made_anew_with_the_same_mac_is_the_same_nic() {
    for is_pinned in [false, true] {
        let anew = Candidate { port: "again".into(), ..one(1) };
        let existing = [("again".into(), mac(1)), (port_id(2), mac(2))];
        let delivered = worker(&[(3, 1), (5, 2)]);
        let claims = Claims { delivered: Some(&delivered), held: &[], existing: &existing, is_pinned };
        let allocation = allocate(InterfaceOrder::Sticky, vec![anew, one(2)], claims);
        assert_eq!(assigned(&allocation), [(3, "again"), (5, "p002")]);
    }
}

#[test]
fn a_mac_is_no_proof_while_the_port_that_had_it_exists() {
    // The MAC of port 1 was changed and a new port uses the old one.
    let thief = Candidate { mac: mac(1), ..one(9) };
    let owner = Candidate { mac: mac(77), ..one(1) };
    let existing = [(port_id(9), mac(1)), (port_id(1), mac(77))];
    let delivered = worker(&[(3, 1)]);
    let claims = Claims { delivered: Some(&delivered), held: &[], existing: &existing, is_pinned: false };
    let allocation = allocate(InterfaceOrder::Sticky, vec![thief, owner], claims);
    assert_eq!(assigned(&allocation), [(0, "p009"), (3, "p001")]);
}

#[test]
fn records_without_port_ids_are_taken_over_by_mac() {
    let mut delivered = worker(&[(0, 7), (2, 3), (4, 5)]);
    delivered.interfaces.iter_mut().for_each(|interface| interface.port_id = None);
    let given = Given { delivered: Some(delivered), resting: &[5], ..NOTHING };
    let allocation = given.sticky(&[1, 3, 7]);
    assert_eq!(assigned(&allocation), [(0, "p007"), (1, "p001"), (2, "p003")]);
    // The resting one keeps its index by its MAC.
    assert_eq!(allocation.held.last().unwrap(), &Held { index: 4, port: None, mac: mac(5) });
}

#[test]
fn an_index_that_no_node_can_have_is_forgotten() {
    let given = Given { delivered: Some(worker(&[(10, 1), (200, 2)])), held: &[held(11, 3)], ..NOTHING };
    let allocation = given.sticky(&[1, 2, 3]);
    assert_eq!(assigned(&allocation), [(0, "p001"), (1, "p002"), (2, "p003")]);
}

#[test]
fn newcomers_are_cut_by_subnet_then_mac_then_port_in_every_order() {
    let mut all: Vec<Candidate> = (1..=6).map(|n| ranked(n, 1)).collect();
    all.extend((11..=15).map(|n| ranked(n, 0)));
    for order in [InterfaceOrder::Sticky, InterfaceOrder::Mac, InterfaceOrder::Subnet] {
        let allocation = renumber(order, all.clone());
        assert_eq!(allocation.cut, [ranked(6, 1)], "{order:?}");
    }
}

#[test]
fn the_mac_order_renumbers_by_mac_and_the_subnet_order_by_subnet_then_mac() {
    let all = || vec![ranked(3, 0), ranked(1, 1), ranked(2, 0)];
    let by_mac = renumber(InterfaceOrder::Mac, all());
    assert_eq!(assigned(&by_mac), [(0, "p001"), (1, "p002"), (2, "p003")]);
    let by_subnet = renumber(InterfaceOrder::Subnet, all());
    assert_eq!(assigned(&by_subnet), [(0, "p002"), (1, "p003"), (2, "p001")]);
    assert_eq!(by_subnet.held, [held(0, 2), held(1, 3), held(2, 1)]);
}

/// What happens to a VM's ports between two looks.
#[derive(Clone, Debug)]
struct Moment {
    /// Ports that exist, and whether they qualify.
    ports: BTreeMap<u8, bool>,
    /// Whether what this look wants is delivered before the next one.
    is_delivered: bool,
}

fn moments() -> impl Strategy<Value = Vec<Moment>> {
    let ports = prop::collection::btree_map(1_u8..24, prop::bool::weighted(0.8), 0..16);
    let moment = (ports, any::<bool>()).prop_map(|(ports, is_delivered)| Moment { ports, is_delivered });
    prop::collection::vec(moment, 1..12)
}

fn orders() -> impl Strategy<Value = InterfaceOrder> {
    prop::sample::select(vec![InterfaceOrder::Sticky, InterfaceOrder::Mac, InterfaceOrder::Subnet])
}

/// A VM over time, the way its actors live it.
#[derive(Default)]
struct Life {
    delivered: Option<NodeConfig>,
    held: Vec<Held>,
}

impl Life {
    fn look(&mut self, order: InterfaceOrder, moment: &Moment, is_pinned: bool) -> Allocation {
        let qualifying: Vec<u8> = moment.ports.iter().filter(|(_, q)| **q).map(|(n, _)| *n).collect();
        let candidates = qualifying.iter().map(|n| ranked(*n, usize::from(n % 2))).collect();
        let existing = ids(&moment.ports.keys().copied().collect::<Vec<_>>());
        let claims =
            Claims { delivered: self.delivered.as_ref(), held: &self.held, existing: &existing, is_pinned };
        let allocation = allocate(order, candidates, claims);
        self.held.clone_from(&allocation.held);
        if moment.is_delivered && !allocation.assigned.is_empty() {
            self.delivered = Some(as_node(&allocation));
        }
        allocation
    }
}

fn as_node(allocation: &Allocation) -> NodeConfig {
    let number = |candidate: &Candidate| candidate.port.as_str()[1..].parse().unwrap();
    worker(&allocation.assigned.iter().map(|(index, c)| (*index, number(c))).collect::<Vec<_>>())
}

fn index_by_port(allocation: &Allocation) -> HashMap<PortId, u8> {
    allocation.assigned.iter().map(|(index, candidate)| (candidate.port.clone(), *index)).collect()
}

proptest! {
    #[test]
    fn no_order_gives_more_than_ten_nor_one_port_twice_nor_loses_one(
        order in orders(), life in moments(), is_pinned: bool,
    ) {
        let mut vm = Life::default();
        for moment in &life {
            let allocation = vm.look(order, moment, is_pinned);
            prop_assert!(allocation.assigned.keys().all(|index| usize::from(*index) < MAX_INTERFACES));
            let seen: Vec<_> = allocation.assigned.values().chain(&allocation.cut).map(|c| &c.port).collect();
            let unique: BTreeSet<_> = seen.iter().collect();
            prop_assert_eq!(unique.len(), seen.len());
            prop_assert_eq!(seen.len(), moment.ports.values().filter(|q| **q).count());
            let indices: BTreeSet<_> = allocation.held.iter().map(|held| held.index).collect();
            prop_assert_eq!(indices.len(), allocation.held.len());
            if !is_pinned {
                prop_assert!(allocation.cut.is_empty() || allocation.assigned.len() == MAX_INTERFACES);
            }
        }
    }

    #[test]
    fn a_port_that_stays_is_never_renamed(life in moments()) {
        let mut vm = Life::default();
        let mut before = HashMap::new();
        for moment in &life {
            let now = index_by_port(&vm.look(InterfaceOrder::Sticky, moment, false));
            for (port, index) in &now {
                // Only what was delivered and comes back may take its own index again.
                let is_contested = vm.delivered.as_ref().is_some_and(|delivered| {
                    delivered.interfaces.iter().any(|i| {
                        Some(index) != before.get(port)
                            && before.get(port) == Some(&i.id)
                            && i.port_id.as_ref() != Some(port)
                    })
                });
                let is_kept = before.get(port).is_none_or(|earlier| earlier == index);
                prop_assert!(is_kept || is_contested, "{} moved to {}", port, index);
            }
            before = now;
        }
    }

    #[test]
    fn a_port_that_stays_while_all_is_delivered_is_never_renamed_nor_cut(life in moments(), is_pinned: bool) {
        let mut vm = Life::default();
        let mut before: HashMap<PortId, u8> = HashMap::new();
        for moment in life {
            let now = index_by_port(&vm.look(
                InterfaceOrder::Sticky,
                &Moment { is_delivered: true, ..moment.clone() },
                is_pinned,
            ));
            for (port, index) in &before {
                let n: u8 = port.as_str()[1..].parse().unwrap();
                if moment.ports.get(&n) == Some(&true) {
                    prop_assert_eq!(now.get(port), Some(index));
                }
            }
            before = now;
        }
    }

    #[test]
    fn a_port_that_rested_gets_its_index_back_unless_it_was_needed(life in moments()) {
        let mut vm = Life::default();
        let mut last: HashMap<PortId, u8> = HashMap::new();
        for moment in life {
            let moment = Moment { is_delivered: true, ..moment };
            last.retain(|port, _| moment.ports.contains_key(&port.as_str()[1..].parse().unwrap()));
            let allocation = vm.look(InterfaceOrder::Sticky, &moment, false);
            let now = index_by_port(&allocation);
            for (port, index) in &now {
                prop_assert!(last.get(port).is_none_or(|earlier| earlier == index));
            }
            let is_taken = |index: &u8| allocation.assigned.contains_key(index);
            last.retain(|port, index| now.contains_key(port) || !is_taken(index));
            last.extend(now);
        }
    }

    #[test]
    fn a_pinned_index_never_goes_to_another_nic(life in moments()) {
        let mut vm = Life::default();
        for moment in &life {
            let delivered = vm.delivered.clone();
            let allocation = vm.look(InterfaceOrder::Sticky, moment, true);
            for interface in delivered.iter().flat_map(|node| &node.interfaces) {
                let now = allocation.assigned.get(&interface.id);
                prop_assert!(now.is_none_or(|candidate| candidate.mac == interface.mac_address));
            }
        }
    }

    #[test]
    fn the_order_of_the_list_does_not_matter(
        order in orders(), life in moments(), shuffled in Just((1_u8..24).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut vm = Life::default();
        for moment in &life {
            let qualifying: Vec<u8> = moment.ports.iter().filter(|(_, q)| **q).map(|(n, _)| *n).collect();
            let mixed = shuffled.iter().filter(|n| qualifying.contains(n));
            let candidates = mixed.map(|n| ranked(*n, usize::from(n % 2))).collect();
            let existing: Vec<u8> =
                shuffled.iter().rev().filter(|n| moment.ports.contains_key(n)).copied().collect();
            let claims = Claims {
                delivered: vm.delivered.as_ref(),
                held: &vm.held,
                existing: &ids(&existing),
                is_pinned: false,
            };
            let other = allocate(order, candidates, claims);
            prop_assert_eq!(vm.look(order, moment, false), other);
        }
    }

    #[test]
    fn the_same_look_twice_is_the_same_allocation(order in orders(), life in moments()) {
        let mut vm = Life::default();
        for moment in &life {
            let first = vm.look(order, moment, false);
            prop_assert_eq!(first, vm.look(order, moment, false));
        }
    }
}
