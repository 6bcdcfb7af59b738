use super::super::config::AllowedStatuses;
use super::super::port::UnreadablePort;
use super::super::samples::*;
use super::*;
use std::time::Duration;

const BUILD: &str = "BUILD";

/// A selection with what a test leaves open filled in.
struct Given {
    rules: SelectionRules,
    subnets: Vec<TargetSubnet>,
    delivered: HashSet<PortId>,
    delivered_macs: HashSet<Mac>,
    held: Vec<Held>,
    rewiring: BTreeMap<PortId, Instant>,
    now: Instant,
}

fn given() -> Given {
    Given {
        rules: rules(),
        subnets: subnets(),
        delivered: HashSet::new(),
        delivered_macs: HashSet::new(),
        held: Vec::new(),
        rewiring: BTreeMap::new(),
        now: Instant::now(),
    }
}

impl Given {
    fn delivered(mut self, n: u8) -> Self {
        self.delivered.insert(port_id(n));
        self
    }

    fn select(&self, ports: &[ListedPort]) -> Selection {
        let context = Context {
            rules: &self.rules,
            subnets: &self.subnets,
            delivered: &self.delivered,
            delivered_macs: &self.delivered_macs,
            held: &self.held,
            rewiring: &self.rewiring,
            now: self.now,
        };
        select(ports, context)
    }

    fn verdict(&self, port: Port) -> Verdict {
        self.select(&[Ok(port)]).verdicts[0].verdict
    }
}

fn unreadable(id: &str) -> ListedPort {
    Err(UnreadablePort { id: id.into(), problem: "mac_address is missing".to_owned() })
}

/// A port that breaks every rule at once, and the changes that mend one rule after the other.
#[test]
fn the_first_rule_that_leaves_a_port_out_is_its_verdict() {
    let given = Given { rules: SelectionRules { project: Some("proj".into()), ..rules() }, ..given() };
    let mut bad = Port {
        owner: "network:dhcp".to_owned(),
        project: Some("admin".into()),
        created_at: None,
        fixed_ips: vec![ip("sub-6", "fd00::1")],
        ..with_status(1, "ERROR")
    };
    let mut seen = vec![given.verdict(bad.clone())];
    let mends: [fn(&mut Port); 7] = [
        |port| port.owner = String::new(),
        |port| port.project = Some("proj".into()),
        |port| port.status = None,
        |port| port.fixed_ips = vec![ip("sub-x", "10.0.0.1")],
        |port| port.fixed_ips = vec![ip("sub-a", "192.168.10.1")],
        |port| port.created_at = Some("2026-01-09T23:59:59Z".to_owned()),
        |port| port.created_at = Some("2026-01-10T00:00:00Z".to_owned()),
    ];
    for mend in mends {
        mend(&mut bad);
        seen.push(given.verdict(bad.clone()));
    }
    assert_eq!(
        seen,
        [
            Verdict::OwnerNotCompute,
            Verdict::OtherProject,
            Verdict::StatusNotAllowed,
            Verdict::NoIPv4,
            Verdict::NoTargetSubnet,
            Verdict::NoCreationTime,
            Verdict::BeforeBaseline,
            Verdict::Selected,
        ]
    );
}

#[test]
fn only_ports_of_servers_are_taken() {
    let verdict = |owner: &str| given().verdict(Port { owner: owner.to_owned(), ..port(1) });
    assert_eq!(verdict(""), Verdict::Selected);
    assert_eq!(verdict("compute:nova"), Verdict::Selected);
    assert_eq!(verdict("compute:"), Verdict::Selected);
    for other in ["compute", "network:dhcp", "network:router_interface", "baremetal:none", "Compute:nova"] {
        assert_eq!(verdict(other), Verdict::OwnerNotCompute, "{other}");
    }
}

#[test]
fn any_project_is_taken_unless_the_rules_name_one() {
    let foreign = Port { project: Some("admin".into()), ..port(1) };
    let nobodys = Port { project: None, ..port(1) };
    assert_eq!(given().verdict(foreign.clone()), Verdict::Selected);
    assert_eq!(given().verdict(nobodys.clone()), Verdict::Selected);
    let own = Given { rules: SelectionRules { project: Some("proj".into()), ..rules() }, ..given() };
    assert_eq!(own.verdict(port(1)), Verdict::Selected);
    assert_eq!(own.verdict(foreign), Verdict::OtherProject);
    assert_eq!(own.verdict(nobodys), Verdict::OtherProject);
}

#[test]
fn a_star_allows_every_status_and_a_port_without_one_always_passes() {
    let all = Given { rules: SelectionRules { statuses: AllowedStatuses::All, ..rules() }, ..given() };
    for status in [None, Some("ACTIVE"), Some("down"), Some(BUILD), Some("ERROR"), Some("N/A")] {
        let port = Port { status: status.map(str::to_owned), ..port(1) };
        let is_allowed = !matches!(status, Some(BUILD | "ERROR" | "N/A"));
        let expect = if is_allowed { Verdict::Selected } else { Verdict::StatusNotAllowed };
        assert_eq!(given().verdict(port.clone()), expect, "{status:?}");
        assert_eq!(all.verdict(port), Verdict::Selected, "{status:?}");
    }
}

#[test]
fn only_a_down_port_counts_as_down() {
    for (status, is_down) in [("ACTIVE", false), ("DOWN", true), ("down", true)] {
        let selection = given().select(&[Ok(with_status(1, status))]);
        assert_eq!(selection.candidates[0].is_down, is_down, "{status}");
    }
}

#[test]
fn a_delivered_port_may_pass_through_build_up_to_the_window_and_not_longer() {
    let start = Instant::now();
    let mut given = given().delivered(1);
    for (second, expect) in [
        (0, Verdict::Selected),
        (179, Verdict::Selected),
        (180, Verdict::Selected),
        (181, Verdict::StatusNotAllowed),
    ] {
        given.now = start + second * SECOND;
        let selection = given.select(&[Ok(with_status(1, BUILD))]);
        assert_eq!(selection.verdicts[0].verdict, expect, "after {second} s");
        assert_eq!(selection.rewiring, BTreeMap::from([(port_id(1), start)]));
        given.rewiring = selection.rewiring;
    }
}

#[test]
fn a_port_that_was_active_in_between_gets_the_whole_window_again() {
    let start = Instant::now();
    let mut given = given().delivered(1);
    given.rewiring = BTreeMap::from([(port_id(1), start)]);
    given.now = start + 100 * SECOND;
    given.rewiring = given.select(&[Ok(port(1))]).rewiring;
    assert!(given.rewiring.is_empty());
    given.now = start + 300 * SECOND;
    assert_eq!(given.verdict(with_status(1, BUILD)), Verdict::Selected);
}

#[test]
fn build_is_no_excuse_for_a_new_port_nor_any_other_status_for_a_delivered_one() {
    assert_eq!(given().verdict(with_status(1, BUILD)), Verdict::StatusNotAllowed);
    assert_eq!(given().delivered(1).verdict(with_status(1, "ERROR")), Verdict::StatusNotAllowed);
    assert_eq!(given().delivered(2).verdict(with_status(1, BUILD)), Verdict::StatusNotAllowed);
}

#[test]
fn a_delivered_port_of_a_record_without_port_ids_is_known_by_its_mac() {
    let mut given = given();
    given.delivered_macs.insert(mac(1));
    assert_eq!(given.verdict(with_status(1, BUILD)), Verdict::Selected);
    assert_eq!(given.verdict(Port { created_at: None, ..port(1) }), Verdict::Selected);
    assert_eq!(given.verdict(Port { created_at: None, ..port(2) }), Verdict::NoCreationTime);
}

#[test]
fn the_baseline_never_drops_a_delivered_port() {
    for created in [None, Some("2019-01-01T00:00:00Z"), Some("yesterday")] {
        let old = Port { created_at: created.map(str::to_owned), ..port(1) };
        assert_ne!(given().verdict(old.clone()), Verdict::Selected, "{created:?}");
        assert_eq!(given().delivered(1).verdict(old), Verdict::Selected, "{created:?}");
    }
}

#[test]
fn a_port_that_holds_an_index_passes_the_baseline_but_gets_no_grace() {
    let given = Given { held: vec![Held { index: 4, port: Some(port_id(1)), mac: mac(1) }], ..given() };
    assert_eq!(given.verdict(Port { created_at: None, ..port(1) }), Verdict::Selected);
    assert_eq!(given.verdict(with_status(1, BUILD)), Verdict::StatusNotAllowed);
}

#[test]
fn without_a_baseline_the_creation_time_does_not_matter() {
    let any = Given { rules: SelectionRules { baseline: Baseline::Any, ..rules() }, ..given() };
    for created in [None, Some("2019-01-01T00:00:00Z"), Some("yesterday")] {
        let port = Port { created_at: created.map(str::to_owned), ..port(1) };
        assert_eq!(any.verdict(port), Verdict::Selected, "{created:?}");
    }
}

#[test]
fn the_baseline_is_compared_in_whole_seconds() {
    let since = |text: &str| {
        let baseline = Baseline::Since(time(text));
        Given { rules: SelectionRules { baseline, ..rules() }, ..given() }
    };
    let created = |text: &str| Port { created_at: Some(text.to_owned()), ..port(1) };
    let given = since("2026-01-10T00:00:00.900Z");
    assert_eq!(given.verdict(created("2026-01-10T00:00:00Z")), Verdict::Selected);
    assert_eq!(given.verdict(created("2026-01-10T00:00:00.100Z")), Verdict::Selected);
    assert_eq!(given.verdict(created("2026-01-09T23:59:59.999Z")), Verdict::BeforeBaseline);
}

#[test]
fn a_creation_time_is_read_in_every_spelling_that_clouds_use() {
    let noon = time("2026-01-10T12:00:00Z");
    for text in [
        "2026-01-10T12:00:00Z",
        "2026-01-10t12:00:00z",
        "2026-01-10T12:00:00",
        "2026-01-10 12:00:00",
        "2026-01-10T12:00:00.000000",
        "2026-01-10T21:00:00+09:00",
        "2026-01-10T21:00:00+0900",
        "2026-01-10T06:30:00-05:30",
        "2026-01-10T12:00:00+00:00",
        " 2026-01-10T12:00:00Z\n",
    ] {
        assert_eq!(parse_created_at(text), Some(noon), "{text:?}");
    }
    let fraction = parse_created_at("2026-01-10T12:00:00.25Z").unwrap();
    assert_eq!(fraction, noon + Duration::from_millis(250));
    assert_eq!(parse_created_at("2026-01-10T12:00:00.25"), Some(fraction));
}

#[test]
fn a_leap_second_is_the_last_second_of_its_minute() {
    let last = time("2016-12-31T23:59:59Z");
    for text in ["2016-12-31T23:59:60Z", "2016-12-31T23:59:60"] {
        assert_eq!(parse_created_at(text), Some(last), "{text}");
    }
}

#[test]
fn what_is_no_moment_is_not_read() {
    for text in [
        "",
        " ",
        "yesterday",
        "2026-01-10",
        "20260110",
        "1768003200",
        "2026-13-10T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-10T25:00:00Z",
        "2026-01-10T00:00:00 UTC",
        "0000-00-00T00:00:00",
        "10/01/2026 00:00:00",
        "2026-01-10T",
        "한국",
    ] {
        assert_eq!(parse_created_at(text), None, "{text:?}");
    }
}

#[test]
fn the_subnets_order_chooses_before_the_address() {
    let both = Port {
        fixed_ips: vec![
            ip("sub-c", "192.168.10.1"),
            ip("sub-a", "192.168.10.9"),
            ip("sub-a", "192.168.10.10"),
        ],
        ..port(1)
    };
    let mut given = given();
    given.subnets.insert(0, subnet("sub-6", "net-a", "fd00::/64", 1450));
    let chosen = |given: &Given| {
        let selection = given.select(&[Ok(both.clone())]);
        (selection.candidates[0].subnet_rank, selection.candidates[0].address.to_string())
    };
    assert_eq!(chosen(&given), (1, "192.168.10.9".to_owned()));
    given.subnets.push(subnet("sub-c", "net-a", "192.168.10.0/24", 1450));
    assert_eq!(chosen(&given), (1, "192.168.10.9".to_owned()));
    given.subnets.swap(1, 3);
    assert_eq!(chosen(&given), (1, "192.168.10.1".to_owned()));
}

#[test]
fn an_address_counts_only_on_its_subnets_own_network() {
    assert_eq!(given().verdict(Port { network: "net-b".into(), ..port(1) }), Verdict::NoTargetSubnet);
}

#[test]
fn a_port_without_addresses_or_with_ipv6_only_has_no_ipv4() {
    assert_eq!(given().verdict(Port { fixed_ips: Vec::new(), ..port(1) }), Verdict::NoIPv4);
    let mapped = Port { fixed_ips: vec![ip("sub-a", "::ffff:192.168.10.1")], ..port(1) };
    assert_eq!(given().verdict(mapped), Verdict::NoIPv4);
}

#[test]
fn every_port_has_one_verdict_in_the_lists_order_and_the_facts_behind_it() {
    let ports = [Ok(port(3)), unreadable("bad"), Ok(with_status(1, "ERROR")), Ok(port(2))];
    let selection = given().select(&ports);
    let rows: Vec<_> =
        selection.verdicts.iter().map(|v| (v.port.as_str(), v.verdict, v.detail.as_str())).collect();
    assert_eq!(
        rows,
        [
            ("p003", Verdict::Selected, "192.168.10.3"),
            ("bad", Verdict::Unreadable, "mac_address is missing"),
            ("p001", Verdict::StatusNotAllowed, "status ERROR"),
            ("p002", Verdict::Selected, "192.168.10.2"),
        ]
    );
    assert_eq!(selection.candidates.len(), 2);
}

#[test]
fn an_unreadable_port_is_the_problem_even_beside_a_doubled_mac() {
    let twin = Port { mac: mac(1), ..port(2) };
    let selection = given().select(&[Ok(port(1)), Ok(twin), unreadable("bad"), unreadable("worse")]);
    assert_eq!(selection.problem.as_deref(), Some("port bad cannot be read: mac_address is missing"));
}

#[test]
fn two_ports_of_a_vm_with_one_mac_are_a_problem_once_one_of_them_is_selected() {
    let problem = |ports: &[Port]| given().select(&listed(ports)).problem;
    let twin = Port { mac: mac(1), ..port(2) };
    let text = "ports p001 and p002 have the same MAC fa:16:3e:00:00:01";
    assert_eq!(problem(&[port(1), twin.clone()]).as_deref(), Some(text));
    // The other one is a NIC of the VM too, although no target subnet has it.
    let elsewhere = Port { fixed_ips: vec![ip("sub-x", "10.0.0.2")], ..twin.clone() };
    assert_eq!(problem(&[port(1), elsewhere.clone()]).as_deref(), Some(text));
    assert_eq!(problem(&[elsewhere.clone(), port(1)]).as_deref(), Some(text));
    // None of them would be sent, or the other is no NIC of the VM.
    assert_eq!(problem(&[elsewhere.clone(), Port { id: "p009".into(), ..elsewhere }]), None);
    assert_eq!(problem(&[port(1), Port { owner: "network:dhcp".to_owned(), ..twin }]), None);
}
