//! The simulated Viola remembers every POST and answers as it is told.

#![allow(clippy::unwrap_used, clippy::panic)] // A test's helpers may fail it.

mod sim_client;

use multinic_operator::sim::{
    Fault, FaultRule, Operation, Reachability, Refusal, Service, SimViola, ViolaAnswer, When,
};
use serde_json::{Value, json};
use sim_client::{Client, Reply, request};

const PATH: &str = "/v1/k8s/multinic/node-configs";

fn viola() -> SimViola {
    SimViola::start_on(0).unwrap()
}

fn config(node: &str) -> Value {
    json!({"nodeName": node, "instanceId": format!("vm of {node}"), "interfaces": []})
}

fn post(viola: &SimViola, nodes: &[&str]) -> std::io::Result<Reply> {
    let body: Value = nodes.iter().map(|node| config(node)).collect();
    request(&viola.url(), "POST", PATH, &[("x-provider-id", "k8s-1")], &body.to_string())
}

fn held(viola: &SimViola) -> Vec<String> {
    viola.nodes("k8s-1").into_keys().collect()
}

#[test]
fn an_accepted_batch_is_held_by_provider_and_node() {
    let viola = viola();
    assert_eq!(post(&viola, &["a", "b"]).unwrap().status, 200);
    assert_eq!(held(&viola), ["a", "b"]);
    assert_eq!(viola.node("k8s-1", "a"), Some(config("a")));
    assert_eq!(viola.node("k8s-2", "a"), None);
}

#[test]
fn every_post_is_recorded_in_order_with_its_headers() {
    let viola = viola();
    post(&viola, &["b"]).unwrap();
    post(&viola, &["a", "c"]).unwrap();
    let posts = viola.posts();
    assert_eq!(posts.iter().map(|post| post.number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(posts[1].nodes(), ["a", "c"]);
    assert_eq!(posts[1].provider_id.as_deref(), Some("k8s-1"));
    assert_eq!(posts[1].headers["content-type"], "application/json");
    viola.forget_posts();
    assert!(viola.posts().is_empty());
    assert_eq!(held(&viola), ["a", "b", "c"], "what was applied stays");
}

#[test]
fn a_batch_with_a_refused_node_changes_nothing() {
    let viola = viola();
    for status in [400, 500] {
        viola.refuse_node("bad", Refusal::Batch(status));
        assert_eq!(post(&viola, &["a", "bad"]).unwrap().status, status);
        assert!(held(&viola).is_empty());
    }
    assert_eq!(post(&viola, &["a"]).unwrap().status, 200);
    viola.accept_node("bad");
    assert_eq!(post(&viola, &["bad"]).unwrap().status, 200);
    assert_eq!(held(&viola), ["a", "bad"]);
}

#[test]
fn results_tell_the_nodes_that_failed() {
    let viola = viola();
    viola.refuse_node("bad", Refusal::Node);
    let reply = post(&viola, &["a", "bad"]).unwrap();
    let result = |node, status, message| json!({"nodeName": node, "status": status, "message": message});
    let expected = [result("a", "applied", ""), result("bad", "failed", "the node refused it")];
    assert_eq!((reply.status, &reply.json()["results"]), (200, &json!(expected)));
    assert_eq!(held(&viola), ["a"]);
}

#[test]
fn it_answers_any_status_and_applies_on_success_only() {
    let viola = viola();
    viola.set_answer(ViolaAnswer::Status(503, json!({"message": "later"})));
    assert_eq!(post(&viola, &["a"]).unwrap().status, 503);
    assert!(held(&viola).is_empty());
    viola.set_answer(ViolaAnswer::Status(202, json!("whatever")));
    assert_eq!(post(&viola, &["a"]).unwrap().status, 202);
    viola.set_answer(ViolaAnswer::Results);
    assert_eq!(post(&viola, &["b"]).unwrap().json()["results"][0]["status"], "applied");
    assert_eq!(held(&viola), ["a", "b"]);
}

#[test]
fn a_post_without_provider_or_array_is_a_bad_request() {
    let viola = viola();
    let batch = json!([config("a")]).to_string();
    assert_eq!(request(&viola.url(), "POST", PATH, &[], &batch).unwrap().status, 400);
    let headers = [("x-provider-id", "k8s-1")];
    assert_eq!(request(&viola.url(), "POST", PATH, &headers, "{}").unwrap().status, 400);
    assert_eq!(request(&viola.url(), "GET", PATH, &headers, "").unwrap().status, 405);
    assert_eq!(request(&viola.url(), "POST", "/elsewhere", &headers, &batch).unwrap().status, 404);
    assert_eq!(viola.posts().len(), 2, "only posts to the right path are kept");
}

#[test]
fn a_required_token_is_checked() {
    let viola = viola();
    viola.require_token(Some("t0"));
    assert_eq!(post(&viola, &["a"]).unwrap().status, 401);
    let headers = [("x-provider-id", "k8s-1"), ("Authorization", "Bearer t0")];
    let batch = json!([config("a")]).to_string();
    assert_eq!(request(&viola.url(), "POST", PATH, &headers, &batch).unwrap().status, 200);
}

#[test]
fn a_lost_answer_leaves_the_batch_applied() {
    let viola = viola();
    viola.add_fault(FaultRule::new(Fault::LoseAnswer).when(When::Nth(1)));
    assert!(post(&viola, &["a"]).is_err());
    assert_eq!(held(&viola), ["a"]);
    viola.add_fault(FaultRule::new(Fault::Reset).containing("\"b\""));
    assert!(post(&viola, &["b"]).is_err());
    assert_eq!(held(&viola), ["a"], "a reset request was never looked at");
    assert_eq!(viola.counters().requests(Service::Viola, Operation::PostNodeConfigs), 2);
}

#[test]
fn it_can_be_down_and_come_back() {
    let viola = viola();
    let mut open = Client::connect(&viola.url()).unwrap();
    viola.set_reachability(Reachability::Refused);
    assert_eq!(post(&viola, &["a"]).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    viola.set_reachability(Reachability::Up);
    assert_eq!(post(&viola, &["a"]).unwrap().status, 200);
    assert!(open.send("GET", "/", &[], "").is_err(), "open connections broke");
}

#[tokio::test(start_paused = true)]
async fn handles_work_from_a_paused_runtime() {
    let viola = SimViola::start().await;
    assert_eq!(post(&viola, &["a"]).unwrap().status, 200);
}
