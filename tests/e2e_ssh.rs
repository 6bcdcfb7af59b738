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

/// The program in the image's root file system, as the image starts it.
struct InImage {
    child: std::process::Child,
    url: String,
}

impl InImage {
    /// With the files of `target` put where the routing Secret is mounted.
    fn start(root: &std::path::Path, mut target: Value) -> Self {
        let mounted = root.join("etc/viola-router");
        std::fs::create_dir_all(&mounted).unwrap();
        let mount = |from: &str, name: &str| {
            std::fs::copy(from, mounted.join(name)).unwrap();
            std::os::unix::fs::chown(mounted.join(name), Some(65532), Some(65532)).unwrap();
            format!("/etc/viola-router/{name}")
        };
        target["sshKeyPath"] = json!(mount(&env("SSH_TESTBED_KEY"), "id"));
        let known_hosts = mount(&env("SSH_TESTBED_KNOWN_HOSTS"), "known_hosts");
        target["sshOptions"] = json!([format!("UserKnownHostsFile={known_hosts}")]);
        let routing = json!({"strict": true, "targets": [target]}).to_string();
        std::fs::write(mounted.join("routing.yaml"), routing).unwrap();
        // Every container has these (OCI runtime specification, default devices); an empty root has not.
        std::fs::create_dir_all(root.join("dev")).unwrap();
        for (device, minor) in [("dev/random", "8"), ("dev/urandom", "9")] {
            let device = root.join(device);
            let mut mknod = Command::new("mknod");
            let made =
                device.exists() || mknod.arg(&device).args(["c", "1", minor]).status().unwrap().success();
            assert!(made, "mknod {}", device.display());
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("chroot")
            .args(["--userspec", "65532:65532"])
            .arg(root)
            .arg("/viola-test-api")
            .env_clear()
            .env("PATH", env("PATH"))
            .env("LISTEN_ADDR", format!("127.0.0.1:{port}"))
            .env("ROUTING_CONFIG", "/etc/viola-router/routing.yaml")
            .spawn()
            .unwrap();
        Self { child, url: format!("http://127.0.0.1:{port}") }
    }
}

impl Drop for InImage {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs sshd and the image's files, as root: SSH_TESTBED_IMAGE_ROOT=dist/rootfs make e2e-ssh"]
async fn the_image_needs_no_ssh_of_its_own() {
    let Ok(root) = std::env::var("SSH_TESTBED_IMAGE_ROOT") else {
        return println!("left out: SSH_TESTBED_IMAGE_ROOT names no root file system");
    };
    // A stand-in: the real kubectl is tried by the other test.
    let folder = tempfile::tempdir().unwrap();
    let kubectl = folder.path().join("kubectl");
    let script = "#!/bin/sh\ncat >\"$0.input\"\necho \"$@\" >\"$0.args\"\necho multinicnodeconfig.multinic.io/a created\n";
    std::fs::write(&kubectl, script).unwrap();
    let change = [("kubectlPath", json!(format!("sh {}", kubectl.display())))];
    let server = InImage::start(std::path::Path::new(&root), target("plain", &change));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while client.get(format!("{}/healthz", server.url)).send().await.is_err() {
        assert!(std::time::Instant::now() < deadline, "it never answers");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let request = client.post(format!("{}{PATH}", server.url)).header("x-provider-id", "plain");
    let answer = request.body(json!([node("a", 1450)]).to_string()).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    let read = |name: &str| std::fs::read_to_string(kubectl.with_extension(name)).unwrap();
    assert_eq!(read("args").trim(), "apply -f -");
    let list: Value = serde_json::from_str(&read("input")).unwrap();
    assert_eq!(list["items"][0]["spec"], node("a", 1450));
}
