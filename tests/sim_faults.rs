//! What the simulated cloud can be told to do wrong, and what it counts.

#![allow(clippy::unwrap_used, clippy::panic)] // A test's helpers may fail it.

mod sim_client;
mod sim_story;

use std::time::Duration;

use multinic_operator::sim::{Fault, FaultRule, Operation, Reachability, Service, When};
use serde_json::{Value, json};
use sim_client::{Client, get};
use sim_story::Story;

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
        let id = story.cloud.add_fault(FaultRule::new(fault.clone()).service(Service::Neutron));
        let reply = story.ports(&token).unwrap();
        assert_eq!((reply.status, reply.header("retry-after")), (status, retry_after), "{fault:?}");
        assert!(reply.json().is_object(), "{fault:?}");
        story.cloud.clear_fault(id);
    }
    story.fault(Operation::ListPorts, Fault::HtmlStatus(502));
    let reply = story.ports(&token).unwrap();
    assert_eq!((reply.status, reply.header("content-type")), (502, Some("text/html; charset=utf-8")));
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
    assert_eq!(get(&story.neutron(), nothing, &token).unwrap().ids("ports").len(), 0);
    story.fault(Operation::ListPorts, Fault::LostFilter);
    assert_eq!(get(&story.neutron(), nothing, &token).unwrap().ids("ports").len(), 3);
}

#[test]
fn a_rule_hits_only_the_turns_it_names() {
    let story = Story::new();
    let token = story.token();
    let statuses = |when: When| {
        story.cloud.clear_faults();
        let rule = FaultRule::new(Fault::Status(500)).operation(Operation::ListPorts);
        story.cloud.add_fault(rule.when(when));
        (0..4).map(|_| story.ports(&token).unwrap().status).collect::<Vec<_>>()
    };
    assert_eq!(statuses(When::Always), [500, 500, 500, 500]);
    assert_eq!(statuses(When::Nth(2)), [200, 500, 200, 200]);
    assert_eq!(statuses(When::First(2)), [500, 500, 200, 200]);
    assert_eq!(statuses(When::After(3)), [200, 200, 200, 500]);
    assert_eq!(statuses(When::Probability(1.0)), [500, 500, 500, 500]);
    assert_eq!(statuses(When::Probability(0.0)), [200, 200, 200, 200]);
    assert_eq!(statuses(When::ReusedConnection), [200, 200, 200, 200], "every request had its own");
}

#[test]
fn the_same_seed_throws_the_same_dice() {
    let throw = || {
        let story = Story::new();
        let token = story.token();
        story.cloud.add_fault(FaultRule::new(Fault::Status(500)).when(When::Probability(0.5)));
        (0..20).map(|_| story.ports(&token).unwrap().status).collect::<Vec<_>>()
    };
    let first = throw();
    assert_eq!(first, throw());
    assert!(first.contains(&200) && first.contains(&500), "{first:?}");
}

#[test]
fn a_fault_can_hit_one_page_of_a_list() {
    let story = Story::with_ports(5);
    let token = story.token();
    let rule = FaultRule::new(Fault::Status(500)).operation(Operation::ListPorts).when(When::Page(2));
    story.cloud.add_fault(rule);
    let first = get(&story.neutron(), "/v2.0/ports?limit=2", &token).unwrap();
    let ids = first.ids("ports");
    assert_eq!((first.status, ids.len()), (200, 2));
    let second = get(&story.neutron(), &format!("/v2.0/ports?limit=2&marker={}", ids[1]), &token).unwrap();
    assert_eq!(second.status, 500);
}

#[test]
fn a_fault_can_hit_requests_that_hold_a_text() {
    let story = Story::new();
    let token = story.token();
    let other = story.cloud.add_network(&story.project, "other", 1500);
    story.cloud.add_fault(FaultRule::new(Fault::Status(500)).containing(&other));
    let show = |id: &str| get(&story.neutron(), &format!("/v2.0/networks/{id}"), &token).unwrap().status;
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
    wait_for("a request in flight", || story.cloud.counters().in_flight(Service::Neutron) == 1);
    story.cloud.drop_connections(Service::Neutron);
    assert!(waiting.join().unwrap(), "it got no answer");
    wait_for("nothing in flight", || story.cloud.counters().in_flight(Service::Neutron) == 0);
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
        client.send("GET", "/v2.0/ports", &[("X-Auth-Token", &token)], "").unwrap();
    }
    client.send("GET", &format!("/v2.0/subnets/{}", story.subnet), &[("X-Auth-Token", &token)], "").unwrap();
    let counters = story.cloud.counters();
    assert_eq!(counters.requests(Service::Neutron, Operation::ListPorts), 3);
    assert_eq!(counters.requests(Service::Neutron, Operation::ShowSubnet), 1);
    assert_eq!((counters.total_requests(), counters.total_connections()), (4, 1));
    story.cloud.reset_counters();
    client.send("GET", "/v2.0/ports", &[("X-Auth-Token", &token)], "").unwrap();
    assert_eq!(story.cloud.counters().total_connections(), 0, "the connection was reused");
}

#[test]
fn a_reused_connection_can_be_reset_before_it_answers() {
    let story = Story::new();
    let token = story.token();
    story.cloud.add_fault(FaultRule::new(Fault::Reset).when(When::ReusedConnection));
    let mut client = Client::connect(&story.neutron()).unwrap();
    let headers = [("X-Auth-Token", token.as_str())];
    assert_eq!(client.send("GET", "/v2.0/ports", &headers, "").unwrap().status, 200);
    assert!(client.send("GET", "/v2.0/ports", &headers, "").is_err());
}

#[test]
fn a_service_that_is_down_refuses_or_resets_and_comes_back_on_the_same_port() {
    let story = Story::new();
    let token = story.token();
    let mut open = Client::connect(&story.neutron()).unwrap();
    for _ in 0..3 {
        story.cloud.set_reachability(Service::Neutron, Reachability::Refused);
        let error = story.ports(&token).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        story.cloud.set_reachability(Service::Neutron, Reachability::Reset);
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
