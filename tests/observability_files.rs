//! Dashboards, alerts and runbook against the program: every name they use is one that it has, and nothing that
//! it has is forgotten. `make e2e-observability` does the same with a real Prometheus.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use multinic_operator::telemetry::names;
use serde_json::Value;

/// What Prometheus adds, and what histograms have.
const FOREIGN_LABELS: [&str; 5] = ["job", "instance", "le", "alertname", "alertstate"];
/// Prometheus' own.
const FOREIGN_METRICS: [&str; 1] = ["ALERTS"];
const RUNBOOK: &str = "https://multinic.example.com/runbook";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    yaml_serde::from_str(&read(path)).unwrap()
}

/// The strings under this key, wherever they are.
fn strings<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match value {
                    Value::String(text) if name == key => found.push(text),
                    other => strings(other, key, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| strings(value, key, found)),
        _ => {}
    }
}

fn dashboards() -> BTreeMap<&'static str, Value> {
    let parse = |path| (path, serde_json::from_str(&read(path)).unwrap());
    ["dashboards/overview.json", "dashboards/internals.json"].map(parse).into()
}

fn rules() -> Vec<Value> {
    let groups = yaml("dashboards/alerts.yaml")["groups"].as_array().unwrap().clone();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn alerts() -> BTreeMap<String, Value> {
    let named = |rule: Value| Some((rule["alert"].as_str()?.to_owned(), rule));
    rules().into_iter().filter_map(named).collect()
}

/// Every query: of rules, panels, variables and annotations, with where it stands.
fn queries() -> Vec<(String, String)> {
    let name = |rule: &Value| rule["alert"].as_str().or(rule["record"].as_str()).unwrap().to_owned();
    let mut all: Vec<_> =
        rules().iter().map(|rule| (name(rule), rule["expr"].as_str().unwrap().to_owned())).collect();
    for (path, dashboard) in dashboards() {
        let mut found = Vec::new();
        strings(&dashboard, "expr", &mut found);
        strings(&dashboard, "definition", &mut found);
        all.extend(found.into_iter().map(|query| (path.to_owned(), query.to_owned())));
    }
    all
}

/// A metric's name in a query, and the labels of the selector after it.
fn selectors(query: &str) -> Vec<(String, Vec<String>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '"') {
        rest = &rest[start..];
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted.split_once('"').map_or("", |(_, after)| after);
            continue;
        }
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        rest = after;
        let is_metric = name.starts_with("multinic") || name.starts_with("process_") || name == "ALERTS";
        if is_metric {
            let labels = after.strip_prefix('{').and_then(|inside| inside.split_once('}'));
            found.push((name.to_owned(), labels.map_or_else(Vec::new, |(inside, _)| label_names(inside))));
        }
    }
    found
}

/// `a="x", b=~"y"` → a, b. No value of ours has a comma followed by a name and an equals sign.
fn label_names(inside: &str) -> Vec<String> {
    let parts = inside.split('"').step_by(2);
    let name = |part: &str| part.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_').to_owned();
    parts.map(name).filter(|name| !name.is_empty()).collect()
}

/// The labels of `by (…)`, `on (…)` and `{{…}}`.
fn grouping_labels(query: &str) -> Vec<String> {
    let mut found = Vec::new();
    for word in ["by (", "on (", "without ("] {
        for after in query.split(word).skip(1) {
            let inside = after.split(')').next().unwrap();
            found.extend(inside.split(',').map(|label| label.trim().to_owned()).filter(|l| !l.is_empty()));
        }
    }
    found
}

/// The metric behind a series' name.
fn metric(name: &str) -> Option<&'static names::Metric> {
    let whole = |suffix| name.strip_suffix(suffix).and_then(names::find);
    names::find(name).or_else(|| ["_bucket", "_sum", "_count"].into_iter().find_map(whole))
}

#[test]
fn no_query_names_a_metric_or_label_that_the_program_does_not_have() {
    let records: BTreeSet<String> =
        rules().iter().filter_map(|rule| Some(rule["record"].as_str()?.to_owned())).collect();
    let every_label: BTreeSet<&str> =
        names::ALL.iter().flat_map(|m| m.labels).copied().chain(FOREIGN_LABELS).collect();
    for (place, query) in queries() {
        for (name, labels) in selectors(&query) {
            let known: Vec<&str> = match metric(&name) {
                Some(metric) => metric.labels.iter().copied().chain(FOREIGN_LABELS).collect(),
                None if records.contains(&name) || FOREIGN_METRICS.contains(&&*name) => {
                    every_label.iter().copied().collect()
                }
                None => panic!("{place}: there is no metric {name}: {query}"),
            };
            let stranger = labels.iter().find(|label| !known.contains(&label.as_str()));
            assert_eq!(stranger, None, "{place}: {name} has no such label: {query}");
        }
        for label in grouping_labels(&query) {
            assert!(every_label.contains(&*label), "{place}: nothing has a label {label}: {query}");
        }
    }
}

#[test]
fn every_metric_is_in_a_panel_or_an_alert() {
    let queries = queries();
    let used: BTreeSet<&str> = queries
        .iter()
        .flat_map(|(_, query)| selectors(query))
        .filter_map(|(name, _)| Some(metric(&name)?.name))
        .collect();
    let forgotten: Vec<_> = names::ALL.iter().map(|m| m.name).filter(|name| !used.contains(name)).collect();
    assert_eq!(forgotten, [""; 0]);
}

#[test]
fn reasons_states_and_verdicts_in_queries_are_words_of_the_code() {
    let code = read("actors/src/domain/reason.rs") + &read("actors/src/domain/port.rs");
    let code = code + &read("actors/src/domain/restart.rs") + &read("src/telemetry/configs.rs");
    for (place, query) in queries() {
        let query = query.replace("alertstate", "");
        for label in ["reason", "verdict", "state", "result"] {
            for after in query.split(&format!("{label}=")).chain(query.split(&format!("{label}!~"))).skip(1) {
                let after = after.trim_start_matches('~');
                let Some(value) = after.strip_prefix('"').and_then(|value| value.split('"').next()) else {
                    continue;
                };
                for word in value.split('|').filter(|word| !word.starts_with('$')) {
                    let is_word = [format!("    {word},"), format!("\"{word}\"")];
                    let is_known = is_word.iter().any(|text| code.contains(text)) || word == "error";
                    assert!(is_known, "{place}: {label}={word:?}: {query}");
                }
            }
        }
    }
}

#[test]
fn an_alert_says_what_it_is_about_and_where_to_read_on() {
    let alerts = alerts();
    for (name, rule) in &alerts {
        let text = |key: &str| rule["annotations"][key].as_str().unwrap_or_default().to_owned();
        assert_eq!(text("runbook_url"), format!("{RUNBOOK}#{}", name.to_lowercase()), "{name}");
        assert!(!text("summary").is_empty() && text("description").contains("Next: "), "{name}");
        let severity = rule["labels"]["severity"].as_str().unwrap_or_default();
        assert!(["page", "ticket"].contains(&severity), "{name}: {severity}");
        assert!(rule["for"].is_string(), "{name}: an alert that does not wait is shaken by every scrape");
        let is_of_config = rule["expr"].as_str().unwrap().contains("multinic_config_");
        let names_it = text("summary").contains("$labels.namespace }}/{{ $labels.config");
        assert!(names_it || !is_of_config, "{name} does not name its config");
    }
    // Each is tested with promtool: it fires, with its text.
    let tests = yaml("dashboards/tests/alerts.yaml");
    let fired: BTreeSet<String> = tests["tests"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|test| test["alert_rule_test"].as_array().unwrap().clone())
        .filter(|test| test["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty()))
        .map(|test| test["alertname"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(fired, alerts.into_keys().collect());
}

/// The variants of an enum, from its source.
fn variants(path: &str, name: &str) -> Vec<String> {
    let source = read(path);
    let body = source.split_once(&format!("pub enum {name} {{")).unwrap().1.split_once("\n}").unwrap().0;
    let word = |line: &str| Some(line.trim().strip_suffix(',')?.to_owned());
    body.lines().filter(|line| !line.trim().starts_with("//")).filter_map(word).collect()
}

#[test]
fn the_runbook_has_a_section_for_each_alert_and_each_reason_in_both_languages() {
    let mut expected: BTreeSet<String> = alerts().into_keys().collect();
    expected.extend(variants("actors/src/domain/reason.rs", "Reason"));
    expected.extend(variants("actors/src/domain/reason.rs", "SkipReason"));
    assert!(expected.len() > 40, "{expected:?}");
    for path in ["docs/runbook.md", "docs/runbook.ko.md"] {
        let text = read(path);
        let sections: Vec<(&str, &str)> =
            text.split("\n### ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
        let headings: BTreeSet<String> = sections.iter().map(|(heading, _)| (*heading).to_owned()).collect();
        assert_eq!(headings, expected, "{path}");
        assert_eq!(sections.len(), expected.len(), "{path}: a heading stands there twice");
        for (heading, body) in sections {
            let points = body.lines().filter(|line| line.starts_with("- **")).count();
            assert_eq!(points, 4, "{path}: {heading}: means, noticed, check, fix");
        }
    }
}

#[test]
fn dashboards_are_portable_and_every_panel_says_what_it_shows() {
    for (path, dashboard) in dashboards() {
        let text = dashboard.to_string();
        assert!(dashboard["id"].is_null() && dashboard["schemaVersion"].as_u64() >= Some(39), "{path}");
        let mut sources = Vec::new();
        for source in text.split("\"datasource\":").skip(1).filter(|source| source.starts_with('{')) {
            sources.push(source.contains("${datasource}"));
        }
        assert!(!sources.is_empty() && sources.iter().all(|is_variable| *is_variable), "{path}");
        for panel in dashboard["panels"].as_array().unwrap() {
            let is_row = panel["type"] == "row";
            let has_words = panel["description"].as_str().is_some_and(|words| words.ends_with('.'));
            assert!(is_row || has_words, "{path}: {}", panel["title"]);
            let end = panel["gridPos"]["x"].as_u64().unwrap() + panel["gridPos"]["w"].as_u64().unwrap();
            assert!(end <= 24, "{path}: {} is beyond the edge", panel["title"]);
        }
    }
}

#[test]
fn generated_files_are_what_their_scripts_write() {
    for script in ["dashboards/generate.py", "charts/readme.py"] {
        let mut python = Command::new("python3");
        let Ok(output) = python.arg(root().join(Path::new(script))).arg("--check").output() else {
            // Without Python the files are only used, not made; `make charts` checks them again.
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "run {script}: {said}");
    }
}
