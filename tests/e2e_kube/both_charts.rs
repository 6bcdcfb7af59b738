//! Both charts as a user installs them, CRDs and all, one in each cluster: from `kubectl apply` of an
//! `OpenstackConfig` to the objects that the node agents read.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Instant;

use serde_json::Value;

use crate::chart::{Release, repository};
use crate::cluster::{Cluster, condition, in_cluster};
use crate::e2e_support::{GLANCE, PATIENCE, until};
use crate::workload::{NAMESPACE, Workload, kubeconfig};
use crate::world::{BIZ, DATA};

const VIOLA: &str = "viola";
const VIOLA_CRD: &str = "multinicnodeconfigs.multinic.io";
const CRD: &str = "openstackconfigs.multinic.example.com";

/// A command on the workload cluster; what it says.
fn on_workload(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).env("KUBECONFIG", kubeconfig()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn helm(args: &[&str]) -> String {
    on_workload(Path::new("helm"), args)
}

/// The Viola test API as its pod would run, with its account's token.
struct Viola {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Viola {
    /// Installs the chart in the workload cluster; it delivers there.
    async fn install(workload: &Workload) -> Self {
        let chart = repository("charts/viola-test-api");
        let values =
            format!("env.routingConfigPath=,env.targetNamespace={NAMESPACE},rbac.namespaces={{{NAMESPACE}}}");
        helm(&["install", VIOLA, chart.to_str().unwrap(), "-n", NAMESPACE, "--set", &values]);
        let json = workload.kubectl(&["-n", NAMESPACE, "get", "deployment", "viola-api", "-o", "json"]);
        let deployment: Value = serde_json::from_str(&json).unwrap();
        let pod = &deployment["spec"]["template"]["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let folder = tempfile::tempdir().unwrap();
        let account = text(&pod["serviceAccountName"]);
        let token = on_workload(&repository("tests/env/kube/sa-kubeconfig.sh"), &[NAMESPACE, &account]);
        let file = folder.path().join("kubeconfig");
        std::fs::write(&file, token).unwrap();
        let container = &pod["containers"][0];
        let mut env: BTreeMap<String, String> = container["env"]
            .as_array()
            .unwrap()
            .iter()
            .map(|variable| (text(&variable["name"]), text(&variable["value"])))
            .collect();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        env.insert("LISTEN_ADDR".to_owned(), format!("127.0.0.1:{port}"));
        let name = text(&container["command"][0]);
        let program = folder.path().join(name.trim_start_matches('/'));
        symlink(env!("CARGO_BIN_EXE_multinic-operator"), &program).unwrap();
        let mut command = Command::new(program);
        command.env_clear().envs(env).arg(format!("--kubeconfig={}", file.display()));
        let viola = Self {
            child: command.spawn().unwrap(),
            url: format!("http://127.0.0.1:{port}"),
            _folder: folder,
        };
        viola.until_healthy(&text(&container["readinessProbe"]["httpGet"]["path"])).await;
        viola
    }

    async fn until_healthy(&self, path: &str) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = client.get(format!("{}{path}", self.url)).send().await;
            if answer.is_ok_and(|answer| answer.status() == 200) {
                return;
            }
            assert!(Instant::now() < deadline, "the Viola test API does not start");
            tokio::time::sleep(GLANCE).await;
        }
    }
}

impl Drop for Viola {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What was asserted before has failed then, or it is gone already.
        let _ = Command::new("helm")
            .args(["uninstall", VIOLA, "-n", NAMESPACE, "--ignore-not-found"])
            .env("KUBECONFIG", kubeconfig())
            .output();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn from_helm_install_of_both_to_the_objects_of_the_agents() {
    let (cluster, workload) = (Cluster::new().await, Workload::new().await);
    cluster.delete_crd();
    workload.kubectl(&["delete", "crd", VIOLA_CRD, "--wait"]);
    let viola = Viola::install(&workload).await;
    let mut world = cluster.world();
    let folder = tempfile::tempdir().unwrap();
    let chart = repository("charts/multinic-operator");
    let endpoint = format!("operatorConfig.violaEndpoint={}", viola.url);
    let release = Release::of(&cluster, chart.to_str().unwrap(), &["--set", &endpoint]);
    world.operator = release.operator(folder.path());

    let vms = world.vms(3);
    world.port(&vms[0], DATA);
    let mut spec = in_cluster(world.spec("a", &vms));
    spec.viola = String::new();
    world.operator.start().await;
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = cluster.try_apply(&spec.yaml()) {
        assert!(Instant::now() < deadline, "the CRD of the chart is not served: {error}");
        tokio::time::sleep(GLANCE).await;
    }
    let is_right = || workload.nics() == world.expected(&spec);
    let state = || format!("{:#?}\nnot {:#?}", workload.nics(), world.expected(&spec));
    until("the cluster has what the cloud has", is_right, state).await;
    assert_eq!(workload.objects()["node-0"]["metadata"]["labels"]["multinic.io/provider-id"], BIZ);

    let object = cluster.until("a", "3/3", |object| object["status"]["nodes"]["summary"] == "3/3").await;
    assert_eq!(condition(&object, "Ready")["status"], "True");
    let columns = cluster.kubectl(&["-n", "test", "get", "oscfg", "a", "--no-headers"]);
    let columns: Vec<&str> = columns.split_whitespace().collect();
    assert_eq!((columns[0], columns[1], columns[3]), ("a", "True", "3/3"), "{columns:?}");
    assert_ne!(columns[4], "<none>", "when it was synced last");
    cluster.until_events(object["metadata"]["uid"].as_str().unwrap(), &[("Normal", "Synced")]).await;
    world.operator.stop().await;

    // The releases go; what people and agents rely on stays.
    drop(release);
    helm(&["uninstall", VIOLA, "-n", NAMESPACE]);
    cluster.kubectl(&["get", "crd", CRD]);
    assert_eq!(cluster.object("a")["status"]["nodes"]["summary"], "3/3");
    workload.kubectl(&["get", "crd", VIOLA_CRD]);
    assert_eq!(workload.nics(), world.expected(&spec));
}
