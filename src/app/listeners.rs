//! The addresses that are listened on, and the servers on them.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::StartError;
use super::readers::Readiness;
use crate::http::{self, Certificate, ServeLimits, TlsListener};
use crate::settings::Settings;
use crate::settings::values::ListenAddress;
use crate::telemetry::MetricsHandle;

/// Bound, not served yet.
pub(super) struct Listeners {
    api: TcpListener,
    metrics: Option<TcpListener>,
    health: Option<TcpListener>,
}

/// What was bound.
pub(super) struct Addresses {
    pub(super) api: SocketAddr,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) health: Option<SocketAddr>,
}

impl Listeners {
    pub(super) async fn bind(settings: &Settings) -> Result<Self, StartError> {
        let (metrics, health) = (settings.metrics_address.as_ref(), settings.health_address.as_ref());
        Ok(Self {
            api: bind(&settings.inventory.address, "--inventory-addr").await?,
            metrics: bind_optional(metrics, "--metrics-bind-address").await?,
            health: bind_optional(health, "--health-probe-bind-address").await?,
        })
    }

    pub(super) fn addresses(&self) -> Result<Addresses, StartError> {
        let address = |listener: &TcpListener| listener.local_addr().map_err(StartError::new);
        Ok(Addresses {
            api: address(&self.api)?,
            metrics: self.metrics.as_ref().map(address).transpose()?,
            health: self.health.as_ref().map(address).transpose()?,
        })
    }

    pub(super) fn serve(
        self,
        settings: &Settings,
        api: Router,
        metrics: MetricsHandle,
        health: Arc<Readiness>,
    ) -> Result<Servers, StartError> {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let (limits, machines) = (ServeLimits::default(), ServeLimits::for_machines());
        match &settings.inventory.tls {
            Some(files) => {
                let certificate = Certificate { cert: files.cert.clone(), key: files.key.clone() };
                let listener = TlsListener::new(self.api, certificate)
                    .map_err(|error| StartError(format!("--api-tls-cert, --api-tls-key: {error}")))?;
                tasks.spawn(http::serve(listener, api, limits, stop.clone()));
            }
            None => drop(tasks.spawn(http::serve(self.api, api, limits, stop.clone()))),
        }
        if let Some(listener) = self.metrics {
            tasks.spawn(http::serve(listener, http::metrics_router(metrics), machines, stop.clone()));
        }
        if let Some(listener) = self.health {
            tasks.spawn(http::serve(listener, http::probe_router(health), machines, stop.clone()));
        }
        tasks.close();
        Ok(Servers { tasks, stop })
    }
}

/// Serving until they are stopped.
pub(super) struct Servers {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Servers {
    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
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
