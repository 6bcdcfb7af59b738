//! `make bench`: what one scrape costs with a thousand configs.
//!
//! CPU time of this process, which does nothing else; the scrape itself runs on one thread.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use multinic_actors::boundary::{RoundEnded, StatusSink, Witness};
use multinic_actors::domain::ids::ConfigId;
use multinic_actors::domain::port::Verdict;
use multinic_actors::domain::reason::Reason;
use multinic_actors::domain::status::{ConfigStatus, Degraded, NodeCounts};
use multinic_operator::telemetry::{Collector, ConfigMetrics, MetricsHandle};

const CONFIGS: usize = 1000;
const SCRAPES: u32 = 20;

fn main() {
    let metrics = MetricsHandle::new();
    let configs = Arc::new(ConfigMetrics::new(metrics.clone()));
    let started = Instant::now();
    for number in 0..CONFIGS {
        let id = ConfigId::new(format!("tenant-{:03}", number % 100), format!("cluster-{number:04}"), "uid");
        configs.publish(&id, Arc::new(status(&id)));
        for reason in [Reason::Synced, Reason::NoChange, Reason::NeutronPortError] {
            let took = std::time::Duration::from_millis(250);
            configs.round_ended(&RoundEnded { id: id.clone(), round: 1, reason, took, down_ports: Some(1) });
        }
    }
    println!("publishing {CONFIGS} states took {:.2} ms", started.elapsed().as_secs_f64() * 1e3);
    let metrics = metrics.with([Arc::clone(&configs) as Arc<dyn Collector>]);
    let size = metrics.render().len();
    let before = cpu_seconds();
    for _ in 0..SCRAPES {
        std::hint::black_box(metrics.render());
    }
    let each = (cpu_seconds() - before) / f64::from(SCRAPES);
    println!("| a scrape with {CONFIGS} configs | measured | at most |");
    println!("|---|---|---|");
    println!("| CPU | **{:.1} ms** | 50 ms |", each * 1e3);
    println!("| size | **{:.2} MiB** | 2 MiB |", size as f64 / f64::from(1 << 20));
}

/// From the process' own metrics.
fn cpu_seconds() -> f64 {
    let text = MetricsHandle::new().render();
    let line = text.lines().find_map(|line| line.strip_prefix("process_cpu_seconds_total ")).unwrap();
    line.parse().unwrap()
}

fn status(id: &ConfigId) -> ConfigStatus {
    let now = Timestamp::now();
    ConfigStatus {
        id: id.clone(),
        observed_generation: 1,
        ready: Some(true),
        reason: Reason::NoChange,
        message: String::new(),
        degraded: Degraded::Healthy,
        paused: false,
        last_synced_at: Some(now),
        last_error: None,
        down_port_retry: None,
        nodes: NodeCounts { desired: 10, delivered: 10, ..NodeCounts::default() },
        skipped: Vec::new(),
        pending_changes: Vec::new(),
        ports: BTreeMap::from([
            (Verdict::Selected, 20),
            (Verdict::NoTargetSubnet, 10),
            (Verdict::BeforeBaseline, 3),
        ]),
        vms: Vec::new(),
        next_poll_at: Some(now),
        last_poll_at: Some(now - jiff::SignedDuration::from_secs(120)),
        last_error_detail: None,
        token_expires_at: Some(now),
        failed: Vec::new(),
        workload: None,
    }
}
