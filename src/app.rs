//! The whole program. Two lives, one inside the other:
//!
//! - what lives as long as the **process**: the connection to the API server, the servers and what they read
//!   ([`readers`]), the part in an election ([`leadership`]);
//! - what lives as long as a **reign** ([`reign`]): the objects' source, the adapters, the open store, the tree.
//!
//! Without `--leader-elect` there is one reign, from the start to the end.

mod adapters;
mod candidate;
mod leadership;
mod listeners;
mod objects;
mod readers;
mod reign;
mod source;
mod state;
mod supervisor;
mod tenure;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use multinic_actors::boundary::{Clock, SystemClock};
use multinic_actors::inventory::InventoryHandle;
use tokio_util::sync::CancellationToken;

use crate::http::{self, ApiParts, ConfigBoard, TokenFile};
use crate::kube::crd::bring_up_to_date;
use crate::policy::PolicyFile;
use crate::settings::Settings;
use crate::source_dir::FolderOptions;
use crate::telemetry::MetricsStatusSink;
pub use adapters::{cloud, open_policy, read_ca_bundle};
use leadership::Leadership;
pub(crate) use listeners::bind;
use listeners::{Listeners, Servers};
use readers::{Current, Readiness, Standing};
use reign::Plan;
use tenure::Tenure;

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
#[derive(Clone)]
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
    /// The state of every config; empty on a replica that stands by.
    pub configs: Arc<ConfigBoard>,
    current: Arc<Current>,
    leadership: Leadership,
    servers: Servers,
    /// Followed until it is dropped.
    _policy: Option<Arc<PolicyFile>>,
}

/// Runs until `shutdown`, then ends in order.
///
/// # Errors
/// When it cannot start, or no reign can begin.
pub async fn run(
    settings: &Settings,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), StartError> {
    let mut running = start(settings, options).await?;
    tracing::info!(api = %running.api, "multinic-operator {} is running", env!("CARGO_PKG_VERSION"));
    let outcome = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        problem = running.leadership.failed() => Err(problem),
    };
    tracing::info!("stopping");
    running.stop().await;
    tracing::info!("stopped");
    outcome
}

/// Starts everything; returns when it serves and the tree, or the election, is under way.
///
/// # Errors
/// When an address is taken, no cluster is named, the folder cannot be read, or a certificate bundle is none.
pub async fn start(settings: &Settings, options: Options) -> Result<Running, StartError> {
    // Whoever started us may have installed it before: then that one serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let metrics = crate::telemetry::install().map_err(StartError::new)?;
    let listeners = Listeners::bind(settings).await?;
    let configs = Arc::new(ConfigBoard::default());
    let current = Arc::new(Current::default());
    let standing = Arc::new(Standing::new(metrics.clone()));
    let policy = open_policy(settings).await?.map(Arc::new);
    let plan = Plan {
        policy: policy.as_ref().map(|policy| policy.handle()).unwrap_or_default(),
        client: objects::connect_if_needed(settings).await?,
        settings: settings.clone(),
        options,
        tenure: Tenure::default(),
        configs: Arc::clone(&configs),
        statuses: Arc::new(MetricsStatusSink::new(metrics.clone())),
        current: Arc::clone(&current),
    };
    if let Some(client) = plan.client.as_ref().filter(|_| settings.kube.manages_crds) {
        // Before anything is written: an older definition would cut the status.
        let client = client.clone();
        let work = tokio::spawn(async move { bring_up_to_date(&client, rand::random()).await });
        if tokio::time::timeout(CRD_TIMEOUT, work).await.is_err() {
            tracing::warn!("the CustomResourceDefinition is not up to date yet; going on meanwhile");
        }
    }
    let leadership = Leadership::start(plan, Arc::clone(&standing)).await?;
    let standby = Arc::clone(&standing);
    let health = Arc::new(Readiness::new(Arc::clone(&current), standing, policy.clone()));
    let parts = ApiParts {
        inventory: Arc::clone(&current) as _,
        configs: Arc::clone(&configs) as _,
        tree: Arc::clone(&current) as _,
        health: Arc::clone(&health) as _,
        token: settings.inventory.token_file.as_ref().map(TokenFile::new),
        standby: Some(Arc::new(move || standby.leader_elsewhere())),
    };
    let addresses = listeners.addresses()?;
    let servers = listeners.serve(settings, http::api_router(parts), metrics, health)?;
    Ok(Running {
        api: addresses.api,
        metrics: addresses.metrics,
        health: addresses.health,
        configs,
        current,
        leadership,
        servers,
        _policy: policy,
    })
}

impl Running {
    /// The inventory of the reign there is; `None` on a replica that stands by.
    pub fn inventory(&self) -> Option<InventoryHandle> {
        self.current.inventory()
    }

    /// Stops polling, ends or abandons what is under way within the grace period, persists, gives a lease back,
    /// stops serving.
    pub async fn stop(self) {
        self.leadership.stop().await;
        self.servers.stop().await;
    }

    /// Ends the tree at once, without any order, as a crash would. For tests of what survives.
    pub async fn crash(self) {
        self.leadership.crash().await;
        self.servers.stop().await;
    }
}

/// How long a start waits for the CustomResourceDefinition: no probe is answered before.
const CRD_TIMEOUT: Duration = Duration::from_secs(15);

/// How long the tree may take to end: within Kubernetes' usual 30 s, of which the servers need some too.
const STOP_TIMEOUT: Duration = Duration::from_secs(25);
