//! Viola: takes node configs, remembers everything, and answers as it is told.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::http::Method;
use serde_json::{Value, json};

use super::counters::Counters;
use super::exchange::{Answer, Call};
use super::faults::{FaultId, FaultRule};
use super::pipeline::Backend;
use super::server::{Reachability, Server, Traffic, lock};
use super::service::{Operation, Service};

const PATH: &str = "/v1/k8s/multinic/node-configs";

/// What Viola answers to a batch without refused nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ViolaAnswer {
    /// 200 with an empty JSON object: everything is accepted.
    #[default]
    Accept,
    /// 200 with per-node `results`.
    Results,
    /// This status and body; 2xx applies the batch, anything else does not.
    Status(u16, Value),
}

/// How a node is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A batch with this node gets this status, and none of it is applied.
    Batch(u16),
    /// 200 with per-node `results`, this node's `failed`.
    Node,
}

/// One POST as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Post {
    /// From 1, in the order of arrival.
    pub number: u64,
    /// `x-provider-id`.
    pub provider_id: Option<String>,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The JSON body; `null` when it was none.
    pub body: Value,
    /// The status that the service answered (a fault may have kept it back).
    pub status: u16,
}

impl Post {
    /// The batch's node names, in order.
    pub fn nodes(&self) -> Vec<String> {
        let names = self.body.as_array().into_iter().flatten().filter_map(node_name);
        names.map(str::to_owned).collect()
    }
}

#[derive(Default)]
struct State {
    answer: ViolaAnswer,
    refusals: BTreeMap<String, Refusal>,
    token: Option<String>,
    posts: Vec<Post>,
    applied: BTreeMap<String, BTreeMap<String, Value>>,
}

struct ViolaBackend(Arc<Mutex<State>>);

impl Backend for ViolaBackend {
    fn operation(&self, call: &Call) -> Operation {
        let is_post = call.method == Method::POST && call.path() == PATH;
        if is_post { Operation::PostNodeConfigs } else { Operation::Other }
    }

    fn answer(&self, call: &Call) -> Answer {
        match (call.path(), &call.method) {
            (PATH, &Method::POST) => lock(&self.0).take(call),
            (PATH, _) => Answer::json(405, &json!({"message": "method not allowed"})),
            _ => Answer::json(404, &json!({"message": "not found"})),
        }
    }
}

fn node_name(config: &Value) -> Option<&str> {
    config.get("nodeName").and_then(Value::as_str)
}

impl State {
    fn take(&mut self, call: &Call) -> Answer {
        let body: Value = serde_json::from_slice(&call.body).unwrap_or(Value::Null);
        let provider = call.header("x-provider-id").map(str::to_owned);
        let answer = self.decide(call, provider.as_deref(), &body);
        let headers = call.headers.iter();
        self.posts.push(Post {
            number: self.posts.len() as u64 + 1,
            provider_id: provider,
            headers: headers
                .map(|(name, value)| {
                    (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
                })
                .collect(),
            body,
            status: answer.status.as_u16(),
        });
        answer
    }

    fn decide(&mut self, call: &Call, provider: Option<&str>, body: &Value) -> Answer {
        if let Some(token) = &self.token
            && call.header("authorization") != Some(&format!("Bearer {token}"))
        {
            return Answer::json(401, &json!({"message": "bearer token missing or wrong"}));
        }
        let (Some(provider), Some(batch)) = (provider, body.as_array()) else {
            return Answer::json(400, &json!({"message": "x-provider-id and a JSON array are required"}));
        };
        if let Some((node, status)) =
            batch.iter().filter_map(node_name).find_map(|node| self.refused_batch(node))
        {
            return Answer::json(status, &json!({"message": format!("node {node} is not acceptable")}));
        }
        match self.answer.clone() {
            ViolaAnswer::Status(status, reply) => {
                if (200..300).contains(&status) {
                    self.apply(provider, batch);
                }
                Answer::json(status, &reply)
            }
            ViolaAnswer::Accept if !self.refuses_nodes() => {
                self.apply(provider, batch);
                Answer::json(200, &json!({}))
            }
            ViolaAnswer::Accept | ViolaAnswer::Results => {
                let results = self.apply(provider, batch);
                Answer::json(200, &json!({"results": results}))
            }
        }
    }

    fn refused_batch<'a>(&self, node: &'a str) -> Option<(&'a str, u16)> {
        match self.refusals.get(node) {
            Some(Refusal::Batch(status)) => Some((node, *status)),
            _ => None,
        }
    }

    fn refuses_nodes(&self) -> bool {
        self.refusals.values().any(|refusal| *refusal == Refusal::Node)
    }

    /// Keeps what is not refused; the per-node results.
    fn apply(&mut self, provider: &str, batch: &[Value]) -> Vec<Value> {
        let nodes = self.applied.entry(provider.to_owned()).or_default();
        let mut results = Vec::new();
        for config in batch {
            let name = node_name(config).unwrap_or_default();
            if self.refusals.get(name) == Some(&Refusal::Node) {
                results.push(json!({"nodeName": name, "status": "failed", "message": "the node refused it"}));
            } else {
                nodes.insert(name.to_owned(), config.clone());
                results.push(json!({"nodeName": name, "status": "applied", "message": ""}));
            }
        }
        results
    }
}

/// A running Viola. Clones share it; it ends with the last one, or by [`SimViola::stop`].
#[derive(Clone)]
pub struct SimViola {
    state: Arc<Mutex<State>>,
    traffic: Arc<Traffic>,
    server: Arc<Server>,
}

impl SimViola {
    /// Starts it on a free loopback port.
    ///
    /// # Panics
    /// When loopback has no free port.
    pub async fn start() -> Self {
        Self::start_on(0).expect("a free loopback port")
    }

    /// Starts it on this loopback port; 0 takes any.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn start_on(port: u16) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(State::default()));
        let traffic = Traffic::new(0);
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let backend = Arc::new(ViolaBackend(state.clone()));
        let server = Server::start(Service::Viola, addr, backend, traffic.clone())?;
        Ok(Self { state, traffic, server: Arc::new(server) })
    }

    /// Ends it; connections break.
    pub fn stop(&self) {
        self.server.stop();
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.addr)
    }

    /// What it answers from now on.
    pub fn set_answer(&self, answer: ViolaAnswer) {
        lock(&self.state).answer = answer;
    }

    /// Refuses this node.
    pub fn refuse_node(&self, node: &str, refusal: Refusal) {
        lock(&self.state).refusals.insert(node.into(), refusal);
    }

    /// Accepts this node again.
    pub fn accept_node(&self, node: &str) {
        lock(&self.state).refusals.remove(node);
    }

    /// Asks for `Authorization: Bearer …`.
    pub fn require_token(&self, token: Option<&str>) {
        lock(&self.state).token = token.map(str::to_owned);
    }

    /// Up, refused, or reset: the next connection finds it so.
    pub fn set_reachability(&self, reachability: Reachability) {
        self.server.set_reachability(reachability);
    }

    /// Resets every open connection.
    pub fn drop_connections(&self) {
        self.server.drop_connections();
    }

    /// One more fault.
    pub fn add_fault(&self, rule: FaultRule) -> FaultId {
        lock(&self.traffic.faults).add(rule)
    }

    /// Without this fault.
    pub fn clear_fault(&self, id: FaultId) {
        lock(&self.traffic.faults).remove(id);
    }

    /// Without any fault. What hangs goes on hanging; see [`SimViola::drop_connections`].
    pub fn clear_faults(&self) {
        lock(&self.traffic.faults).clear();
    }

    /// Every POST that reached it, in order.
    pub fn posts(&self) -> Vec<Post> {
        lock(&self.state).posts.clone()
    }

    /// Forgets the POSTs; what was applied stays.
    pub fn forget_posts(&self) {
        lock(&self.state).posts.clear();
    }

    /// The configs it holds for a provider id, by node.
    pub fn nodes(&self, provider_id: &str) -> BTreeMap<String, Value> {
        lock(&self.state).applied.get(provider_id).cloned().unwrap_or_default()
    }

    /// The config it holds for one node.
    pub fn node(&self, provider_id: &str, node: &str) -> Option<Value> {
        lock(&self.state).applied.get(provider_id)?.get(node).cloned()
    }

    /// Requests and connections so far.
    pub fn counters(&self) -> Counters {
        lock(&self.traffic.counters).clone()
    }

    /// Counts from zero.
    pub fn reset_counters(&self) {
        lock(&self.traffic.counters).reset();
    }
}
