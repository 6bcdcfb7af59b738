//! Replicas: one leads. None or two that do so page, and a replica that stands by shows no configs.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cluster::{Cluster, in_cluster};
use crate::drills::pages_alone;
use crate::e2e_support::PATIENCE;
use crate::process::Process;
use crate::prometheus::Prometheus;
use crate::world::World;

/// A replica and where its metrics are. A process each: metrics are a process' own.
async fn replica(world: &World, name: &str, flags: &[&str]) -> (Process, SocketAddr) {
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let own = format!("--metrics-bind-address={metrics}");
    let flags = [flags, &[&own]].concat();
    let variables = [("POD_NAME", name), ("POD_NAMESPACE", "test")];
    (Process::start_as(&world.operator, &flags, &variables).await, metrics)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus: make e2e-observability"]
async fn two_that_lead_at_once() {
    let worlds = [World::new(), World::new()];
    let mut replicas = Vec::new();
    for world in &worlds {
        world.operator.declare(&world.spec("a", &world.vms(1)));
        replicas.push(replica(world, "alone", &[]).await);
    }
    let addresses: Vec<_> = replicas.iter().map(|(_, metrics)| *metrics).collect();
    let prometheus = Prometheus::scraping(&addresses).await;
    pages_alone(&prometheus, "MultinicTwoLeaders").await;
}

/// Waits for the value of a query, while something goes on.
async fn until(prometheus: &Prometheus, query: &str, value: &str, meanwhile: impl Fn()) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = prometheus.query(query).await;
        if found.first().is_some_and(|sample| sample["value"][1] == value) {
            return;
        }
        assert!(Instant::now() < deadline, "{query} is not {value}: {found:?}");
        meanwhile();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus and a cluster: make e2e-observability-kube"]
async fn none_that_leads() {
    if std::env::var_os("KUBECONFIG").is_none() {
        println!("no KUBECONFIG: left out");
        return;
    }
    let cluster = Cluster::new().await;
    cluster.kubectl(&["-n", "test", "delete", "lease", "--all"]);
    for name in ["a", "b"] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "test"},
            "spec": {"containers": [{"name": "c", "image": "none.example.com/none"}]}});
        cluster.apply(&pod.to_string());
    }
    let world = cluster.world();
    cluster.declare(&in_cluster(world.spec("a", &world.vms(1))));
    let (_a, first) = replica(&world, "a", &["--leader-elect"]).await;
    let (_b, second) = replica(&world, "b", &["--leader-elect"]).await;
    let prometheus = Prometheus::scraping(&[first, second]).await;
    // In hurried rules ten seconds without an event are much.
    let start = Instant::now();
    let stir = || {
        let label = format!("at={}", start.elapsed().as_millis());
        cluster.kubectl(&["-n", "test", "label", "--overwrite", "oscfg", "a", &label]);
    };
    until(&prometheus, "sum(multinic_leader)", "1", stir).await;
    until(&prometheus, "count(multinic_leader)", "2", stir).await;
    until(&prometheus, "sum(multinic_config_ready)", "1", stir).await;
    until(&prometheus, "count(multinic_config_ready and on (instance) multinic_leader == 1)", "1", stir)
        .await;
    assert_eq!(prometheus.query("multinic_config_ready").await.len(), 1, "of the leader alone");
    let calm = Instant::now();
    while calm.elapsed() < Duration::from_secs(10) {
        stir();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(prometheus.firing().await, [], "all is well");
    if cluster.fault(&["--stop-apiserver", "--kill"]) {
        pages_alone(&prometheus, "MultinicNoLeader").await;
        assert!(prometheus.query("multinic_config_ready").await.is_empty(), "nobody shows configs now");
        cluster.fault(&["--start-apiserver"]);
        until(&prometheus, "sum(multinic_leader)", "1", || {}).await;
    }
}
