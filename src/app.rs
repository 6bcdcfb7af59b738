//! The whole program: wires adapters to the tree, serves what there is to see, and ends in order.

mod objects;
mod readers;
mod source;
mod supervisor;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use multinic_actors::boundary::{Clock, StatusSink, Store, SystemClock};
use multinic_actors::claim_table::ClaimTable;
use multinic_actors::config::Shared;
use multinic_actors::domain::ids::ConfigName;
use multinic_actors::domain::restart::RestartPolicy;
use multinic_actors::inventory::InventoryHandle;
use multinic_actors::supervision::Tree;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::{self, ApiParts, Certificate, ConfigBoard, ServeLimits, TlsListener, TokenFile};
use crate::kube::status::StatusWriter;
use crate::openstack::{OpenstackCloud, OpenstackSettings};
use crate::secrets::SecretSource;
use crate::settings::Settings;
use crate::settings::values::ListenAddress;
use crate::source_dir::FolderOptions;
use crate::store::{self, JsonFileStore, MemoryStore, MeteredStore};
use crate::telemetry::{FanOut, MeteredDelivery, MetricsStatusSink};
use crate::upstream::{CloudLimits, Tls, Upstream, UpstreamSettings};
use crate::viola::{ViolaClient, ViolaSettings};
use objects::Objects;
use readers::{Health, PublishedInventory, TreeView};
use supervisor::Supervisor;

/// Why the operator did not start.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(String);

impl StartError {
    pub(crate) fn new(problem: impl std::fmt::Display) -> Self {
        Self(problem.to_string())
    }
}

/// What a start can be given beside the settings.
pub struct Options {
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// First polls after a start are spread.
    pub spread_first_polls: bool,
    /// How the folder is watched.
    pub folder: FolderOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), spread_first_polls: true, folder: FolderOptions::default() }
    }
}

/// A running operator. Dropping it without [`Running::stop`] leaves its tasks to the runtime.
pub struct Running {
    /// Where the inventory, its API and the state of configs and actors are served.
    pub api: SocketAddr,
    /// Where metrics are served, if they are.
    pub metrics: Option<SocketAddr>,
    /// Where liveness and readiness are served, if they are.
    pub health: Option<SocketAddr>,
    /// The supervision tree.
    pub tree: Tree,
    /// The inventory.
    pub inventory: InventoryHandle,
    /// The state of every config.
    pub configs: Arc<ConfigBoard>,
    supervisor: Supervisor,
    statuses: Option<Arc<StatusWriter>>,
    servers: TaskTracker,
    stop_servers: CancellationToken,
}

/// Runs until `shutdown`, then ends in order.
///
/// # Errors
/// When it cannot start.
pub async fn run(
    settings: &Settings,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), StartError> {
    let running = start(settings, options).await?;
    tracing::info!(api = %running.api, "multinic-operator {} is running", env!("CARGO_PKG_VERSION"));
    shutdown.cancelled().await;
    tracing::info!("stopping");
    running.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// Starts everything; returns when it serves and the tree is under way.
///
/// # Errors
/// When an address is taken, the folder cannot be read, or a certificate bundle is none.
pub async fn start(settings: &Settings, options: Options) -> Result<Running, StartError> {
    // Whoever started us may have installed it before: then that one serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let metrics = crate::telemetry::install().map_err(StartError::new)?;
    let api = bind(&settings.inventory.address, "--inventory-addr").await?;
    let metrics_listener = bind_optional(settings.metrics_address.as_ref(), "--metrics-bind-address").await?;
    let health_listener =
        bind_optional(settings.health_address.as_ref(), "--health-probe-bind-address").await?;
    let Objects { source, events, secrets, statuses } = Objects::start(settings, &options).await?;
    let tree = Tree::new("root", "root");
    let inventory = InventoryHandle::default();
    let configs = Arc::new(ConfigBoard::default());
    let mut sinks: Vec<Arc<dyn StatusSink>> =
        vec![Arc::clone(&configs) as _, Arc::new(MetricsStatusSink::new(metrics.clone()))];
    sinks.extend(statuses.clone().map(|writer| writer as _));
    let shared = shared(settings, &options, secrets, FanOut(sinks), &inventory)?;
    let health = Arc::new(Health::new(
        inventory.clone(),
        tree.clone(),
        settings.inventory.enabled,
        source.watch_health(),
    ));
    let supervisor = Supervisor::start(supervisor::Parts {
        shared,
        store: open_store(settings),
        tree: tree.clone(),
        spread_first_polls: options.spread_first_polls,
        source,
        events,
        health: Arc::clone(&health),
    });
    let (servers, stop_servers) = (TaskTracker::new(), CancellationToken::new());
    let (limits, machines) = (ServeLimits::default(), ServeLimits::for_machines());
    let parts = ApiParts {
        inventory: Arc::new(PublishedInventory::new(inventory.clone(), settings.inventory.enabled)),
        configs: Arc::clone(&configs) as _,
        tree: Arc::new(TreeView(tree.clone())),
        health: Arc::clone(&health) as _,
        token: settings.inventory.token_file.as_ref().map(TokenFile::new),
        standby: None,
    };
    let addresses = [Some(&api), metrics_listener.as_ref(), health_listener.as_ref()].map(local_address);
    let end = || stop_servers.clone();
    match &settings.inventory.tls {
        Some(files) => {
            let certificate = Certificate { cert: files.cert.clone(), key: files.key.clone() };
            let api = TlsListener::new(api, certificate)
                .map_err(|error| StartError(format!("--api-tls-cert, --api-tls-key: {error}")))?;
            servers.spawn(http::serve(api, http::api_router(parts), limits, end()));
        }
        None => drop(servers.spawn(http::serve(api, http::api_router(parts), limits, end()))),
    }
    if let Some(listener) = metrics_listener {
        servers.spawn(http::serve(listener, http::metrics_router(metrics), machines, end()));
    }
    if let Some(listener) = health_listener {
        servers.spawn(http::serve(listener, http::probe_router(health), machines, end()));
    }
    servers.close();
    let [Some(api), metrics, health] = addresses else {
        return Err(StartError::new("the API's address cannot be read back"));
    };
    Ok(Running {
        api,
        metrics,
        health,
        tree,
        inventory,
        configs,
        supervisor,
        statuses,
        servers,
        stop_servers,
    })
}

impl Running {
    /// Stops polling, ends or abandons what is under way within the grace period, persists, stops serving.
    pub async fn stop(self) {
        self.supervisor.stop().await;
        if let Some(statuses) = &self.statuses {
            statuses.stop().await;
        }
        self.stop_servers.cancel();
        self.servers.wait().await;
    }

    /// Ends the tree at once, without any order, as a crash would. For tests of what survives.
    pub async fn crash(self) {
        self.supervisor.kill().await;
        self.stop_servers.cancel();
        self.servers.wait().await;
    }
}

fn shared(
    settings: &Settings,
    options: &Options,
    secrets: Arc<dyn SecretSource>,
    sinks: FanOut,
    inventory: &InventoryHandle,
) -> Result<Shared, StartError> {
    let ca_bundle = read_ca_bundle(settings.ca_bundle.as_deref())?;
    let cloud = cloud(settings, ca_bundle.clone(), Arc::clone(&secrets))?;
    let upstream = UpstreamSettings { ca_bundle, ..UpstreamSettings::default() };
    let viola = ViolaClient::new(
        Arc::new(Upstream::new(&upstream).map_err(StartError::new)?),
        secrets,
        ViolaSettings {
            timeout: settings.viola.timeout,
            insecure_tls: settings.viola.insecure_tls,
            token: settings.viola.token_file.as_ref().map(TokenFile::new),
        },
    );
    Ok(Shared {
        cloud: Arc::new(cloud),
        delivery: Arc::new(MeteredDelivery(viola)),
        status: Arc::new(sinks),
        clock: Arc::clone(&options.clock),
        inventory: inventory.clone(),
        claims: ClaimTable::default(),
        restart: RestartPolicy::default(),
        seed: rand::random(),
    })
}

/// The OpenStack adapter as the settings want it.
///
/// # Errors
/// When the CA bundle has no certificate.
pub fn cloud(
    settings: &Settings,
    ca_bundle: Option<String>,
    secrets: Arc<dyn SecretSource>,
) -> Result<OpenstackCloud, StartError> {
    let limits = CloudLimits {
        max_in_flight: settings.cloud.max_in_flight as usize,
        rate: settings.cloud.rate,
        burst: settings.cloud.burst,
    };
    let openstack = OpenstackSettings {
        limits,
        neutron_request_bytes: settings.cloud.neutron_request_bytes,
        ca_bundle,
        ..OpenstackSettings::default()
    };
    OpenstackCloud::new(openstack, secrets).map_err(StartError::new)
}

/// Reads the operator-wide CA bundle, if there is one.
///
/// # Errors
/// When the file cannot be read or has no certificate.
pub fn read_ca_bundle(path: Option<&Path>) -> Result<Option<String>, StartError> {
    let read = |path: &Path| {
        let problem =
            |error: &dyn std::fmt::Display| StartError(format!("--ca-bundle {}: {error}", path.display()));
        let pem = std::fs::read_to_string(path).map_err(|error| problem(&error))?;
        Tls::new(false, Some(&pem)).map_err(|error| problem(&error))?;
        Ok(pem)
    };
    path.map(read).transpose()
}

fn open_store(settings: &Settings) -> Arc<dyn Store> {
    match settings.inventory.enabled {
        true => Arc::new(MeteredStore(JsonFileStore::new(&settings.inventory.db_path))),
        false => Arc::new(MemoryStore),
    }
}

/// When objects without a creation time were seen first. A file that cannot be read is reported by the
/// inventory actor, which reads it for good.
fn first_seen(path: &Path) -> BTreeMap<ConfigName, Timestamp> {
    let read = || store::read(path).or_else(|_| store::read(&store::previous_of(path)));
    let loaded = read().unwrap_or_default();
    let configs = loaded.snapshot.configs.into_iter();
    configs.filter_map(|(name, state)| Some((name, state.first_seen?))).collect()
}

async fn bind_optional(
    address: Option<&ListenAddress>,
    flag: &str,
) -> Result<Option<TcpListener>, StartError> {
    match address {
        Some(address) => bind(address, flag).await.map(Some),
        None => Ok(None),
    }
}

/// Binds an address; `flag` is what it was given by.
pub(crate) async fn bind(address: &ListenAddress, flag: &str) -> Result<TcpListener, StartError> {
    let mut problem = None;
    for candidate in address.candidates() {
        match TcpListener::bind(&candidate).await {
            Ok(listener) => return Ok(listener),
            Err(error) => problem = Some(error),
        }
    }
    let problem = problem.map_or_else(String::new, |error| error.to_string());
    Err(StartError(format!("{flag} {address}: {problem}; give another address")))
}

fn local_address(listener: Option<&TcpListener>) -> Option<SocketAddr> {
    listener.and_then(|listener| listener.local_addr().ok())
}

/// How long the tree may take to end: within Kubernetes' usual 30 s, of which the servers need some too.
const STOP_TIMEOUT: Duration = Duration::from_secs(25);
