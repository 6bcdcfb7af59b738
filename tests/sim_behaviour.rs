//! What lives in the simulated cloud, over its life, and how it can be set up.

#![allow(clippy::unwrap_used, clippy::panic)] // A test's helpers may fail it.

mod sim_client;
mod sim_story;

use std::collections::BTreeSet;
use std::time::Duration;

use multinic_operator::sim::{FrontEnd, Operation, PageLinks, PortSpec, Service, Settings, serve};
use serde_json::{Value, json};
use sim_client::{get, request};
use sim_story::Story;

#[test]
fn clouds_do_not_know_each_other() {
    let (one, two) = (Story::new(), Story::new());
    assert_ne!(one.neutron(), two.neutron());
    assert_eq!(two.ports(&one.token()).unwrap().status, 401, "the other cloud's token");
    two.cloud.reset_counters();
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
    story.cloud.set_clock_offset(jiff::SignedDuration::from_hours(-10));
    let body = story.log_in().json();
    let time = |key: &str| body["token"][key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(time("expires_at").duration_since(time("issued_at")).as_secs(), 120);
    assert!(time("issued_at") < jiff::Timestamp::now() - jiff::SignedDuration::from_hours(9));
}

#[test]
fn a_provider_is_found_by_its_percent_encoded_id() {
    let story = Story::new();
    story.cloud.add_provider("a/b ü", "u", "pw", "conbaEncrypt2025");
    story.cloud.set_provider_attribute("a/b ü", "rabbitMQId", Some(json!("mq")));
    let path = "/v1/contrabass/admin/infra/provider/";
    let ask =
        |id: &str| request(&story.cloud.contrabass_url(), "GET", &format!("{path}{id}"), &[], "").unwrap();
    let data = ask("a%2Fb%20%C3%BC").json()["data"].clone();
    assert_eq!(data["url"], json!(story.cloud.keystone_url()));
    assert_eq!(data["attributes"]["adminId"], "u");
    assert_eq!(data["attributes"]["rabbitMQId"], "mq");
    assert_eq!(ask("unknown").status, 404);
    assert_eq!(story.cloud.counters().requests(Service::Contrabass, Operation::GetProvider), 2);
}

#[test]
fn a_catalog_can_lack_a_service_or_write_its_urls_oddly() {
    let story = Story::new();
    let catalog = story.cloud.catalog().without("image").without_endpoints("compute");
    let neutron = story.neutron();
    let odd = catalog.map_urls("network", |url| format!("{url}/v2.0/")).with_endpoint(
        "network",
        "public",
        "RegionTwo",
        "http://two",
    );
    story.cloud.set_catalog(odd);
    let body = story.log_in().json();
    let services = body["token"]["catalog"].as_array().unwrap().clone();
    let service = |kind: &str| services.iter().find(|service| service["type"] == kind);
    assert!(service("image").is_none());
    assert_eq!(service("compute").unwrap()["endpoints"], json!([]));
    let endpoints = service("network").unwrap()["endpoints"].as_array().unwrap();
    let urls: BTreeSet<&str> = endpoints.iter().filter_map(|endpoint| endpoint["url"].as_str()).collect();
    assert_eq!(urls, BTreeSet::from(["http://two", &format!("{neutron}/v2.0/")]));
}

#[test]
fn page_links_can_be_written_in_other_ways() {
    let story = Story::with_ports(3);
    let token = story.token();
    let next = |style: PageLinks| {
        story.cloud.set_page_links(style);
        let reply = get(&story.neutron(), "/v2.0/ports?limit=2", &token).unwrap();
        reply.json()["ports_links"][0]["href"].as_str().unwrap().to_owned()
    };
    let marker = get(&story.neutron(), "/v2.0/ports?limit=2", &token).unwrap().ids("ports")[1].clone();
    let target = format!("/v2.0/ports?limit=2&marker={marker}");
    assert_eq!(next(PageLinks::Absolute), format!("{}{target}", story.neutron()));
    assert_eq!(next(PageLinks::Relative), target);
    assert_eq!(
        next(PageLinks::WrongScheme),
        format!("{}{target}", story.neutron()).replace("http:", "https:")
    );
    assert_eq!(next(PageLinks::Loop), format!("{}/v2.0/ports?limit=2", story.neutron()));
}

#[test]
fn a_marker_that_left_the_filter_still_marks_its_place() {
    let story = Story::with_ports(3);
    let token = story.token();
    let list = |marker: &str| {
        let query = format!("/v2.0/ports?limit=1&device_id={}{marker}", story.server);
        get(&story.neutron(), &query, &token).unwrap().ids("ports")
    };
    let first = list("");
    let second = list(&format!("&marker={}", first[0]));
    story.cloud.detach_port(&first[0]);
    assert_eq!(list(&format!("&marker={}", first[0])), second);
}

#[tokio::test]
async fn a_process_can_serve_clouds_until_it_is_told_to_stop() {
    let settings = [Settings::default(), Settings { seed: 1, ..Settings::default() }];
    serve(&settings, std::future::ready(())).await.unwrap();
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
        get(&story.neutron(), &format!("/v2.0/ports/{port}"), &token).unwrap().json()["port"].clone()
    };
    let spec = || PortSpec::new(&story.network);
    assert_eq!(show(spec().created_at("last week"))["created_at"], "last week");
    assert_eq!(show(spec().null_created_at()).get("created_at"), Some(&Value::Null));
    assert_eq!(show(spec().without_created_at()).get("created_at"), None);
    assert_eq!(show(spec().without_status()).get("status"), Some(&Value::Null));
    assert_eq!(show(spec().raw(json!({"id": 7})))["id"], 7);
}

#[test]
fn a_deleted_server_takes_its_ports_along_but_not_the_premade_ones() {
    let story = Story::with_ports(1);
    let premade = story.cloud.add_port(PortSpec::new(&story.network).server(&story.server).premade());
    assert!(story.cloud.delete_server(&story.server));
    let ports = story.cloud.truth().ports;
    assert_eq!(ports.keys().collect::<Vec<_>>(), [&premade]);
    let port = &ports[&premade];
    assert_eq!((port.status.as_deref(), &*port.device_id, &*port.device_owner), (Some("DOWN"), "", ""));
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
        get(&story.neutron(), &format!("/v2.0/ports?device_id={server}"), &token).unwrap().ids("ports").len()
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
    cloud
        .add_port(spec().mac("FA-16-3E-00-00-01").fixed_ip(subnet, "10.0.0.20").fixed_ip(subnet, "10.0.0.9"));
    cloud.add_port(
        spec().mac("fa:16:3e:00:00:02").fixed_ip(subnet, "10.0.0.30").status("DOWN").device_owner(""),
    );
    cloud.add_port(spec().subnet(subnet).status("BUILD"));
    cloud.add_port(spec().subnet(subnet).device_owner("network:dhcp"));
    cloud.add_port(spec().subnet(subnet).created_at("soon"));
    cloud.add_port(spec().subnet(subnet).project("someone else"));
    cloud.add_port(spec());
    let nodes = cloud.expected_nodes(&story.project, &[server], &[subnet]);
    let nics: Vec<_> =
        nodes["node-1"].iter().map(|nic| (&*nic.mac, &*nic.address, &*nic.cidr, nic.mtu)).collect();
    let expected = [
        ("fa:16:3e:00:00:01", "10.0.0.9", "10.0.0.0/24", 1450),
        ("fa:16:3e:00:00:02", "10.0.0.30", "10.0.0.0/24", 1450),
    ];
    assert_eq!(nics, expected);
    assert_eq!(nodes.len(), 1);
}
