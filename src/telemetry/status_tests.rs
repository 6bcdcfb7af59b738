use multinic_actors::domain::reason::Reason;
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

fn sink() -> (MetricsHandle, MetricsStatusSink) {
    let metrics = MetricsHandle::new();
    (metrics.clone(), MetricsStatusSink::new(metrics))
}

fn has(metrics: &MetricsHandle, line: &str) {
    let text = metrics.render();
    assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
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
