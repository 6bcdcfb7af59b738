//! An operator in this process, its config folder and its REST, for the end-to-end tests.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use multinic_operator::app::{self, Options, Running};
use multinic_operator::settings::Settings;
use multinic_operator::sim::SimViola;
use multinic_operator::source_dir::FolderOptions;
use serde_json::Value;

/// The encrypt key of all tests.
pub const KEY: &str = "test-encrypt-key";
/// The provider id at Contrabass.
pub const PROVIDER: &str = "test-openstack";

/// A folder with configs, an inventory, and an operator that may run on it.
pub struct Operator {
    folder: tempfile::TempDir,
    flags: Vec<String>,
    variables: BTreeMap<String, String>,
    spread: bool,
    running: Option<Running>,
    client: OnceLock<reqwest::Client>,
}

/// What one config file says. An empty text or list is left out of it.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    pub created: String,
    pub provider: String,
    pub k8s_provider: String,
    pub project: String,
    pub subnets: Vec<String>,
    pub vms: Vec<String>,
    pub contrabass: String,
    pub viola: String,
    pub encrypt_key: String,
    /// More lines below `spec:`.
    pub spec: Vec<String>,
    /// More lines below `settings:`.
    pub settings: Vec<String>,
    /// More lines below `metadata:`.
    pub metadata: Vec<String>,
}

impl Spec {
    pub fn yaml(&self) -> String {
        let lines = |lines: &[String], indent: &str| {
            lines.iter().map(|line| format!("{indent}{line}\n")).collect::<String>()
        };
        format!(
            "apiVersion: multinic.example.com/v1alpha1\nkind: OpenstackConfig\nmetadata:\n  name: {}\n  \
             namespace: test\n  creationTimestamp: \"{}\"\n{}spec:\n{}{}{}  credentials:\n    \
             openstackProviderID: \"{}\"\n    k8sProviderID: \"{}\"\n    projectID: \"{}\"\n  settings:\n{}{}{}{}",
            self.name,
            self.created,
            lines(&self.metadata, "  "),
            list("subnetIDs", &self.subnets),
            list("vmNames", &self.vms),
            lines(&self.spec, "  "),
            self.provider,
            self.k8s_provider,
            self.project,
            setting("contrabassEndpoint", &self.contrabass),
            setting("violaEndpoint", &self.viola),
            setting("contrabassEncryptKey", &self.encrypt_key),
            lines(&self.settings, "    "),
        )
    }

    /// With one more line below `settings:`.
    pub fn setting(mut self, line: &str) -> Self {
        self.settings.push(line.to_owned());
        self
    }

    /// With an annotation.
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.metadata.push("annotations:".to_owned());
        self.metadata.push(format!("  multinic.example.com/{name}: \"{value}\""));
        self
    }
}

fn list(field: &str, ids: &[String]) -> String {
    let items: String = ids.iter().map(|id| format!("    - \"{id}\"\n")).collect();
    if items.is_empty() { items } else { format!("  {field}:\n{items}") }
}

fn setting(field: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("    {field}: \"{value}\"\n") }
}

impl Operator {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            flags: Vec::new(),
            variables: BTreeMap::new(),
            spread: false,
            running: None,
            client: OnceLock::new(),
        }
    }

    /// More flags for the next start.
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// A variable of its environment.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    pub fn inventory_file(&self) -> PathBuf {
        self.dir().join("inventory/inventory.json")
    }

    pub fn write(&self, file: &str, text: &str) {
        // As an editor does it: never half a file.
        let temporary = self.dir().join(format!(".{file}.new"));
        std::fs::write(&temporary, text).expect("write a config");
        std::fs::rename(temporary, self.dir().join(file)).expect("rename a config");
    }

    pub fn declare(&self, spec: &Spec) {
        self.write(&format!("{}.yaml", spec.name), &spec.yaml());
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.dir().join(format!("{name}.yaml"))).expect("remove a config");
    }

    /// The command line, for this process or for one of its own.
    pub fn args(&self) -> Vec<String> {
        let mut args = vec![format!("--inventory-db-path={}", self.inventory_file().display())];
        args.extend(self.flags.iter().cloned());
        if !args.iter().any(|arg| arg.starts_with("--kubeconfig")) {
            args.push(format!("--config-dir={}", self.dir().display()));
        }
        for flag in ["--inventory-addr", "--metrics-bind-address", "--health-probe-bind-address"] {
            if !args.iter().any(|arg| arg.starts_with(flag)) {
                args.push(format!("{flag}=127.0.0.1:0"));
            }
        }
        args
    }

    pub fn settings(&self) -> Settings {
        let variable = |name: &str| self.variables.get(name).cloned();
        let parsed = Settings::parse(self.args().into_iter().map(Into::into), variable);
        parsed.expect("usable settings").1
    }

    pub async fn start(&mut self) {
        assert!(self.running.is_none(), "it runs already");
        let options = Options {
            spread_first_polls: self.spread,
            folder: FolderOptions {
                debounce: Duration::from_millis(20),
                rescan: Duration::from_secs(5),
                grace: Duration::from_millis(100),
            },
            ..Options::default()
        };
        let running = app::start(&self.settings(), options).await;
        self.running = Some(running.unwrap_or_else(|error| panic!("the operator does not start: {error}")));
    }

    pub async fn stop(&mut self) {
        self.running.take().expect("a running operator").stop().await;
    }

    pub async fn crash(&mut self) {
        self.running.take().expect("a running operator").crash().await;
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.start().await;
    }

    pub fn running(&self) -> &Running {
        self.running.as_ref().expect("a running operator")
    }

    /// `GET` of the operator's API: status and body.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        let (status, text) = self.get_text(&format!("http://{}{path}", self.running().api)).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// `GET` of any URL: status and text.
    pub async fn get_text(&self, url: &str) -> (u16, String) {
        let client = self.client.get_or_init(|| {
            // Where the operator is another process, nobody has installed it.
            let _ = rustls::crypto::ring::default_provider().install_default();
            reqwest::Client::builder().no_proxy().build().expect("a client for this test")
        });
        let answer = client.get(url).send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("a body"))
    }

    /// What `/readyz` answers.
    pub async fn readiness(&self) -> (u16, Value) {
        let health = self.running().health.expect("a health address");
        let (status, text) = self.get_text(&format!("http://{health}/readyz")).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// What `/v1/configs/test/NAME` says; null where it is unknown yet.
    pub async fn config(&self, name: &str) -> Value {
        let (status, body) = self.get(&format!("/v1/configs/test/{name}")).await;
        if status == 200 { body } else { Value::Null }
    }

    pub async fn reason(&self, name: &str) -> String {
        self.config(name).await["reason"].as_str().unwrap_or("none").to_owned()
    }

    /// Waits until the config's reason is one of `reasons`.
    pub async fn until_reason(&self, name: &str, reasons: &[&str]) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let config = self.config(name).await;
            if config["reason"].as_str().is_some_and(|reason| reasons.contains(&reason)) {
                return config;
            }
            assert!(Instant::now() < deadline, "{name} never became {reasons:?}: {config:#}");
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Waits until what is said of the config is `right`.
    pub async fn until_config(&self, name: &str, what: &str, right: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let config = self.config(name).await;
            if right(&config) {
                return config;
            }
            assert!(Instant::now() < deadline, "{name}: never {what}: {config:#}");
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Waits until a poll that began from now on has ended well.
    pub async fn until_polled(&self, name: &str) -> Value {
        self.until_poll_ended(name, true).await
    }

    /// Waits until a poll that began from now on has ended, well or not.
    pub async fn until_tried(&self, name: &str) -> Value {
        self.until_poll_ended(name, false).await
    }

    async fn until_poll_ended(&self, name: &str, has_to_be_ready: bool) -> Value {
        let start = jiff::Timestamp::now();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let config = self.config(name).await;
            let time = |key: &str| config[key].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
            let is_new = time("lastPollAt").is_some_and(|polled| polled > start);
            let has_ended = time("nextPollAt").is_some();
            if is_new && has_ended && (config["ready"] == true || !has_to_be_ready) {
                return config;
            }
            assert!(Instant::now() < deadline, "{name} was not polled: {config:#}");
            tokio::time::sleep(GLANCE).await;
        }
    }
}

/// How long anything may take: many times what it takes.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// How often a condition is looked at.
pub const GLANCE: Duration = Duration::from_millis(20);

/// Waits for `condition`; shows `state` when it never comes.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool, state: impl Fn() -> String) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never came: {what}\n{}", state());
        tokio::time::sleep(GLANCE).await;
    }
}

/// MAC, address, cidr and MTU: what a NIC is, wherever it came from.
pub type Nic = (String, String, String, u64);

/// The NICs of a node config as POSTed.
pub fn nics(config: &Value) -> BTreeSet<Nic> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let interfaces = config["interfaces"].as_array().into_iter().flatten();
    interfaces
        .map(|i| {
            (text(&i["macAddress"]), text(&i["address"]), text(&i["cidr"]), i["mtu"].as_u64().unwrap_or(0))
        })
        .collect()
}

/// The names that a node's NICs have, by MAC.
pub fn names(config: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let interfaces = config["interfaces"].as_array().into_iter().flatten();
    interfaces.map(|i| (text(&i["macAddress"]), text(&i["name"]))).collect()
}

/// Everything that Viola has for a workload cluster.
pub fn delivered(viola: &SimViola, k8s_provider: &str) -> BTreeMap<String, BTreeSet<Nic>> {
    viola.nodes(k8s_provider).into_iter().map(|(node, config)| (node, nics(&config))).collect()
}
