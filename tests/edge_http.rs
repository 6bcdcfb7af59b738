//! The REST, probe and metrics servers over real loopback connections.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests

mod edge_support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use edge_support::{Answer, Server, inventory, status};
use multinic_actors::boundary::StatusSink;
use multinic_actors::domain::ids::ConfigId;
use multinic_actors::domain::inventory::Snapshot;
use multinic_actors::domain::port::{PortVerdict, Verdict};
use multinic_actors::domain::reason::Reason;
use multinic_actors::domain::status::VmReport;
use multinic_operator::http::{
    ApiParts, Check, ConfigBoard, HealthReader, InventoryReader, TokenFile, TreeReader, api_router,
    metrics_router, probe_router,
};
use multinic_operator::telemetry::MetricsHandle;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

const PROVIDER: &str = "5d1f8a52-6a0e-4b53-9f0d-0f6f1f3f5a01";
const VM: &str = "a3c1c0de-0000-4000-8000-000000000001";

#[derive(Default)]
struct Inventory(Mutex<Option<Arc<Snapshot>>>);

impl InventoryReader for Inventory {
    fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.0.lock().unwrap().clone()
    }
}

struct Tree;

impl TreeReader for Tree {
    fn tree(&self) -> Value {
        json!({"kind": "root", "name": "root", "phase": "running", "restarts": 0, "lastError": null, "children": []})
    }
}

struct Health(Result<(), String>, Vec<Check>);

impl HealthReader for Health {
    fn alive(&self) -> Result<(), String> {
        self.0.clone()
    }

    fn checks(&self) -> Vec<Check> {
        self.1.clone()
    }
}

struct World {
    inventory: Arc<Inventory>,
    board: Arc<ConfigBoard>,
    parts: ApiParts,
}

impl World {
    fn new(snapshot: Snapshot) -> Self {
        let inventory = Arc::new(Inventory(Mutex::new(Some(Arc::new(snapshot)))));
        let board = Arc::new(ConfigBoard::default());
        let parts = ApiParts {
            inventory: inventory.clone(),
            configs: board.clone(),
            tree: Arc::new(Tree),
            health: Arc::new(Health(Ok(()), Vec::new())),
            token: None,
            standby: None,
        };
        Self { inventory, board, parts }
    }

    async fn serve(&self) -> Server {
        Server::start(api_router(self.parts.clone())).await
    }
}

fn golden(name: &str, answer: &Answer) {
    let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let got = serde_json::to_string_pretty(&answer.json()).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &got).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(got, expected, "{name}: UPDATE_GOLDEN=1 writes the file anew");
}

#[tokio::test]
async fn the_inventory_routes_answer_as_documented() {
    let server = World::new(inventory()).serve().await;
    for (name, path) in [
        ("providers", "/v1/interfaces/providers".to_owned()),
        ("node-configs", format!("/v1/interfaces/node-configs?providerId={PROVIDER}")),
        ("by-instance", format!("/v1/interfaces/node-configs/by-instance/{VM}")),
    ] {
        let answer = server.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let length = answer.body.len().to_string();
        assert_eq!(answer.header("content-length"), Some(length.as_str()));
        golden(name, &answer);
    }
}

#[tokio::test]
async fn an_instance_is_found_in_any_case_and_within_one_provider() {
    let server = World::new(inventory()).serve().await;
    let by = |rest: String| format!("/v1/interfaces/node-configs/by-instance/{rest}");
    let upper = server.get(&by(VM.to_uppercase())).await;
    assert_eq!(upper.json().as_array().unwrap().len(), 2, "one in each provider");
    let one = server.get(&by(format!("{VM}?providerId={PROVIDER}"))).await;
    assert_eq!(one.json().as_array().unwrap().len(), 1);
    assert_eq!(server.get(&by(format!("{VM}?providerId=other"))).await.status, 404);
}

#[tokio::test]
async fn an_unknown_provider_has_no_nodes() {
    let server = World::new(inventory()).serve().await;
    let answer = server.get("/v1/interfaces/node-configs?providerId=unknown").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "[]"));
    let empty = World::new(Snapshot::default()).serve().await;
    assert_eq!(empty.get("/v1/interfaces/providers").await.body, r#"{"providers":[]}"#);
}

#[tokio::test]
async fn every_error_is_json_with_its_code() {
    let server = World::new(inventory()).serve().await;
    let long = format!("/v1/configs?x={}", "a".repeat(5_000));
    let cases = [
        ("GET", "/v1/interfaces/node-configs", 400, "bad_request"),
        ("GET", "/v1/interfaces/node-configs?providerId=", 400, "bad_request"),
        ("GET", "/v1/interfaces/node-configs/by-instance/", 400, "bad_request"),
        ("GET", "/v1/interfaces/providers?limit=0", 400, "bad_request"),
        ("GET", "/v1/interfaces/providers?continue=%2A", 400, "bad_request"),
        ("GET", "/v1/interfaces/node-configs?providerId=%zz", 400, "bad_request"),
        ("GET", "/v1/interfaces/node-configs/by-instance/%ff", 400, "bad_request"),
        ("GET", "/v1/interfaces/node-configs/by-instance/unknown", 404, "not_found"),
        ("GET", "/v1/configs/ns/unknown", 404, "not_found"),
        ("GET", "/v1/unknown", 404, "not_found"),
        ("GET", "/healthz/", 404, "not_found"),
        ("POST", "/v1/interfaces/providers", 405, "method_not_allowed"),
        ("DELETE", "/v1/configs/ns/a", 405, "method_not_allowed"),
        ("GET", &long, 414, "uri_too_long"),
    ];
    for (method, path, status, code) in cases {
        let answer = server.request(method, path, &[]).await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.json()["error"]["code"], code, "{method} {path}");
        assert!(answer.json()["error"]["message"].is_string(), "{method} {path}");
        let is_405 = status == 405;
        assert_eq!(answer.header("allow"), is_405.then_some("GET,HEAD"), "{method} {path}");
    }
    let large = server.request("GET", "/v1/configs", &[("content-length", "99999999")]).await;
    assert_eq!(large.status, 413);
    assert_eq!(large.json()["error"]["code"], "payload_too_large");
    let head = "x".repeat(17_000);
    assert_eq!(server.request("GET", "/healthz", &[("x-long", &head)]).await.status, 431);
}

#[tokio::test]
async fn without_a_loaded_inventory_its_routes_are_unavailable_and_the_others_work() {
    let world = World::new(inventory());
    *world.inventory.0.lock().unwrap() = None;
    let server = world.serve().await;
    for path in [
        "/v1/interfaces/providers",
        "/v1/interfaces/node-configs?providerId=a",
        "/v1/interfaces/node-configs/by-instance/a",
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 503, "{path}");
        assert_eq!(answer.json()["error"]["code"], "unavailable");
    }
    assert_eq!(server.get("/v1/configs").await.status, 200);
    assert_eq!(server.get("/healthz").await.body, "ok");
}

#[tokio::test]
async fn a_route_that_panics_is_an_internal_error_and_the_server_goes_on() {
    struct Broken;
    impl TreeReader for Broken {
        fn tree(&self) -> Value {
            panic!("on purpose")
        }
    }
    let mut world = World::new(inventory());
    world.parts.tree = Arc::new(Broken);
    let server = world.serve().await;
    let answer = server.get("/v1/actors").await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (500, &json!("internal")));
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn pages_follow_each_other_to_the_end() {
    let server = World::new(inventory()).serve().await;
    let base = format!("/v1/interfaces/node-configs?providerId={PROVIDER}");
    let all = server.get(&base).await.json();
    let mut seen = Vec::new();
    let mut more = String::new();
    loop {
        let page = server.get(&format!("{base}&limit=1{more}")).await;
        seen.extend(page.json().as_array().unwrap().clone());
        match page.header("x-continue") {
            Some(token) => more = format!("&continue={token}"),
            None => break,
        }
    }
    assert_eq!(Value::from(seen), all);

    let first = server.get("/v1/interfaces/providers?limit=1").await.json();
    assert_eq!(first["providers"].as_array().unwrap().len(), 1);
    let next = first["continue"].as_str().unwrap();
    let last = server.get(&format!("/v1/interfaces/providers?limit=1&continue={next}")).await.json();
    assert_eq!(last["providers"].as_array().unwrap().len(), 1);
    assert_eq!(last.get("continue"), None);
}

#[tokio::test]
async fn an_answer_that_the_reader_has_is_not_sent_again() {
    let world = World::new(inventory());
    let server = world.serve().await;
    let path = format!("/v1/interfaces/node-configs?providerId={PROVIDER}");
    let first = server.get(&path).await;
    let tag = first.header("etag").unwrap().to_owned();
    for known in [tag.clone(), format!("\"other\", W/{tag}"), "*".to_owned()] {
        let again = server.request("GET", &path, &[("if-none-match", &known)]).await;
        assert_eq!((again.status, again.body.as_str()), (304, ""), "{known}");
        assert_eq!(again.header("etag"), Some(tag.as_str()));
    }
    let mut changed = inventory();
    let key = changed.records.keys().next().unwrap().clone();
    changed.records.remove(&key);
    *world.inventory.0.lock().unwrap() = Some(Arc::new(changed));
    let after = server.request("GET", &path, &[("if-none-match", &tag)]).await;
    assert_eq!(after.status, 200);
    assert_ne!(after.header("etag"), Some(tag.as_str()));
}

#[tokio::test]
async fn head_has_the_headers_without_the_body() {
    let server = World::new(inventory()).serve().await;
    let get = server.get("/v1/interfaces/providers").await;
    let head = server.request("HEAD", "/v1/interfaces/providers", &[]).await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    for name in ["etag", "content-length", "content-type"] {
        assert_eq!(head.header(name), get.header(name), "{name}");
    }
}

#[tokio::test]
async fn configs_are_listed_without_ports_and_shown_with_them() {
    let world = World::new(inventory());
    for (name, uid) in [("b", "2"), ("a", "1")] {
        let id = ConfigId::new("ns", name, uid);
        let mut now = status(&id, Reason::Synced);
        now.vms = vec![VmReport {
            vm: VM.into(),
            node: None,
            skipped: None,
            ports: vec![PortVerdict {
                port: "port-1".into(),
                verdict: Verdict::NoIPv4,
                detail: "only fd00::1".to_owned(),
                interface: None,
            }],
        }];
        world.board.publish(&id, Arc::new(now));
    }
    let server = world.serve().await;
    let list = server.get("/v1/configs").await;
    golden("configs", &list);
    let one = server.get("/v1/configs/ns/a").await;
    golden("config", &one);

    // The list is the same but for the VMs.
    let mut without = one.json();
    without.as_object_mut().unwrap().remove("vms");
    assert_eq!(list.json()["configs"][0], without);

    world.board.forget(&ConfigId::new("ns", "a", "an earlier one"));
    assert_eq!(server.get("/v1/configs/ns/a").await.status, 200);
    world.board.forget(&ConfigId::new("ns", "a", "1"));
    assert_eq!(server.get("/v1/configs/ns/a").await.status, 404);
    assert_eq!(server.get("/v1/actors").await.json()["phase"], "running");
}

#[tokio::test]
async fn with_a_token_file_only_its_token_gets_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let mut world = World::new(inventory());
    world.parts.token = Some(TokenFile::new(&path));
    let server = world.serve().await;
    let ask = async |authorization: &str| {
        let headers = [("authorization", authorization)];
        server.request("GET", "/v1/interfaces/providers", &headers).await
    };
    assert_eq!(ask("Bearer x").await.status, 503, "no file, no entry");

    std::fs::write(&path, "first\n").unwrap();
    assert_eq!(ask("Bearer first").await.status, 200);
    assert_eq!(ask("bearer first").await.status, 200);
    for wrong in ["Bearer firs", "Bearer second", "Basic first", "first", "Bearer"] {
        let answer = ask(wrong).await;
        assert_eq!(answer.status, 401, "{wrong}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert_eq!(answer.json()["error"]["code"], "unauthorized");
    }
    assert_eq!(server.get("/v1/configs").await.status, 401);
    assert_eq!(server.get("/healthz").await.status, 200, "probes have no token");

    std::fs::write(&path, "second\n").unwrap();
    assert_eq!(ask("Bearer first").await.status, 401);
    assert_eq!(ask("Bearer second").await.status, 200);
}

#[tokio::test]
async fn a_replica_that_stands_by_names_the_leader() {
    let mut world = World::new(inventory());
    world.parts.standby = Some(Arc::new(|| Some("operator-0".to_owned())));
    let server = world.serve().await;
    let answer = server.get("/v1/interfaces/providers").await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("operator-0"), "{}", answer.body);
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn readiness_says_what_it_is_made_of() {
    let check = |name: &str, ok, required| Check {
        name: name.to_owned(),
        ok,
        required,
        message: (!ok).then(|| "no space left".to_owned()),
    };
    let full_disk = vec![check("watch", true, true), check("inventory", false, false)];
    let server = Server::start(probe_router(Arc::new(Health(Ok(()), full_disk)))).await;
    assert_eq!(server.get("/healthz").await.body, "ok");
    let ready = server.get("/readyz").await;
    assert_eq!(ready.status, 200);
    golden("readyz", &ready);

    let not_ready = Health(Err("the root is gone".to_owned()), vec![check("watch", false, true)]);
    let server = Server::start(probe_router(Arc::new(not_ready))).await;
    assert_eq!(server.get("/readyz").await.status, 503);
    let dead = server.get("/healthz").await;
    assert_eq!((dead.status, &dead.json()["error"]["message"]), (503, &json!("the root is gone")));
}

#[tokio::test]
async fn metrics_are_in_prometheus_text_format() {
    let server = Server::start(metrics_router(MetricsHandle::new())).await;
    let answer = server.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(answer.body.contains("# TYPE multinic_build_info gauge\n"), "{}", answer.body);
    assert_eq!(server.get("/").await.status, 404);
}

#[tokio::test]
async fn a_large_inventory_comes_whole_to_many_readers() {
    let server = World::new(edge_support::large_inventory(3_000)).serve().await;
    let path = format!("/v1/interfaces/node-configs?providerId={PROVIDER}");
    let answers = futures::future::join_all((0..8).map(|_| server.get(&path))).await;
    for answer in answers {
        assert_eq!(answer.json().as_array().unwrap().len(), 3_000);
    }
}

#[tokio::test]
async fn a_stop_lets_the_request_under_way_end_and_closes_the_port() {
    let (started, mut is_started) = tokio::sync::mpsc::channel::<()>(1);
    let (finish, may_finish) = tokio::sync::oneshot::channel::<()>();
    let may_finish = Arc::new(Mutex::new(Some(may_finish)));
    let router = axum::Router::new().route(
        "/slow",
        axum::routing::get(move || async move {
            let waiting = may_finish.lock().unwrap().take();
            started.send(()).await.unwrap();
            waiting.unwrap().await.unwrap();
            "done"
        }),
    );
    let server = Server::start(router).await;
    let address = server.address;
    let request = tokio::spawn(async move { edge_support::request(address, "GET", "/slow", &[]).await });
    is_started.recv().await.unwrap();
    let stopped = tokio::spawn(server.stop());
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    finish.send(()).unwrap();
    assert_eq!(request.await.unwrap().body, "done");
    stopped.await.unwrap();
}

#[tokio::test]
async fn an_idle_connection_does_not_hold_up_the_stop() {
    let server = World::new(inventory()).serve().await;
    let _idle = tokio::net::TcpStream::connect(server.address).await.unwrap();
    assert_eq!(server.get("/healthz").await.status, 200);
    server.stop().await;
}

/// Each server has places of its own, and connections that say nothing leave theirs within seconds.
#[tokio::test]
async fn a_crowd_of_half_open_connections_keeps_nobody_out_for_long() {
    let world = World::new(inventory());
    let api = world.serve().await;
    let probes = Server::start(probe_router(Arc::new(Health(Ok(()), Vec::new())))).await;
    let mut crowd = Vec::new();
    for n in 0..641 {
        let mut connection = tokio::net::TcpStream::connect(api.address).await.unwrap();
        // Some say nothing, some begin a request.
        if n % 2 == 0 {
            connection.write_all(b"GET /v1/conf").await.unwrap();
        }
        crowd.push(connection);
    }
    assert_eq!(probes.get("/healthz").await.status, 200);
    let answer = tokio::time::timeout(Duration::from_secs(25), api.get("/v1/configs")).await;
    assert_eq!(answer.expect("an answer long before the half minute that browsers wait").status, 200);
    drop(crowd);
}

#[tokio::test]
async fn a_removed_token_file_lets_nobody_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "let-me-in").unwrap();
    let mut world = World::new(inventory());
    world.parts.token = Some(TokenFile::new(&path));
    let server = world.serve().await;
    let ask = || server.request("GET", "/v1/configs", &[("authorization", "Bearer let-me-in")]);
    assert_eq!(ask().await.status, 200);
    std::fs::remove_file(&path).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let refused = loop {
        let answer = ask().await;
        if answer.status != 200 {
            break answer;
        }
        assert!(std::time::Instant::now() < deadline, "it still serves");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (503, Some("unavailable")));
    assert!(!refused.body.contains(folder.path().to_str().unwrap()), "{}", refused.body);
    std::fs::write(&path, "another").unwrap();
    assert_eq!(ask().await.status, 401, "the old one is not the new one");
}
