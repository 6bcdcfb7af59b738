//! Every query of every panel has data while things go wrong, and Prometheus can evaluate every rule.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use multinic_operator::sim::ViolaAnswer;
use serde_json::{Value, json};

use crate::e2e_support::Operator;
use crate::prometheus::Prometheus;
use crate::world::{STORAGE, World};

/// Panels without data here, and why.
pub const WITHOUT_DATA: [(&str, &str); 3] = [
    ("multinic_watch_events_total", "no cluster: the objects come from a folder"),
    ("multinic_watch_restarts_total", "no cluster: the objects come from a folder"),
    ("multinic_watch_last_event_timestamp_seconds", "no cluster: the objects come from a folder"),
];
/// A minute of faults, and as much again for a busy machine.
const PATIENCE: Duration = Duration::from_secs(150);

/// (panel, query) of both dashboards, with the variables filled in.
pub fn panel_queries() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for name in ["overview", "internals"] {
        let path = format!("{}/dashboards/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "15s");
                let query = query.replace("$job", ".*").replace("$namespace", ".*").replace("$config", ".*");
                found.push((format!("{name}: {}", panel["title"].as_str().unwrap()), query));
            }
        }
    }
    found
}

/// Configs that are fine, partly skipped, paused and wrong; a cloud with a tight limit.
async fn troubled_world() -> (World, Vec<String>) {
    let mut world = World::with_operator(Operator::new().flag("--cloud-rate=4").flag("--cloud-burst=2"));
    let vms = world.vms(4);
    let unknown = "00000000-0000-4000-8000-00000000dead".to_owned();
    let mut wrong = world.spec("wrong", &vms[3..]);
    wrong.subnets = vec![unknown.clone()];
    let mut paused = world.spec("paused", &vms[2..3]);
    paused.spec.push("paused: true".to_owned());
    for spec in
        [&world.spec("good", &vms[..1]), &world.spec("partly", &[vms[1].clone(), unknown]), &paused, &wrong]
    {
        world.operator.declare(spec);
    }
    world.operator.start().await;
    (world, vms)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus: make e2e-observability"]
async fn every_panel_has_data_and_every_rule_can_be_evaluated() {
    let (world, vms) = troubled_world().await;
    let prometheus = Prometheus::of(&world.operator).await;
    let is_expected =
        |(_, query): &(String, String)| !WITHOUT_DATA.iter().any(|(name, _)| query.contains(name));
    let (mut open, absent): (Vec<_>, Vec<_>) = panel_queries().into_iter().partition(is_expected);
    let (count, start) = (open.len(), Instant::now());
    let mut step = 0;
    while !open.is_empty() {
        assert!(start.elapsed() < PATIENCE, "no data after {:.0?}: {open:#?}", start.elapsed());
        trouble(&world, &vms, step);
        step += 1;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut without = Vec::new();
        for (panel, query) in open {
            if prometheus.query(&query).await.is_empty() {
                without.push((panel, query));
            }
        }
        open = without;
    }
    println!("{count} queries had data after {:.0?}; {} wait for a cluster", start.elapsed(), absent.len());
    for (panel, query) in absent {
        prometheus.query(&query).await;
        println!("  {panel}");
    }
    assert_eq!(prometheus.broken_rules().await, [""; 0]);
}

/// Changes go on, and every other one meets a Viola that refuses it at first.
fn trouble(world: &World, vms: &[String], step: usize) {
    match step % 4 {
        0 => world.viola.set_answer(ViolaAnswer::Status(503, json!({"message": "away"}))),
        1 => drop(world.port(&vms[step / 4 % 2], STORAGE)),
        2 => world.viola.set_answer(ViolaAnswer::Accept),
        _ => world.cloud.revoke_tokens(),
    }
}

/// `make dashboard-pictures`: five minutes of the troubled world, drawn.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes docs/images: make dashboard-pictures"]
async fn pictures_of_the_dashboards() {
    let Ok(folder) = std::env::var("DASHBOARD_PICTURES") else { return };
    let (world, vms) = troubled_world().await;
    let prometheus = Prometheus::of(&world.operator).await;
    let start = Instant::now();
    let mut step = 0;
    while start.elapsed() < Duration::from_secs(200) {
        trouble(&world, &vms, step);
        step += 1;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    prometheus.draw(&folder, start.elapsed().as_secs_f64() / 60.0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs promtool: make e2e-observability"]
async fn promtool_finds_nothing_to_say_about_the_metrics() {
    let mut world = World::new();
    world.run_with(2).await;
    let url = format!("http://{}/metrics", world.operator.running().metrics.unwrap());
    let (_, text) = world.operator.get_text(&url).await;
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().expect("promtool on PATH: run `make e2e-observability`");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
