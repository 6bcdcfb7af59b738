//! The workload cluster of `WORKLOAD_KUBECONFIG`, where the node agents would be.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::e2e_support::{GLANCE, Nic, PATIENCE, nics};

/// The tests share it and so go one after the other.
static WORKLOAD: Mutex<()> = Mutex::const_new(());

/// Where the objects go.
pub const NAMESPACE: &str = "biz";

/// A workload cluster without node configs.
pub struct Workload {
    _alone: MutexGuard<'static, ()>,
}

pub fn kubeconfig() -> String {
    std::env::var("WORKLOAD_KUBECONFIG").expect("WORKLOAD_KUBECONFIG, as `make e2e-kube` sets it")
}

impl Workload {
    /// With the chart's CRD.
    pub async fn new() -> Self {
        let workload = Self { _alone: WORKLOAD.lock().await };
        // With all objects: one by one, thousands of them take minutes.
        workload.kubectl(&[
            "delete",
            "crd",
            "multinicnodeconfigs.multinic.io",
            "--ignore-not-found",
            "--wait",
        ]);
        let crd = "charts/viola-test-api/crds/multinicnodeconfigs.yaml";
        workload.kubectl(&["apply", "--server-side", "-f", &repository(crd)]);
        let deadline = Instant::now() + PATIENCE;
        while !workload.try_kubectl(&["get", "mnnc", "--all-namespaces"], "").status.success() {
            assert!(Instant::now() < deadline, "the CRD is not served");
            std::thread::sleep(GLANCE);
        }
        workload.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}));
        workload
    }

    pub fn kubectl(&self, args: &[&str]) -> String {
        let output = self.try_kubectl(args, "");
        assert!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn try_kubectl(&self, args: &[&str], input: &str) -> Output {
        let mut kubectl = Command::new("kubectl");
        kubectl.args(args).env("KUBECONFIG", kubeconfig());
        kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = kubectl.spawn().expect("kubectl on the PATH");
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// `kubectl apply`, as a person or the previous test API does it.
    pub fn apply(&self, object: &Value) {
        self.apply_with(object, &[]);
    }

    pub fn apply_with(&self, object: &Value, more: &[&str]) {
        let output = self.try_kubectl(&[&["apply", "-f", "-"], more].concat(), &object.to_string());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Every node config, by name.
    pub fn objects(&self) -> BTreeMap<String, Value> {
        let list = self.kubectl(&["-n", NAMESPACE, "get", "mnnc", "-o", "json", "--show-managed-fields"]);
        let list: Value = serde_json::from_str(&list).unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), item.clone())).collect()
    }

    /// The NICs of every node.
    pub fn nics(&self) -> BTreeMap<String, BTreeSet<Nic>> {
        self.objects().into_iter().map(|(name, object)| (name, nics(&object["spec"]))).collect()
    }

    /// Does something to its API server; `false` where it is not ours.
    pub fn fault(&self, args: &[&str]) -> bool {
        let dir = std::env::var("WORKLOAD_TESTBED_DIR").unwrap_or_default();
        if dir.is_empty() {
            return false;
        }
        let script = repository("tests/env/kube/up.sh");
        let output = Command::new(script).args(args).args(["--dir", &dir]).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        true
    }
}

pub fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).display().to_string()
}
