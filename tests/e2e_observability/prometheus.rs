//! A Prometheus on loopback with our rules, in which a minute takes a second.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::e2e_support::{GLANCE, Operator, PATIENCE};

/// A child process with its data. Ended when it is dropped.
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
    client: reqwest::Client,
}

impl Prometheus {
    /// Starts one that scrapes the operator every second.
    pub async fn of(operator: &Operator) -> Self {
        Self::scraping(&[operator.running().metrics.unwrap()]).await
    }

    /// Starts one that scrapes these replicas every second.
    pub async fn scraping(targets: &[SocketAddr]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        std::fs::write(folder.path().join("alerts.yaml"), hurried(&alerts())).unwrap();
        std::fs::write(folder.path().join("prometheus.yaml"), configuration(targets)).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", folder.path().join("prometheus.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = command.spawn().expect("prometheus on PATH: run `make e2e-observability`");
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let prometheus = Self { child, address, folder, client };
        prometheus.until_scraped(targets.len()).await;
        prometheus
    }

    async fn until_scraped(&self, targets: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.client.get(format!("http://{}/-/ready", self.address)).send().await;
            let is_ready = answer.is_ok_and(|answer| answer.status().is_success());
            if is_ready && self.query("multinic_build_info").await.len() == targets {
                return;
            }
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "prometheus does not scrape:\n{log}");
            tokio::time::sleep(GLANCE).await;
        }
    }

    async fn api(&self, path: &str, query: &[(&str, &str)]) -> Value {
        let url = format!("http://{}/api/v1/{path}", self.address);
        let answer = self.client.get(url).query(query).send().await.unwrap();
        let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(answer["status"], "success", "{path} {query:?}: {answer}");
        answer["data"].clone()
    }

    /// The samples of an instant query that are numbers.
    pub async fn query(&self, query: &str) -> Vec<Value> {
        let data = self.api("query", &[("query", query)]).await;
        let samples = data["result"].as_array().cloned().unwrap_or_default();
        samples.into_iter().filter(|sample| sample["value"][1] != "NaN").collect()
    }

    /// The names of the alerts that fire, with their severity.
    pub async fn firing(&self) -> Vec<(String, String)> {
        let alerts = self.api("alerts", &[]).await;
        let label = |alert: &Value, name: &str| alert["labels"][name].as_str().unwrap_or_default().to_owned();
        let alerts = alerts["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        let mut names: Vec<_> =
            firing.map(|alert| (label(alert, "alertname"), label(alert, "severity"))).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Rules that cannot be evaluated, with Prometheus' words.
    pub async fn broken_rules(&self) -> Vec<String> {
        let data = self.api("rules", &[]).await;
        let groups = data["groups"].as_array().cloned().unwrap_or_default();
        let rules = groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default());
        rules.filter(|rule| rule["health"] != "ok").map(|rule| rule.to_string()).collect()
    }
}

impl Prometheus {
    /// Draws both dashboards from what was scraped, into a folder.
    pub fn draw(&self, folder: &str, minutes: f64) {
        let mut script = Command::new("python3");
        script.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards/picture.py"));
        script.args([&format!("http://{}", self.address), folder, &minutes.to_string()]);
        assert!(script.status().unwrap().success(), "the pictures were not drawn");
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn alerts() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards/alerts.yaml")).unwrap()
}

fn configuration(targets: &[SocketAddr]) -> String {
    let targets: Vec<_> = targets.iter().map(|target| format!("\"{target}\"")).collect();
    let targets = targets.join(", ");
    format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
         rule_files: [alerts.yaml]\n\
         scrape_configs:\n- job_name: multinic\n  honor_labels: true\n  static_configs: [{{targets: [{targets}]}}]\n"
    )
}

/// The same rules with `for`, windows and ages a sixtieth as long. Other thresholds stay as they are.
pub fn hurried(rules: &str) -> String {
    let shorten = |text: &str| -> Option<String> {
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let number: u32 = number.parse().ok()?;
        match unit {
            "m" => Some(format!("{number}s")),
            "h" => Some(format!("{number}m")),
            _ => None,
        }
    };
    let windows = |line: &str| {
        let mut parts = line.split('[');
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let window = part.split_once(']').and_then(|(window, rest)| Some((shorten(window)?, rest)));
            match window {
                Some((window, rest)) => out += &format!("[{window}]{rest}"),
                None => out += &format!("[{part}"),
            }
        }
        out
    };
    // `time() - x > 600`: the last number of the line.
    let age = |line: &str| {
        let (before, number) = line.rsplit_once(' ').unwrap_or(("", line));
        let digits = number.trim_end_matches(')');
        let seconds: f64 = digits.parse().unwrap_or_else(|_| panic!("no age in {line:?}"));
        format!("{before} {}{}", seconds / 60.0, &number[digits.len()..])
    };
    let line = |line: &str| match line.trim().strip_prefix("for: ").and_then(shorten) {
        Some(time) => line.replace(line.trim(), &format!("for: {time}")),
        None if line.trim_start().starts_with("description:") => line.to_owned(),
        None if line.contains("time()") => age(line),
        None => windows(line),
    };
    rules.lines().map(|text| line(text) + "\n").collect()
}

#[test]
fn a_minute_of_the_rules_becomes_a_second_and_nothing_else_changes() {
    let rules = "  for: 10m\n  expr: rate(x[5m]) > 600 and y[1h]\n  (time() - z > 600)\n  description: \"5m [2m] {{ $value }}\"\n";
    let hurried = hurried(rules);
    assert_eq!(
        hurried,
        "  for: 10s\n  expr: rate(x[5s]) > 600 and y[1m]\n  (time() - z > 10)\n  description: \"5m [2m] {{ $value }}\"\n"
    );
}
