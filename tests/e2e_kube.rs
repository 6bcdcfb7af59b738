//! Against a real API server: `make e2e-kube`, or any cluster that KUBECONFIG leads to (without the restart).

#![allow(clippy::panic, clippy::unwrap_used)]

#[path = "e2e_support/mod.rs"]
mod e2e_support;
#[allow(dead_code)]
#[path = "e2e_sim/world.rs"]
mod world;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e_support::{Spec, delivered};
use multinic_operator::app::{self, Options, Running};
use multinic_operator::settings::Settings;
use serde_json::Value;
use world::{BIZ, STORAGE, World};

/// A restarted API server needs seconds, and pauses between tries grow to half a minute.
const LONG: Duration = Duration::from_secs(120);

fn run(command: &mut Command, input: &str) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a program to run");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("to be read");
    let output = child.wait_with_output().expect("an end");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {told}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn kubectl(args: &[&str]) -> String {
    run(Command::new("kubectl").args(args), "")
}

fn apply(text: &str) {
    run(Command::new("kubectl").args(["apply", "-f", "-"]), text);
}

fn object(name: &str) -> Value {
    let json = kubectl(&["get", "oscfg", "-n", "test", name, "-o", "json"]);
    serde_json::from_str(&json).expect("JSON")
}

/// The `Ready` condition: status and reason.
fn ready(name: &str) -> (String, String) {
    let object = object(name);
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    let word = |key: &str| ready.map_or_else(String::new, |ready| world::text(&ready[key]));
    (word("status"), word("reason"))
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {LONG:?}: {what}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn until_delivered(world: &World, spec: &Spec) {
    until("viola has what the cloud has", || delivered(&world.viola, BIZ) == world.expected(spec)).await;
    until("the object says so", || {
        let nodes = object(&spec.name)["status"]["nodes"].clone();
        let wanted = spec.vms.len();
        ready(&spec.name).0 == "True" && nodes["summary"] == format!("{wanted}/{wanted}")
    })
    .await;
}

async fn start(world: &World) -> Running {
    let inventory = format!("--inventory-db-path={}", world.operator.inventory_file().display());
    let kubeconfig = format!("--kubeconfig={}", std::env::var("KUBECONFIG").expect("KUBECONFIG"));
    let args = [
        inventory.as_str(),
        &kubeconfig,
        "--watch-namespaces=test",
        "--inventory-addr=127.0.0.1:0",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=127.0.0.1:0",
        "--cloud-rate=1000",
    ];
    let settings = Settings::parse(args.map(Into::into), |_| None).expect("usable settings").1;
    let options = Options { spread_first_polls: false, ..Options::default() };
    app::start(&settings, options).await.expect("an operator")
}

/// As a user writes it: the API server says when it was created, so older ports must be asked for.
fn manifest(spec: &Spec) -> String {
    let yaml = spec.clone().setting("includeExistingPorts: true").yaml();
    yaml.lines().filter(|line| !line.contains("creationTimestamp")).map(|line| format!("{line}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API: make e2e-kube"]
async fn objects_of_a_cluster_are_followed_and_their_status_is_written() {
    let world = World::new();
    kubectl(&["create", "namespace", "test"]);
    let operator = start(&world).await;
    let readiness = format!("http://{}/readyz", operator.health.expect("a health address"));
    let mut waiting = (0, String::new());
    for _ in 0..600 {
        waiting = world.operator.get_text(&readiness).await;
        if waiting.1.contains("CustomResourceDefinition") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(waiting.0 == 503 && waiting.1.contains("is not installed"), "{waiting:?}");

    let crd = multinic_operator::kube::openstack_config::crd_yaml().expect("the CRD");
    run(Command::new("kubectl").args(["apply", "--server-side", "-f", "-"]), &crd);
    kubectl(&["wait", "--for=condition=Established", "crd/openstackconfigs.multinic.example.com"]);

    // A new object, and one that is stored and bad beside it.
    let mut spec = world.spec("a", &world.vms(1));
    apply(&manifest(&spec));
    apply(&manifest(&Spec { contrabass: String::new(), ..world.spec("bad", &[world.bare_vm("other")]) }));
    until_delivered(&world, &spec).await;
    let bad = || ready("bad") == ("False".to_owned(), "ConfigError".to_owned());
    until("the bad object says why", bad).await;
    let columns = kubectl(&["get", "oscfg", "-n", "test", "a", "--no-headers"]);
    let columns: Vec<&str> = columns.split_whitespace().collect();
    assert!(columns.len() == 6 && columns[1] == "True" && columns[3] == "1/1", "{columns:?}");
    assert_eq!(world.operator.get_text(&readiness).await.0, 200);

    // A change; and nothing is written without a reason.
    spec.vms.push(world.vm("late"));
    apply(&manifest(&spec));
    until_delivered(&world, &spec).await;
    until("it settles", || ready("a").1 == "NoChange").await;
    let version = || object("a")["metadata"]["resourceVersion"].clone();
    let before = version();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(version(), before, "status writes without a change");

    // The API server goes and comes back: polls go on, and changes are heard after it.
    if let Ok(bed) = std::env::var("KUBE_TESTBED_DIR") {
        let up = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/env/kube/up.sh");
        run(Command::new(up).args(["--dir", &bed, "--stop-apiserver"]), "");
        world.port(&spec.vms[0], STORAGE);
        until("polls go on", || delivered(&world.viola, BIZ) == world.expected(&spec)).await;
        run(Command::new(up).args(["--dir", &bed, "--start-apiserver"]), "");
        spec.vms.push(world.vm("later"));
        apply(&manifest(&spec));
        until_delivered(&world, &spec).await;
    }

    let before = delivered(&world.viola, BIZ);
    kubectl(&["delete", "oscfg", "-n", "test", "a", "bad"]);
    let configs = format!("http://{}/v1/configs", operator.api);
    let deadline = Instant::now() + LONG;
    while world.operator.get_text(&configs).await.1.contains("\"test\"") {
        assert!(Instant::now() < deadline, "the deleted objects are still there");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(delivered(&world.viola, BIZ), before, "what was delivered stays");
    operator.stop().await;
}
