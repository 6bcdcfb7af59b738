//! The cluster of `KUBECONFIG`, by kubectl, as a person would use it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use multinic_operator::kube::openstack_config::{OpenstackConfig, crd_yaml};
use multinic_operator::kube::state::LABEL;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::e2e_support::{GLANCE, Operator, PATIENCE, Spec};
use crate::world::World;

/// The tests share one cluster and so go one after the other.
static CLUSTER: Mutex<()> = Mutex::const_new(());

const CRD: &str = "openstackconfigs.multinic.example.com";

/// A cluster without objects.
pub struct Cluster {
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    /// With the CRD.
    pub async fn new() -> Self {
        let cluster = Self { _alone: CLUSTER.lock().await };
        cluster.install_crd();
        cluster.kubectl(&["delete", "oscfg", "--all", "--all-namespaces", "--wait"]);
        cluster.apply(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "test"}}).to_string(),
        );
        cluster.try_kubectl(&["-n", "test", "delete", "secret", "--all", "--wait"], "");
        cluster.try_kubectl(&["-n", "test", "delete", "configmap", "-l", LABEL, "--wait"], "");
        cluster
    }

    /// As a user of the operator's binary does it.
    pub fn install_crd(&self) {
        let printed = Command::new(env!("CARGO_BIN_EXE_multinic-operator")).arg("crd").output().unwrap();
        self.install(&String::from_utf8(printed.stdout).unwrap());
    }

    /// A CRD that takes anything: how an object comes to be stored that the real one refuses.
    pub fn install_lax_crd(&self) {
        let mut crd: Value =
            serde_json::to_value(yaml_serde::from_str::<Value>(&crd_yaml().unwrap()).unwrap()).unwrap();
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        *schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        self.install(&crd.to_string());
    }

    fn install(&self, crd: &str) {
        self.apply(crd);
        // Not by `kubectl wait`, which fails on a CRD that has no conditions yet.
        let deadline = Instant::now() + PATIENCE;
        while !self.try_kubectl(&["get", "oscfg", "--all-namespaces"], "").status.success() {
            assert!(Instant::now() < deadline, "the CRD is not served");
            std::thread::sleep(GLANCE);
        }
    }

    pub fn delete_crd(&self) {
        self.kubectl(&["delete", "crd", CRD, "--wait"]);
    }

    /// An operator that works on this cluster, and its simulated surroundings.
    pub fn world(&self) -> World {
        World::with_operator(operator())
    }

    /// As the chart's default values start it: the folder of its inventory is lost with the pod.
    pub fn world_of_the_chart(&self) -> World {
        World::with_operator(operator().flag("--state-configmap"))
    }

    pub fn kubectl(&self, args: &[&str]) -> String {
        let output = self.try_kubectl(args, "");
        assert!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn try_kubectl(&self, args: &[&str], input: &str) -> Output {
        let mut kubectl = Command::new("kubectl");
        kubectl.args(args).arg("--request-timeout=30s").env("KUBECONFIG", kubeconfig());
        kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = kubectl.spawn().expect("kubectl on the PATH");
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Applies YAML or JSON; what the API server says if it refuses.
    pub fn try_apply(&self, objects: &str) -> Result<(), String> {
        let output = self.try_kubectl(&["apply", "-f", "-"], objects);
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8(output.stderr).unwrap()),
        }
    }

    #[track_caller]
    pub fn apply(&self, objects: &str) {
        self.try_apply(objects).unwrap_or_else(|error| panic!("kubectl apply: {error}\n{objects}"));
    }

    pub fn declare(&self, spec: &Spec) {
        self.apply(&spec.yaml());
    }

    /// The object as it stands in the cluster.
    pub fn object(&self, name: &str) -> Value {
        let json = self.kubectl(&["-n", "test", "get", "oscfg", name, "-o", "json"]);
        serde_json::from_str(&json).unwrap()
    }

    /// Waits until the object is `right`.
    pub async fn until(&self, name: &str, what: &str, right: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let object = self.object(name);
            if right(&object) {
                return object;
            }
            assert!(Instant::now() < deadline, "{name}: never {what}: {:#}", object["status"]);
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Waits for a status of a condition.
    pub async fn until_condition(&self, name: &str, kind: &str, status: &str) -> Value {
        self.until(name, &format!("{kind} {status}"), |object| condition(object, kind)["status"] == status)
            .await
    }

    /// Waits until the Events of an object are these, in order.
    pub async fn until_events(&self, uid: &str, expect: &[(&str, &str)]) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let list = self.kubectl(&["-n", "test", "get", "events.events.k8s.io", "-o", "json"]);
            let list: Value = serde_json::from_str(&list).unwrap();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let events =
                list["items"].as_array().unwrap().iter().filter(|event| event["regarding"]["uid"] == uid);
            let mut events: Vec<_> = events
                .map(|event| (text(&event["eventTime"]), text(&event["type"]), text(&event["reason"])))
                .collect();
            events.sort();
            let found: Vec<_> =
                events.iter().map(|(_, kind, reason)| (kind.as_str(), reason.as_str())).collect();
            if found == expect {
                return;
            }
            assert!(Instant::now() < deadline, "{found:?}, not {expect:?}");
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// What `plan` prints.
    pub fn plan(&self, args: &[&str]) -> Value {
        let mut plan = Command::new(env!("CARGO_BIN_EXE_multinic-operator"));
        let output = plan.arg("plan").args(args).env("KUBECONFIG", kubeconfig()).output().unwrap();
        let problems = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("plan {args:?}: {problems}"))
    }

    /// Does something to the API server itself; `false` where it is not ours.
    pub fn fault(&self, args: &[&str]) -> bool {
        let Ok(dir) = std::env::var("KUBE_TESTBED_DIR") else { return false };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/env/kube/up.sh");
        let output = Command::new(script).args(args).args(["--dir", &dir]).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        true
    }

    /// Requests of the operator from line `from` of the audit log on: verb, resource, and whether it is a status.
    pub fn audited(&self, from: usize) -> (usize, Vec<(String, String)>) {
        let Ok(dir) = std::env::var("KUBE_TESTBED_DIR") else { return (0, Vec::new()) };
        let log = std::fs::read_to_string(Path::new(&dir).join("log/audit.log")).unwrap_or_default();
        let requests = log.lines().skip(from).filter_map(|line| {
            let event: Value = serde_json::from_str(line).ok()?;
            let is_ours = event["userAgent"].as_str()?.starts_with("multinic-operator/");
            let is_end = matches!(event["stage"].as_str()?, "ResponseComplete");
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let object = &event["objectRef"];
            let resource = format!("{}/{}", text(&object["resource"]), text(&object["subresource"]));
            (is_ours && is_end).then(|| (text(&event["verb"]), resource))
        });
        (log.lines().count(), requests.collect())
    }

    /// Requests of one user from line `from` of the audit log on, and how they were answered.
    pub fn answered(&self, from: usize, user: &str) -> Vec<Answered> {
        let Ok(dir) = std::env::var("KUBE_TESTBED_DIR") else { return Vec::new() };
        let log = std::fs::read_to_string(Path::new(&dir).join("log/audit.log")).unwrap_or_default();
        let of_user = |line: &str| {
            let event: Value = serde_json::from_str(line).ok()?;
            let is_right = event["user"]["username"] == user && event["stage"] == "ResponseComplete";
            let code = event["responseStatus"]["code"].as_u64()?;
            is_right.then(|| Answered { what: format!("{} {}", event["verb"], event["requestURI"]), code })
        };
        log.lines().skip(from).filter_map(of_user).collect()
    }
}

/// A request in the audit log.
#[derive(Debug)]
pub struct Answered {
    /// Verb and path.
    pub what: String,
    /// The HTTP status.
    pub code: u64,
}

fn operator() -> Operator {
    Operator::new()
        .flag("--cloud-rate=1000")
        .flag("--cloud-burst=1000")
        .flag(&format!("--kubeconfig={}", kubeconfig()))
}

pub fn kubeconfig() -> String {
    std::env::var("KUBECONFIG").expect("KUBECONFIG, as `make e2e-kube` sets it")
}

/// A condition of an object, or null.
pub fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

/// With the key in a Secret and ports that are older than the object, as every object here is new.
pub fn in_cluster(mut spec: Spec) -> Spec {
    spec.settings.push("includeExistingPorts: true".to_owned());
    spec
}

/// The full name of the kind, to make sure that it is what the tests mean.
pub fn crd_name() -> String {
    use kube::CustomResourceExt as _;
    OpenstackConfig::crd_name().to_owned()
}
