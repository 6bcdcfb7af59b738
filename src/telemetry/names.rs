//! Every metric there is: its name, what kind it is, and what it says. Nothing else is emitted.
//!
//! No label holds a VM, port, MAC, IP or URL: the number of series follows the number of configs.

use metrics::Unit;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values up to these bounds.
    Histogram(&'static [f64]),
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its full name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its unit, where it has one.
    pub unit: Option<Unit>,
    /// Its labels; `le` of a histogram is not among them.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

/// Bounds for requests and rounds: from a local answer to a deadline of minutes.
pub const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Bounds for what waits for polls: from an event to several slow intervals.
pub const MINUTES: &[f64] = &[0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];
/// Bounds for one message handled by an actor: well below a millisecond unless something blocks.
pub const HANDLING: &[f64] = &[0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// Per-process counters and histograms whose label values are known beforehand: a rate over them exists from
/// the start. Those of actors are added by their kinds.
pub const FROM_ZERO: &[(&str, &[(&str, &str)])] = &[
    (SYNC_DURATION, &[("result", "ok")]),
    (SYNC_DURATION, &[("result", "error")]),
    (CHANGE_DELIVERY, &[]),
    (INVENTORY_PERSISTS, &[("result", "ok")]),
    (INVENTORY_PERSISTS, &[("result", "error")]),
    (INVENTORY_PERSIST_DURATION, &[]),
];

/// The metric and the labels of a sample line of Prometheus' text format; `None` for a comment.
pub fn of_sample(line: &str) -> Option<(&str, Vec<&str>)> {
    let (series, _value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let whole = |suffix| name.strip_suffix(suffix).filter(|name| find(name).is_some());
    let name = ["_bucket", "_sum", "_count"].into_iter().find_map(whole).unwrap_or(name);
    // No value of ours ends in `,name`: what stands before `="` is a label.
    let labels =
        labels.trim_end_matches('}').split("=\"").map(|text| text.rsplit(',').next().unwrap_or(text));
    let labels = labels.filter(|label| !label.contains('"') && !label.is_empty() && *label != "le");
    Some((name, labels.collect()))
}

/// What is known of a metric.
pub fn find(name: &str) -> Option<&'static Metric> {
    ALL.iter().find(|metric| metric.name == name)
}

macro_rules! metrics {
    ($($constant:ident = $name:literal, $kind:expr, $unit:expr, [$($label:literal),*], $help:literal;)*) => {
        $(#[doc = $help] pub const $constant: &str = $name;)*
        /// All of them, sorted as in the documentation.
        pub const ALL: &[Metric] = &[$(Metric { name: $name, kind: $kind, unit: $unit, labels: &[$($label),*], help: $help },)*];
    };
}

const SEC: Option<Unit> = Some(Unit::Seconds);
const COUNT: Option<Unit> = Some(Unit::Count);

metrics! {
    CONFIG_READY = "multinic_config_ready", Kind::Gauge, None, ["namespace", "config"],
        "1 while the config's Ready condition is True.";
    CONFIG_DEGRADED = "multinic_config_degraded", Kind::Gauge, None, ["namespace", "config"],
        "1 while the config's Degraded condition is True.";
    CONFIG_PAUSED = "multinic_config_paused", Kind::Gauge, None, ["namespace", "config"],
        "1 while the config is paused.";
    CONFIG_NODES = "multinic_config_nodes", Kind::Gauge, COUNT, ["namespace", "config", "state"],
        "Nodes of the config by state: desired, delivered, skipped; with spec.delivery configured, in_progress, failed too.";
    CONFIG_INTERFACES = "multinic_config_interfaces", Kind::Gauge, COUNT, ["namespace", "config"],
        "Ports of the config that became interfaces in the last round.";
    CONFIG_DOWN_PORTS = "multinic_config_down_ports", Kind::Gauge, COUNT, ["namespace", "config"],
        "Selected ports of the config that Neutron reports as DOWN.";
    CONFIG_PORTS = "multinic_config_ports", Kind::Gauge, COUNT, ["namespace", "config", "verdict"],
        "Ports of the config's VMs by verdict in the last round.";
    CONFIG_LAST_SUCCESS = "multinic_config_last_success_timestamp_seconds", Kind::Gauge, SEC, ["namespace", "config"],
        "When a round of the config last succeeded and was delivered.";
    CONFIG_LAST_SYNC_DURATION = "multinic_config_last_sync_duration_seconds", Kind::Gauge, SEC, ["namespace", "config"],
        "How long the config's last round took, from its begin to the last decision.";
    CONFIG_POLL_INTERVAL = "multinic_config_poll_interval_seconds", Kind::Gauge, SEC, ["namespace", "config"],
        "Time between the config's last and next poll.";
    CONFIG_TOKEN_EXPIRY = "multinic_config_token_expiry_timestamp_seconds", Kind::Gauge, SEC, ["namespace", "config"],
        "When the token that the config uses ends.";
    CONFIG_SYNCS = "multinic_config_syncs_total", Kind::Counter, COUNT, ["namespace", "config", "reason"],
        "Rounds of the config by what they came to, in the words of the Ready reason; one with changes is Synced.";
    CONFIG_DELIVERED_NODES = "multinic_config_delivered_nodes_total", Kind::Counter, COUNT, ["namespace", "config", "result"],
        "Nodes of the config that were posted, by result: accepted, rejected (this node refused), failed (the POST).";
    BUILD_INFO = "multinic_build_info", Kind::Gauge, None, ["version"],
        "1, with the version as a label.";
    CONFIGS = "multinic_configs", Kind::Gauge, COUNT, ["state"],
        "Configs by the first state that holds: paused, pending, not_ready, degraded, ready.";
    LEADER = "multinic_leader", Kind::Gauge, None, [],
        "1 while this process polls and delivers.";
    SYNC_DURATION = "multinic_sync_duration_seconds", Kind::Histogram(SECONDS), SEC, ["result"],
        "Duration of rounds by result: ok, error.";
    CHANGE_DELIVERY = "multinic_change_delivery_seconds", Kind::Histogram(MINUTES), SEC, [],
        "From a port first seen to its node delivered; ports of changes that are held back do not count.";
    UPSTREAM_REQUESTS = "multinic_upstream_requests_total", Kind::Counter, COUNT, ["cloud", "service", "operation", "code"],
        "Requests to other systems by cloud, service, operation and status code.";
    UPSTREAM_REQUEST_DURATION = "multinic_upstream_request_duration_seconds", Kind::Histogram(SECONDS), SEC, ["service", "operation"],
        "Duration of requests to other systems, waiting for a limit not included.";
    UPSTREAM_THROTTLE = "multinic_upstream_throttle_seconds_total", Kind::Counter, SEC, ["cloud", "service"],
        "Time that requests waited for a cloud's limits.";
    ACTORS = "multinic_actors", Kind::Gauge, COUNT, ["kind"],
        "Running actors by kind.";
    ACTOR_RESTARTS = "multinic_actor_restarts_total", Kind::Counter, COUNT, ["kind", "cause"],
        "Restarts of actors by kind and cause.";
    ACTOR_HANDLE = "multinic_actor_handle_seconds", Kind::Histogram(HANDLING), SEC, ["kind"],
        "Time an actor spent on one message.";
    INVENTORY_RECORDS = "multinic_inventory_records", Kind::Gauge, COUNT, [],
        "Nodes in the inventory as last persisted.";
    INVENTORY_UNPERSISTED = "multinic_inventory_unpersisted_changes", Kind::Gauge, COUNT, [],
        "Changes of the inventory that no store has yet.";
    INVENTORY_PERSISTS = "multinic_inventory_persists_total", Kind::Counter, COUNT, ["result"],
        "Attempts to persist the inventory by result.";
    INVENTORY_PERSIST_DURATION = "multinic_inventory_persist_duration_seconds", Kind::Histogram(SECONDS), SEC, [],
        "Duration of attempts to persist the inventory.";
    INVENTORY_LAST_PERSIST = "multinic_inventory_last_persist_timestamp_seconds", Kind::Gauge, SEC, [],
        "When the inventory was last persisted.";
    WATCH_EVENTS = "multinic_watch_events_total", Kind::Counter, COUNT, ["kind"],
        "Events of watches by kind of object.";
    WATCH_RESTARTS = "multinic_watch_restarts_total", Kind::Counter, COUNT, ["kind"],
        "Watches that had to be opened again, by kind of object.";
    WATCH_LAST_EVENT = "multinic_watch_last_event_timestamp_seconds", Kind::Gauge, SEC, ["kind"],
        "When a watch last brought something, be it a list or a bookmark, by kind of object.";
    PROCESS_CPU = "process_cpu_seconds_total", Kind::Counter, SEC, [],
        "User and system CPU time of the process.";
    PROCESS_MEMORY = "process_resident_memory_bytes", Kind::Gauge, Some(Unit::Bytes), [],
        "Resident memory of the process.";
    PROCESS_FDS = "process_open_fds", Kind::Gauge, COUNT, [],
        "Open file descriptors of the process.";
    PROCESS_START = "process_start_time_seconds", Kind::Gauge, SEC, [],
        "When the process started, since the epoch.";
}
