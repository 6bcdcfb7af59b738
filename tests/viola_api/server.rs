//! A running Viola test API, its routing file, and what is posted to it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use multinic_operator::settings::values::ListenAddress;
use multinic_operator::viola_api::{self, PATH, Running, Settings, Surroundings};
use serde_json::{Value, json};

use crate::cluster::Cluster;

/// How long anything may take: many times what it takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a routing file; it stops when dropped.
pub struct Server {
    pub url: String,
    folder: tempfile::TempDir,
    running: Option<Running>,
    client: reqwest::Client,
}

pub fn settings(folder: &std::path::Path) -> Settings {
    Settings {
        address: ListenAddress { host: Some("127.0.0.1".to_owned()), port: 0 },
        routing_file: Some(folder.join("routing.yaml")),
        namespace: "multinic-system".to_owned(),
        timeout: Duration::from_secs(30),
        kubectl_path: "kubectl".to_owned(),
        server: None,
    }
}

impl Server {
    /// With this routing file.
    pub async fn start(routing: &str) -> Self {
        Self::start_with(routing, Surroundings::default(), |_| {}).await
    }

    pub async fn start_with(
        routing: &str,
        surroundings: Surroundings,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("routing.yaml"), routing).unwrap();
        let mut settings = settings(folder.path());
        change(&mut settings);
        let running =
            viola_api::start(settings, surroundings).await.unwrap_or_else(|error| panic!("{error}"));
        let url = format!("http://{}", running.address);
        Self { url, folder, running: Some(running), client: client() }
    }

    /// One strict target, `green`.
    pub async fn for_cluster(cluster: &Cluster) -> Self {
        Self::start(&format!("strict: true\ntargets: [{}]", local("green", cluster))).await
    }

    pub fn routing_file(&self) -> PathBuf {
        self.folder.path().join("routing.yaml")
    }

    /// As a mounted Secret changes: at once.
    pub fn route(&self, routing: &str) {
        let new = self.folder.path().join(".new");
        std::fs::write(&new, routing).unwrap();
        std::fs::rename(new, self.routing_file()).unwrap();
    }

    /// A POST of nodes for a provider id: status and body.
    pub async fn post(&self, provider_id: &str, nodes: &Value) -> (u16, Value) {
        self.send(&[("x-provider-id", provider_id.as_bytes())], nodes.to_string()).await
    }

    pub async fn send(&self, headers: &[(&str, &[u8])], body: impl Into<reqwest::Body>) -> (u16, Value) {
        let mut request = self.client.post(format!("{}{PATH}", self.url)).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}")))
    }

    pub async fn get(&self, path: &str) -> (u16, String) {
        let answer = self.client.get(format!("{}{path}", self.url)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Waits until `/healthz` has `part` in it, or has it no more.
    pub async fn until_health(&self, part: &str, is_there: bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (status, text) = self.get("/healthz").await;
            assert_eq!(status, 200, "{text}");
            if text.contains(part) == is_there {
                return text;
            }
            assert!(Instant::now() < deadline, "{part:?}: {text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn stop(mut self) {
        self.running.take().unwrap().stop().await;
    }
}

pub fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// A target in YAML.
pub fn local(id: &str, cluster: &Cluster) -> String {
    format!("{{providerId: {id}, mode: local, namespace: biz, kubeApiServer: '{}'}}", cluster.url)
}

/// A node with one interface, as the operator posts it.
pub fn node(name: &str) -> Value {
    json!({"nodeName": name, "instanceId": "a3c1c0de-0000-4000-8000-000000000001", "interfaces": [{
        "id": 0, "name": "multinic0", "macAddress": "fa:16:3e:00:00:01", "address": "192.0.2.10",
        "cidr": "192.0.2.0/24", "mtu": 1450, "portId": "d012464a-c95b-4ddf-a9fd-5707d457aed6",
        "deviceId": "a3c1c0de-0000-4000-8000-000000000001", "networkId": "n", "subnetId": "s"}]})
}
