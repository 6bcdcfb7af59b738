//! Mode `local`: straight through the cluster's API server.

use kube::Client;
use tokio::sync::OnceCell;
use tokio::time::timeout_at;

use super::outcome::{NodeResult, Outcome};
use super::routing::Cluster;
use super::target::Deadline;
use crate::kube::client::{CallError, ConnectError, connect, connect_to};
use crate::kube::node_config::MultiNicNodeConfig;
use crate::kube::node_config::apply::ApplyError;
use crate::kube::node_config::batch::apply_all;

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
        let batch = apply_all(&client, objects, deadline.at).await;
        let rest = batch.stopped.map_or_else(|| deadline.missed(), |problem| said(&problem, deadline));
        let results = objects.iter().zip(batch.results).map(|(object, result)| {
            let node = &object.spec.node_name;
            match result {
                Some(Ok(_)) => NodeResult::applied(node),
                Some(Err(error)) => NodeResult::failed(node, &said(&error, deadline)),
                None => NodeResult::failed(node, &rest),
            }
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

/// What the sender is told: the API server's own words where it gave some, nothing that varies.
fn said(error: &ApplyError, deadline: Deadline) -> String {
    match error {
        ApplyError::Call(CallError::TimedOut) => deadline.missed(),
        ApplyError::Call(error @ CallError::Refused(_)) => error.detail(),
        error => error.to_string(),
    }
}
