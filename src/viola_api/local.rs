//! Mode `local`: straight through the cluster's API server.

use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use kube::Client;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};

use super::outcome::{NodeResult, Outcome};
use super::routing::Cluster;
use super::target::Deadline;
use crate::kube::client::{CallError, ConnectError, connect, connect_to};
use crate::kube::node_config::MultiNicNodeConfig;
use crate::kube::node_config::apply::{ApplyError, apply};

/// Applies at the same time for one request: enough to hide the way, far from what an API server minds.
const PARALLEL: usize = 16;

/// How often one object is tried while what stands in the way may pass.
const ATTEMPTS: u32 = 3;
/// Before the second attempt; three times that before the next.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// One API server. The client is made when it is first needed.
pub(super) struct LocalTarget {
    cluster: Cluster,
    client: OnceCell<Client>,
}

impl LocalTarget {
    pub(super) fn new(cluster: Cluster) -> Self {
        Self { cluster, client: OnceCell::new() }
    }

    /// Applies the objects; what is not done at the deadline has failed.
    pub(super) async fn apply(&self, objects: &[MultiNicNodeConfig], deadline: Deadline) -> Outcome {
        let client = match timeout_at(deadline.at, self.client.get_or_try_init(|| self.connect())).await {
            Ok(Ok(client)) => client.clone(),
            Ok(Err(error)) => return Outcome::all_failed(objects, &error.to_string()),
            Err(_) => return Outcome::all_failed(objects, &deadline.missed()),
        };
        let mut results: Vec<Option<NodeResult>> = vec![None; objects.len()];
        let mut work = stream::iter(0..objects.len())
            .map(|index| one(client.clone(), index, objects[index].clone(), deadline))
            .buffer_unordered(PARALLEL);
        let mut rest = deadline.missed();
        let mut in_vain = 0;
        while let Ok(Some((index, applied))) = timeout_at(deadline.at, work.next()).await {
            let node = &objects[index].spec.node_name;
            results[index] = Some(match &applied {
                Ok(()) => NodeResult::applied(node),
                Err(error) => NodeResult::failed(node, &said(error, deadline)),
            });
            let Some(problem) = applied.err().filter(is_about_all) else {
                in_vain = 0;
                continue;
            };
            // Where nobody answers, or nobody is let in, there is no use in asking thousands of times.
            in_vain += 1;
            if in_vain == PARALLEL {
                tracing::warn!(problem = detail(&problem), "the rest of a request is not tried");
                rest = said(&problem, deadline);
                break;
            }
        }
        drop(work);
        let results = objects.iter().zip(results).map(|(object, result)| {
            result.unwrap_or_else(|| NodeResult::failed(&object.spec.node_name, &rest))
        });
        Outcome::of(objects, results.collect())
    }

    async fn connect(&self) -> Result<Client, ConnectError> {
        match &self.cluster {
            Cluster::Kubeconfig(files) => connect(files).await,
            Cluster::Server(server) => connect_to(&server.clone().into()),
        }
    }
}

async fn one(
    client: Client,
    index: usize,
    object: MultiNicNodeConfig,
    deadline: Deadline,
) -> (usize, Result<(), ApplyError>) {
    let mut wait = FIRST_WAIT;
    for _ in 1..ATTEMPTS {
        let applied = apply(client.clone(), &object, left(deadline)).await;
        match applied {
            Err(error) if may_pass(&error) => {
                tracing::debug!(node = object.spec.node_name, problem = detail(&error), "tried again");
            }
            done => return (index, done),
        }
        tokio::time::sleep(wait.mul_f64(rand::random_range(0.5..1.0))).await;
        wait *= 3;
    }
    (index, apply(client, &object, left(deadline)).await)
}

fn left(deadline: Deadline) -> Duration {
    deadline.at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// Whether it may be over in a moment: a connection that was cut, a server that is busy or just starting.
fn may_pass(error: &ApplyError) -> bool {
    match error {
        ApplyError::Call(CallError::Unreachable(_)) => true,
        ApplyError::Call(error) => matches!(error.code(), Some(429 | 503 | 504)),
        ApplyError::Conflict(_) | ApplyError::Unsteady => false,
    }
}

/// Whether every other node is likely to meet the same. Not a 403: an admission webhook refuses one node with it.
fn is_about_all(error: &ApplyError) -> bool {
    match error {
        ApplyError::Call(CallError::TimedOut | CallError::Unreachable(_)) => true,
        // 404: the namespace or the CRD is missing.
        ApplyError::Call(error) => matches!(error.code(), Some(401 | 404)),
        ApplyError::Conflict(_) | ApplyError::Unsteady => false,
    }
}

/// What the sender is told: the API server's own words where it gave some, nothing that varies.
fn said(error: &ApplyError, deadline: Deadline) -> String {
    match error {
        ApplyError::Call(CallError::TimedOut) => deadline.missed(),
        ApplyError::Call(error @ CallError::Refused(_)) => error.detail(),
        error => error.to_string(),
    }
}

fn detail(error: &ApplyError) -> String {
    match error {
        ApplyError::Call(error) => error.detail(),
        error => error.to_string(),
    }
}
