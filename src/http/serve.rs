//! Serves a router until it is told to stop.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::stall::StallGuard;

/// What one server allows its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// Connections at a time; more wait in the kernel's queue.
    pub connections: usize,
    /// Until the head of a request is there, the TLS handshake included; also how long an idle connection is
    /// kept.
    pub head: Duration,
    /// The longest head of a request in bytes; a longer one is answered with 431.
    pub head_size: usize,
    /// How long a client may leave an answer unread.
    pub stall: Duration,
    /// How long requests may go on after the stop was asked for.
    pub grace: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            // A console, Prometheus, a few scripts; each connection costs some 20 KiB.
            connections: 512,
            // So long do connections that say nothing keep others out when all places are taken. Above
            // Prometheus' and browsers' usual pauses would be minutes, and a new connection is cheap.
            head: Duration::from_secs(5),
            head_size: 16 * 1024,
            stall: Duration::from_secs(30),
            // Well within Kubernetes' 30 s, of which the tree needs some too.
            grace: Duration::from_secs(5),
        }
    }
}

impl ServeLimits {
    /// For probes and metrics: a kubelet, a few Prometheus.
    pub fn for_machines() -> Self {
        Self { connections: 64, ..Self::default() }
    }
}

/// Serves `router` on `listener` until `shutdown`, then lets the requests that are under way end.
///
/// HTTP/1.1 only: axum's own server has no deadline for a request's head, no bound on connections and none
/// on unread answers.
pub async fn serve<L: Listener>(
    mut listener: L,
    router: Router,
    limits: ServeLimits,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    while let Some((io, place)) = next(&mut listener, &places, &shutdown).await {
        let connection =
            Connection { router: router.clone(), limits, shutdown: shutdown.clone(), _place: place };
        connections.spawn(connection.run(io));
    }
    // A closed port tells clients more than a queue that nobody empties.
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn next<L: Listener>(
    listener: &mut L,
    places: &Arc<Semaphore>,
    shutdown: &CancellationToken,
) -> Option<(L::Io, OwnedSemaphorePermit)> {
    let connection = async {
        let place = Arc::clone(places).acquire_owned().await.ok()?;
        let (io, _) = listener.accept().await;
        Some((io, place))
    };
    shutdown.run_until_cancelled(connection).await.flatten()
}

struct Connection {
    router: Router,
    limits: ServeLimits,
    shutdown: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    async fn run<Io>(self, io: Io)
    where
        Io: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(StallGuard::new(io, self.limits.stall));
        let service = TowerToHyperService::new(self.router);
        let mut connection = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(self.limits.head)
                .max_header_size(self.limits.head_size)
                .serve_connection(io, service)
        );
        let outcome = tokio::select! {
            outcome = connection.as_mut() => Some(outcome),
            () = self.shutdown.cancelled() => None,
        };
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => {
                connection.as_mut().graceful_shutdown();
                let rest = tokio::time::timeout(self.limits.grace, connection).await;
                rest.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = outcome {
            // Clients go away and send rubbish all the time.
            tracing::debug!(%error, "a connection ended early");
        }
    }
}
