//! The operator against a real Keystone, Neutron and Nova: `make e2e-openstack`.
//!
//! Contrabass and Viola are simulated here; everything between them is real.

#![allow(clippy::unwrap_used, clippy::panic)]

mod e2e_support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use e2e_support::{KEY, Nic, Operator, PROVIDER, Spec, delivered, names, until};
use multinic_operator::sim::{Settings as SimSettings, SimCloud, SimViola};
use serde_json::Value;

const PREFIX: &str = "op";

/// The bed: a cloud with a scenario in it.
struct Bed {
    world: Value,
}

impl Bed {
    fn setup() -> Self {
        // What a run that was cut off left is half known to a restarted Nova: begin with nothing.
        scenario(&["cleanup"]);
        Self { world: scenario(&["setup"]) }
    }

    /// Does something in the cloud and takes in how it is now.
    fn does(&mut self, args: &[&str]) {
        step(&args.join(" "));
        self.world = scenario(args);
    }

    fn operator(&self, key: &str) -> String {
        text(&self.world["operator"][key])
    }

    fn node(&self, server: &str) -> String {
        text(&self.world["servers"][server]["node_name"])
    }

    /// What each node should have now.
    fn expected(&self) -> BTreeMap<String, BTreeSet<Nic>> {
        let nodes = self.world["expected"]["nodes"].as_object().unwrap();
        let nic =
            |i: &Value| (text(&i["mac"]), text(&i["address"]), text(&i["cidr"]), i["mtu"].as_u64().unwrap());
        let of = |node: &Value| node["interfaces"].as_array().unwrap().iter().map(nic).collect();
        nodes.iter().map(|(name, node)| (name.clone(), of(node))).collect()
    }

    fn expected_verdicts(&self) -> BTreeMap<String, String> {
        let verdicts = self.world["expected"]["verdicts"].as_object().unwrap();
        verdicts.iter().map(|(port, verdict)| (port.clone(), text(verdict))).collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(text).collect()
}

fn step(what: &str) {
    println!("--- {what}");
}

fn bed_script(name: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/env/openstack").join(name))
}

fn scenario(args: &[&str]) -> Value {
    let output = bed_script("scenario.sh").args(args).args(["--prefix", PREFIX]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scenario {args:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("scenario {args:?}: {error}"))
}

fn bed_does(name: &str, args: &[&str]) {
    step(&format!("{name} {}", args.join(" ")));
    let output = bed_script(name).args(args).output().unwrap();
    assert!(output.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Contrabass that leads to the real Keystone.
fn contrabass(bed: &Bed) -> SimCloud {
    let cloud = SimCloud::start_with(SimSettings::default()).unwrap();
    cloud.add_provider(PROVIDER, &bed.operator("user_name"), &bed.operator("password"), KEY);
    cloud.set_provider_url(PROVIDER, &bed.operator("keystone_url"));
    cloud
}

struct Scene {
    bed: Bed,
    contrabass: SimCloud,
    viola: SimViola,
    operator: Operator,
    spec: Spec,
}

impl Scene {
    async fn start() -> Self {
        step("set up the world");
        let bed = Bed::setup();
        let (contrabass, viola) = (contrabass(&bed), SimViola::start_on(0).unwrap());
        let config = &bed.world["config"];
        let spec = Spec {
            name: "real".to_owned(),
            created: text(&config["created"]),
            provider: PROVIDER.to_owned(),
            k8s_provider: "biz".to_owned(),
            project: bed.operator("project_id"),
            subnets: texts(&config["subnet_ids"]),
            vms: texts(&config["vm_ids"]),
            contrabass: contrabass.contrabass_url(),
            viola: viola.url(),
            encrypt_key: KEY.to_owned(),
            spec: Vec::new(),
            settings: ["pollFastInterval: 1s", "pollSlowInterval: 2s", "pollErrorInterval: 1s"]
                .map(str::to_owned)
                .to_vec(),
            metadata: Vec::new(),
        };
        let mut operator = Operator::new();
        operator.declare(&spec);
        operator.start().await;
        Self { bed, contrabass, viola, operator, spec }
    }

    /// Waits until Viola has for each node what the cloud has; nodes that are gone may stay.
    async fn until_delivered(&self) {
        let expected = self.bed.expected();
        let has = || {
            let delivered = delivered(&self.viola, "biz");
            expected.iter().all(|(node, nics)| delivered.get(node) == Some(nics))
        };
        let state = || format!("expected {expected:#?}\ndelivered {:#?}", delivered(&self.viola, "biz"));
        let start = Instant::now();
        until("every node has what the cloud has", has, state).await;
        println!("    delivered after {:.1} s", start.elapsed().as_secs_f64());
    }

    async fn verdicts(&self) -> BTreeMap<String, String> {
        let config = self.operator.config("real").await;
        let vms = config["vms"].as_array().unwrap().clone();
        let ports = vms.iter().flat_map(|vm| vm["ports"].as_array().unwrap().clone());
        ports.map(|port| (text(&port["port"]), text(&port["verdict"]))).collect()
    }

    fn node_names(&self, node: &str) -> BTreeMap<String, String> {
        names(&self.viola.node("biz", node).unwrap_or_default())
    }

    fn forget_posts(&self) {
        self.viola.forget_posts();
    }

    fn posted_nodes(&self) -> BTreeSet<String> {
        self.viola.posts().iter().flat_map(|post| post.nodes()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real OpenStack: make e2e-openstack"]
async fn the_job_is_done_on_a_real_openstack() {
    let mut scene = Scene::start().await;
    first_delivery(&scene).await;
    steady_state(&scene).await;
    a_port_is_added(&mut scene).await;
    a_port_moves(&mut scene).await;
    a_port_comes_up(&mut scene).await;
    tokens_are_revoked(&mut scene).await;
    neutron_is_restarted(&mut scene).await;
    the_operator_is_restarted(&mut scene).await;
    many_vms_fit_the_request_line(&mut scene).await;
    the_password_is_wrong_for_a_while(&mut scene).await;
    a_server_is_deleted(&mut scene).await;
    scene.operator.stop().await;
    step("clean up");
    scenario(&["cleanup"]);
}

async fn first_delivery(scene: &Scene) {
    step("first delivery: two subnets, an admin's port, a trunk parent, a DOWN port, a 9000 MTU network");
    scene.until_delivered().await;
    assert_eq!(delivered(&scene.viola, "biz"), scene.bed.expected(), "and nothing else");
    scene.operator.until_reason("real", &["Synced", "NoChange"]).await;
    assert_eq!(scene.verdicts().await, scene.bed.expected_verdicts());
}

async fn steady_state(scene: &Scene) {
    step("steady state: only the node with the DOWN port is sent again");
    scene.operator.until_polled("real").await;
    scene.forget_posts();
    for _ in 0..3 {
        scene.operator.until_polled("real").await;
    }
    let with_down = BTreeSet::from([scene.bed.node("w3")]);
    assert!(scene.posted_nodes().is_subset(&with_down), "sent {:?}", scene.posted_nodes());
}

async fn a_port_is_added(scene: &mut Scene) {
    let (w1, w4) = (scene.bed.node("w1"), scene.bed.node("w4"));
    let before = scene.node_names(&w1);
    // The lowest MAC there can be: under the previous operator it would have renamed the others.
    scene.bed.does(&["add-port", "--server", "w1", "--subnet", "b", "--mac", "fa:16:3e:00:00:01"]);
    scene.until_delivered().await;
    let after = scene.node_names(&w1);
    for (mac, name) in &before {
        assert_eq!(after.get(mac), Some(name), "{mac} was renamed");
    }
    scene.bed.does(&["add-port", "--server", "w4", "--subnet", "a"]);
    scene.until_delivered().await;
    assert!(delivered(&scene.viola, "biz").contains_key(&w4));
}

async fn a_port_moves(scene: &mut Scene) {
    scene.bed.does(&["move-port", "--port", "w0-a", "--to", "w4"]);
    scene.until_delivered().await;
}

async fn a_port_comes_up(scene: &mut Scene) {
    scene.bed.does(&["activate-port", "--port", "w3-down"]);
    scene.until_delivered().await;
    scene.operator.until_config("real", "no DOWN port", |config| config["downPortRetry"].is_null()).await;
    scene.forget_posts();
    for _ in 0..3 {
        scene.operator.until_polled("real").await;
    }
    assert_eq!(scene.posted_nodes(), BTreeSet::new(), "nothing is DOWN, nothing is sent again");
}

async fn tokens_are_revoked(scene: &mut Scene) {
    scene.bed.does(&["revoke-tokens"]);
    scene.bed.does(&["add-port", "--server", "w1", "--subnet", "a"]);
    scene.until_delivered().await;
    scene.operator.until_polled("real").await;
}

async fn neutron_is_restarted(scene: &mut Scene) {
    let before = delivered(&scene.viola, "biz");
    bed_does("down.sh", &["neutron"]);
    let config = scene.operator.until_reason("real", &["NeutronPortError"]).await;
    println!("    {}", config["message"]);
    bed_does("up.sh", &[]);
    scene.operator.until_reason("real", &["Synced", "NoChange"]).await;
    assert_eq!(delivered(&scene.viola, "biz"), before, "an outage takes nothing away");
}

async fn the_operator_is_restarted(scene: &mut Scene) {
    step("the operator is restarted");
    scene.forget_posts();
    scene.operator.restart().await;
    scene.operator.until_polled("real").await;
    assert_eq!(scene.posted_nodes(), BTreeSet::new(), "a restart with nothing changed sends nothing");
}

async fn many_vms_fit_the_request_line(scene: &mut Scene) {
    step("a hundred VMs: the request line of a default uWSGI closes beyond 4096 bytes, or loses the filter");
    let invented = (0..100).map(|n| format!("00000000-0000-4000-8000-{n:012x}"));
    let spec = Spec { vms: scene.spec.vms.iter().cloned().chain(invented).collect(), ..scene.spec.clone() };
    scene.forget_posts();
    scene.operator.declare(&spec);
    let skipped = |count: u64| move |config: &Value| config["nodes"]["skipped"] == count;
    let config = scene.operator.until_config("real", "100 skipped", skipped(100)).await;
    assert_eq!(config["skipped"][0]["reason"], "ServerNotFound");
    assert_eq!(scene.posted_nodes(), BTreeSet::new(), "the real ones are as they were");
    scene.operator.declare(&scene.spec);
    scene.operator.until_config("real", "none skipped", skipped(0)).await;
}

async fn the_password_is_wrong_for_a_while(scene: &mut Scene) {
    step("Contrabass has a wrong password, and the tokens end");
    scene.contrabass.set_provider_password(PROVIDER, "not-the-password");
    scene.bed.does(&["revoke-tokens"]);
    let config = scene.operator.until_reason("real", &["KeystoneError"]).await;
    println!("    {}", config["message"]);
    assert!(!config.to_string().contains("not-the-password"));
    step("Contrabass has the right one again");
    scene.contrabass.set_provider_password(PROVIDER, &scene.bed.operator("password"));
    scene.operator.until_reason("real", &["Synced", "NoChange"]).await;
}

async fn a_server_is_deleted(scene: &mut Scene) {
    let node = scene.bed.node("w2");
    let before = scene.viola.node("biz", &node).unwrap();
    scene.bed.does(&["delete-server", "--server", "w2"]);
    let because = |reason: &'static str| move |config: &Value| config["skipped"][0]["reason"] == reason;
    // Its ports are gone at once; its name is asked for again every ten minutes, or when told so.
    scene.operator.until_config("real", "StaleNode", because("StaleNode")).await;
    // Nova takes the ports away one by one, and a poll may see some gone; the last one is never taken away.
    let left = scene.viola.node("biz", &node).unwrap();
    let interfaces = |node: &Value| node["interfaces"].as_array().cloned().unwrap_or_default();
    assert!(!interfaces(&left).is_empty(), "what was delivered stays");
    assert!(interfaces(&left).iter().all(|one| interfaces(&before).contains(one)), "{left:#} of {before:#}");
    scene.spec.metadata = vec!["annotations: {multinic.example.com/force-reconcile: now}".to_owned()];
    scene.operator.declare(&scene.spec);
    let config = scene.operator.until_config("real", "ServerNotFound", because("ServerNotFound")).await;
    assert_eq!(config["degraded"], "PartiallySynced");
    assert_eq!(scene.viola.node("biz", &node), Some(left), "what was left stays");
    scene.until_delivered().await;
}
