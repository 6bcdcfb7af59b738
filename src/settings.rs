//! What the operator is told by flags and environment, validated.
//!
//! A flag goes before the environment, that before the default; an empty variable counts as not set. All bad
//! settings are reported at once.

mod arguments;
mod reader;
pub mod values;
mod viola_api;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use jiff::Timestamp;
use multinic_actors::domain::config::{ChangePolicy, InterfaceOrder};
use multinic_actors::viola::POST_DEADLINE;

use crate::cli::{Cli, CliCommand, Flags, InventoryCommand};
use crate::kube::label_selector::LabelSelector;
use crate::kube::validate::Defaults;
pub use crate::telemetry::{LogFormat, LogSettings};
use crate::viola_api::Settings as ViolaApiSettings;
use reader::Reader;
use values::ListenAddress;

/// Everything that can be set, with every default resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The folder to read objects from instead of Kubernetes.
    pub config_dir: Option<PathBuf>,
    /// Which cluster, and what of it.
    pub kube: KubeSettings,
    /// The inventory file and its API.
    pub inventory: InventorySettings,
    /// How Viola is reached.
    pub viola: DeliverySettings,
    /// Where metrics are served.
    pub metrics_address: Option<ListenAddress>,
    /// Where liveness and readiness are served.
    pub health_address: Option<ListenAddress>,
    /// PEM certificates to trust beside the system's.
    pub ca_bundle: Option<PathBuf>,
    /// Which namespace may use what; none: everything.
    pub policy_file: Option<PathBuf>,
    /// For objects that do not say it themselves.
    pub defaults: Defaults,
    /// What one cloud may be asked.
    pub cloud: CloudSettings,
    /// How it logs.
    pub log: LogSettings,
}

/// Which cluster the objects are read from, and which of its namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeSettings {
    /// Files that are merged, the first one wins; none: the pod's own account, else the user's kubeconfig.
    pub kubeconfig: Vec<PathBuf>,
    /// None: all.
    pub namespaces: BTreeSet<String>,
    /// What is known of each object lies in a ConfigMap beside it, too.
    pub state_configmap: bool,
    /// How this release is called where it shares its objects with others: the name of its Lease.
    pub shard: Option<String>,
    /// Which objects count, by their labels; the others are somebody else's.
    pub selector: Option<LabelSelector>,
    /// Bring the CustomResourceDefinition up to date at the start.
    pub manages_crds: bool,
    /// Set: only the holder of a Lease works.
    pub election: Option<ElectionSettings>,
}

/// How one of several replicas is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionSettings {
    /// The name of the Lease.
    pub id: String,
    /// The namespace of the Lease and of the pod; `None`: that of the pod's account or of the kubeconfig.
    pub namespace: Option<String>,
    /// The name of the pod, if this is one that is to be labelled.
    pub pod: Option<String>,
    /// What the machine calls itself; in a pod that is the pod's name.
    pub host: Option<String>,
}

/// The inventory file and its API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventorySettings {
    /// No file and no REST otherwise.
    pub enabled: bool,
    /// Where the API and the console are served.
    pub address: ListenAddress,
    /// The file.
    pub db_path: PathBuf,
    /// A file with the bearer token that the API asks for.
    pub token_file: Option<PathBuf>,
    /// The certificate it is served with.
    pub tls: Option<TlsFiles>,
}

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// How Viola is reached. Its endpoint stands in [`Defaults`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliverySettings {
    /// Deadline of one request.
    pub timeout: Duration,
    /// Do not verify its certificate.
    pub insecure_tls: bool,
    /// A file with a bearer token.
    pub token_file: Option<PathBuf>,
}

/// What one cloud may be asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CloudSettings {
    /// Requests at the same time.
    pub max_in_flight: u32,
    /// Requests per second.
    pub rate: f64,
    /// Requests that may come at once after a pause.
    pub burst: u32,
    /// Twice the target of a Neutron request plus its headers, in bytes.
    pub neutron_request_bytes: usize,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Run the operator.
    Run,
    /// Show it at work.
    Demo {
        /// End by itself after this time.
        duration: Option<Duration>,
    },
    /// Print what one round would send.
    Plan(Plan),
    /// Stand in for Viola.
    ViolaTestApi(Box<ViolaApiSettings>),
    /// Print a CustomResourceDefinition.
    Crd(CrdKind),
    /// Look after the inventory.
    Inventory {
        /// Where it is kept.
        stores: Stores,
        /// What to do.
        action: InventoryAction,
    },
    /// Print completions.
    Completions(clap_complete::Shell),
}

/// Which CustomResourceDefinition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdKind {
    /// What the operator reads.
    OpenstackConfig,
    /// What the node agent reads.
    MultiNicNodeConfig,
}

/// What to plan, and how to show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which objects.
    pub target: PlanTarget,
    /// When they were created, where they do not say so themselves.
    pub created: Option<Timestamp>,
    /// The inventory file to compare with.
    pub inventory: Option<PathBuf>,
    /// How to print it.
    pub output: Output,
}

/// Where an inventory is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stores {
    /// In the file.
    pub file: bool,
    /// In the objects' ConfigMaps.
    pub cluster: bool,
}

impl Stores {
    const FILE: Self = Self { file: true, cluster: false };
    const CLUSTER: Self = Self { file: false, cluster: true };
    const BOTH: Self = Self { file: true, cluster: true };
}

/// What to do with the inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InventoryAction {
    /// Print it, or write it into this file.
    Export(Option<PathBuf>),
    /// Take in a JSON.
    Import {
        /// The JSON; `-` is standard input.
        file: PathBuf,
        /// Replace what is newer or held, too.
        force: bool,
    },
    /// Forget what is gone.
    Prune {
        /// Show it only, otherwise.
        yes: bool,
    },
}

/// Which objects to plan for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanTarget {
    /// Those in this file; `-` is standard input.
    File(PathBuf),
    /// Every object of the cluster or folder.
    All,
}

/// How a plan is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For eyes.
    Table,
    /// For machines.
    Json,
}

/// Something that was accepted and does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub String);

/// Why there are no settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Help or the version was asked for: print this to standard output and end with success.
    #[error("{0}")]
    Help(String),
    /// What is wrong with the settings, each a line.
    #[error("bad settings:\n  {}", .0.join("\n  "))]
    Bad(Vec<String>),
}

impl Settings {
    /// Reads the arguments (without the program's name) and the environment.
    ///
    /// # Errors
    /// [`SettingsError::Bad`] with everything that is wrong; [`SettingsError::Help`] when help was asked for.
    pub fn parse(
        args: impl IntoIterator<Item = OsString>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<(Command, Self, Vec<Warning>), SettingsError> {
        let arguments = arguments::tidy(args);
        let mut reader = Reader::new(&env);
        let cli = match Cli::try_parse_from(arguments.known) {
            Ok(cli) => cli,
            Err(error) if !error.use_stderr() => return Err(SettingsError::Help(error.to_string())),
            Err(error) => {
                // After an unknown flag was left out, a complaint about its value would only confuse.
                if arguments.unknown.is_empty() {
                    reader.problem(first_paragraph(&error.to_string()));
                }
                Cli::default()
            }
        };
        for problem in arguments.unknown {
            reader.problem(problem);
        }
        let settings = read_settings(&cli.flags, &mut reader);
        let command = read_command(cli.command, &settings, &mut reader);
        let settings = reader.former(cli.former, settings, &cli.flags);
        reader.later(cli.flags.later);
        let warnings = reader.finish()?;
        Ok((command, settings, warnings))
    }
}

fn first_paragraph(message: &str) -> String {
    let paragraph = message.split("\n\n").next().unwrap_or_default();
    let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
    lines.join(" ").trim_start_matches("error: ").to_owned()
}

fn read_command(command: Option<CliCommand>, settings: &Settings, reader: &mut Reader<'_>) -> Command {
    match command {
        None | Some(CliCommand::Run) => Command::Run,
        Some(CliCommand::Demo { duration }) => {
            Command::Demo { duration: reader.value("--for", duration, values::duration) }
        }
        Some(CliCommand::Plan { file, all, created, inventory, output }) => {
            let target = match (file, all) {
                (Some(file), false) => PlanTarget::File(file),
                (None, true) => PlanTarget::All,
                (Some(_), true) => {
                    reader.problem("plan: -f and --all exclude each other");
                    PlanTarget::All
                }
                (None, false) => {
                    reader.problem("plan: needs -f FILE or --all");
                    PlanTarget::All
                }
            };
            Command::Plan(Plan {
                target,
                created: reader.value("--created", created, |text| {
                    text.parse().map_err(|_| "must be a time such as 2026-01-10T00:00:00Z".to_owned())
                }),
                inventory,
                output: reader
                    .choice("--output", output, &[("table", Output::Table), ("json", Output::Json)])
                    .unwrap_or(Output::Table),
            })
        }
        Some(CliCommand::Crd { kind }) => {
            let kinds = [
                ("openstackconfig", CrdKind::OpenstackConfig),
                ("multinicnodeconfig", CrdKind::MultiNicNodeConfig),
            ];
            Command::Crd(reader.choice("crd", kind, &kinds).unwrap_or(CrdKind::OpenstackConfig))
        }
        Some(CliCommand::ViolaTestApi) => Command::ViolaTestApi(Box::new(viola_api::read(reader))),
        Some(CliCommand::Inventory { action }) => read_inventory_command(action, settings, reader),
        Some(CliCommand::Completions { shell }) => Command::Completions(shell),
    }
}

fn read_inventory_command(action: InventoryCommand, settings: &Settings, reader: &mut Reader<'_>) -> Command {
    let (store, action) = match action {
        InventoryCommand::Export { store, output } => (store, InventoryAction::Export(output)),
        InventoryCommand::Import { file, store, force } => (store, InventoryAction::Import { file, force }),
        InventoryCommand::Prune { store, yes } => (store, InventoryAction::Prune { yes }),
    };
    let choices = [("file", Stores::FILE), ("cluster", Stores::CLUSTER), ("both", Stores::BOTH)];
    let usual = if settings.kube.state_configmap { Stores::BOTH } else { Stores::FILE };
    let stores = reader.choice("--store", store, &choices).unwrap_or(usual);
    if stores.cluster && settings.config_dir.is_some() {
        reader.problem("--store: with --config-dir there are no ConfigMaps");
    }
    Command::Inventory { stores, action }
}

fn read_settings(flags: &Flags, reader: &mut Reader<'_>) -> Settings {
    Settings {
        config_dir: flags.config_dir.clone(),
        kube: read_kube(flags, reader),
        inventory: read_inventory(flags, reader),
        viola: read_viola(flags, reader),
        metrics_address: reader
            .value("--metrics-bind-address", flags.metrics_bind_address.clone(), optional_address)
            .unwrap_or(Some(ListenAddress::any(8080))),
        health_address: reader
            .value("--health-probe-bind-address", flags.health_probe_bind_address.clone(), optional_address)
            .unwrap_or(Some(ListenAddress::any(8081))),
        ca_bundle: flags.ca_bundle.clone(),
        policy_file: flags.policy_file.as_deref().filter(|path| !path.trim().is_empty()).map(PathBuf::from),
        defaults: read_defaults(flags, reader),
        cloud: read_cloud_limits(flags, reader),
        log: read_log(flags, reader),
    }
}

fn read_kube(flags: &Flags, reader: &mut Reader<'_>) -> KubeSettings {
    let one_file = |text: &str| Ok(vec![PathBuf::from(text)]);
    // The variable may hold several, as it may for kubectl.
    let several =
        |text: &str| Ok(std::env::split_paths(text).filter(|p| !p.as_os_str().is_empty()).collect());
    let is_flag_given = flags.kubeconfig.as_deref().is_some_and(|text| !text.trim().is_empty());
    let kubeconfig = match is_flag_given {
        true => reader.value("--kubeconfig", flags.kubeconfig.clone(), one_file),
        false => reader.either("--kubeconfig", &None, "KUBECONFIG", several),
    };
    let selector = read_selector(flags, reader);
    let lease = read_lease_name(flags, reader);
    KubeSettings {
        kubeconfig: kubeconfig.unwrap_or_default(),
        namespaces: reader
            .value("--watch-namespaces", flags.watch_namespaces.clone(), values::namespaces)
            .unwrap_or_default(),
        state_configmap: read_state_configmap(flags, reader),
        shard: selector.is_some().then(|| lease.clone()),
        selector,
        manages_crds: reader.flag_is_on("--manage-crds", flags.manage_crds.clone()),
        election: read_election(flags, lease, reader),
    }
}

fn read_selector(flags: &Flags, reader: &mut Reader<'_>) -> Option<LabelSelector> {
    let given = flags.config_selector.clone().filter(|text| !text.trim().is_empty());
    if given.is_some() && flags.config_dir.is_some() {
        // To ignore it would widen what the operator does.
        reader.problem("--config-selector needs a cluster and --config-dir has none: leave one of them out");
    }
    reader.value("--config-selector", given, LabelSelector::parse)
}

/// The previous operator's Lease: old and new never work at once.
const LEASE: &str = "9a0428b3.example.com";

fn read_lease_name(flags: &Flags, reader: &mut Reader<'_>) -> String {
    let id = flags.leader_election_id.clone().filter(|id| !id.trim().is_empty());
    let id = reader.value("--leader-election-id", id, values::object_name);
    id.unwrap_or_else(|| LEASE.to_owned())
}

fn read_election(flags: &Flags, lease: String, reader: &mut Reader<'_>) -> Option<ElectionSettings> {
    let is_on = reader.flag_is_on("--leader-elect", flags.leader_elect.clone());
    if is_on && flags.config_dir.is_some() {
        reader.problem("--leader-elect needs a cluster and --config-dir has none: leave one of them out");
    }
    let text = |text: &str| Ok(text.trim().to_owned());
    is_on.then(|| ElectionSettings {
        id: lease,
        namespace: reader.variable("POD_NAMESPACE", text),
        pod: reader.variable("POD_NAME", text),
        host: reader.variable("HOSTNAME", text),
    })
}

fn read_state_configmap(flags: &Flags, reader: &mut Reader<'_>) -> bool {
    let is_on = reader.flag_is_on("--state-configmap", flags.state_configmap.clone());
    if is_on && flags.config_dir.is_some() {
        reader
            .warn("--state-configmap has no effect with --config-dir: there is no object to keep it beside");
    }
    is_on && flags.config_dir.is_none()
}

fn read_inventory(flags: &Flags, reader: &mut Reader<'_>) -> InventorySettings {
    let path = reader.either("--inventory-db-path", &flags.inventory_db_path, "INVENTORY_DB_PATH", |text| {
        Ok(PathBuf::from(text))
    });
    let tls = match (flags.api_tls_cert.clone(), flags.api_tls_key.clone()) {
        (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
        (None, None) => None,
        _ => {
            reader.problem("--api-tls-cert and --api-tls-key need each other");
            None
        }
    };
    InventorySettings {
        enabled: reader
            .either("--inventory-enabled", &flags.inventory_enabled, "INVENTORY_ENABLED", values::boolean)
            .unwrap_or(true),
        address: reader
            .either("--inventory-addr", &flags.inventory_addr, "INVENTORY_ADDR", values::listen_address)
            .unwrap_or(ListenAddress::any(18081)),
        db_path: path.unwrap_or_else(|| PathBuf::from("/var/lib/multinic-operator/inventory.json")),
        token_file: flags.api_token_file.clone(),
        tls,
    }
}

fn read_viola(flags: &Flags, reader: &mut Reader<'_>) -> DeliverySettings {
    // No request could be answered within zero: it counts as not set.
    let timeout = reader
        .either("--viola-timeout", &flags.viola_timeout, "VIOLA_TIMEOUT", viola_timeout)
        .filter(|timeout| !timeout.is_zero());
    DeliverySettings {
        timeout: timeout.unwrap_or(Duration::from_secs(30)),
        insecure_tls: reader
            .either("--viola-insecure-tls", &flags.viola_insecure_tls, "VIOLA_INSECURE_TLS", values::boolean)
            .unwrap_or(false),
        token_file: reader.either(
            "--viola-token-file",
            &flags.viola_token_file,
            "VIOLA_TOKEN_FILE",
            |text| Ok(PathBuf::from(text)),
        ),
    }
}

/// The tree gives a POST up after a deadline of its own, within which it may be repeated once (a reused
/// connection that was closed): a longer timeout could never be reached.
fn viola_timeout(text: &str) -> Result<Duration, String> {
    let longest = POST_DEADLINE / 2;
    match values::duration(text)? {
        timeout if timeout <= longest => Ok(timeout),
        _ => Err(format!("must be at most {}m: a POST is given up after that", longest.as_secs() / 60)),
    }
}

fn read_defaults(flags: &Flags, reader: &mut Reader<'_>) -> Defaults {
    let orders = [
        ("Sticky", InterfaceOrder::Sticky),
        ("MAC", InterfaceOrder::Mac),
        ("Subnet", InterfaceOrder::Subnet),
    ];
    let policies = [
        ("Auto", ChangePolicy::Auto),
        ("AddOnly", ChangePolicy::AddOnly),
        ("Approve", ChangePolicy::Approve),
        ("Observe", ChangePolicy::Observe),
    ];
    Defaults {
        viola_endpoint: reader.either(
            "--viola-endpoint",
            &flags.viola_endpoint,
            "VIOLA_ENDPOINT",
            values::endpoint,
        ),
        interface_order: reader
            .choice("--interface-order", flags.interface_order.clone(), &orders)
            .unwrap_or_default(),
        change_policy: reader
            .choice("--change-policy", flags.change_policy.clone(), &policies)
            .unwrap_or_default(),
    }
}

fn read_cloud_limits(flags: &Flags, reader: &mut Reader<'_>) -> CloudSettings {
    CloudSettings {
        max_in_flight: reader
            .number("--cloud-max-in-flight", &flags.cloud_max_in_flight, 1..=1000)
            .unwrap_or(4),
        rate: reader.number("--cloud-rate", &flags.cloud_rate, 0.01..=10_000.0).unwrap_or(10.0),
        burst: reader.number("--cloud-burst", &flags.cloud_burst, 1..=10_000).unwrap_or(20),
        // Less than this would not hold one id beside the headers.
        neutron_request_bytes: reader
            .number("--neutron-request-bytes", &flags.neutron_request_bytes, 1_200..=1_000_000)
            .unwrap_or(3_800),
    }
}

fn read_log(flags: &Flags, reader: &mut Reader<'_>) -> LogSettings {
    let formats = [("human", LogFormat::Human), ("json", LogFormat::Json)];
    let level = reader.value("--log-level", flags.log_level.clone(), |text| {
        match text.parse::<tracing_subscriber::EnvFilter>() {
            Ok(_) if !text.trim().is_empty() => Ok(text.to_owned()),
            _ => Err("must be error, warn, info, debug or trace, or a filter of these".to_owned()),
        }
    });
    LogSettings {
        format: reader.choice("--log-format", flags.log_format.clone(), &formats),
        level: level.unwrap_or_else(|| "info".to_owned()),
    }
}

/// `0` and nothing switch a server off, as in controller-runtime.
fn optional_address(text: &str) -> Result<Option<ListenAddress>, String> {
    match text.trim() {
        "0" | "" => Ok(None),
        text => values::listen_address(text).map(Some).map_err(|problem| format!("{problem}, or 0")),
    }
}

#[cfg(test)]
mod tests;
