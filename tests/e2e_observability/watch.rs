//! The watch of a real Kubernetes API: `make e2e-observability-kube`.

use std::time::{Duration, Instant};

use crate::cluster::{Cluster, in_cluster};
use crate::drills::pages_alone;
use crate::e2e_support::PATIENCE;
use crate::panels::{WITHOUT_DATA, panel_queries};
use crate::prometheus::Prometheus;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus and a cluster: make e2e-observability-kube"]
async fn a_watch_that_is_dead() {
    if std::env::var_os("KUBECONFIG").is_none() {
        println!("no KUBECONFIG: left out");
        return;
    }
    let cluster = Cluster::new().await;
    let mut world = cluster.world();
    let spec = in_cluster(world.spec("a", &world.vms(1)));
    cluster.declare(&spec);
    world.operator.start().await;
    cluster.until_condition("a", "Ready", "True").await;
    let prometheus = Prometheus::of(&world.operator).await;
    // In hurried rules ten seconds of silence are much; in an hour's worth there is a bookmark a minute.
    let (start, mut open) = (Instant::now(), panel_queries());
    open.retain(|(_, query)| WITHOUT_DATA.iter().any(|(name, _)| query.contains(name)));
    while !open.is_empty() || start.elapsed() < Duration::from_secs(20) {
        assert!(start.elapsed() < PATIENCE, "no data: {open:#?}");
        cluster.kubectl(&[
            "-n",
            "test",
            "label",
            "--overwrite",
            "oscfg",
            "a",
            &format!("at={}", start.elapsed().as_secs()),
        ]);
        let mut without = Vec::new();
        for (panel, query) in open {
            if prometheus.query(&query).await.is_empty() {
                without.push((panel, query));
            }
        }
        open = without;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(prometheus.firing().await, [], "all is well");
    if cluster.fault(&["--stop-apiserver", "--kill"]) {
        pages_alone(&prometheus, "MultinicWatchDead").await;
        cluster.fault(&["--start-apiserver"]);
    }
    world.operator.stop().await;
}
