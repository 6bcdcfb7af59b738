//! An API server that goes away, and one that does not know the kind yet.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::{Cluster, in_cluster};
use crate::e2e_support::{GLANCE, PATIENCE};
use crate::world::{BIZ, DATA};

/// Long enough for every back-off to have reached its end.
const OUTAGE: Duration = Duration::from_secs(60);

fn watch_check(readiness: &Value) -> Value {
    let checks = readiness["checks"].as_array().cloned().unwrap_or_default();
    checks.into_iter().find(|check| check["name"] == "watch").unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn without_the_crd_it_waits_says_so_and_recovers() {
    let cluster = Cluster::new().await;
    cluster.delete_crd();
    let mut world = cluster.world();
    let spec = in_cluster(world.spec("a", &world.vms(1)));
    world.operator.start().await;
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let (status, readiness) = world.operator.readiness().await;
        assert_eq!(status, 503, "{readiness}");
        let message = watch_check(&readiness)["message"].as_str().unwrap_or_default().to_owned();
        if message.contains("CustomResourceDefinition openstackconfigs.multinic.example.com is not there") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{readiness}");
        tokio::time::sleep(GLANCE).await;
    }
    cluster.install_crd();
    cluster.declare(&spec);
    world.until_delivered(&spec).await;
    assert_eq!(world.operator.readiness().await.0, 200);

    // It goes while the operator runs, and comes back: what was delivered stays, and all goes on.
    cluster.delete_crd();
    cluster.install_crd();
    assert_eq!(world.viola.nodes(BIZ).len(), 1);
    cluster.declare(&spec);
    cluster.until_condition("a", "Ready", "True").await;
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn while_the_api_server_is_away_polls_go_on_and_later_the_status_follows() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world_of_the_chart();
    let spec = in_cluster(world.spec("a", &world.vms(1)));
    cluster.declare(&spec);
    world.operator.start().await;
    cluster.until_condition("a", "Ready", "True").await;
    let (line, _) = cluster.audited(0);
    if !cluster.fault(&["--stop-apiserver", "--kill"]) {
        return;
    }
    let vm = world.vm("node-1");
    world.port(&spec.vms[0], DATA);
    crate::e2e_support::until("polls go on", || world.nic_count("node-0") == 2, String::new).await;
    // What the watch could go on from is forgotten meanwhile.
    cluster.fault(&["--compact"]);
    tokio::time::sleep(OUTAGE).await;
    let (status, readiness) = world.operator.readiness().await;
    assert_eq!(status, 200, "it serves what it knows");
    assert!(readiness.to_string().contains("state ConfigMaps"), "and says what is not kept: {readiness}");
    cluster.fault(&["--start-apiserver"]);
    let mut spec = spec;
    spec.vms.push(vm);
    cluster.declare(&spec);
    let has_both = |object: &Value| object["status"]["nodes"]["summary"] == "2/2";
    cluster.until("a", "both nodes", has_both).await;

    cluster.fault(&["--restart-apiserver"]);
    spec.vms.pop();
    cluster.declare(&spec);
    let has_one = |object: &Value| object["status"]["nodes"]["summary"] == "1/1";
    cluster.until("a", "one node", has_one).await;
    let deadline = std::time::Instant::now() + PATIENCE;
    while watch_check(&world.operator.readiness().await.1)["ok"] != true {
        assert!(std::time::Instant::now() < deadline, "the watch is not in order again");
        tokio::time::sleep(GLANCE).await;
    }
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    cluster.audited(line).1.into_iter().for_each(|request| *counts.entry(request).or_default() += 1);
    let revision =
        |object: Value| object["data"]["revision"].as_str().and_then(|text| text.parse::<u64>().ok());
    let map = cluster.kubectl(&["-n", "test", "get", "configmap", "multinic-state-a", "-o", "json"]);
    let known = multinic_operator::store::read(&world.operator.inventory_file()).unwrap().snapshot;
    let known = known.configs.values().next().unwrap().revision;
    assert_eq!(revision(serde_json::from_str(&map).unwrap()), Some(known), "the state is there, too");
    println!("requests over two restarts: {counts:?}");
    let count = |verb: &str| counts.iter().filter(|((v, _), _)| v == verb).map(|(_, n)| n).sum::<usize>();
    assert!(count("list") + count("watch") <= 60, "a hot loop: {counts:?}");
    world.operator.stop().await;
}
