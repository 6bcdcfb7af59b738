//! A server on a loopback port, a plain client, and an inventory.

#![allow(clippy::unwrap_used, clippy::panic, dead_code)] // each test binary uses its part

pub mod viola;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use multinic_actors::domain::ids::ConfigId;
use multinic_actors::domain::inventory::{Record, Snapshot};
use multinic_actors::domain::reason::Reason;
use multinic_actors::domain::status::{ConfigStatus, Degraded, NodeCounts};
use multinic_operator::http::{ServeLimits, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A running server; it stops when dropped.
pub struct Server {
    pub address: SocketAddr,
    stop: CancellationToken,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Server {
    pub async fn start(router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(listener, router, ServeLimits::default(), stop.clone()));
        Self { address, stop, task: Some(task) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[]).await
    }

    pub async fn request(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        request(self.address, method, path, headers).await
    }

    pub async fn stop(mut self) {
        self.stop.cancel();
        self.task.take().unwrap().await.unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.head.iter().find(|(key, _)| key == name)?;
        Some(value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// One request on a connection of its own, sent exactly as written: a URL library would mend what is wrong.
pub async fn request(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "\r\n";
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A server that refuses the rest of a request resets the connection after its answer.
    let _ = connection.read_to_end(&mut answer).await;
    parse(&String::from_utf8(answer).unwrap())
}

fn parse(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let head = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    Answer { status, head, body: body.to_owned() }
}

pub fn record(provider: &str, node: &str, vm: &str, interfaces: u8, updated_at: &str) -> Record {
    let interfaces: Vec<Value> = (0..interfaces)
        .map(|i| {
            json!({
                "id": i, "name": format!("multinic{i}"), "macAddress": format!("fa:16:3e:00:00:{i:02x}"),
                "address": format!("192.0.2.{}", 10 + i), "cidr": "192.0.2.0/24", "mtu": 1450,
            })
        })
        .collect();
    serde_json::from_value(json!({
        "providerId": provider, "nodeName": node, "instanceId": vm,
        "config": {"nodeName": node, "instanceId": vm, "interfaces": interfaces},
        "lastConfigHash": "a69f59021cf9a8f7", "updatedAt": updated_at,
    }))
    .unwrap()
}

fn snapshot(records: impl IntoIterator<Item = Record>) -> Snapshot {
    let records = records.into_iter().map(|record| (record.key(), Arc::new(record)));
    Snapshot { records: records.collect(), ..Snapshot::default() }
}

/// Two providers, three nodes; one VM is known to both.
pub fn inventory() -> Snapshot {
    let (a, b) = ("5d1f8a52-6a0e-4b53-9f0d-0f6f1f3f5a01", "5d1f8a52-6a0e-4b53-9f0d-0f6f1f3f5a02");
    let vm = |n: u8| format!("a3c1c0de-0000-4000-8000-{n:012}");
    snapshot([
        record(b, "manager01", &vm(1), 1, "2026-01-11T01:23:45Z"),
        record(a, "manager01", &vm(1), 1, "2026-01-11T01:23:45.678Z"),
        record(a, "infra01", &vm(2), 3, "2026-01-12T02:51:32Z"),
    ])
}

pub fn large_inventory(nodes: usize) -> Snapshot {
    let provider = "5d1f8a52-6a0e-4b53-9f0d-0f6f1f3f5a01";
    let record_of = |n: usize| {
        let vm = format!("a3c1c0de-0000-4000-8000-{n:012}");
        record(provider, &format!("node-{n}"), &vm, 3, "2026-01-12T02:51:32Z")
    };
    snapshot((0..nodes).map(record_of))
}

pub fn status(id: &ConfigId, reason: Reason) -> ConfigStatus {
    ConfigStatus {
        id: id.clone(),
        observed_generation: 1,
        ready: reason.ready(),
        reason,
        message: "1 of 1 nodes delivered".to_owned(),
        degraded: Degraded::Healthy,
        paused: false,
        last_synced_at: "2026-01-12T02:51:32Z".parse().ok(),
        last_error: None,
        down_port_retry: None,
        nodes: NodeCounts::default(),
        skipped: Vec::new(),
        pending_changes: Vec::new(),
        ports: BTreeMap::new(),
        vms: Vec::new(),
        next_poll_at: "2026-01-12T02:53:32Z".parse().ok(),
        last_poll_at: "2026-01-12T02:51:32Z".parse().ok(),
        last_error_detail: None,
        token_expires_at: None,
        failed: Vec::new(),
        workload: None,
    }
}
