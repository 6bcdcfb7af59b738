//! Mode `ssh` of the Viola test API against a real sshd, with the real kubectl and API server: `make e2e-ssh`.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests

use std::process::Command;
use std::time::Duration;

use multinic_operator::kube::node_config::crd_yaml;
use multinic_operator::settings::values::ListenAddress;
use multinic_operator::viola_api::{self, PATH, Running, Settings, Surroundings};
use serde_json::{Value, json};

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name}, as `make e2e-ssh` sets it"))
}

fn kubectl(args: &[&str]) -> String {
    let output = Command::new("kubectl").args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The kubectl of this test, as a shell on the bastion finds it.
fn remote_kubectl() -> String {
    let path = Command::new("sh").args(["-c", "command -v kubectl"]).output().unwrap();
    let path = String::from_utf8(path.stdout).unwrap();
    format!("KUBECONFIG={} {}", env("KUBECONFIG"), path.trim())
}

/// A target with these `fields` changed; empty ones are left out.
fn target(id: &str, change: &[(&str, Value)]) -> Value {
    let known_hosts = format!("UserKnownHostsFile={}", env("SSH_TESTBED_KNOWN_HOSTS"));
    let mut target = json!({
        "providerId": id, "mode": "ssh", "namespace": "ssh-test", "sshHost": "127.0.0.1",
        "sshPort": env("SSH_TESTBED_PORT"), "sshUser": env("SSH_TESTBED_USER"),
        "sshKeyPath": env("SSH_TESTBED_KEY"), "sshOptions": [known_hosts], "kubectlPath": remote_kubectl(),
    });
    for (field, value) in change {
        target[*field] = value.clone();
    }
    target
}

struct Server {
    running: Running,
    _folder: tempfile::TempDir,
}

impl Server {
    async fn start(targets: &[Value], timeout: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("routing.yaml");
        std::fs::write(&file, json!({"strict": true, "targets": targets}).to_string()).unwrap();
        let settings = Settings {
            address: ListenAddress { host: Some("127.0.0.1".to_owned()), port: 0 },
            routing_file: Some(file),
            namespace: "ssh-test".to_owned(),
            timeout,
            kubectl_path: "kubectl".to_owned(),
            server: None,
        };
        let running = viola_api::start(settings, Surroundings::default()).await;
        Self { running: running.unwrap_or_else(|error| panic!("{error}")), _folder: folder }
    }

    async fn post(&self, id: &str, nodes: &Value) -> (u16, Value) {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request =
            client.post(format!("http://{}{PATH}", self.running.address)).header("x-provider-id", id);
        let answer = request.body(nodes.to_string()).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

fn node(name: &str, mtu: u32) -> Value {
    json!({"nodeName": name, "instanceId": "a3c1c0de-0000-4000-8000-000000000001", "interfaces": [{
        "id": 0, "name": "multinic0", "macAddress": "fa:16:3e:00:00:01", "address": "192.0.2.10",
        "cidr": "192.0.2.0/24", "mtu": mtu}]})
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs sshd and a cluster: make e2e-ssh"]
async fn nodes_are_applied_by_kubectl_on_a_bastion() {
    let crd = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(crd.path(), crd_yaml().unwrap()).unwrap();
    kubectl(&["apply", "--server-side", "-f", &crd.path().display().to_string()]);
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !Command::new("kubectl")
        .args(["get", "mnnc", "--all-namespaces"])
        .output()
        .unwrap()
        .status
        .success()
    {
        assert!(std::time::Instant::now() < deadline, "the CRD is not served");
        std::thread::sleep(Duration::from_millis(50));
    }
    kubectl(&["create", "namespace", "ssh-test"]);
    let rest = [
        target("plain", &[]),
        target("new", &[("sshOptions", json!(["StrictHostKeyChecking=accept-new"]))]),
        target("unknown", &[("sshOptions", json!(["StrictHostKeyChecking=yes"]))]),
        target("nobody", &[("sshKeyPath", json!(null)), ("sshPass", json!("hunter2"))]),
        target("silent", &[("kubectlPath", json!("sleep 60;"))]),
        target("absent", &[("kubectlPath", json!("/nonexistent/kubectl"))]),
        target("closed", &[("sshPort", json!(1))]),
    ];
    let server = Server::start(&rest, Duration::from_secs(20)).await;

    let (status, answer) = server.post("plain", &json!([node("a", 1450), node("B_1", 9000)])).await;
    assert_eq!((status, &answer["applied"]), (200, &json!(2)), "{answer:#}");
    let list: Value =
        serde_json::from_str(&kubectl(&["-n", "ssh-test", "get", "mnnc", "-o", "json"])).unwrap();
    let specs: Vec<(&Value, &Value)> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (&item["metadata"]["name"], &item["spec"]))
        .collect();
    assert_eq!(specs, [(&json!("a"), &node("a", 1450)), (&json!("b-1"), &node("B_1", 9000))]);

    // One that the API server refuses; the other changes.
    let (status, answer) = server.post("new", &json!([node("a", 1500), node("c", 9)])).await;
    assert_eq!(status, 207, "{answer:#}");
    let message = answer["results"][1]["message"].as_str().unwrap();
    assert!(message.contains("\"c\" is invalid") && message.contains("mtu"), "{message}");
    let mtu = kubectl(&["-n", "ssh-test", "get", "mnnc", "a", "-o", "jsonpath={.spec.interfaces[0].mtu}"]);
    assert_eq!(mtu, "1500");

    for (id, part) in [
        ("unknown", "its host key (SHA256:"),
        ("nobody", "was refused with the password"),
        ("silent", "not applied within KUBECTL_TIMEOUT (20s)"),
        ("absent", "kubectl"),
        ("closed", "Connection refused"),
    ] {
        let (status, answer) = server.post(id, &json!([node("a", 1450)])).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(status == 500 && message.contains(part), "{id}: {status} {message}");
        assert!(!answer.to_string().contains("hunter2"));
    }
    // More than both sides' windows hold, in one go.
    let many: Value = (0..2_000).map(|n| node(&format!("many-{n}"), 1450)).collect();
    let server = Server::start(&[target("plain", &[])], Duration::from_secs(600)).await;
    let (status, answer) = server.post("plain", &many).await;
    assert_eq!((status, &answer["applied"]), (200, &json!(2_000)), "{}", answer["error"]);
    kubectl(&["delete", "namespace", "ssh-test", "--wait=false"]);
}
