use futures::future::join_all;
use multinic_actors::domain::config::{Config, SubnetSelector};
use multinic_actors::domain::ids::{SubnetId, VmId};
use multinic_actors::domain::port::Observation;
use multinic_actors::domain::reason::Reason;
use serde_json::json;

use super::bench::Bench;
use super::fake::{Fault, Links, PROJECT, TooMany, port, subnet};

fn port_count(observation: &Observation) -> usize {
    observation.ports.values().map(Vec::len).sum()
}

#[tokio::test]
async fn a_steady_poll_of_fifty_servers_costs_two_requests() {
    let bench = Bench::start().await;
    let config = bench.config("c", &bench.fake.vms(50));
    let first = bench.poll(&config).await.unwrap();
    assert_eq!((port_count(&first), first.servers.len(), first.subnets.len()), (50, 50, 2));
    for _ in 0..3 {
        bench.fake.clear_log();
        assert_eq!(bench.poll(&config).await.unwrap(), first);
        assert_eq!((bench.fake.count("list ports"), bench.fake.clear_log()), (2, 2));
    }
}

#[tokio::test]
async fn configs_of_one_session_share_subnets_and_names() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(10);
    let configs: Vec<Config> = (0..10).map(|i| bench.config(&format!("c{i}"), &vms)).collect();
    for observation in join_all(configs.iter().map(|config| bench.poll(config))).await {
        observation.unwrap();
    }
    assert_eq!(bench.fake.count("get subnet"), 2);
    assert_eq!(bench.fake.count("get network"), 2);
    assert_eq!(bench.fake.count("list servers") + bench.fake.count("get server"), 1);
}

#[tokio::test]
async fn dropping_the_caches_reads_everything_anew() {
    let bench = Bench::start().await;
    let config = bench.config("c", &bench.fake.vms(1));
    bench.poll(&config).await.unwrap();
    bench.fake.world().networks[0]["mtu"] = json!(1500);
    assert_eq!(bench.poll(&config).await.unwrap().subnets[0].mtu, 1450);
    assert_eq!(bench.poll_anew(&config).await.unwrap().subnets[0].mtu, 1500);
    assert_eq!(bench.fake.count("get server"), 2);
}

#[tokio::test]
async fn pages_are_followed_to_the_end_in_every_form_of_link() {
    for links in [Links::Absolute, Links::Relative, Links::Elsewhere] {
        for page in [1, 3, 4, 12, 13] {
            let bench = Bench::start().await;
            let config = bench.config("c", &bench.fake.vms(12));
            {
                let mut world = bench.fake.world();
                (world.page, world.links) = (page, links);
            }
            assert_eq!(port_count(&bench.poll(&config).await.unwrap()), 12, "{links:?} {page}");
            for request in bench.fake.requests("list ports") {
                assert_eq!(request.values("device_id").len(), 12, "the filters stay");
                assert_eq!(request.values("fields").len(), 9, "the fields stay");
            }
        }
    }
}

#[tokio::test]
async fn a_page_that_fails_fails_the_round() {
    let bench = Bench::start().await;
    let config = bench.config("c", &bench.fake.vms(12));
    bench.poll(&config).await.unwrap();
    bench.fake.world().page = 5;
    let fine =
        Fault::Status(200, r#"{"ports": [], "ports_links": [{"rel": "next", "href": "?marker=port-0004"}]}"#);
    bench.fake.fault("list ports", [fine, Fault::Status(500, "boom")]);
    let error = bench.poll(&config).await.unwrap_err();
    assert_eq!(error.reason, Reason::NeutronPortError);
    assert_eq!(error.message, r#"neutron: list ports: 500 Internal Server Error "boom""#);
}

#[tokio::test]
async fn a_marker_that_is_gone_starts_over() {
    let bench = Bench::start().await;
    let config = bench.config("c", &bench.fake.vms(4));
    let gone =
        Fault::Status(200, r#"{"ports": [], "ports_links": [{"rel": "next", "href": "?marker=gone"}]}"#);
    bench.fake.fault("list ports", [gone.clone()]);
    assert_eq!(port_count(&bench.poll(&config).await.unwrap()), 4);
    assert_eq!(bench.fake.count("list ports"), 3);
    // But not for ever.
    bench.fake.clear_log();
    let not_found =
        Fault::Status(404, r#"{"NeutronError": {"type": "PortNotFound", "message": "Port gone"}}"#);
    let again = [gone.clone(), not_found.clone(), gone.clone(), not_found.clone(), gone, not_found];
    bench.fake.fault("list ports", again);
    assert_eq!(bench.poll(&config).await.unwrap_err().reason, Reason::NeutronPortError);
    assert_eq!(bench.fake.count("list ports"), 6);
}

#[tokio::test]
async fn links_that_go_round_in_a_circle_end_as_an_error() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(1);
    let config = bench.config("c", &vms);
    {
        let mut world = bench.fake.world();
        world.ports.extend([port("port-0001", &vms[0]), port("port-0002", &vms[0])]);
        (world.page, world.links) = (1, Links::Circle);
    }
    let error = bench.poll(&config).await.unwrap_err();
    assert_eq!(error.message, "neutron: list ports: the page links go round in a circle");
}

#[tokio::test]
async fn a_port_on_two_pages_counts_once() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(3);
    let config = bench.config("c", &vms);
    let page = format!(
        r#"{{"ports": [{}], "ports_links": [{{"rel": "next", "href": "?marker=port-0000"}}]}}"#,
        port("port-0001", &vms[1])
    );
    bench.fake.fault("list ports", [Fault::Status(200, Box::leak(page.into_boxed_str()))]);
    let observation = bench.poll(&config).await.unwrap();
    assert_eq!(observation.ports[&VmId::new(&vms[1])].len(), 1);
    assert_eq!(port_count(&observation), 2);
}

#[tokio::test]
async fn a_request_too_long_for_the_front_end_is_halved_and_remembered() {
    for (too_many, most) in [
        (TooMany::Status(400), 10),
        (TooMany::Status(413), 10),
        (TooMany::Status(414), 7),
        (TooMany::Status(431), 1),
        (TooMany::Close, 10),
        (TooMany::LoseFilter, 10),
    ] {
        let bench = Bench::start().await;
        let config = bench.config("c", &bench.fake.vms(20));
        let strangers = port("port-x", "someone-else");
        {
            let mut world = bench.fake.world();
            world.most_ids = Some((most, too_many));
            world.ports.push(strangers);
        }
        assert_eq!(port_count(&bench.poll(&config).await.unwrap()), 20, "{too_many:?}");
        bench.fake.clear_log();
        assert_eq!(port_count(&bench.poll(&config).await.unwrap()), 20, "{too_many:?}");
        let requests = bench.fake.requests("list ports");
        let longest = requests.iter().map(|r| r.values("device_id").len()).max().unwrap();
        assert!(longest <= most && longest * 2 > most, "{too_many:?}: {longest}");
        assert_eq!(requests.len(), 20_usize.div_ceil(longest), "{too_many:?}: no failed ones among them");
    }
}

#[tokio::test]
async fn a_filter_lost_even_for_one_server_is_an_error() {
    let bench = Bench::start().await;
    let config = bench.config("c", &bench.fake.vms(1));
    {
        let mut world = bench.fake.world();
        world.most_ids = Some((0, TooMany::LoseFilter));
        world.ports.push(port("port-x", ""));
    }
    let error = bench.poll(&config).await.unwrap_err();
    assert_eq!(
        error.message,
        "neutron: list ports: the answer has ports of other devices: the filter was lost on the way"
    );
}

#[tokio::test]
async fn a_lost_filter_is_noticed_by_the_pages_where_every_port_is_asked_for() {
    let bench = Bench::start().await;
    let config = bench.config("c", &bench.fake.vms(20));
    {
        let mut world = bench.fake.world();
        (world.most_ids, world.page) = (Some((10, TooMany::LoseFilter)), 8);
    }
    assert_eq!(port_count(&bench.poll(&config).await.unwrap()), 20);
}

#[tokio::test]
async fn a_front_end_that_closes_every_connection_is_an_error_with_a_bound() {
    let bench = Bench::start().await;
    let config = bench.config("c", &bench.fake.vms(32));
    bench.poll(&config).await.unwrap();
    bench.fake.clear_log();
    bench.fake.break_down("list ports", Fault::Close);
    let error = bench.poll(&config).await.unwrap_err();
    assert_eq!(error.message, "neutron: list ports: the connection was closed without an answer");
    assert!(bench.fake.count("list ports") <= 2 * 6, "{}", bench.fake.count("list ports"));
    // The outage taught nothing about lengths.
    bench.fake.world().broken.clear();
    bench.fake.clear_log();
    bench.poll(&config).await.unwrap();
    assert_eq!(bench.fake.count("list ports"), 1);
}

#[tokio::test]
async fn device_ids_compare_without_case() {
    let bench = Bench::start().await;
    let id = "ABCDEF00-0000-0000-0000-000000000001".to_owned();
    bench.fake.world().ports.push(port("p", &id));
    let observation = bench.poll(&bench.config("c", std::slice::from_ref(&id))).await.unwrap();
    assert_eq!(observation.ports[&VmId::new(&id)].len(), 1);
}

#[tokio::test]
async fn an_unreadable_port_is_its_servers_trouble_only() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(2);
    bench.fake.world().ports[0]["mac_address"] = json!("not a mac");
    let observation = bench.poll(&bench.config("c", &vms)).await.unwrap();
    let problem = observation.ports[&VmId::new(&vms[0])][0].as_ref().unwrap_err();
    assert_eq!((problem.id.as_str(), problem.problem.contains("mac_address")), ("port-0000", true));
    assert!(observation.ports[&VmId::new(&vms[1])][0].is_ok());
}

#[tokio::test]
async fn a_port_that_says_not_whose_it_is_fails_the_round() {
    let bench = Bench::start().await;
    let config = bench.config("c", &bench.fake.vms(2));
    bench.fake.world().ports[0]["device_id"] = json!(null);
    let error = bench.poll(&config).await.unwrap_err();
    assert_eq!(error.reason, Reason::NeutronPortError);
    assert_eq!(error.message, r#"neutron: list ports: port "port-0000" has no device_id that can be read"#);
}

#[tokio::test]
async fn ports_of_every_owner_are_handed_on() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(1);
    bench.fake.world().ports[0]["device_owner"] = json!("network:dhcp");
    let observation = bench.poll(&bench.config("c", &vms)).await.unwrap();
    assert_eq!(observation.ports[&VmId::new(&vms[0])][0].as_ref().unwrap().owner, "network:dhcp");
}

#[tokio::test]
async fn an_answer_that_is_no_list_is_an_error() {
    let bench = Bench::start().await;
    let config = bench.config("c", &bench.fake.vms(1));
    for body in ["<html>maintenance</html>", "[]", "{}", r#"{"ports": null}"#, r#"{"ports": ["#, ""] {
        bench.fake.fault("list ports", [Fault::Status(200, body)]);
        assert_eq!(bench.poll(&config).await.unwrap_err().reason, Reason::NeutronPortError, "{body}");
    }
}

fn by_name(bench: &Bench, name: &str) -> Config {
    let mut config = bench.config("c", &[]);
    config.subnets = SubnetSelector::Name(name.to_owned());
    config
}

#[tokio::test]
async fn a_subnet_is_found_by_name_in_the_own_project_first() {
    let bench = Bench::start().await;
    bench.fake.world().subnets = vec![
        subnet("mine", "a b&c", "net-1", PROJECT),
        subnet("theirs", "a b&c", "net-2", "other"),
        subnet("shared", "elsewhere", "net-2", "other"),
        subnet("twice-1", "twice", "net-1", PROJECT),
        subnet("twice-2", "twice", "net-1", PROJECT),
    ];
    let mine = bench.poll(&by_name(&bench, "a b&c")).await.unwrap();
    assert_eq!(mine.subnets[0].id, SubnetId::from("mine"));
    let shared = bench.poll(&by_name(&bench, "elsewhere")).await.unwrap();
    assert_eq!((shared.subnets[0].id.as_str(), shared.subnets[0].mtu), ("shared", 9000));
    let error = bench.poll(&by_name(&bench, "twice")).await.unwrap_err();
    assert_eq!(error.reason, Reason::SubnetNotUnique);
    let error = bench.poll(&by_name(&bench, "none")).await.unwrap_err();
    assert_eq!(error.reason, Reason::SubnetNotFound);
    assert_eq!(error.message, r#"neutron: there is no subnet named "none", or it is not visible"#);
}

#[tokio::test]
async fn subnets_come_in_the_configs_order_without_doubles() {
    let bench = Bench::start().await;
    let mut config = bench.config("c", &[]);
    config.subnets = SubnetSelector::Ids(["sub-2", "sub-1", "sub-2"].map(SubnetId::from).to_vec());
    let subnets = bench.poll(&config).await.unwrap().subnets;
    let ids: Vec<&str> = subnets.iter().map(|subnet| subnet.id.as_str()).collect();
    assert_eq!(ids, ["sub-2", "sub-1"]);
}

#[tokio::test]
async fn a_subnet_or_network_that_cannot_be_read_is_told_by_its_reason() {
    let bench = Bench::start().await;
    let config = bench.config("c", &[]);
    let check = async |operation: &'static str, fault: Fault, reason: Reason, text: &str| {
        bench.fake.fault(operation, [fault.clone(), fault]);
        let error = bench.poll_anew(&config).await.unwrap_err();
        bench.fake.world().faults.clear();
        assert_eq!(error.reason, reason, "{operation}: {error}");
        assert!(error.message.contains(text), "{operation}: {error}");
    };
    let gone =
        r#"{"NeutronError": {"type": "SubnetNotFound", "message": "Subnet sub-1 could not be found."}}"#;
    check("get subnet", Fault::Status(404, gone), Reason::SubnetNotFound, "no subnet sub-1").await;
    let page = "<html><title>404 Not Found</title></html>";
    check("get subnet", Fault::Status(404, page), Reason::NeutronSubnetError, "404").await;
    check("get subnet", Fault::Status(503, ""), Reason::NeutronSubnetError, "503").await;
    check("get subnet", Fault::Status(200, "{}"), Reason::NeutronSubnetError, "no cidr").await;
    check("get network", Fault::Status(404, "{}"), Reason::NeutronNetworkError, "404").await;
    check("get network", Fault::Status(500, "{}"), Reason::NeutronNetworkError, "500").await;
    let no_mtu = r#"{"network": {"id": "net-1", "mtu": null}}"#;
    check("get network", Fault::Status(200, no_mtu), Reason::NeutronNetworkError, "no mtu").await;
    bench.poll_anew(&config).await.unwrap();
}
