//! Mode `ssh`: `kubectl apply -f -` on a machine that reaches the cluster, with an SSH client of our own. The
//! image has no ssh, and a password never stands on a command line.

mod host_keys;
mod kubectl;
mod session;

use tokio::time::timeout_at;

use super::outcome::Outcome;
use super::routing::Bastion;
use super::target::Deadline;
use crate::kube::node_config::MultiNicNodeConfig;

pub(super) use host_keys::HostKeys;

/// One bastion.
pub(super) struct SshTarget {
    bastion: Bastion,
    host_keys: HostKeys,
}

impl SshTarget {
    pub(super) fn new(bastion: Bastion, host_keys: HostKeys) -> Self {
        Self { bastion, host_keys }
    }

    /// Applies the objects by one kubectl; what it was not seen to apply by the deadline has failed.
    pub(super) async fn apply(&self, objects: &[MultiNicNodeConfig], deadline: Deadline) -> Outcome {
        let manifest = match kubectl::manifest(objects) {
            Ok(manifest) => manifest,
            Err(error) => {
                return Outcome::all_failed(objects, &format!("the objects cannot be written: {error}"));
            }
        };
        let command = format!("{} apply -f -", self.bastion.kubectl);
        let run = session::run(&self.bastion, &self.host_keys, &command, manifest);
        match timeout_at(deadline.at, run).await {
            Ok(Ok(done)) => kubectl::outcome(objects, &done),
            Ok(Err(error)) => {
                let message = format!("ssh {}: {error}", self.bastion.host);
                tracing::warn!("the nodes of a request are not applied: {message}");
                Outcome::all_failed(objects, &message)
            }
            Err(_) => {
                Outcome::all_failed(objects, &format!("ssh {}: {}", self.bastion.host, deadline.missed()))
            }
        }
    }
}
