//! The program: a server that follows its routing file until it is told to stop.

use std::net::SocketAddr;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::api;
use super::routes::{Live, RoutingFile};
use super::routing::Routing;
use super::settings::{Settings, Surroundings};
use crate::app::{StartError, bind};
use crate::http::{self, Certificate, ServeLimits, TlsListener, TokenFile};

/// The longest that an apply may go on after the stop was asked for: within Kubernetes' 30 s.
const MAX_GRACE: Duration = Duration::from_secs(25);

/// A running server.
pub struct Running {
    /// Where it serves.
    pub address: SocketAddr,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Runs until `shutdown`, then lets the requests that are under way end.
///
/// # Errors
/// When it cannot start.
pub async fn run(
    settings: Settings,
    surroundings: Surroundings,
    shutdown: CancellationToken,
) -> Result<(), StartError> {
    let running = start(settings, surroundings).await?;
    tracing::info!(api = %running.address, "viola-test-api {} is running", env!("CARGO_PKG_VERSION"));
    shutdown.cancelled().await;
    tracing::info!("stopping");
    running.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// Starts; returns when it serves.
///
/// # Errors
/// When the address is taken, the routing file is no good, or the certificate cannot be used.
pub async fn start(settings: Settings, surroundings: Surroundings) -> Result<Running, StartError> {
    // Whoever started us may have installed it before: then that one serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let live = match &settings.routing_file {
        None => Live::fixed(Routing::to_one(&settings, surroundings.kubeconfig)),
        Some(path) => {
            let (file, live) = RoutingFile::open(path, &settings).await.map_err(StartError::new)?;
            tasks.spawn(file.follow(stop.clone()));
            live
        }
    };
    let listener = bind(&settings.address, "LISTEN_ADDR").await?;
    let address = listener.local_addr().map_err(StartError::new)?;
    let limits = ServeLimits { grace: settings.timeout.min(MAX_GRACE), ..ServeLimits::default() };
    let router = api::router(live, settings.timeout, surroundings.token_file.map(TokenFile::new));
    match surroundings.tls {
        Some(files) => {
            let certificate = Certificate { cert: files.cert, key: files.key };
            let listener = TlsListener::new(listener, certificate).map_err(StartError::new)?;
            tasks.spawn(http::serve(listener, router, limits, stop.clone()));
        }
        None => drop(tasks.spawn(http::serve(listener, router, limits, stop.clone()))),
    }
    tasks.close();
    Ok(Running { address, tasks, stop })
}

impl Running {
    /// Takes no more requests and lets those under way end.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}
