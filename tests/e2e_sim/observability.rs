//! Metrics as they are scraped, the audit log, the log level.

use std::collections::BTreeSet;
use std::time::Instant;

use multinic_operator::telemetry::names;
use serde_json::{Value, json};

use crate::e2e_support::{GLANCE, Operator, PATIENCE};
use crate::process::Process;
use crate::world::{STORAGE, World};

/// With a folder instead of a cluster no watch is open.
const NOT_HERE: [&str; 4] = [
    names::WATCH_EVENTS,
    names::WATCH_RESTARTS,
    names::WATCH_LAST_EVENT,
    // Nothing has to wait for a limit in these tests.
    names::UPSTREAM_THROTTLE,
];

async fn scrape(world: &World) -> String {
    let address = world.operator.running().metrics.unwrap();
    world.operator.get_text(&format!("http://{address}/metrics")).await.1
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_scraped_are_the_metrics_of_the_table_with_its_labels_and_all_of_them() {
    let mut world = World::new();
    world.run_with(2).await;
    let text = scrape(&world).await;
    let mut seen = BTreeSet::new();
    for (name, mut labels) in text.lines().filter_map(names::of_sample) {
        let metric = names::find(name).unwrap_or_else(|| panic!("{name} is not in the table"));
        let mut expected = metric.labels.to_vec();
        labels.sort_unstable();
        expected.sort_unstable();
        assert_eq!(labels, expected, "{name}");
        seen.insert(name);
    }
    let missing: Vec<_> = names::ALL
        .iter()
        .map(|m| m.name)
        .filter(|name| !seen.contains(name) && !NOT_HERE.contains(name))
        .collect();
    assert_eq!(missing, [""; 0], "in\n{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_series_of_a_deleted_config_are_gone_at_the_next_scrape_and_stay_so() {
    let mut world = World::new();
    let vms = world.vms(2);
    world.operator.declare(&world.spec("b", &vms[1..]));
    world.operator.declare(&world.spec("a", &vms[..1]));
    world.operator.start().await;
    for config in ["a", "b"] {
        world.operator.until_config(config, "ready", |config| config["ready"] == true).await;
    }
    assert!(scrape(&world).await.contains(r#"config="b""#));
    world.operator.remove("b");
    world.operator.until_config("b", "gone", Value::is_null).await;
    for _ in 0..3 {
        let text = scrape(&world).await;
        assert!(!text.contains(r#"config="b""#), "{text}");
        world.operator.until_polled("a").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_never_go_back_while_the_process_lives() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    let counters = |text: &str| -> Vec<(String, f64)> {
        let is_counter = |name: &str| names::find(name).is_some_and(|m| m.kind != names::Kind::Gauge);
        let of_line = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let is_ours = is_counter(names::of_sample(line)?.0);
            is_ours.then(|| (series.to_owned(), value.parse().unwrap()))
        };
        text.lines().filter_map(of_line).collect()
    };
    let mut before = counters(&scrape(&world).await);
    for _ in 0..3 {
        world.port(&spec.vms[0], STORAGE);
        world.until_delivered(&spec).await;
        let now = counters(&scrape(&world).await);
        for (series, value) in &before {
            let later = now.iter().find(|(other, _)| other == series).map(|(_, value)| *value);
            assert!(later.is_some_and(|later| later >= *value), "{series}: {value}, then {later:?}");
        }
        before = now;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_has_a_line_for_each_change_and_none_for_anything_else() {
    let mut world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    world.operator = Operator::new().flag(&format!("--audit-log={}", path.display()));
    let spec = world.run_with(2).await;
    world.port(&spec.vms[1], STORAGE);
    world.until_delivered(&spec).await;
    world.operator.until_polled("a").await;
    world.operator.stop().await;
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines[..2].iter().all(|line| line["before"].is_null() && line["config"]["name"] == "a"),
        "{text}"
    );
    let lengths = ["before", "after"].map(|side| lines[2][side].as_array().map(Vec::len));
    assert_eq!((&lines[2]["node"], lengths), (&json!("node-1"), [Some(1), Some(2)]), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_level_changes_at_run_time_for_who_has_the_token() {
    let world = World::new();
    world.operator.declare(&world.spec("a", &world.vms(1)));
    let token = world.operator.dir().join("token");
    std::fs::write(&token, "s3cret-token").unwrap();
    let flag = format!("--api-token-file={}", token.display());
    let process = Process::start(&world.operator, &[&flag]).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}/v1/log-level", process.api);
    let put = |body: Value, token: &'static str| {
        client
            .put(&url)
            .bearer_auth(token)
            .header("content-type", "application/json")
            .body(body.to_string())
            .send()
    };
    let status = |answer: reqwest::Result<reqwest::Response>| answer.unwrap().status().as_u16();
    assert_eq!(status(put(json!({"level": "debug"}), "wrong").await), 401);
    assert_eq!(status(put(json!({"level": "=="}), "s3cret-token").await), 400);
    assert_eq!(status(put(json!({"no": 1}), "s3cret-token").await), 400);
    let is_debug = |process: &Process| process.log_lines().iter().any(|line| line["level"] == "DEBUG");
    assert!(!is_debug(&process), "{}", process.log_end());
    assert_eq!(
        status(put(json!({"level": "info,hyper_util=trace,reqwest=trace"}), "s3cret-token").await),
        200
    );
    let answer = client.get(&url).bearer_auth("s3cret-token").send().await.unwrap().text().await.unwrap();
    assert_eq!(answer, r#"{"level":"info,hyper_util=trace,reqwest=trace"}"#);
    let deadline = Instant::now() + PATIENCE;
    while !process.log_lines().iter().any(|line| line["level"] == "TRACE" || line["level"] == "DEBUG") {
        assert!(Instant::now() < deadline, "{}", process.log_end());
        tokio::time::sleep(GLANCE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_nobody_changes_the_log_level() {
    let mut world = World::new();
    world.run_with(1).await;
    let url = format!("http://{}/v1/log-level", world.operator.running().api);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.put(url).body(r#"{"level":"off"}"#).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 403);
}
