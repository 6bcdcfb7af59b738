//! SIGTERM, `kill -9`, and two processes over one file.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use multinic_operator::sim::{Fault, FaultRule, Operation, Service, ViolaAnswer};
use multinic_operator::store;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::e2e_support::{GLANCE, PATIENCE, Spec, delivered, names, until};
use crate::process::{Process, binary};
use crate::world::{BIZ, DATA, World, says};

/// What the inventory file has for each node, as it is POSTed.
fn filed(world: &World) -> BTreeMap<String, Value> {
    let loaded = store::read(&world.operator.inventory_file()).unwrap();
    let records = loaded.snapshot.records.values();
    let config = |config: &_| serde_json::to_value(config).unwrap();
    records.map(|record| (record.node_name.to_string(), config(&*record.config))).collect()
}

/// Waits until Viola has what the cloud has, and the process knows that: it may have been one before it that
/// sent it.
async fn until_right(world: &World, spec: &Spec, process: &Process) {
    let is_right = || delivered(&world.viola, BIZ) == world.expected(spec);
    let state = || {
        let (has, should) = (delivered(&world.viola, BIZ), world.expected(spec));
        let wrong: Vec<_> = should.iter().filter(|(node, nics)| has.get(*node) != Some(nics)).collect();
        format!("missing {wrong:#?}\nlog {}", process.log_end())
    };
    until("viola has what the cloud has", is_right, state).await;
    let desired = world.expected(spec).len();
    let url = format!("http://{}/v1/configs/test/{}", process.api, spec.name);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = world.operator.get_text(&url).await.1;
        let config: Value = serde_json::from_str(&text).unwrap_or_default();
        if config["ready"] == true && config["nodes"]["delivered"] == desired {
            return;
        }
        assert!(Instant::now() < deadline, "the process does not know it: {config:#}\n{}", process.log_end());
        tokio::time::sleep(GLANCE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_works_on_when_nobody_reads_its_log_any_more() {
    let world = World::new();
    let spec = world.quiet_spec("a", &world.vms(3));
    let mut command = binary();
    command.args(world.operator.args()).arg("--log-level=debug").stderr(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    // As with `2>&1 | head -1`: each line from now on meets a closed pipe.
    drop(child.stderr.take());
    world.operator.declare(&spec);
    let is_right = || delivered(&world.viola, BIZ) == world.expected(&spec);
    until("viola has what the cloud has", || is_right() || child.try_wait().unwrap().is_some(), String::new)
        .await;
    assert_eq!(child.try_wait().unwrap(), None, "it ended");
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_during_a_post_waits_for_its_answer_and_keeps_it() {
    let world = World::new();
    let spec = world.quiet_spec("a", &world.vms(10));
    world.operator.declare(&spec);
    world.viola.add_fault(FaultRule::new(Fault::Latency(Duration::from_millis(1500))));
    let mut process = Process::start(&world.operator, &[]).await;
    until("a POST is under way", || world.viola.counters().in_flight(Service::Viola) > 0, String::new).await;
    process.terminate();
    assert_eq!(process.ended().await.code(), Some(0), "{}", process.log_end());
    same_nodes(&filed(&world), &world.viola.nodes(BIZ), &process);
    assert_eq!(filed(&world).len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_while_the_cloud_hangs_ends_at_once_and_well() {
    let world = World::new();
    let spec = world.quiet_spec("a", &world.vms(2));
    world.operator.declare(&spec);
    world.fault(Operation::ListPorts, Fault::Hang);
    let mut process = Process::start(&world.operator, &[]).await;
    until("a look hangs", || world.cloud.counters().in_flight(Service::Neutron) > 0, String::new).await;
    process.terminate();
    // The look's own deadline is 30 s: more than a pod is given.
    assert_eq!(process.ended().await.code(), Some(0), "{}", process.log_end());
    assert_eq!(world.viola.posts(), []);
}

/// The operator killed again and again while ports appear and addresses change.
struct Siege {
    world: World,
    spec: Spec,
    dice: StdRng,
    /// The ports of each VM.
    ports: Vec<Vec<String>>,
    /// Every name that a NIC was ever sent under.
    named: BTreeMap<String, String>,
}

impl Siege {
    fn new(vms: usize) -> Self {
        let world = World::new();
        let vms: Vec<_> = (0..vms).map(|n| world.bare_vm(&format!("node-{n}"))).collect();
        let ports = vms.iter().map(|vm| vec![world.port(vm, DATA)]).collect();
        let settings = ["pollFastInterval: 100ms", "pollSlowInterval: 100ms", "pollErrorInterval: 100ms"];
        let settings = settings.map(str::to_owned).to_vec();
        let spec = Spec { settings, ..world.spec("a", &vms) };
        world.operator.declare(&spec);
        world.viola.add_fault(FaultRule::new(Fault::Latency(Duration::from_millis(10))));
        Self { world, spec, dice: StdRng::seed_from_u64(9), ports, named: BTreeMap::new() }
    }

    async fn process(&self) -> Process {
        Process::start(&self.world.operator, &[]).await
    }

    /// A port appears (at most eight a VM), or an address changes.
    fn change(&mut self) {
        let vm = self.dice.random_range(0..self.spec.vms.len());
        let ports = &mut self.ports[vm];
        if ports.len() < 8 && self.dice.random_bool(0.5) {
            ports.push(self.world.port(&self.spec.vms[vm], DATA));
        } else {
            let port = &ports[self.dice.random_range(0..ports.len())];
            let (high, low) = (self.dice.random_range(100..200), self.dice.random_range(1..255));
            let address = format!("192.168.{high}.{low}");
            self.world.cloud.set_fixed_ips(port, &[(&self.world.subnets[DATA], &address)]);
        }
    }

    /// Changes for a random time.
    async fn rage(&mut self) {
        for _ in 0..self.dice.random_range(1..20) {
            self.change();
            tokio::time::sleep(Duration::from_millis(self.dice.random_range(0..40))).await;
        }
    }

    /// No NIC was ever sent under two names.
    fn check_names(&mut self) {
        for post in self.world.viola.posts() {
            for config in post.body.as_array().unwrap() {
                for (mac, name) in names(config) {
                    let before = self.named.entry(mac.clone()).or_insert_with(|| name.clone());
                    assert_eq!(*before, name, "{mac} was renamed in POST {}", post.number);
                }
            }
        }
        self.world.viola.forget_posts();
    }

    /// Nothing is sent that the file has as delivered.
    fn check_resent(&self, filed: &BTreeMap<String, Value>) {
        for post in self.world.viola.posts() {
            for config in post.body.as_array().unwrap() {
                let node = config["nodeName"].as_str().unwrap();
                assert_ne!(filed.get(node), Some(config), "{node} was delivered and is sent again");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifteen_times_killed_nothing_delivered_is_forgotten_and_nothing_renamed() {
    let mut siege = Siege::new(12);
    let mut process = siege.process().await;
    until_right(&siege.world, &siege.spec, &process).await;
    let mut before = BTreeMap::new();
    for round in 0..15 {
        siege.rage().await;
        process.kill().await;
        let is_quiet = || siege.world.viola.counters().in_flight(Service::Viola) == 0;
        until("viola has answered the dead", is_quiet, String::new).await;
        let filed = filed(&siege.world);
        let lost: Vec<_> = before.keys().filter(|node| !filed.contains_key(*node)).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?} forgotten");
        siege.check_names();

        process = siege.process().await;
        until_right(&siege.world, &siege.spec, &process).await;
        siege.check_resent(&filed);
        siege.check_names();
        before = filed;
    }
    assert!(before.len() > 6, "most nodes were delivered under all this: {}", before.len());
    process.terminate();
    assert_eq!(process.ended().await.code(), Some(0));
    same_nodes(&filed(&siege.world), &siege.world.viola.nodes(BIZ), &process);
}

/// The file has what Viola has.
#[track_caller]
fn same_nodes(filed: &BTreeMap<String, Value>, viola: &BTreeMap<String, Value>, process: &Process) {
    let nodes: BTreeSet<_> = filed.keys().chain(viola.keys()).collect();
    for node in nodes {
        let (has, got) = (filed.get(node), viola.get(node));
        assert_eq!(has, got, "{node}: filed, and at viola\n{}", process.log_end());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_right_after_a_delivery_forgets_nothing() {
    let mut siege = Siege::new(3);
    for _ in 0..12 {
        let mut process = siege.process().await;
        until_right(&siege.world, &siege.spec, &process).await;
        siege.change();
        let is_there = || delivered(&siege.world.viola, BIZ) == siege.world.expected(&siege.spec);
        until("viola has the change", is_there, || process.log_end()).await;
        process.terminate();
        assert_eq!(process.ended().await.code(), Some(0), "{}", process.log_end());
        same_nodes(&filed(&siege.world), &siege.world.viola.nodes(BIZ), &process);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viola_or_a_cloud_that_stays_away_is_one_line_in_the_log() {
    let world = World::new();
    let spec = world.spec("a", &world.vms(1));
    world.operator.declare(&spec);
    world.viola.set_answer(ViolaAnswer::Status(503, json!({"message": "not today"})));
    let process = Process::start(&world.operator, &[]).await;
    until("it was tried five times", || world.viola.posts().len() >= 5, || process.log_end()).await;
    world.fault(Operation::ListPorts, Fault::Status(500));
    world.cloud.reset_counters();
    let lists = || world.cloud.counters().requests(Service::Neutron, Operation::ListPorts);
    until("it was polled five times", || lists() >= 5, || process.log_end()).await;
    let lines = |words: &str| process.log_lines().iter().filter(|line| says_so(line, words)).count();
    assert_eq!(lines("neutron: list ports: 500"), 1);
    assert_eq!(lines("viola: post node configs: 503"), 1);
}

fn says_so(line: &Value, words: &str) -> bool {
    line["message"].as_str().is_some_and(|message| message.contains(words))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_on_the_same_file_says_so_and_sends_nothing() {
    let world = World::new();
    let spec = world.spec("a", &world.vms(2));
    world.operator.declare(&spec);
    let first = Process::start(&world.operator, &[]).await;
    until_right(&world, &spec, &first).await;
    world.viola.forget_posts();
    world.cloud.reset_counters();
    let second = Process::start(&world.operator, &[]).await;
    until("it says so", || second.log_text().contains("another process uses it"), || second.log_end()).await;
    let (status, _) =
        world.operator.get_text(&format!("http://{}/v1/interfaces/providers", second.api)).await;
    assert_eq!(status, 503);
    let (status, _) = world.operator.get_text(&format!("http://{}/v1/interfaces/providers", first.api)).await;
    assert_eq!(status, 200);
    assert_eq!((world.logins(), world.viola.posts().len()), (0, 0), "the second one does not work");
    // When the first one is gone, the second takes over.
    first.kill().await;
    until("the second logs in", || world.logins() == 1, || second.log_end()).await;
    world.port(&spec.vms[0], DATA);
    until_right(&world, &spec, &second).await;
    says(&second.log_text(), &["only one may"]);
}
