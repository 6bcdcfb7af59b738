//! `make bench`: the whole program against ten simulated clouds in another process.
//!
//! Prints figures as ratios within one run, since machines differ and are noisy. Two questions:
//!
//! - How much longer than one config do a hundred take, from the start to everything delivered?
//! - While one of ten clouds hangs, do the configs of the other nine keep their pace?

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "../tests/e2e_support/mod.rs"]
mod e2e_support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use e2e_support::{KEY, Operator, PROVIDER, Spec};
use multinic_operator::http::ConfigReader;
use multinic_operator::sim::{Fault, FaultRule, PortSpec, Service, Settings, SimCloud, SimViola, When};
use serde::{Deserialize, Serialize};

const CLOUDS: usize = 10;
const CONFIGS_PER_CLOUD: usize = 10;
const VMS: usize = 10;
const LATENCY: Duration = Duration::from_millis(40);
const ROUNDS: usize = 3;
const WINDOW: Duration = Duration::from_secs(10);

fn main() {
    if std::env::args().any(|arg| arg == "--clouds") {
        return clouds();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(bench());
}

async fn bench() {
    let mut other = OtherProcess::start();
    println!("{CLOUDS} clouds, {CONFIGS_PER_CLOUD} configs each, {VMS} VMs each, {LATENCY:?} an answer");
    println!();
    println!("| start to everything delivered | seconds |");
    println!("|---|---|");
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let one = cold_start(&other.world, 1, 1).await;
        let hundred = cold_start(&other.world, CLOUDS, CONFIGS_PER_CLOUD).await;
        println!("| 1 config | {:.2} |", one.as_secs_f64());
        println!("| {} configs | {:.2} |", CLOUDS * CONFIGS_PER_CLOUD, hundred.as_secs_f64());
        ratios.push(hundred.as_secs_f64() / one.as_secs_f64());
    }
    println!("| **ratio** (at most 5 is asked for) | {} |", spread(&ratios));
    println!();
    hung_cloud(&mut other).await;
}

/// The median, and the lowest and highest.
fn spread(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
    format!("**{:.2}** ({low:.2} to {high:.2})", sorted[sorted.len() / 2])
}

fn operator(world: &World, clouds: usize, configs: usize, slow: &str) -> Operator {
    // All limits are lifted: what is measured is the program, not what it allows itself.
    let operator = Operator::new()
        .flag("--cloud-max-in-flight=1000")
        .flag("--cloud-rate=10000")
        .flag("--cloud-burst=10000");
    for (number, cloud) in world.clouds.iter().take(clouds).enumerate() {
        for (config, vms) in cloud.vms.iter().take(configs).enumerate() {
            operator.declare(&Spec {
                name: format!("c{number}-{config}"),
                created: "2026-01-01T00:00:00Z".to_owned(),
                provider: PROVIDER.to_owned(),
                k8s_provider: format!("k{number}-{config}"),
                project: cloud.project.clone(),
                subnets: cloud.subnets.clone(),
                vms: vms.clone(),
                contrabass: cloud.contrabass.clone(),
                viola: world.viola.clone(),
                encrypt_key: KEY.to_owned(),
                spec: Vec::new(),
                settings: vec![format!("pollFastInterval: {slow}"), format!("pollSlowInterval: {slow}")],
                metadata: Vec::new(),
            });
        }
    }
    operator
}

async fn cold_start(world: &World, clouds: usize, configs: usize) -> Duration {
    let mut operator = operator(world, clouds, configs, "60s");
    let start = Instant::now();
    operator.start().await;
    loop {
        let states = operator.running().configs.configs();
        let is_done =
            states.iter().filter(|s| s.nodes.delivered as usize == VMS && s.ready == Some(true)).count();
        if is_done == clouds * configs {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "only {is_done} configs delivered: {states:#?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = start.elapsed();
    operator.stop().await;
    took
}

/// Polls of the nine good clouds in equal windows, alternately with the tenth hanging and not.
async fn hung_cloud(other: &mut OtherProcess) {
    let mut operator = operator(&other.world, CLOUDS, CONFIGS_PER_CLOUD, "1s");
    operator.start().await;
    tokio::time::sleep(WINDOW / 2).await;
    println!("| port lists of 9 clouds in {WINDOW:?} | all answer | the tenth hangs | ratio |");
    println!("|---|---|---|---|");
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let good = window(other).await;
        other.ask("hang");
        let hung = window(other).await;
        other.ask("release");
        ratios.push(hung as f64 / good as f64);
        println!("| | {good} | {hung} | {:.3} |", hung as f64 / good as f64);
    }
    println!("| | | **ratio** (0.9 to 1.1 is asked for) | {} |", spread(&ratios));
    operator.stop().await;
}

async fn window(other: &mut OtherProcess) -> u64 {
    let before = other.ask("count");
    tokio::time::sleep(WINDOW).await;
    other.ask("count") - before
}

/// What the other process has.
#[derive(Serialize, Deserialize)]
struct World {
    clouds: Vec<Cloud>,
    viola: String,
}

#[derive(Serialize, Deserialize)]
struct Cloud {
    contrabass: String,
    project: String,
    subnets: Vec<String>,
    vms: Vec<Vec<String>>,
}

/// The clouds' process: a line in, a number out.
struct OtherProcess {
    world: World,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl OtherProcess {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--clouds")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        Self { world: serde_json::from_str(&line).unwrap(), child, input, output }
    }

    fn ask(&mut self, what: &str) -> u64 {
        writeln!(self.input, "{what}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other process: builds the clouds, tells what there is, and does as it is asked.
fn clouds() {
    let viola = SimViola::start_on(0).unwrap();
    let mut described = Vec::new();
    let mut running = Vec::new();
    for number in 0..CLOUDS {
        let cloud =
            SimCloud::start_with(Settings { seed: number as u64 + 1, ..Settings::default() }).unwrap();
        described.push(fill(&cloud, number));
        cloud.set_latency(LATENCY);
        running.push(cloud);
    }
    println!("{}", serde_json::to_string(&World { clouds: described, viola: viola.url() }).unwrap());
    for line in std::io::stdin().lines() {
        let (good, last) = running.split_at(CLOUDS - 1);
        match line.unwrap().as_str() {
            "hang" => drop(last[0].add_fault(FaultRule::new(Fault::Hang).when(When::Always))),
            "release" => {
                last[0].clear_faults();
                for service in [Service::Neutron, Service::Nova, Service::Keystone] {
                    last[0].drop_connections(service);
                }
            }
            _ => {}
        }
        println!("{}", good.iter().map(|cloud| cloud.counters().requests_to(Service::Neutron)).sum::<u64>());
    }
}

fn fill(cloud: &SimCloud, number: usize) -> Cloud {
    let project = cloud.add_project("bench");
    let user = cloud.add_user("operator", "bench-password");
    cloud.grant(&user, &project, "admin");
    cloud.add_provider(PROVIDER, "operator", "bench-password", KEY);
    let networks = [1450, 9000].map(|mtu| cloud.add_network(&project, "net", mtu));
    let subnets: Vec<_> = (0..2)
        .map(|n| cloud.add_subnet(&networks[n], "subnet", &format!("10.{number}.{}.0/22", n * 4)))
        .collect();
    let vm = |config: usize, vm: usize| {
        let server = cloud.add_server(&project, &format!("node-{number}-{config}-{vm}"), &[]);
        for (network, subnet) in networks.iter().zip(&subnets) {
            cloud.add_port(PortSpec::new(network).server(&server).project(&project).subnet(subnet));
        }
        server
    };
    let vms = (0..CONFIGS_PER_CLOUD).map(|config| (0..VMS).map(|n| vm(config, n)).collect()).collect();
    Cloud { contrabass: cloud.contrabass_url(), project, subnets, vms }
}
