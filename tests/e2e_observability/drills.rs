//! Something breaks: its own alert pages, and no other one.
//!
//! The watch has its drill in `watch`, the replicas have theirs in `leaders`.

use std::time::{Duration, Instant};

use multinic_actors::testing::Faults;
use multinic_operator::sim::{Reachability, Service, ViolaAnswer};
use serde_json::json;

use crate::e2e_support::{Operator, PATIENCE};
use crate::prometheus::Prometheus;
use crate::world::{STORAGE, World};

/// How long nothing else may page after the alert came: the longest `for` is as long.
const AFTER: Duration = Duration::from_secs(15);

/// A healthy world that is scraped, and in which nothing fires.
async fn healthy(operator: Operator, vms: usize) -> (World, Prometheus, crate::e2e_support::Spec) {
    let operator = operator.flag("--cloud-rate=1000").flag("--cloud-burst=1000");
    let mut world = World::with_operator(operator);
    let spec = world.run_with(vms).await;
    let prometheus = Prometheus::of(&world.operator).await;
    tokio::time::sleep(AFTER).await;
    assert_eq!(prometheus.firing().await, [], "all is well");
    (world, prometheus, spec)
}

/// Waits for the page, and sees that it stays the only one.
pub async fn pages_alone(prometheus: &Prometheus, alert: &str) {
    let pages = async || -> Vec<String> {
        let firing = prometheus.firing().await;
        firing.into_iter().filter(|(_, severity)| severity == "page").map(|(name, _)| name).collect()
    };
    let start = Instant::now();
    while pages().await.is_empty() {
        assert!(start.elapsed() < PATIENCE, "{alert} does not fire; firing: {:?}", prometheus.firing().await);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    println!("{alert} fired after {:.0?}", start.elapsed());
    let until = Instant::now() + AFTER;
    while Instant::now() < until {
        assert_eq!(pages().await, [alert]);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    println!("  beside it: {:?}", prometheus.firing().await);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus: make e2e-observability"]
async fn a_cloud_that_is_down() {
    let (world, prometheus, _) = healthy(Operator::new(), 3).await;
    for service in [Service::Contrabass, Service::Keystone, Service::Neutron, Service::Nova] {
        world.cloud.set_reachability(service, Reachability::Refused);
        world.cloud.drop_connections(service);
    }
    pages_alone(&prometheus, "MultinicCloudErrors").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus: make e2e-observability"]
async fn a_password_that_is_wrong() {
    let (world, prometheus, _) = healthy(Operator::new(), 3).await;
    world.cloud.set_password(&world.user, "another-password");
    pages_alone(&prometheus, "MultinicLoginRefused").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus: make e2e-observability"]
async fn a_viola_that_is_down() {
    let (world, prometheus, spec) = healthy(Operator::new(), 3).await;
    world.viola.set_answer(ViolaAnswer::Status(503, json!({"message": "away"})));
    world.port(&spec.vms[0], STORAGE);
    pages_alone(&prometheus, "MultinicDeliveryFailing").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus: make e2e-observability"]
async fn a_disk_that_takes_nothing_more() {
    let (world, prometheus, spec) = healthy(Operator::new(), 3).await;
    let folder = world.operator.inventory_file().parent().unwrap().to_owned();
    std::fs::remove_dir_all(&folder).unwrap();
    // In the place of the folder stands a file: nothing can be written there, not even by root.
    std::fs::write(&folder, "").unwrap();
    world.port(&spec.vms[0], STORAGE);
    pages_alone(&prometheus, "MultinicInventoryNotPersisted").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus: make e2e-observability"]
async fn actors_that_panic_over_and_over() {
    let faults = Faults::default();
    let (_world, prometheus, spec) = healthy(Operator::new().faults(&faults), 12).await;
    for vm in &spec.vms {
        faults.always_panic("port", vm);
    }
    pages_alone(&prometheus, "MultinicRestartStorm").await;
}
