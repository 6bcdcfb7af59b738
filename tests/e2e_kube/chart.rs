//! The operator as the chart starts it: its arguments, its variables, its ServiceAccount's token and no more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cluster::{Answered, Cluster, condition, in_cluster, kubeconfig};
use crate::e2e_support::Operator;
use crate::world::{BIZ, World};

const RELEASE: &str = "nics";
const ACCOUNT: &str = "nics-multinic-operator";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn run(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).env("KUBECONFIG", kubeconfig()).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A release of the chart; gone with this.
pub struct Release<'a> {
    cluster: &'a Cluster,
    /// Its own: one with a claim takes long to go.
    namespace: String,
}

impl<'a> Release<'a> {
    /// With the chart's default values. The CRD is there already, as the cluster's tests make it.
    fn install(cluster: &'a Cluster) -> Self {
        let chart = repository("charts/multinic-operator");
        let chart = chart.to_str().unwrap();
        Self::of(cluster, chart, &[])
    }

    fn of(cluster: &'a Cluster, chart: &str, values: &[&str]) -> Self {
        let namespace = format!("charted-{:08x}", rand::random::<u32>());
        let mut args = vec!["install", RELEASE, chart, "-n", &namespace, "--create-namespace", "--skip-crds"];
        args.extend(values);
        run(Path::new("helm"), &args);
        Self { cluster, namespace }
    }

    /// One of the previous chart, brought up to this one with the values that it had.
    pub fn upgraded(cluster: &'a Cluster, values: &[&str]) -> Self {
        let [before, after] = ["tests/charts/previous-chart", "charts/multinic-operator"].map(repository);
        let (before, after) = (before.to_str().unwrap(), after.to_str().unwrap());
        let release = Self::of(cluster, before, values);
        run(Path::new("helm"), &["upgrade", RELEASE, after, "-n", &release.namespace, "--reuse-values"]);
        release
    }

    fn container(&self) -> Value {
        let json = self.cluster.kubectl(&["-n", &self.namespace, "get", "deployment", ACCOUNT, "-o", "json"]);
        let deployment: Value = serde_json::from_str(&json).unwrap();
        deployment["spec"]["template"]["spec"]["containers"][0].clone()
    }

    /// As its pod would run, but for addresses (loopback, any port) and the folder of the file.
    pub fn operator(&self, folder: &Path) -> Operator {
        let token = run(&repository("tests/env/kube/sa-kubeconfig.sh"), &[&self.namespace, ACCOUNT]);
        let file = folder.join("kubeconfig");
        std::fs::write(&file, token).unwrap();
        let mut operator = Operator::new().flag(&format!("--kubeconfig={}", file.display()));
        let container = self.container();
        let addresses = ["--metrics-bind-address", "--health-probe-bind-address", "--inventory-addr"];
        for arg in container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()) {
            if !addresses.iter().any(|address| arg.starts_with(address)) {
                operator = operator.flag(arg);
            }
        }
        for variable in container["env"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().unwrap();
            operator = operator.variable(name, variable["value"].as_str().unwrap_or_default());
        }
        operator
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        let _ = Command::new("helm")
            .args(["uninstall", RELEASE, "-n", &self.namespace])
            .env("KUBECONFIG", kubeconfig())
            .output();
        self.cluster.try_kubectl(&["delete", "namespace", &self.namespace, "--wait=false"], "");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn with_the_charts_own_rights_everything_works_and_nothing_is_refused() {
    let cluster = Cluster::new().await;
    let folder = tempfile::tempdir().unwrap();
    let release = Release::install(&cluster);
    let (line, _) = cluster.audited(0);
    let mut world = World::with_operator(release.operator(folder.path()));
    let spec = in_cluster(world.spec("a", &world.vms(2)));
    cluster.declare(&spec);
    world.operator.start().await;
    world.until_delivered(&spec).await;
    let object = cluster.until_condition("a", "Ready", "True").await;
    let columns = cluster.kubectl(&["-n", "test", "get", "oscfg", "a", "--no-headers"]);
    let columns: Vec<&str> = columns.split_whitespace().collect();
    assert_eq!((columns[0], columns[1], columns[3]), ("a", "True", "2/2"), "{columns:?}");
    cluster.until_events(object["metadata"]["uid"].as_str().unwrap(), &[("Normal", "Synced")]).await;
    let state = cluster.kubectl(&["-n", "test", "get", "configmap", "multinic-state-a", "-o", "json"]);
    assert!(state.contains("node-1"), "{state}");

    world.operator.stop().await;
    std::fs::remove_dir_all(world.operator.inventory_file().parent().unwrap()).unwrap();
    world.viola.forget_posts();
    world.operator.start().await;
    world.operator.until_polled("a").await;
    assert!(world.sent().is_empty() && world.viola.nodes(BIZ).len() == 2);
    assert_eq!(condition(&cluster.object("a"), "Ready")["status"], "True");
    world.operator.stop().await;

    let account = format!("system:serviceaccount:{}:{ACCOUNT}", release.namespace);
    let requests = cluster.answered(line, &account);
    assert!(requests.is_empty() == (line == 0), "no request of {account} in the audit log");
    let is_refused = |request: &&Answered| matches!(request.code, 401 | 403);
    let refused: Vec<&str> =
        requests.iter().filter(is_refused).map(|request| request.what.as_str()).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

/// What an account may do in the namespace `test`: resources, the names it is limited to, verbs.
fn rights(cluster: &Cluster, account: &str) -> BTreeSet<String> {
    let table = cluster.kubectl(&["auth", "can-i", "--list", "-n", "test", "--no-headers", "--as", account]);
    let row = |line: &str| {
        let (resource, rest) = line.split_once(' ')?;
        let lists: Vec<&str> = rest.split(['[', ']']).collect();
        (!resource.is_empty()).then(|| format!("{resource} [{}] {}", lists[3], lists[5]))
    };
    table.lines().filter_map(row).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn the_charts_account_may_do_what_it_does_and_no_more() {
    let cluster = Cluster::new().await;
    let release = Release::install(&cluster);
    let of =
        |account: &str| rights(&cluster, &format!("system:serviceaccount:{}:{account}", release.namespace));
    // Some things every account may do.
    let found: BTreeSet<String> = of(ACCOUNT).difference(&of("default")).cloned().collect();
    let expect = [
        "configmaps [] get create patch delete",
        "customresourcedefinitions.apiextensions.k8s.io [openstackconfigs.multinic.example.com] get patch",
        "events.events.k8s.io [] create patch",
        "openstackconfigs.multinic.example.com [] get list watch",
        "openstackconfigs.multinic.example.com/status [] patch",
        "secrets [] get",
    ];
    assert_eq!(found, expect.map(str::to_owned).into());
}
