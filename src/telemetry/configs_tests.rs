use std::time::Duration;

use multinic_actors::domain::status::NodeCounts;

use super::*;

fn status(id: &ConfigId, reason: Reason) -> ConfigStatus {
    ConfigStatus {
        id: id.clone(),
        observed_generation: 1,
        ready: reason.ready(),
        reason,
        message: String::new(),
        degraded: Degraded::Healthy,
        paused: false,
        last_synced_at: None,
        last_error: None,
        down_port_retry: None,
        nodes: NodeCounts::default(),
        skipped: Vec::new(),
        pending_changes: Vec::new(),
        ports: BTreeMap::new(),
        vms: Vec::new(),
        next_poll_at: None,
        last_poll_at: None,
        last_error_detail: None,
        token_expires_at: None,
        failed: Vec::new(),
        workload: None,
    }
}

fn sink() -> (MetricsHandle, Arc<ConfigMetrics>) {
    let metrics = MetricsHandle::new();
    let sink = Arc::new(ConfigMetrics::new(metrics.clone()));
    (metrics.with([Arc::clone(&sink) as Arc<dyn Collector>]), sink)
}

fn has(metrics: &MetricsHandle, line: &str) {
    let text = metrics.render();
    assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
}

fn round(id: &ConfigId, reason: Reason, down_ports: Option<u32>) -> RoundEnded {
    RoundEnded { id: id.clone(), round: 1, reason, took: Duration::from_millis(1500), down_ports }
}

#[test]
fn a_status_becomes_gauges() {
    let (metrics, sink) = sink();
    let id = ConfigId::new("ns", "a", "u");
    let mut now = status(&id, Reason::Synced);
    now.nodes = NodeCounts { desired: 3, delivered: 2, skipped: 1, ..NodeCounts::default() };
    now.degraded = Degraded::PartiallySynced;
    now.ports = [(Verdict::Selected, 6), (Verdict::NoIPv4, 1)].into();
    now.last_synced_at = Some(Timestamp::from_second(1_000).unwrap());
    now.last_poll_at = Some(Timestamp::from_second(1_000).unwrap());
    now.next_poll_at = Some(Timestamp::from_second(1_120).unwrap());
    sink.publish(&id, Arc::new(now));
    for line in [
        r#"multinic_config_ready{namespace="ns",config="a"} 1"#,
        r#"multinic_config_degraded{namespace="ns",config="a"} 1"#,
        r#"multinic_config_paused{namespace="ns",config="a"} 0"#,
        r#"multinic_config_nodes{namespace="ns",config="a",state="delivered"} 2"#,
        r#"multinic_config_interfaces{namespace="ns",config="a"} 6"#,
        r#"multinic_config_ports{namespace="ns",config="a",verdict="NoIPv4"} 1"#,
        r#"multinic_config_last_success_timestamp_seconds{namespace="ns",config="a"} 1000"#,
        r#"multinic_config_poll_interval_seconds{namespace="ns",config="a"} 120"#,
        r#"multinic_configs{state="degraded"} 1"#,
    ] {
        has(&metrics, line);
    }
}

#[test]
fn a_verdict_that_no_port_has_any_more_goes_back_to_zero() {
    let (metrics, sink) = sink();
    let id = ConfigId::new("ns", "a", "u");
    let mut first = status(&id, Reason::Synced);
    first.ports = [(Verdict::NoIPv4, 4)].into();
    sink.publish(&id, Arc::new(first));
    for _ in 0..2 {
        sink.publish(&id, Arc::new(status(&id, Reason::NoChange)));
        has(&metrics, r#"multinic_config_ports{namespace="ns",config="a",verdict="NoIPv4"} 0"#);
    }
}

#[test]
fn configs_are_counted_by_the_first_state_that_holds() {
    let (metrics, sink) = sink();
    let reasons = [Reason::Pending, Reason::Synced, Reason::NovaError, Reason::Synced];
    for (i, reason) in reasons.into_iter().enumerate() {
        let id = ConfigId::new("ns", i.to_string(), "u");
        let mut now = status(&id, reason);
        now.paused = i == 3;
        sink.publish(&id, Arc::new(now));
    }
    for (state, count) in [("paused", 1), ("pending", 1), ("not_ready", 1), ("degraded", 0), ("ready", 1)] {
        has(&metrics, &format!("multinic_configs{{state=\"{state}\"}} {count}"));
    }
}

#[test]
fn a_deleted_config_leaves_nothing_unless_another_one_has_its_name() {
    let (metrics, sink) = sink();
    let (old, new) = (ConfigId::new("ns", "a", "1"), ConfigId::new("ns", "a", "2"));
    sink.publish(&old, Arc::new(status(&old, Reason::Synced)));
    sink.publish(&new, Arc::new(status(&new, Reason::Synced)));
    sink.forget(&old);
    has(&metrics, r#"multinic_config_ready{namespace="ns",config="a"} 1"#);
    sink.forget(&new);
    assert!(!metrics.render().contains(r#"config="a""#));
    has(&metrics, r#"multinic_configs{state="ready"} 0"#);
}

#[test]
fn rounds_are_counted_by_reason_and_timed() {
    let (metrics, sink) = sink();
    let id = ConfigId::new("ns", "a", "u");
    sink.publish(&id, Arc::new(status(&id, Reason::Synced)));
    sink.round_ended(&round(&id, Reason::Synced, Some(2)));
    sink.round_ended(&round(&id, Reason::NovaError, None));
    for line in [
        r#"multinic_config_syncs_total{namespace="ns",config="a",reason="Synced"} 1"#,
        r#"multinic_config_syncs_total{namespace="ns",config="a",reason="NovaError"} 1"#,
        r#"multinic_config_last_sync_duration_seconds{namespace="ns",config="a"} 1.5"#,
        r#"multinic_config_down_ports{namespace="ns",config="a"} 2"#,
        r#"multinic_sync_duration_seconds_count{result="ok"} 1"#,
        r#"multinic_sync_duration_seconds_count{result="error"} 1"#,
    ] {
        has(&metrics, line);
    }
}

#[test]
fn what_arrives_after_a_config_is_gone_brings_nothing_back() {
    let (metrics, sink) = sink();
    let id = ConfigId::new("ns", "a", "u");
    sink.publish(&id, Arc::new(status(&id, Reason::Synced)));
    sink.posted(&id, Posted { accepted: 3, rejected: 0, failed: 1 });
    has(&metrics, r#"multinic_config_delivered_nodes_total{namespace="ns",config="a",result="accepted"} 3"#);
    has(&metrics, r#"multinic_config_delivered_nodes_total{namespace="ns",config="a",result="failed"} 1"#);
    sink.forget(&id);
    sink.posted(&id, Posted { accepted: 1, ..Posted::default() });
    sink.round_ended(&round(&id, Reason::Synced, Some(0)));
    assert!(!metrics.render().contains(r#"config="a""#), "{}", metrics.render());
}

#[test]
fn the_counters_of_an_object_that_was_replaced_go_on_and_its_moments_do_not() {
    let (metrics, sink) = sink();
    let (old, new) = (ConfigId::new("ns", "a", "1"), ConfigId::new("ns", "a", "2"));
    let mut before = status(&old, Reason::Synced);
    before.last_synced_at = Some(Timestamp::from_second(1_000).unwrap());
    sink.publish(&old, Arc::new(before));
    sink.round_ended(&round(&old, Reason::Synced, Some(0)));
    sink.publish(&old, Arc::new(status(&old, Reason::Pending)));
    has(&metrics, r#"multinic_config_last_success_timestamp_seconds{namespace="ns",config="a"} 1000"#);
    sink.publish(&new, Arc::new(status(&new, Reason::Pending)));
    sink.round_ended(&round(&new, Reason::Synced, Some(0)));
    has(&metrics, r#"multinic_config_syncs_total{namespace="ns",config="a",reason="Synced"} 2"#);
    assert!(!metrics.render().contains("multinic_config_last_success_timestamp_seconds{"));
}

#[test]
fn ports_that_waited_are_seen_in_the_histogram_of_changes() {
    let (metrics, sink) = sink();
    let config = multinic_actors::testing::config("a").vms(1).build();
    let waits = vec![Duration::from_millis(400), Duration::from_secs(90)];
    sink.changes_delivered(&ChangesDelivered { config, at: Timestamp::UNIX_EPOCH, nodes: Vec::new(), waits });
    has(&metrics, r#"multinic_change_delivery_seconds_bucket{le="0.5"} 1"#);
    has(&metrics, "multinic_change_delivery_seconds_sum 90.4");
}

#[test]
fn names_of_objects_are_escaped() {
    let (metrics, sink) = sink();
    let id = ConfigId::new("ns", "a\"b\\c", "u");
    sink.publish(&id, Arc::new(status(&id, Reason::Synced)));
    has(&metrics, r#"multinic_config_ready{namespace="ns",config="a\"b\\c"} 1"#);
}

#[test]
fn a_replica_that_stands_by_shows_no_config_and_counts_on_when_it_leads_again() {
    let (metrics, sink) = sink();
    let (a, b) = (ConfigId::new("ns", "a", "u"), ConfigId::new("ns", "b", "u"));
    for id in [&a, &b] {
        sink.publish(id, Arc::new(status(id, Reason::Synced)));
        sink.round_ended(&round(id, Reason::Synced, Some(0)));
    }
    sink.stand_by();
    assert!(!metrics.render().contains("config=\""), "{}", metrics.render());
    has(&metrics, r#"multinic_configs{state="ready"} 0"#);
    // `b` was deleted while another replica led.
    sink.publish(&a, Arc::new(status(&a, Reason::Synced)));
    sink.round_ended(&round(&a, Reason::Synced, Some(0)));
    has(&metrics, r#"multinic_config_syncs_total{namespace="ns",config="a",reason="Synced"} 2"#);
    has(&metrics, r#"multinic_configs{state="ready"} 1"#);
    sink.stand_by();
    sink.publish(&b, Arc::new(status(&b, Reason::Synced)));
    sink.round_ended(&round(&b, Reason::Synced, Some(0)));
    has(&metrics, r#"multinic_config_syncs_total{namespace="ns",config="b",reason="Synced"} 1"#);
    has(&metrics, r#"multinic_configs{state="ready"} 1"#);
}
