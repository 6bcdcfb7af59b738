//! From the operator by the Viola test API into a workload cluster.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use multinic_operator::settings::values::ListenAddress;
use multinic_operator::viola_api::{self, PATH, Running, Settings, Surroundings};
use serde_json::{Value, json};

use crate::cluster::{Cluster, in_cluster};
use crate::e2e_support::{PATIENCE, Spec, until};
use crate::workload::{NAMESPACE, Workload, kubeconfig, repository};
use crate::world::{BIZ, DATA, STORAGE, World};

/// A running Viola test API.
struct Viola {
    running: Running,
    _folder: tempfile::TempDir,
}

impl Viola {
    async fn start(targets: &[Value], timeout: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("routing.yaml");
        std::fs::write(&file, json!({"strict": true, "targets": targets}).to_string()).unwrap();
        let settings = Settings {
            address: ListenAddress { host: Some("127.0.0.1".to_owned()), port: 0 },
            routing_file: Some(file),
            namespace: NAMESPACE.to_owned(),
            timeout,
            kubectl_path: "kubectl".to_owned(),
            server: None,
        };
        let running = viola_api::start(settings, Surroundings::default()).await;
        Self { running: running.unwrap_or_else(|error| panic!("{error}")), _folder: folder }
    }

    fn url(&self) -> String {
        format!("http://{}", self.running.address)
    }

    async fn post(&self, id: &str, nodes: &Value) -> (u16, Value) {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(format!("{}{PATH}", self.url())).header("x-provider-id", id);
        let answer = request.body(nodes.to_string()).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

/// A target that the cluster's administrator gives.
fn by_kubeconfig(id: &str) -> Value {
    json!({"providerId": id, "mode": "local", "namespace": NAMESPACE, "kubeconfigPath": kubeconfig()})
}

/// A target with the rights that the chart gives, by token, address and CA.
fn by_token(workload: &Workload, folder: &std::path::Path) -> Value {
    let golden = std::fs::read_to_string(repository("tests/charts/golden/viola-default.yaml")).unwrap();
    let documents = golden.split("\n---\n").map(|text| yaml_serde::from_str::<Value>(text).unwrap());
    let mut role = documents.into_iter().find(|document| document["kind"] == "Role").unwrap();
    role["metadata"] = json!({"name": "viola-api", "namespace": NAMESPACE});
    workload.apply(&role);
    workload.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "viola-api", "namespace": NAMESPACE}}));
    workload.apply(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "viola-api", "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viola-api"},
        "subjects": [{"kind": "ServiceAccount", "name": "viola-api", "namespace": NAMESPACE}]}));
    let token = workload.kubectl(&["-n", NAMESPACE, "create", "token", "viola-api"]);
    let config: Value =
        serde_json::from_str(&workload.kubectl(&["config", "view", "--raw", "--flatten", "-o", "json"]))
            .unwrap();
    let cluster = &config["clusters"][0]["cluster"];
    let ca = folder.join("ca.crt");
    let pem = base64::Engine::decode(
        &base64::engine::general_purpose::STANDARD,
        cluster["certificate-authority-data"].as_str().unwrap(),
    );
    std::fs::write(&ca, pem.unwrap()).unwrap();
    json!({"providerId": BIZ, "namespace": NAMESPACE, "kubeApiServer": cluster["server"],
        "kubeToken": token.trim(), "kubeCaPath": ca.display().to_string()})
}

/// Waits until the workload cluster has exactly what the cloud has.
async fn until_true(workload: &Workload, world: &World, spec: &Spec) {
    let is_right = || workload.nics() == world.expected(spec);
    let state =
        || format!("the cloud has {:#?}\nthe cluster has {:#?}", world.expected(spec), workload.nics());
    until("the cluster has what the cloud has", is_right, state).await;
}

fn node_config(name: &str, mac: &str) -> Value {
    json!({"apiVersion": "multinic.io/v1alpha1", "kind": "MultiNicNodeConfig",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"nodeName": name, "instanceId": "old", "interfaces": [
            {"id": 0, "name": "multinic0", "macAddress": mac, "address": "192.0.2.9", "cidr": "192.0.2.0/24", "mtu": 1400},
            {"id": 1, "name": "multinic1", "macAddress": "fa:16:3e:ff:ff:fe"}]}})
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn the_workload_cluster_has_what_the_cloud_has() {
    let (cluster, workload) = (Cluster::new().await, Workload::new().await);
    let folder = tempfile::tempdir().unwrap();
    let viola = Viola::start(&[by_token(&workload, folder.path())], PATIENCE).await;
    let mut world = cluster.world();
    let vms = world.vms(3);
    world.port(&vms[0], STORAGE);
    let mut spec = in_cluster(world.spec("a", &vms));
    spec.viola = viola.url();
    cluster.declare(&spec);
    world.operator.start().await;
    until_true(&workload, &world, &spec).await;
    let object = &workload.objects()["node-0"];
    assert_eq!(object["spec"]["instanceId"], vms[0].as_str());
    assert_eq!(object["metadata"]["labels"]["multinic.io/provider-id"], BIZ);
    assert_eq!(object["metadata"]["managedFields"][0]["manager"], "multinic-operator");

    world.port(&vms[1], DATA);
    until_true(&workload, &world, &spec).await;
    cluster.until_condition("a", "Ready", "True").await;
    world.operator.stop().await;
    viola.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn what_kubectl_applied_is_taken_over_and_another_applier_is_respected() {
    let (cluster, workload) = (Cluster::new().await, Workload::new().await);
    for (name, mac) in [("node-0", "fa:16:3e:ff:ff:f0"), ("node-1", "fa:16:3e:ff:ff:f1")] {
        workload.apply(&node_config(name, mac));
    }
    // And by hand, as another manager that only updates.
    workload.kubectl(&[
        "-n",
        NAMESPACE,
        "patch",
        "mnnc",
        "node-1",
        "--type=merge",
        "-p",
        r#"{"spec":{"instanceId":"by-hand"}}"#,
    ]);
    workload.apply_with(
        &node_config("node-2", "fa:16:3e:ff:ff:f2"),
        &["--server-side", "--field-manager=gitops"],
    );
    let viola = Viola::start(&[by_kubeconfig(BIZ)], PATIENCE).await;
    let mut world = cluster.world();
    let vms = world.vms(3);
    let mut spec = in_cluster(world.spec("a", &vms));
    spec.viola = viola.url();
    cluster.declare(&spec);
    world.operator.start().await;

    let own = |world: &World| -> BTreeMap<_, _> {
        world.expected(&spec).into_iter().filter(|(node, _)| node != "node-2").collect()
    };
    let taken = |workload: &Workload| -> BTreeMap<_, _> {
        workload.nics().into_iter().filter(|(node, _)| node != "node-2").collect()
    };
    let state = || format!("{:#?}\n{:#?}", own(&world), taken(&workload));
    until("what kubectl applied is taken over", || taken(&workload) == own(&world), state).await;
    assert_eq!(workload.objects()["node-1"]["spec"]["instanceId"], vms[1].as_str());

    let gitops = &workload.objects()["node-2"];
    assert_eq!(
        gitops["spec"],
        node_config("node-2", "fa:16:3e:ff:ff:f2")["spec"],
        "another applier's is left alone"
    );
    let is_told = |object: &Value| {
        let skipped = &object["status"]["skipped"][0];
        skipped["reason"] == "NodeRejected"
            && skipped["message"].as_str().is_some_and(|m| m.contains("gitops applies"))
    };
    cluster.until("a", "told of the other applier", is_told).await;
    world.operator.stop().await;
    viola.running.stop().await;
}

fn posted(name: &str, mtu: u32) -> Value {
    json!({"nodeName": name, "instanceId": "vm", "interfaces": [{"id": 0, "name": "multinic0",
        "macAddress": "fa:16:3e:00:00:01", "address": "192.0.2.10", "cidr": "192.0.2.0/24", "mtu": mtu}]})
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn refusals_are_the_api_servers_own_words() {
    let workload = Workload::new().await;
    let mut elsewhere = by_kubeconfig("elsewhere");
    elsewhere["namespace"] = json!("not-there");
    let folder = tempfile::tempdir().unwrap();
    let mut forbidden = by_token(&workload, folder.path());
    forbidden["providerId"] = json!("forbidden");
    forbidden["namespace"] = json!("default");
    let mut token = forbidden.clone();
    token["providerId"] = json!("token");
    token["kubeToken"] = json!("not-a-token");
    let mut ca = forbidden.clone();
    ca["providerId"] = json!("ca");
    ca.as_object_mut().unwrap().remove("kubeCaPath");
    let viola = Viola::start(&[by_kubeconfig(BIZ), elsewhere, forbidden, token, ca], PATIENCE).await;
    let (status, answer) = viola.post(BIZ, &json!([posted("a", 1450), posted("b", 67)])).await;
    assert_eq!(status, 207, "{answer:#}");
    let message = answer["results"][1]["message"].as_str().unwrap();
    assert!(message.contains("spec.interfaces[0].mtu"), "{message}");
    for (id, part) in [
        ("elsewhere", "namespaces \"not-there\" not found"),
        ("forbidden", "cannot patch resource \"multinicnodeconfigs\""),
        ("token", "does not accept the operator's token"),
        ("ca", "the API server cannot be reached"),
    ] {
        let (status, answer) = viola.post(id, &json!([posted("a", 1450)])).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 500 && message.contains(part), "{id}: {status} {answer:#}");
    }
    viola.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn an_api_server_that_hangs_ends_in_the_timeout() {
    let workload = Workload::new().await;
    // Below the client's own limit for a connection, which would end in other words.
    let limit = Duration::from_secs(3);
    let viola = Viola::start(&[by_kubeconfig(BIZ)], limit).await;
    let deadline = Instant::now() + PATIENCE;
    while viola.post(BIZ, &json!([posted("a", 1450)])).await.0 != 200 {
        assert!(Instant::now() < deadline, "it never takes a node");
    }
    if workload.fault(&["--pause-apiserver"]) {
        let (status, answer) = viola.post(BIZ, &json!([posted("b", 1450), posted("c", 1450)])).await;
        workload.fault(&["--continue-apiserver"]);
        let message = "none of 2 nodes was applied: not applied within KUBECTL_TIMEOUT (3s)";
        assert_eq!((status, &answer["error"]["message"]), (500, &json!(message)));
        let deadline = Instant::now() + PATIENCE;
        while viola.post(BIZ, &json!([posted("b", 1450)])).await.0 != 200 {
            assert!(Instant::now() < deadline, "it does not come back");
        }
    }
    viola.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn ten_thousand_nodes_of_one_post_stand_in_the_cluster() {
    let workload = Workload::new().await;
    let viola = Viola::start(&[by_kubeconfig(BIZ)], Duration::from_secs(1800)).await;
    let nodes: Value = (0..10_000).map(|n| posted(&format!("node-{n}"), 1450)).collect();
    let start = Instant::now();
    let (status, answer) = viola.post(BIZ, &nodes).await;
    println!("10,000 nodes: {status} in {:?}", start.elapsed());
    assert_eq!((status, &answer["applied"]), (200, &json!(10_000)), "{}", answer["error"]);
    let names = workload.kubectl(&["-n", NAMESPACE, "get", "mnnc", "-o", "name"]);
    assert_eq!(names.lines().count(), 10_000);
    viola.running.stop().await;
}
