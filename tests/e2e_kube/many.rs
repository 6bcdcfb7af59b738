//! Many objects on one API server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::{Cluster, in_cluster};
use crate::e2e_support::PATIENCE;

const OBJECTS: usize = 500;

/// Waits until all objects have a verdict of this reason; their versions.
async fn until_all(cluster: &Cluster, reason: &str) -> BTreeMap<String, String> {
    let deadline = Instant::now() + PATIENCE * 2;
    loop {
        let list = cluster.kubectl(&["-n", "test", "get", "oscfg", "-o", "json"]);
        let list: Value = serde_json::from_str(&list).unwrap();
        let items = list["items"].as_array().unwrap();
        let is_right = |object: &&Value| object["status"]["conditions"][0]["reason"] == reason;
        let right = items.iter().filter(is_right).count();
        if right == OBJECTS {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let version = |o: &Value| (text(&o["metadata"]["name"]), text(&o["metadata"]["resourceVersion"]));
            return items.iter().map(version).collect();
        }
        assert!(Instant::now() < deadline, "{right} of {} are {reason}", items.len());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn count(requests: &[(String, String)], verb: &str, what: &str) -> usize {
    requests.iter().filter(|request| (request.0.as_str(), request.1.as_str()) == (verb, what)).count()
}

fn is_write((verb, _): &&(String, String)) -> bool {
    !matches!(verb.as_str(), "get" | "list" | "watch")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn hundreds_of_objects_cost_one_write_each_and_then_nothing() {
    let cluster = Cluster::new().await;
    let mut world = cluster.world_of_the_chart();
    let vms = world.vms(OBJECTS);
    let specs = vms
        .iter()
        .enumerate()
        .map(|(n, vm)| in_cluster(world.quiet_spec(&format!("c{n}"), std::slice::from_ref(vm))).yaml());
    cluster.apply(&specs.collect::<Vec<_>>().join("---\n"));
    let start = Instant::now();
    world.operator.start().await;
    until_all(&cluster, "Synced").await;
    println!("{OBJECTS} new objects are Ready after {:.1?}", start.elapsed());

    let (line, _) = cluster.audited(0);
    let start = Instant::now();
    world.operator.restart().await;
    let before = until_all(&cluster, "NoChange").await;
    println!("after a restart all are looked at and written within {:.1?}", start.elapsed());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (line, requests) = cluster.audited(line);
    if line > 0 {
        assert_eq!(count(&requests, "patch", "openstackconfigs/status"), OBJECTS, "one write an object");
        assert_eq!(requests.iter().filter(|(verb, _)| verb == "list").count(), 1);
        assert_eq!(count(&requests, "get", "configmaps/"), OBJECTS, "one look at each state");
        let states = ["create", "patch", "delete"].map(|verb| count(&requests, verb, "configmaps/"));
        assert_eq!(states, [0; 3], "no state is written");
    }

    // Nothing happens: nothing is listed and nothing written.
    let (line, _) = cluster.audited(line);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (line, requests) = cluster.audited(line);
    assert!(line == 0 || !requests.iter().any(|request| request.0 == "list"), "{requests:?}");
    assert_eq!(requests.iter().filter(is_write).count(), 0, "{requests:?}");

    world.operator.restart().await;
    let deadline = Instant::now() + PATIENCE * 2;
    loop {
        let (_, body) = world.operator.get("/v1/configs").await;
        let polled =
            body["configs"].as_array().into_iter().flatten().filter(|c| c["reason"] == "NoChange").count();
        if polled == OBJECTS {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "{polled} were polled: {}",
            body.to_string().get(..300).unwrap_or_default()
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(until_all(&cluster, "NoChange").await, before, "nothing new, nothing written");
    world.operator.stop().await;
    cluster.kubectl(&["-n", "test", "delete", "oscfg", "--all", "--wait"]);
}
