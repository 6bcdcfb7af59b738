use metrics::{gauge, histogram, with_local_recorder};

use super::*;

fn lines(handle: &MetricsHandle, name: &str) -> Vec<String> {
    let text = handle.render();
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.map(str::to_owned).collect()
}

#[test]
fn labels_are_escaped() {
    let handle = MetricsHandle::new();
    handle.gauge(names::CONFIG_READY, &[("config", "a\"b\\c\nd")], 1.0);
    assert_eq!(lines(&handle, names::CONFIG_READY), [r#"multinic_config_ready{config="a\"b\\c\nd"} 1"#]);
}

#[test]
fn a_counter_of_seconds_is_a_counter_with_fractions() {
    let handle = MetricsHandle::new();
    with_local_recorder(&handle, || {
        gauge!(names::UPSTREAM_THROTTLE, "cloud" => "c", "service" => "nova").increment(0.25);
        gauge!(names::UPSTREAM_THROTTLE, "cloud" => "c", "service" => "nova").increment(0.5);
    });
    let text = handle.render();
    assert!(text.contains("# TYPE multinic_upstream_throttle_seconds_total counter\n"));
    assert!(text.contains(r#"multinic_upstream_throttle_seconds_total{cloud="c",service="nova"} 0.75"#));
}

#[test]
fn buckets_are_cumulative() {
    let handle = MetricsHandle::new();
    with_local_recorder(&handle, || {
        for value in [0.001, 0.005, 0.3, 1000.0] {
            histogram!(names::SYNC_DURATION, "result" => "ok").record(value);
        }
    });
    let line = |le: &str, count: u32| {
        format!(r#"multinic_sync_duration_seconds_bucket{{result="ok",le="{le}"}} {count}"#)
    };
    let text = handle.render();
    for expected in [line("0.005", 2), line("0.25", 2), line("0.5", 3), line("60", 3), line("+Inf", 4)] {
        assert!(text.contains(&expected), "{expected} in\n{text}");
    }
    assert!(text.contains(r#"multinic_sync_duration_seconds_count{result="ok"} 4"#));
}

#[test]
fn closed_counters_start_at_zero_and_the_process_is_described() {
    let text = MetricsHandle::new().render();
    assert!(text.contains(r#"multinic_inventory_persists_total{result="error"} 0"#), "{text}");
    assert!(text.contains("# TYPE process_cpu_seconds_total counter\n"), "{text}");
    assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
    assert!(text.contains("# HELP multinic_build_info "), "{text}");
    assert_eq!(text, sorted_families(&text), "families are sorted");
}

fn sorted_families(text: &str) -> String {
    let mut families: Vec<String> = text.split("# HELP ").skip(1).map(|f| format!("# HELP {f}")).collect();
    families.sort();
    families.concat()
}

#[test]
fn every_name_is_well_formed_and_there_once() {
    let mut seen = std::collections::BTreeSet::new();
    for metric in names::ALL {
        assert!(seen.insert(metric.name), "{} twice", metric.name);
        let is_known_prefix = metric.name.starts_with("multinic_") || metric.name.starts_with("process_");
        assert!(is_known_prefix, "{}", metric.name);
        let is_counter = metric.kind == Kind::Counter;
        assert_eq!(metric.name.ends_with("_total"), is_counter, "{}", metric.name);
        assert!(metric.help.ends_with('.'), "{}", metric.name);
        let is_seconds = metric.name.trim_end_matches("_total").ends_with("_seconds");
        assert_eq!(is_seconds, metric.unit == Some(metrics::Unit::Seconds), "{}", metric.name);
        let is_of_config = metric.name.starts_with("multinic_config_");
        assert_eq!(is_of_config, metric.labels.starts_with(&["namespace", "config"]), "{}", metric.name);
    }
}

/// The names, types, units and labels that dashboards, alerts and people rely on.
#[test]
fn the_list_of_metrics_is_the_one_that_is_checked_in() {
    let line = |metric: &names::Metric| {
        let unit = metric.unit.map_or("-", |unit| unit.as_str());
        let (kind, labels) = (metric.kind.as_str(), metric.labels.join(","));
        let labels = if labels.is_empty() { "-" } else { &labels };
        format!("{} {kind} {unit} {labels} {}\n", metric.name, metric.help)
    };
    let list: String = names::ALL.iter().map(line).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/dashboards/metrics.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &list).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == list, "dashboards/metrics.txt is stale: run `make golden`\n{list}");
}
