//! From the operator straight into a workload cluster, and what the agents there say coming back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{Cluster, condition, in_cluster};
use crate::e2e_support::{GLANCE, PATIENCE, Spec, until};
use crate::workload::{NAMESPACE, Workload, kubeconfig};
use crate::world::{BIZ, DATA, STORAGE, World};

const SECRET: &str = "biz-kubeconfig";

/// With `spec.delivery`, and the kubeconfig in a Secret.
fn delivered(cluster: &Cluster, mut spec: Spec, mode: &str) -> Spec {
    rotate(cluster, &std::fs::read_to_string(kubeconfig()).unwrap());
    spec.spec.push(format!(
        "delivery: {{mode: {mode}, kubeconfigSecretRef: {{name: {SECRET}}}, namespace: {NAMESPACE}}}"
    ));
    if mode == "Apply" {
        // Nobody would answer there.
        spec.viola = String::new();
    }
    in_cluster(spec)
}

fn rotate(cluster: &Cluster, kubeconfig: &str) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": "test"},
        "stringData": {"value": kubeconfig}});
    cluster.apply(&secret.to_string());
}

/// Waits until the workload cluster has exactly what the cloud has.
async fn until_true(workload: &Workload, world: &World, spec: &Spec) {
    let is_right = || workload.nics() == world.expected(spec);
    let state =
        || format!("the cloud has {:#?}\nthe cluster has {:#?}", world.expected(spec), workload.nics());
    until("the cluster has what the cloud has", is_right, state).await;
}

/// As a node's agent: writes into the status of its object.
fn agent_says(workload: &Workload, node: &str, status: &Value) {
    let patch = json!({"status": status}).to_string();
    workload.kubectl(&[
        "-n",
        NAMESPACE,
        "patch",
        "mnnc",
        node,
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ]);
}

/// Waits until the config's `Configured` has this reason.
async fn until_configured(cluster: &Cluster, reason: &str) -> Value {
    let is_so = |object: &Value| condition(object, "Configured")["reason"] == reason;
    cluster.until("a", &format!("Configured {reason}"), is_so).await
}

fn by_hand(name: &str, mac: &str) -> Value {
    json!({"apiVersion": "multinic.io/v1alpha1", "kind": "MultiNicNodeConfig",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"nodeName": name, "instanceId": "old", "interfaces": [
            {"id": 0, "name": "multinic0", "macAddress": mac, "address": "192.0.2.9", "cidr": "192.0.2.0/24", "mtu": 1400},
            {"id": 1, "name": "multinic1", "macAddress": "fa:16:3e:ff:ff:fe"}]}})
}

async fn metric(world: &World, line: &str) -> Option<f64> {
    let address = world.operator.running().metrics.unwrap();
    let (_, text) = world.operator.get_text(&format!("http://{address}/metrics")).await;
    text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn direct_delivery_takes_over_and_repairs_what_is_changed_by_hand() {
    let (cluster, workload) = (Cluster::new().await, Workload::new().await);
    for (name, mac) in [("node-0", "fa:16:3e:ff:ff:f0"), ("node-1", "fa:16:3e:ff:ff:f1")] {
        workload.apply(&by_hand(name, mac));
    }
    let mut world = cluster.world();
    let vms = world.vms(3);
    world.port(&vms[0], STORAGE);
    let spec = delivered(&cluster, world.spec("a", &vms), "Apply");
    cluster.declare(&spec);
    world.operator.start().await;
    until_true(&workload, &world, &spec).await;
    cluster.until_condition("a", "Ready", "True").await;
    assert!(world.viola.nodes(BIZ).is_empty());
    let object = &workload.objects()["node-2"];
    assert_eq!(object["spec"]["instanceId"], vms[2].as_str());
    assert_eq!(object["metadata"]["labels"]["multinic.io/provider-id"], BIZ);

    world.port(&vms[1], DATA);
    until_true(&workload, &world, &spec).await;
    let mut took = Vec::new();
    for round in 0..4 {
        match round % 2 {
            0 => workload.kubectl(&["-n", NAMESPACE, "delete", "mnnc", "node-2", "--wait=false"]),
            _ => workload.kubectl(&[
                "-n",
                NAMESPACE,
                "patch",
                "mnnc",
                "node-1",
                "--type=merge",
                "-p",
                r#"{"spec":{"instanceId":"by-hand"}}"#,
            ]),
        };
        let start = Instant::now();
        let is_right = || {
            let objects = workload.objects();
            let id = |node: &str| objects.get(node).map(|object| object["spec"]["instanceId"].clone());
            id("node-1") == Some(json!(vms[1])) && id("node-2") == Some(json!(vms[2]))
        };
        until("it is repaired", is_right, || format!("{:#?}", workload.objects())).await;
        took.push(start.elapsed());
    }
    println!("changed by hand and right again after (with the look by kubectl) {took:.0?}");
    until_true(&workload, &world, &spec).await;
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn another_appliers_field_is_respected_and_told() {
    let (cluster, workload) = (Cluster::new().await, Workload::new().await);
    workload
        .apply_with(&by_hand("node-1", "fa:16:3e:ff:ff:f2"), &["--server-side", "--field-manager=gitops"]);
    let mut world = cluster.world();
    let vms = world.vms(2);
    let spec = delivered(&cluster, world.spec("a", &vms), "Apply");
    cluster.declare(&spec);
    world.operator.start().await;
    let object = until_configured(&cluster, "FieldConflict").await;
    let message = condition(&object, "Configured")["message"].to_string();
    assert!(message.contains("gitops applies"), "{message}");
    let is_told = |object: &Value| object["status"]["skipped"][0]["reason"] == "NodeRejected";
    cluster.until("a", "told of the other applier", is_told).await;
    let objects = workload.objects();
    assert_eq!(objects["node-1"]["spec"], by_hand("node-1", "fa:16:3e:ff:ff:f2")["spec"]);
    assert_eq!(objects["node-0"]["spec"]["instanceId"], vms[0].as_str());

    // It gives the fields up: they are taken without waiting for anybody.
    workload.kubectl(&["-n", NAMESPACE, "delete", "mnnc", "node-1"]);
    until_true(&workload, &world, &spec).await;
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn what_the_agents_say_comes_back() {
    let (cluster, workload) = (Cluster::new().await, Workload::new().await);
    let mut world = cluster.world();
    let vms = world.vms(3);
    // Quiet: nothing of this waits for a poll.
    let spec = delivered(&cluster, world.quiet_spec("a", &vms), "Apply");
    cluster.declare(&spec);
    world.operator.start().await;
    until_true(&workload, &world, &spec).await;
    until_configured(&cluster, "InProgress").await;
    agent_says(&workload, "node-0", &json!({"state": "Configured"}));
    agent_says(&workload, "node-1", &json!({"state": "InProgress"}));
    let nics = json!([{"name": "multinic0", "status": "Failed", "reason": "NicNotFound"}]);
    agent_says(&workload, "node-2", &json!({"state": "Failed", "interfaceStatuses": nics}));
    let object = until_configured(&cluster, "AgentFailed").await;
    let nodes = &object["status"]["nodes"];
    assert_eq!(
        (&nodes["configured"], &nodes["inProgress"], &nodes["failed"]),
        (&json!(1), &json!(1), &json!(1))
    );
    let failed = json!([{"node": "node-2", "reason": "multinic0: NicNotFound"}]);
    assert_eq!(object["status"]["failed"], failed);
    assert_eq!(condition(&object, "Ready")["status"], "True");
    let table = cluster.kubectl(&["-n", "test", "get", "oscfg", "a", "-o", "wide"]);
    assert!(table.contains("node-2: multinic0: NicNotFound"), "{table}");
    let labels = r#"{config="a",namespace="test",state="failed"}"#;
    let line = format!("multinic_config_nodes{labels}");
    let other = format!(r#"multinic_config_nodes{{namespace="test",config="a",state="failed"}}"#);
    let count = match metric(&world, &line).await {
        None => metric(&world, &other).await,
        count => count,
    };
    assert_eq!(count, Some(1.0));
    let config = world.operator.config("a").await;
    assert_eq!((&config["failed"], &config["workload"]["reachable"]), (&failed, &json!(true)));
    let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
    cluster.until_events(&uid, &[("Normal", "Synced"), ("Warning", "AgentFailed")]).await;

    for node in ["node-1", "node-2"] {
        agent_says(&workload, node, &json!({"state": "Configured", "interfaceStatuses": []}));
    }
    let object = until_configured(&cluster, "Configured").await;
    assert_eq!(
        (&object["status"]["nodes"]["configured"], &object["status"]["failed"]),
        (&json!(3), &Value::Null)
    );
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn what_viola_delivered_is_verified() {
    let (cluster, workload) = (Cluster::new().await, Workload::new().await);
    let mut world = cluster.world();
    let vms = world.vms(1);
    let spec = delivered(&cluster, world.spec("a", &vms), "Verify");
    cluster.declare(&spec);
    world.operator.start().await;
    // The simulated Viola keeps what it gets to itself.
    until_configured(&cluster, "Drifted").await;
    cluster.until_condition("a", "Ready", "True").await;
    assert!(workload.objects().is_empty());
    let node = world.viola.nodes(BIZ)["node-0"].clone();
    let interfaces: Vec<Value> = node["interfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|nic| {
            let keep = ["id", "name", "macAddress", "address", "cidr", "mtu", "portId"];
            keep.into_iter()
                .map(|key| (key.to_owned(), nic[key].clone()))
                .collect::<serde_json::Map<_, _>>()
                .into()
        })
        .collect();
    let mut object = by_hand("node-0", "fa:16:3e:ff:ff:f0");
    object["spec"] = json!({"nodeName": "node-0", "instanceId": vms[0], "interfaces": interfaces});
    workload.apply(&object);
    until_configured(&cluster, "InProgress").await;
    agent_says(&workload, "node-0", &json!({"state": "Configured"}));
    until_configured(&cluster, "Configured").await;
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_node_that_is_another_machine_is_told_before_anything_is_applied() {
    let (cluster, workload) = (Cluster::new().await, Workload::new().await);
    let mut world = cluster.world();
    let vms = world.vms(3);
    let node = |name: &str, uuid: &str| {
        workload.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
        let info = json!({"architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
            "systemUUID": uuid});
        let patch = json!({"status": {"nodeInfo": info}}).to_string();
        workload.kubectl(&["patch", "node", name, "--subresource=status", "--type=merge", "-p", &patch]);
    };
    node("node-0", &vms[0].to_uppercase());
    node("node-1", "00000000-0000-0000-0000-000000000001");
    node("worker-2", &vms[2]);
    let spec = delivered(&cluster, world.spec("a", &vms), "Apply");
    cluster.declare(&spec);
    world.operator.start().await;
    let both = |object: &Value| {
        let skipped = object["status"]["skipped"].as_array().cloned().unwrap_or_default();
        skipped.len() == 2 && skipped.iter().all(|vm| vm["reason"] == "NodeMismatch")
    };
    let object = cluster.until("a", "NodeMismatch", both).await;
    let told = object["status"]["skipped"].to_string();
    assert!(told.contains("is node worker-2 of the workload cluster"), "{told}");
    let only: Vec<String> = workload.objects().into_keys().collect();
    assert_eq!(only, ["node-0"]);

    // The node is registered anew, by the right machine.
    workload.kubectl(&["delete", "node", "node-1", "worker-2"]);
    node("node-1", &vms[1]);
    node("node-2", &vms[2]);
    until_true(&workload, &world, &spec).await;
    world.operator.stop().await;
    workload.kubectl(&["delete", "node", "--all"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn what_is_pruned_goes_from_the_workload_cluster_too() {
    let (cluster, workload) = (Cluster::new().await, Workload::new().await);
    let mut world = cluster.world();
    let vms = world.vms(3);
    let spec = delivered(&cluster, world.spec("a", &vms), "Apply").setting("removalPolicy: Prune");
    cluster.declare(&spec);
    world.operator.start().await;
    until_true(&workload, &world, &spec).await;
    let mut less = spec.clone();
    less.vms.pop();
    cluster.declare(&less);
    until_true(&workload, &world, &less).await;
    // Not what somebody else has made of it since.
    workload
        .apply_with(&by_hand("node-2", "fa:16:3e:ff:ff:f2"), &["--server-side", "--field-manager=gitops"]);
    world.operator.restart().await;
    world.operator.until_polled("a").await;
    let names: Vec<String> = workload.objects().into_keys().collect();
    assert_eq!(names, ["node-0", "node-1", "node-2"]);
    world.operator.stop().await;
}

/// A kubeconfig with a token instead of the administrator's certificate.
fn with_token(workload: &Workload, token: &str) -> String {
    let text = workload.kubectl(&["config", "view", "--raw", "--flatten", "-o", "json"]);
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["users"][0]["user"] = json!({"token": token});
    config.to_string()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_rotated_kubeconfig_is_used_and_a_bad_one_is_named() {
    let (cluster, workload) = (Cluster::new().await, Workload::new().await);
    let mut world = cluster.world();
    let vms = world.vms(2);
    let spec = delivered(&cluster, world.spec("a", &vms), "Apply");
    let good = std::fs::read_to_string(kubeconfig()).unwrap();
    rotate(&cluster, &with_token(&workload, "not-a-token-that-anybody-gave"));
    cluster.declare(&spec);
    world.operator.start().await;
    let is_told = |object: &Value| {
        let ready = condition(object, "Ready");
        ready["reason"] == "DeliveryError" && ready["message"].to_string().contains("does not accept")
    };
    let object = cluster.until("a", "told of the token", is_told).await;
    assert!(!object["status"].to_string().contains("not-a-token"), "{object}");
    rotate(&cluster, &good);
    until_true(&workload, &world, &spec).await;
    cluster.until_condition("a", "Ready", "True").await;

    // It is gone: what is known of the cluster says so, and what is there stays.
    cluster.kubectl(&["-n", "test", "delete", "secret", SECRET]);
    world.port(&vms[0], DATA);
    let is_told = |object: &Value| condition(object, "Ready")["message"].to_string().contains(SECRET);
    cluster.until("a", "told of the Secret", is_told).await;
    assert_eq!(workload.objects().len(), 2);
    rotate(&cluster, &good);
    until_true(&workload, &world, &spec).await;
    world.operator.stop().await;
}

/// A workload cluster that is away; it comes back however the test ends.
struct Away<'a>(&'a Workload);

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.0.fault(&["--start-apiserver"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_workload_cluster_that_is_gone_for_long_costs_little_and_gets_the_newest_state() {
    let (cluster, workload) = (Cluster::new().await, Workload::new().await);
    let mut world = cluster.world();
    let vms = world.vms(2);
    let spec = delivered(&cluster, world.spec("a", &vms), "Apply");
    // A config whose cluster is another one (here: Viola's) is not touched by it.
    let other = in_cluster(world.spec("b", &[world.vm("other-0")]));
    cluster.declare(&spec);
    cluster.declare(&other);
    world.operator.start().await;
    until_true(&workload, &world, &spec).await;
    if !workload.fault(&["--stop-apiserver", "--kill"]) {
        return world.operator.stop().await;
    }
    let away_now = Away(&workload);
    let begun = Instant::now();
    let labels = r#"kind="MultiNicNodeConfig""#;
    let restarts = format!("multinic_watch_restarts_total{{{labels}}}");
    let before = metric(&world, &restarts).await.unwrap_or_default();
    for _ in 0..3 {
        world.port(&vms[0], DATA);
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    world.port(&other.vms[0], DATA);
    until("the other is delivered", || world.nic_count("other-0") == 2, String::new).await;
    let away =
        |config: &Value| config["reason"] == "DeliveryError" && config["workload"]["reachable"] == false;
    let config = world.operator.until_config("a", "away", away).await;
    let problem = config["workload"]["problem"].as_str().unwrap();
    assert!(problem.contains("cannot be reached"), "{problem}");
    let since: jiff::Timestamp = config["workload"]["since"].as_str().unwrap().parse().unwrap();
    // Looked at now and then: a connection that was idle for as long as the server keeps one may just be closing.
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.operator.config("a").await;
    }
    let again = world.operator.config("a").await;
    let still: jiff::Timestamp = again["workload"]["since"].as_str().unwrap().parse().unwrap();
    assert_eq!(still, since, "since when does not move");
    let tries = metric(&world, &restarts).await.unwrap_or_default() - before;
    println!("{tries} looks at the cluster in {:.0?}", begun.elapsed());
    assert!(tries < 12.0, "a hot loop: {tries} looks");

    drop(away_now);
    let deadline = Instant::now() + PATIENCE;
    let versions = |workload: &Workload| -> BTreeMap<String, i64> {
        let generation = |object: &Value| object["metadata"]["generation"].as_i64().unwrap_or_default();
        workload.objects().iter().map(|(name, object)| (name.clone(), generation(object))).collect()
    };
    while workload.nics() != world.expected(&spec) {
        assert!(Instant::now() < deadline, "{:#?}", workload.nics());
        tokio::time::sleep(GLANCE).await;
    }
    assert_eq!(versions(&workload)["node-0"], 2, "the newest state alone was applied");
    let config = world.operator.until_config("a", "back", |c| c["workload"]["reachable"] == true).await;
    assert_eq!(config["workload"]["problem"], Value::Null);
    world.operator.stop().await;
}
