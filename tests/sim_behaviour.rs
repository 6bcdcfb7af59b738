//! What the simulated cloud can be told to do: faults, reachability, counters,
//! and what its objects do over their lives.

#![allow(clippy::unwrap_used, clippy::panic)] // A test's helpers may fail it.

mod sim_client;

use std::collections::BTreeSet;
use std::time::Duration;

use multinic_operator::sim::{
    Fault, FaultRule, FrontEnd, Operation, PageLinks, PortSpec, Reachability, Service, Settings, SimCloud,
    When,
};
use serde_json::{Value, json};
use sim_client::{Client, Reply, get, request};

/// A project with a user, a network, a subnet, a server, and ports on it.
struct Story {
    cloud: SimCloud,
    project: String,
    network: String,
    subnet: String,
    server: String,
    user: String,
}

impl Story {
    fn new() -> Self {
        let cloud = SimCloud::start_with(Settings::default()).unwrap();
        let project = cloud.add_project("p");
        let user = cloud.add_user("u", "pw");
        cloud.grant(&user, &project, "member");
        let network = cloud.add_network(&project, "net", 1450);
        let subnet = cloud.add_subnet(&network, "sub", "10.0.0.0/24");
        let server = cloud.add_server(&project, "Node-1", &[]);
        Self {
            cloud,
            project,
            network,
            subnet,
            server,
            user,
        }
    }

    fn with_ports(count: usize) -> Self {
        let story = Self::new();
        (0..count).for_each(|_| drop(story.add_port()));
        story
    }

    fn add_port(&self) -> String {
        self.cloud.add_port(
            PortSpec::new(&self.network)
                .server(&self.server)
                .subnet(&self.subnet),
        )
    }

    fn neutron(&self) -> String {
        self.cloud.url(Service::Neutron)
    }

    fn log_in(&self) -> Reply {
        let user = json!({"name": "u", "domain": {"name": "default"}, "password": "pw"});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let body = json!({"auth": {"identity": identity, "scope": {"project": {"id": self.project}}}});
        request(
            &self.cloud.url(Service::Keystone),
            "POST",
            "/v3/auth/tokens",
            &[],
            &body.to_string(),
        )
        .unwrap()
    }

    fn token(&self) -> String {
        self.log_in().header("x-subject-token").unwrap().to_owned()
    }

    fn ports(&self, token: &str) -> std::io::Result<Reply> {
        get(&self.neutron(), "/v2.0/ports", token)
    }

    fn fault(&self, operation: Operation, fault: Fault) {
        self.cloud.add_fault(FaultRule::new(fault).operation(operation));
    }
}

#[test]
fn a_status_fault_is_worded_as_the_service_does_it() {
    let story = Story::new();
    let token = story.token();
    for (fault, status, retry_after) in [
        (Fault::Unauthorized, 401, None),
        (Fault::Forbidden, 403, None),
        (Fault::TooManyRequests(Some("7".into())), 429, Some("7")),
        (Fault::TooManyRequests(None), 429, None),
        (Fault::StatusRetryAfter(503, "3".into()), 503, Some("3")),
        (Fault::Status(500), 500, None),
    ] {
        let id = story
            .cloud
            .add_fault(FaultRule::new(fault.clone()).service(Service::Neutron));
        let reply = story.ports(&token).unwrap();
        assert_eq!(
            (reply.status, reply.header("retry-after")),
            (status, retry_after),
            "{fault:?}"
        );
        assert!(reply.json().is_object(), "{fault:?}");
        story.cloud.clear_fault(id);
    }
    story.fault(Operation::ListPorts, Fault::HtmlStatus(502));
    let reply = story.ports(&token).unwrap();
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (502, Some("text/html; charset=utf-8"))
    );
}

#[test]
fn a_reset_a_lost_answer_and_a_cut_body_end_the_connection() {
    let story = Story::with_ports(2);
    let token = story.token();
    for fault in [Fault::Reset, Fault::LoseAnswer, Fault::CutBody] {
        story.fault(Operation::ListPorts, fault.clone());
        assert!(story.ports(&token).is_err(), "{fault:?}");
        story.cloud.clear_faults();
    }
    assert_eq!(story.ports(&token).unwrap().status, 200);
}

#[test]
fn spoilt_bodies_come_with_status_200() {
    let story = Story::with_ports(4);
    let token = story.token();
    let served = |fault: Fault| {
        story.cloud.clear_faults();
        story.fault(Operation::ListPorts, fault);
        let reply = get(&story.neutron(), "/v2.0/ports?limit=4", &token).unwrap();
        assert_eq!(reply.status, 200);
        serde_json::from_str::<Value>(&reply.body).ok()
    };
    assert_eq!(served(Fault::TruncatedJson), None);
    assert_eq!(served(Fault::HtmlInsteadOfJson), None);
    assert!(served(Fault::WrongShape).unwrap()["ports"].is_string());
    assert_eq!(served(Fault::EmptyList), Some(json!({"ports": []})));
    let half = served(Fault::HalfList).unwrap();
    assert_eq!(half["ports"].as_array().unwrap().len(), 2);
    assert_eq!(half.get("ports_links"), None);
}

#[test]
fn a_lost_filter_returns_everything() {
    let story = Story::with_ports(3);
    let token = story.token();
    let nothing = "/v2.0/ports?device_id=0e9d1f2c-0000-4000-8000-000000000000";
    assert_eq!(
        get(&story.neutron(), nothing, &token).unwrap().ids("ports").len(),
        0
    );
    story.fault(Operation::ListPorts, Fault::LostFilter);
    assert_eq!(
        get(&story.neutron(), nothing, &token).unwrap().ids("ports").len(),
        3
    );
}

#[test]
fn a_rule_hits_only_the_turns_it_names() {
    let story = Story::new();
    let token = story.token();
    let statuses = |when: When| {
        story.cloud.clear_faults();
        let rule = FaultRule::new(Fault::Status(500)).operation(Operation::ListPorts);
        story.cloud.add_fault(rule.when(when));
        (0..4)
            .map(|_| story.ports(&token).unwrap().status)
            .collect::<Vec<_>>()
    };
    assert_eq!(statuses(When::Always), [500, 500, 500, 500]);
    assert_eq!(statuses(When::Nth(2)), [200, 500, 200, 200]);
    assert_eq!(statuses(When::First(2)), [500, 500, 200, 200]);
    assert_eq!(statuses(When::After(3)), [200, 200, 200, 500]);
    assert_eq!(statuses(When::Probability(1.0)), [500, 500, 500, 500]);
    assert_eq!(statuses(When::Probability(0.0)), [200, 200, 200, 200]);
    assert_eq!(
        statuses(When::ReusedConnection),
        [200, 200, 200, 200],
        "every request had its own"
    );
}

#[test]
fn the_same_seed_throws_the_same_dice() {
    let throw = || {
        let story = Story::new();
        let token = story.token();
        story
            .cloud
            .add_fault(FaultRule::new(Fault::Status(500)).when(When::Probability(0.5)));
        (0..20)
            .map(|_| story.ports(&token).unwrap().status)
            .collect::<Vec<_>>()
    };
    let first = throw();
    assert_eq!(first, throw());
    assert!(first.contains(&200) && first.contains(&500), "{first:?}");
}

#[test]
fn a_fault_can_hit_one_page_of_a_list() {
    let story = Story::with_ports(5);
    let token = story.token();
    let rule = FaultRule::new(Fault::Status(500))
        .operation(Operation::ListPorts)
        .when(When::Page(2));
    story.cloud.add_fault(rule);
    let first = get(&story.neutron(), "/v2.0/ports?limit=2", &token).unwrap();
    let ids = first.ids("ports");
    assert_eq!((first.status, ids.len()), (200, 2));
    let second = get(
        &story.neutron(),
        &format!("/v2.0/ports?limit=2&marker={}", ids[1]),
        &token,
    )
    .unwrap();
    assert_eq!(second.status, 500);
}

#[test]
fn a_fault_can_hit_requests_that_hold_a_text() {
    let story = Story::new();
    let token = story.token();
    let other = story.cloud.add_network(&story.project, "other", 1500);
    story
        .cloud
        .add_fault(FaultRule::new(Fault::Status(500)).containing(&other));
    let show = |id: &str| {
        get(&story.neutron(), &format!("/v2.0/networks/{id}"), &token)
            .unwrap()
            .status
    };
    assert_eq!((show(&story.network), show(&other)), (200, 500));
}

#[test]
fn a_hanging_request_counts_as_in_flight_until_its_connection_is_dropped() {
    let story = Story::new();
    let token = story.token();
    story.fault(Operation::ListPorts, Fault::Hang);
    let waiting = std::thread::spawn({
        let (url, token) = (story.neutron(), token.clone());
        move || get(&url, "/v2.0/ports", &token).is_err()
    });
    wait_for("a request in flight", || {
        story.cloud.counters().in_flight(Service::Neutron) == 1
    });
    story.cloud.drop_connections(Service::Neutron);
    assert!(waiting.join().unwrap(), "it got no answer");
    wait_for("nothing in flight", || {
        story.cloud.counters().in_flight(Service::Neutron) == 0
    });
    assert_eq!(story.cloud.counters().max_in_flight(Service::Neutron), 1);
}

/// Polls with a deadline: other threads must be given the processor.
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "never saw: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn requests_and_connections_are_counted_apart() {
    let story = Story::new();
    let token = story.token();
    story.cloud.reset_counters();
    let mut client = Client::connect(&story.neutron()).unwrap();
    for _ in 0..3 {
        client
            .send("GET", "/v2.0/ports", &[("X-Auth-Token", &token)], "")
            .unwrap();
    }
    client
        .send(
            "GET",
            &format!("/v2.0/subnets/{}", story.subnet),
            &[("X-Auth-Token", &token)],
            "",
        )
        .unwrap();
    let counters = story.cloud.counters();
    assert_eq!(counters.requests(Service::Neutron, Operation::ListPorts), 3);
    assert_eq!(counters.requests(Service::Neutron, Operation::ShowSubnet), 1);
    assert_eq!((counters.total_requests(), counters.total_connections()), (4, 1));
    story.cloud.reset_counters();
    client
        .send("GET", "/v2.0/ports", &[("X-Auth-Token", &token)], "")
        .unwrap();
    assert_eq!(
        story.cloud.counters().total_connections(),
        0,
        "the connection was reused"
    );
}

#[test]
fn a_reused_connection_can_be_reset_before_it_answers() {
    let story = Story::new();
    let token = story.token();
    story
        .cloud
        .add_fault(FaultRule::new(Fault::Reset).when(When::ReusedConnection));
    let mut client = Client::connect(&story.neutron()).unwrap();
    let headers = [("X-Auth-Token", token.as_str())];
    assert_eq!(
        client.send("GET", "/v2.0/ports", &headers, "").unwrap().status,
        200
    );
    assert!(client.send("GET", "/v2.0/ports", &headers, "").is_err());
}

#[test]
fn a_service_that_is_down_refuses_or_resets_and_comes_back_on_the_same_port() {
    let story = Story::new();
    let token = story.token();
    let mut open = Client::connect(&story.neutron()).unwrap();
    for _ in 0..3 {
        story
            .cloud
            .set_reachability(Service::Neutron, Reachability::Refused);
        let error = story.ports(&token).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        story
            .cloud
            .set_reachability(Service::Neutron, Reachability::Reset);
        assert!(story.ports(&token).is_err());
        story.cloud.set_reachability(Service::Neutron, Reachability::Up);
        assert_eq!(story.ports(&token).unwrap().status, 200);
    }
    assert!(open.send("GET", "/", &[], "").is_err(), "open connections broke");
}

#[test]
fn a_stopped_cloud_answers_nobody() {
    let story = Story::new();
    let url = story.neutron();
    let mut open = Client::connect(&url).unwrap();
    assert_eq!(open.send("GET", "/", &[], "").unwrap().status, 200);
    story.cloud.stop();
    assert!(open.send("GET", "/", &[], "").is_err());
}

#[test]
fn clouds_do_not_know_each_other() {
    let (one, two) = (Story::new(), Story::new());
    assert_ne!(one.neutron(), two.neutron());
    two.cloud.revoke_tokens();
    assert_eq!(one.ports(&one.token()).unwrap().status, 200);
    assert_eq!(two.cloud.counters().total_requests(), 0);
}

#[test]
fn revoked_expired_and_dead_tokens_are_refused_everywhere() {
    let story = Story::new();
    let nova = story.cloud.url(Service::Nova);
    let statuses = |token: &str| {
        let nova = get(&nova, "/v2.1/servers/detail", token).unwrap().status;
        (story.ports(token).unwrap().status, nova)
    };
    let token = story.token();
    assert_eq!(statuses(&token), (200, 200));
    story.cloud.revoke_tokens();
    assert_eq!(statuses(&token), (401, 401));
    story.cloud.set_token_ttl(Duration::ZERO);
    assert_eq!(statuses(&story.token()), (401, 401));
    story.cloud.set_token_ttl(Duration::from_secs(60));
    story.cloud.issue_dead_tokens(1);
    assert_eq!(statuses(&story.token()), (401, 401));
    assert_eq!(statuses(&story.token()), (200, 200));
}

#[test]
fn a_changed_password_kills_the_users_tokens() {
    let story = Story::new();
    let token = story.token();
    story.cloud.set_password(&story.user, "new");
    assert_eq!(story.ports(&token).unwrap().status, 401);
    assert_eq!(story.log_in().status, 401, "the old password");
}

#[test]
fn a_token_lives_as_long_as_it_says() {
    let story = Story::new();
    story.cloud.set_token_ttl(Duration::from_secs(120));
    story
        .cloud
        .set_clock_offset(jiff::SignedDuration::from_hours(-10));
    let body = story.log_in().json();
    let time = |key: &str| {
        body["token"][key]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    assert_eq!(
        time("expires_at").duration_since(time("issued_at")).as_secs(),
        120
    );
    assert!(time("issued_at") < jiff::Timestamp::now() - jiff::SignedDuration::from_hours(9));
}

#[test]
fn a_provider_is_found_by_its_percent_encoded_id() {
    let story = Story::new();
    story.cloud.add_provider("a/b ü", "u", "pw", "conbaEncrypt2025");
    story
        .cloud
        .set_provider_attribute("a/b ü", "rabbitMQId", Some(json!("mq")));
    let path = "/v1/contrabass/admin/infra/provider/";
    let ask = |id: &str| {
        request(
            &story.cloud.contrabass_url(),
            "GET",
            &format!("{path}{id}"),
            &[],
            "",
        )
        .unwrap()
    };
    let data = ask("a%2Fb%20%C3%BC").json()["data"].clone();
    assert_eq!(data["url"], json!(story.cloud.keystone_url()));
    assert_eq!(data["attributes"]["adminId"], "u");
    assert_eq!(data["attributes"]["rabbitMQId"], "mq");
    assert_eq!(ask("unknown").status, 404);
    assert_eq!(
        story
            .cloud
            .counters()
            .requests(Service::Contrabass, Operation::GetProvider),
        2
    );
}

#[test]
fn a_catalog_can_lack_a_service_or_write_its_urls_oddly() {
    let story = Story::new();
    let catalog = story
        .cloud
        .catalog()
        .without("image")
        .without_endpoints("compute");
    let neutron = story.neutron();
    let odd = catalog
        .map_urls("network", |url| format!("{url}/v2.0/"))
        .with_endpoint("network", "public", "RegionTwo", "http://two");
    story.cloud.set_catalog(odd);
    let body = story.log_in().json();
    let services = body["token"]["catalog"].as_array().unwrap().clone();
    let service = |kind: &str| services.iter().find(|service| service["type"] == kind);
    assert!(service("image").is_none());
    assert_eq!(service("compute").unwrap()["endpoints"], json!([]));
    let endpoints = service("network").unwrap()["endpoints"].as_array().unwrap();
    let urls: BTreeSet<&str> = endpoints
        .iter()
        .filter_map(|endpoint| endpoint["url"].as_str())
        .collect();
    assert_eq!(urls, BTreeSet::from(["http://two", &format!("{neutron}/v2.0/")]));
}

#[test]
fn page_links_can_be_written_in_other_ways() {
    let story = Story::with_ports(3);
    let token = story.token();
    let next = |style: PageLinks| {
        story.cloud.set_page_links(style);
        let reply = get(&story.neutron(), "/v2.0/ports?limit=2", &token).unwrap();
        reply.json()["ports_links"][0]["href"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let marker = get(&story.neutron(), "/v2.0/ports?limit=2", &token)
        .unwrap()
        .ids("ports")[1]
        .clone();
    let target = format!("/v2.0/ports?limit=2&marker={marker}");
    assert_eq!(next(PageLinks::Absolute), format!("{}{target}", story.neutron()));
    assert_eq!(next(PageLinks::Relative), target);
    assert_eq!(
        next(PageLinks::WrongScheme),
        format!("{}{target}", story.neutron()).replace("http:", "https:")
    );
    assert_eq!(
        next(PageLinks::Loop),
        format!("{}/v2.0/ports?limit=2", story.neutron())
    );
}

#[test]
fn a_front_end_may_have_any_limit() {
    let story = Story::new();
    let token = story.token();
    story.cloud.set_front_end(FrontEnd::Limit(40, 431));
    assert_eq!(story.ports(&token).unwrap().status, 200);
    let long = "/v2.0/ports?name=0123456789012345678901234567890123456789";
    assert_eq!(get(&story.neutron(), long, &token).unwrap().status, 431);
}

#[test]
fn created_at_may_be_text_null_or_missing() {
    let story = Story::new();
    let token = story.token();
    let show = |spec: PortSpec| {
        let port = story.cloud.add_port(spec);
        get(&story.neutron(), &format!("/v2.0/ports/{port}"), &token)
            .unwrap()
            .json()["port"]
            .clone()
    };
    let spec = || PortSpec::new(&story.network);
    assert_eq!(show(spec().created_at("last week"))["created_at"], "last week");
    assert_eq!(
        show(spec().null_created_at()).get("created_at"),
        Some(&Value::Null)
    );
    assert_eq!(show(spec().without_created_at()).get("created_at"), None);
    assert_eq!(show(spec().without_status()).get("status"), Some(&Value::Null));
    assert_eq!(show(spec().raw(json!({"id": 7})))["id"], 7);
}

#[test]
fn a_deleted_server_takes_its_ports_along_but_not_the_premade_ones() {
    let story = Story::with_ports(1);
    let premade = story
        .cloud
        .add_port(PortSpec::new(&story.network).server(&story.server).premade());
    assert!(story.cloud.delete_server(&story.server));
    let ports = story.cloud.truth().ports;
    assert_eq!(ports.keys().collect::<Vec<_>>(), [&premade]);
    let port = &ports[&premade];
    assert_eq!(
        (port.status.as_deref(), &*port.device_id, &*port.device_owner),
        (Some("DOWN"), "", "")
    );
}

#[test]
fn a_replaced_server_has_a_new_id_the_old_name_and_the_ports() {
    let story = Story::with_ports(2);
    let new = story.cloud.replace_server(&story.server).unwrap();
    let truth = story.cloud.truth();
    assert!(!truth.servers.contains_key(&story.server));
    assert_eq!(truth.servers[&new].name, "Node-1");
    assert!(truth.ports.values().all(|port| port.device_id == new));
}

#[test]
fn a_moved_or_detached_port_is_listed_where_it_is() {
    let story = Story::with_ports(1);
    let port = story.add_port();
    let token = story.token();
    let other = story.cloud.add_server(&story.project, "node-2", &[]);
    let of = |server: &str| {
        get(
            &story.neutron(),
            &format!("/v2.0/ports?device_id={server}"),
            &token,
        )
        .unwrap()
        .ids("ports")
        .len()
    };
    assert_eq!((of(&story.server), of(&other)), (2, 0));
    story.cloud.move_port(&port, &other);
    assert_eq!((of(&story.server), of(&other)), (1, 1));
    story.cloud.detach_port(&port);
    assert_eq!((of(&story.server), of(&other)), (1, 0));
}

#[test]
fn expected_nodes_hold_what_a_node_should_get_and_nothing_else() {
    let story = Story::new();
    let (cloud, network, subnet, server) = (&story.cloud, &story.network, &story.subnet, &story.server);
    let spec = || PortSpec::new(network).server(server);
    cloud.add_port(
        spec()
            .mac("FA-16-3E-00-00-01")
            .fixed_ip(subnet, "10.0.0.20")
            .fixed_ip(subnet, "10.0.0.9"),
    );
    cloud.add_port(
        spec()
            .mac("fa:16:3e:00:00:02")
            .fixed_ip(subnet, "10.0.0.30")
            .status("DOWN")
            .device_owner(""),
    );
    cloud.add_port(spec().subnet(subnet).status("BUILD"));
    cloud.add_port(spec().subnet(subnet).device_owner("network:dhcp"));
    cloud.add_port(spec().subnet(subnet).created_at("soon"));
    cloud.add_port(spec().subnet(subnet).project("someone else"));
    cloud.add_port(spec());
    let nodes = cloud.expected_nodes(&story.project, &[server], &[subnet]);
    let nics: Vec<_> = nodes["node-1"]
        .iter()
        .map(|nic| (&*nic.mac, &*nic.address, &*nic.cidr, nic.mtu))
        .collect();
    let expected = [
        ("fa:16:3e:00:00:01", "10.0.0.9", "10.0.0.0/24", 1450),
        ("fa:16:3e:00:00:02", "10.0.0.30", "10.0.0.0/24", 1450),
    ];
    assert_eq!(nics, expected);
    assert_eq!(nodes.len(), 1);
}
