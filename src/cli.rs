//! The command line: what may be written, not yet what it means. Every value is text here, so that
//! [`crate::settings`] can report all bad ones at once.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

/// Delivers the NICs that OpenStack gives to the nodes of Kubernetes clusters.
#[derive(Parser, Debug, Default)]
#[command(name = "multinic-operator", version, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do; without one: `run`.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
    /// Flags of all commands.
    #[command(flatten)]
    pub flags: Flags,
    /// Flags of the previous operator.
    #[command(flatten)]
    pub former: FormerFlags,
}

/// A command, as written.
#[derive(Subcommand, Debug, Clone)]
pub enum CliCommand {
    /// Run the operator (the default).
    Run,
    /// Show it all at work on this machine: a simulated cloud, a Viola in memory, two configs.
    Demo {
        /// End by itself after this time.
        #[arg(long = "for", value_name = "DURATION")]
        duration: Option<String>,
    },
    /// Work out one round and print what would be sent, and why; sends nothing.
    Plan {
        /// The file with the OpenstackConfig (and Secrets) to plan for; `-` is standard input.
        #[arg(short = 'f', long = "file", value_name = "FILE")]
        file: Option<PathBuf>,
        /// Plan for every object of the cluster or folder.
        #[arg(long)]
        all: bool,
        /// Plan as if the object had been created then, whatever it says itself; RFC 3339.
        #[arg(long, value_name = "TIME")]
        created: Option<String>,
        /// Compare with the records of this inventory file.
        #[arg(long, value_name = "FILE")]
        inventory: Option<PathBuf>,
        /// `table` or `json`.
        #[arg(short, long, value_name = "FORMAT")]
        output: Option<String>,
    },
    /// Print a CustomResourceDefinition.
    Crd {
        /// Of which kind: openstackconfig or multinicnodeconfig [default: openstackconfig].
        #[arg(value_name = "KIND")]
        kind: Option<String>,
    },
    /// Stand in for Viola: take what the operator posts and make MultiNicNodeConfig objects of it. Set by the
    /// environment: LISTEN_ADDR, ROUTING_CONFIG, TARGET_NAMESPACE, KUBE_API_SERVER, KUBE_TOKEN, KUBE_CA_PATH,
    /// KUBECTL_TIMEOUT, KUBECTL_PATH.
    ViolaTestApi,
    /// Look after what is remembered of delivered nodes.
    Inventory {
        /// What to do with it.
        #[command(subcommand)]
        action: InventoryCommand,
    },
    /// Print the completions of a shell: bash, elvish, fish, powershell or zsh.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// What to do with the inventory, as written.
#[derive(Subcommand, Debug, Clone)]
pub enum InventoryCommand {
    /// Print what is remembered as JSON: the inventory file's, the ConfigMaps', or the newer of both.
    Export {
        /// `file`, `cluster` or `both` [default: file; with --state-configmap: both].
        #[arg(long, value_name = "STORE")]
        store: Option<String>,
        /// Write it into this file instead.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Take in a JSON that was exported, or an inventory file of the previous operator. Stop the operator first.
    Import {
        /// The JSON; `-` is standard input.
        file: PathBuf,
        /// `file`, `cluster` or `both` [default: file; with --state-configmap: both].
        #[arg(long, value_name = "STORE")]
        store: Option<String>,
        /// Replace what is newer or held by a release, too.
        #[arg(long)]
        force: bool,
    },
    /// Show what is remembered of objects and VMs that are gone, and forget it with --yes.
    Prune {
        /// `file`, `cluster` or `both` [default: file; with --state-configmap: both].
        #[arg(long, value_name = "STORE")]
        store: Option<String>,
        /// Really forget it. Stop the operator first.
        #[arg(long)]
        yes: bool,
    },
}

/// Flags of all commands. A boolean may stand alone (true) or be `--flag=false`, as in Go.
#[derive(Args, Debug, Default, Clone)]
#[command(next_help_heading = "Options")]
pub struct Flags {
    /// Read OpenstackConfig and Secret objects from the files of this folder instead of from Kubernetes.
    #[arg(long, global = true, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,
    /// The kubeconfig to reach Kubernetes with [env: KUBECONFIG] [default: the pod's own account].
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<String>,
    /// The namespaces whose objects count, separated by commas [default: all].
    #[arg(long, global = true, value_name = "NAMES")]
    pub watch_namespaces: Option<String>,
    /// The OpenstackConfig objects that count, by a label selector; the others are left to other releases.
    #[arg(long, global = true, value_name = "SELECTOR")]
    pub config_selector: Option<String>,
    /// Bring the CustomResourceDefinition in the cluster up to date at the start [default: false].
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub manage_crds: Option<String>,
    /// Work only while holding a Lease, so that of several replicas one works at a time [default: false].
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub leader_elect: Option<String>,
    /// The name of that Lease, in the pod's namespace [default: 9a0428b3.example.com].
    #[arg(long, global = true, value_name = "NAME")]
    pub leader_election_id: Option<String>,
    /// Keep the inventory in a file and serve it [env: INVENTORY_ENABLED] [default: true].
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub inventory_enabled: Option<String>,
    /// Where the API is served: inventory, configs, actors [env: INVENTORY_ADDR] [default: :18081].
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub inventory_addr: Option<String>,
    /// The inventory file [env: INVENTORY_DB_PATH] [default: /var/lib/multinic-operator/inventory.json].
    #[arg(long, global = true, value_name = "FILE")]
    pub inventory_db_path: Option<String>,
    /// Base URL of the Viola API for objects that name none [env: VIOLA_ENDPOINT].
    #[arg(long, global = true, value_name = "URL")]
    pub viola_endpoint: Option<String>,
    /// Deadline of a request to Viola [env: VIOLA_TIMEOUT] [default: 30s].
    #[arg(long, global = true, value_name = "DURATION")]
    pub viola_timeout: Option<String>,
    /// Do not verify Viola's certificate [env: VIOLA_INSECURE_TLS] [default: false].
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub viola_insecure_tls: Option<String>,
    /// A file with the bearer token for Viola [env: VIOLA_TOKEN_FILE].
    #[arg(long, global = true, value_name = "FILE")]
    pub viola_token_file: Option<String>,
    /// A file with the bearer token that the inventory API asks for.
    #[arg(long, global = true, value_name = "FILE")]
    pub api_token_file: Option<PathBuf>,
    /// The certificate that the inventory API is served with; needs --api-tls-key.
    #[arg(long, global = true, value_name = "FILE")]
    pub api_tls_cert: Option<PathBuf>,
    /// The key of --api-tls-cert.
    #[arg(long, global = true, value_name = "FILE")]
    pub api_tls_key: Option<PathBuf>,
    /// Where metrics are served; 0 = nowhere [default: :8080].
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub metrics_bind_address: Option<String>,
    /// Where liveness and readiness are served; 0 = nowhere [default: :8081].
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub health_probe_bind_address: Option<String>,
    /// PEM certificates to trust beside the system's.
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_bundle: Option<PathBuf>,
    /// Which namespaces may use which providers, projects and hosts: a YAML file [default: no limits].
    #[arg(long, global = true, value_name = "FILE")]
    pub policy_file: Option<String>,
    /// Sticky, MAC or Subnet, for objects that do not say [default: Sticky].
    #[arg(long, global = true, value_name = "ORDER")]
    pub interface_order: Option<String>,
    /// Auto, AddOnly, Approve or Observe, for objects that do not say [default: Auto].
    #[arg(long, global = true, value_name = "POLICY")]
    pub change_policy: Option<String>,
    /// Requests to one cloud at the same time [default: 4].
    #[arg(long, global = true, value_name = "N")]
    pub cloud_max_in_flight: Option<String>,
    /// Requests to one cloud per second [default: 10].
    #[arg(long, global = true, value_name = "N")]
    pub cloud_rate: Option<String>,
    /// Requests to one cloud that may come at once after a pause [default: 20].
    #[arg(long, global = true, value_name = "N")]
    pub cloud_burst: Option<String>,
    /// Budget for a request to Neutron: twice its target plus its headers, in bytes [default: 3800].
    #[arg(long, global = true, value_name = "BYTES")]
    pub neutron_request_bytes: Option<String>,
    /// Keep what was delivered for each object in a ConfigMap beside it as well [default: false].
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub state_configmap: Option<String>,
    /// human or json [default: human on a terminal, else json].
    #[arg(long, global = true, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// error, warn, info, debug or trace, or a filter such as info,multinic_operator=debug [default: info].
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<String>,
    #[command(flatten)]
    pub(crate) later: LaterFlags,
}

/// Flags that are known and not implemented yet.
#[derive(Args, Debug, Default, Clone)]
#[command(next_help_heading = "Not supported yet by this version")]
pub(crate) struct LaterFlags {
    #[arg(long, global = true, value_name = "NAMES")]
    pub(crate) cluster_namespaces: Option<String>,
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) magnum_namespace: Option<String>,
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) audit_log: Option<String>,
}

/// Flags of the previous operator that have another name or no meaning any more.
#[derive(Args, Debug, Default, Clone)]
pub struct FormerFlags {
    #[arg(long, global = true, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) metrics_secure: Option<String>,
    #[arg(long, global = true, hide = true)]
    pub(crate) metrics_cert_path: Option<String>,
    #[arg(long, global = true, hide = true)]
    pub(crate) metrics_cert_name: Option<String>,
    #[arg(long, global = true, hide = true)]
    pub(crate) metrics_cert_key: Option<String>,
    #[arg(long, global = true, hide = true)]
    pub(crate) webhook_cert_path: Option<String>,
    #[arg(long, global = true, hide = true)]
    pub(crate) webhook_cert_name: Option<String>,
    #[arg(long, global = true, hide = true)]
    pub(crate) webhook_cert_key: Option<String>,
    #[arg(long = "enable-http2", global = true, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) enable_http2: Option<String>,
    #[arg(long, global = true, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) zap_devel: Option<String>,
    #[arg(long, global = true, hide = true)]
    pub(crate) zap_encoder: Option<String>,
    #[arg(long, global = true, hide = true)]
    pub(crate) zap_log_level: Option<String>,
    #[arg(long, global = true, hide = true)]
    pub(crate) zap_stacktrace_level: Option<String>,
    #[arg(long, global = true, hide = true)]
    pub(crate) zap_time_encoding: Option<String>,
}

/// The command line as clap knows it, for completions and documentation.
pub fn command() -> clap::Command {
    Cli::command()
}
