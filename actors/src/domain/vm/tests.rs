use super::super::config::{Baseline, InterfaceOrder};
use super::super::port::{Port, UnreadablePort};
use super::super::samples::*;
use super::*;

fn decide(look: &Look) -> Decision {
    step(&VmState::default(), look.input()).1
}

fn delivered(decision: &Decision) -> &NodeConfig {
    match &decision.outcome {
        Outcome::Deliver { node, .. } => node,
        other => panic!("not delivered: {other:?}"),
    }
}

fn rows(decision: &Decision) -> Vec<(u8, u8)> {
    delivered(decision).interfaces.iter().map(|i| (i.id, i.address.octets()[3])).collect()
}

fn skip(decision: &Decision) -> (SkipReason, &str) {
    match &decision.outcome {
        Outcome::Skipped { reason, message } => (*reason, message),
        other => panic!("not skipped: {other:?}"),
    }
}

fn check_name(server: Server, expect: Result<&str, SkipReason>) {
    let look = Look { server, node_name_key: Some("node"), vm: "VM-1".into(), ..Look::at(&[port(1)]) };
    let decision = decide(&look);
    match expect {
        Ok(name) => assert_eq!(delivered(&decision).node_name.as_str(), name),
        Err(reason) => assert_eq!(skip(&decision).0, reason),
    }
    assert_eq!(decision.node.as_ref().map(NodeName::as_str), expect.ok());
}

fn with_metadata(value: &str) -> Server {
    Server::Found { name: "from-name".to_owned(), metadata: [("node".to_owned(), value.to_owned())].into() }
}

#[test]
fn an_interface_has_all_its_fields_from_port_subnet_and_network() {
    let look = Look { ports: listed(&[port(1), port_b(2)]), ..Look::at(&[]) };
    let node = delivered(&decide(&look)).clone();
    let second = Interface {
        address: "192.168.20.2".parse().unwrap(),
        cidr: "192.168.20.0/24".parse().unwrap(),
        mtu: 9000,
        network_id: Some("net-b".into()),
        subnet_id: Some("sub-b".into()),
        ..nic(1, 2)
    };
    assert_eq!(node, NodeConfig { interfaces: vec![nic(0, 1), second], ..worker(&[]) });
}

#[test]
fn the_node_name_comes_from_the_metadata_then_the_name_then_the_vm_where_there_is_no_nova() {
    check_name(with_metadata("Infra-3.Example"), Ok("infra-3.example"));
    check_name(with_metadata("  spaced "), Ok("spaced"));
    check_name(with_metadata(" \t"), Ok("from-name"));
    check_name(server("Worker-1"), Ok("worker-1"));
    check_name(Server::NoComputeService, Ok("vm-1"));
    check_name(Server::Node("from-capi".to_owned()), Ok("from-capi"));
}

#[test]
fn a_node_name_is_never_guessed() {
    check_name(Server::NotFound, Err(SkipReason::ServerNotFound));
    check_name(Server::Unknown("nova: 503".to_owned()), Err(SkipReason::NodeNameUnknown));
    check_name(Server::Pending, Err(SkipReason::NodePending));
    check_name(server("worker_1"), Err(SkipReason::InvalidNodeName));
    check_name(server(""), Err(SkipReason::InvalidNodeName));
    check_name(with_metadata("not a name"), Err(SkipReason::InvalidNodeName));
}

#[test]
fn a_bad_name_comes_with_the_way_out() {
    let decision = decide(&Look { server: server("worker_1"), ..Look::at(&[port(1)]) });
    let (_, message) = skip(&decision);
    assert!(message.contains("worker_1") && message.contains("openstackNodeNameMetadataKey"), "{message}");
    let decision = decide(&Look { server: Server::Unknown("nova: 503".to_owned()), ..Look::at(&[port(1)]) });
    assert!(skip(&decision).1.contains("nova: 503"));
}

#[test]
fn without_the_key_metadata_is_not_looked_at() {
    let look = Look { server: with_metadata("other"), ..Look::at(&[port(1)]) };
    assert_eq!(delivered(&decide(&look)).node_name.as_str(), "from-name");
}

#[test]
fn a_vm_whose_ports_do_not_qualify_is_empty_whatever_its_name() {
    for name in ["worker-1", "worker_1", ""] {
        for ports in [vec![], vec![with_status(1, "ERROR")]] {
            let decision = decide(&Look { server: server(name), ..Look::at(&ports) });
            assert_eq!(decision.outcome, Outcome::Empty, "{name:?}");
        }
    }
}

#[test]
fn a_vm_that_is_gone_is_told_of_even_without_ports() {
    let decision = decide(&Look { server: Server::NotFound, ..Look::at(&[]) });
    assert_eq!(skip(&decision).0, SkipReason::ServerNotFound);
}

#[test]
fn one_unreadable_port_skips_the_vm_and_the_verdicts_still_tell_of_all() {
    let mut look = Look::at(&[port(1)]);
    look.ports.push(Err(UnreadablePort { id: "bad".into(), problem: "no network_id".to_owned() }));
    let decision = decide(&look);
    assert_eq!(skip(&decision), (SkipReason::InvalidPort, "port bad cannot be read: no network_id"));
    let verdicts: Vec<_> = decision.verdicts.iter().map(|v| v.verdict).collect();
    assert_eq!(verdicts, [Verdict::Selected, Verdict::Unreadable]);
}

#[test]
fn an_unreadable_port_skips_even_a_vm_without_others() {
    let look = Look {
        ports: vec![Err(UnreadablePort { id: "bad".into(), problem: "x".to_owned() })],
        ..Look::at(&[])
    };
    assert_eq!(skip(&decide(&look)).0, SkipReason::InvalidPort);
}

#[test]
fn an_mtu_outside_the_agents_range_skips_the_vm() {
    let with_mtu = |mtu: i64| Look {
        subnets: vec![subnet("sub-a", "net-a", "192.168.10.0/24", mtu)],
        ..Look::at(&[port(1)])
    };
    for mtu in [68, 1450, 9000] {
        assert_eq!(i64::from(delivered(&decide(&with_mtu(mtu))).interfaces[0].mtu), mtu);
    }
    for mtu in [i64::MIN, -1, 0, 67, 9001, 65536 + 1450, i64::MAX] {
        let decision = decide(&with_mtu(mtu));
        let (reason, message) = skip(&decision);
        assert_eq!(reason, SkipReason::InvalidPort);
        assert!(message.contains(&mtu.to_string()) && message.contains("68 to 9000"), "{message}");
    }
}

#[test]
fn an_address_outside_its_subnet_skips_the_vm() {
    let stray = Port { fixed_ips: vec![ip("sub-a", "192.168.11.1")], ..port(1) };
    assert_eq!(skip(&decide(&Look::at(&[stray, port(2)]))).0, SkipReason::InvalidPort);
}

#[test]
fn an_unusable_mtu_of_a_network_that_no_port_uses_does_no_harm() {
    let mut look = Look::at(&[port(1)]);
    look.subnets[1].mtu = 0;
    assert_eq!(rows(&decide(&look)), [(0, 1)]);
}

#[test]
fn the_eleventh_port_is_over_the_limit_and_the_rest_say_which_interface_they_are() {
    let ports: Vec<_> = (1..=11).map(port).collect();
    let decision = decide(&Look::at(&ports));
    assert_eq!(delivered(&decision).interfaces.len(), 10);
    let last = decision.verdicts.last().unwrap();
    assert_eq!((last.verdict, last.interface.as_deref()), (Verdict::OverLimit, None));
    assert_eq!(decision.verdicts[3].interface.as_deref(), Some("multinic3"));
}

#[test]
fn only_down_ports_that_are_sent_count_as_down() {
    let mut ports: Vec<_> = (1..=10).map(port).collect();
    ports[4] = with_status(5, "DOWN");
    ports.push(with_status(11, "DOWN"));
    let decision = decide(&Look::at(&ports));
    assert!(matches!(&decision.outcome, Outcome::Deliver { down, .. } if *down == [port_id(5)].into()));
}

#[test]
fn a_skipped_vm_keeps_what_it_holds() {
    let (state, first) = step(&VmState::default(), Look::at(&[port(1), port(2)]).input());
    assert_eq!(first.held, state.held);
    let looks = [
        Look { server: Server::NotFound, ..Look::at(&[]) },
        Look {
            ports: vec![Err(UnreadablePort { id: "p".into(), problem: "x".to_owned() })],
            ..Look::at(&[])
        },
    ];
    for look in looks {
        let (after, decision) = step(&state, look.input());
        assert!(matches!(decision.outcome, Outcome::Skipped { .. }));
        assert_eq!((&after.held, &decision.held), (&state.held, &state.held));
    }
}

#[test]
fn a_look_that_shows_nothing_of_a_vm_forgets_what_it_held() {
    let (state, _) = step(&VmState::default(), Look::at(&[port(1)]).input());
    let (state, decision) = step(&state, Look::at(&[]).input());
    assert_eq!((decision.outcome, state), (Outcome::Empty, VmState::default()));
}

#[test]
fn a_port_in_build_stays_for_the_window_and_comes_back_to_its_place_later() {
    let start = Instant::now();
    let mut state = VmState::default();
    let mut look = |seconds: u32, first: Port, before: &[(u8, u8)]| {
        let ports = [first, port(2)];
        let (after, decision) = step(
            &state,
            Look { now: start + seconds * SECOND, ..Look::at(&ports).after(worker(before)) }.input(),
        );
        state = after;
        rows(&decision)
    };
    let both = [(0, 1), (1, 2)];
    assert_eq!(look(0, with_status(1, "BUILD"), &both), both);
    assert_eq!(look(180, with_status(1, "BUILD"), &both), both);
    assert_eq!(look(181, with_status(1, "BUILD"), &both), [(1, 2)]);
    assert_eq!(look(200, with_status(1, "BUILD"), &[(1, 2)]), [(1, 2)]);
    assert_eq!(look(220, port(1), &[(1, 2)]), both);
}

#[test]
fn a_delivered_port_that_was_away_is_not_dropped_by_the_baseline_when_it_is_back() {
    // The object was made anew after the port, and the port was in ERROR for a while.
    let since_march = SelectionRules { baseline: Baseline::Since(time("2026-03-01T00:00:00Z")), ..rules() };
    let look = |first: Port, before: &[(u8, u8)]| Look {
        rules: since_march.clone(),
        ..Look::at(&[first, port(2)]).after(worker(before))
    };
    let (state, away) = step(&VmState::default(), look(with_status(1, "ERROR"), &[(0, 1), (1, 2)]).input());
    assert_eq!(rows(&away), [(1, 2)]);
    let (_, back) = step(&state, look(port(1), &[(1, 2)]).input());
    assert_eq!(rows(&back), [(0, 1), (1, 2)]);
}

#[test]
fn a_port_that_was_never_taken_is_dropped_by_the_baseline_at_every_look() {
    let old = Port { created_at: Some("2020-01-01T00:00:00Z".to_owned()), ..port(1) };
    let (state, _) = step(&VmState::default(), Look::at(&[old.clone(), port(2)]).input());
    let (_, again) = step(&state, Look::at(&[old, port(2)]).input());
    assert_eq!(rows(&again), [(0, 2)]);
}

#[test]
fn a_restart_from_the_inventory_changes_no_index() {
    let (state, first) = step(&VmState::default(), Look::at(&[port(7), port(9)]).input());
    let (_, later) = step(&state, Look::at(&[port(3), port(7), port(9)]).input());
    let restarted = VmState { held: state.held, ..VmState::default() };
    let (_, again) = step(&restarted, Look::at(&[port(3), port(7), port(9)]).input());
    assert_eq!(rows(&first), [(0, 7), (1, 9)]);
    assert_eq!(rows(&later), [(0, 7), (1, 9), (2, 3)]);
    assert_eq!(rows(&again), rows(&later));
    // Nothing but the record is left.
    let look = Look::at(&[port(3), port(7), port(9)]).after(worker(&[(0, 7), (1, 9)]));
    assert_eq!(rows(&decide(&look)), rows(&later));
}

#[test]
fn the_record_of_the_previous_operator_is_taken_over_as_it_is() {
    let mut record = worker(&[(0, 7), (1, 3)]);
    record.interfaces.iter_mut().for_each(|nic| {
        (nic.port_id, nic.device_id, nic.network_id, nic.subnet_id) = (None, None, None, None);
    });
    let old = Port { created_at: Some("2020-01-01T00:00:00Z".to_owned()), ..port(7) };
    let decision = decide(&Look::at(&[port(1), port(3), old]).after(record.clone()));
    assert_eq!(rows(&decision), [(0, 7), (1, 3), (2, 1)]);
    let decision = decide(&Look::at(&[port(3), port(7)]).after(record.clone()));
    assert!(delivered(&decision).is_same(&record));
}

#[test]
fn orders_other_than_sticky_renumber_at_every_look() {
    let look = Look {
        rules: SelectionRules { order: InterfaceOrder::Mac, ..rules() },
        ..Look::at(&[port(1), port(2)]).after(worker(&[(0, 2)]))
    };
    assert_eq!(rows(&decide(&look)), [(0, 1), (1, 2)]);
}

#[test]
fn a_vm_that_could_not_be_decided_holds_nothing_and_sends_nothing() {
    let decision = Decision::undecided("vm-1".into(), "its actor failed");
    assert_eq!(skip(&decision), (SkipReason::NotDecided, "its actor failed"));
    assert!(decision.held.is_empty() && decision.node.is_none());
}
