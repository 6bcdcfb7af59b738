//! One cluster at work: who may come, how long it may take, and how it is done.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::local::LocalTarget;
use super::outcome::Outcome;
use super::routing::{Mode, Target};
use super::ssh::{HostKeys, SshTarget};
use crate::kube::node_config::MultiNicNodeConfig;

/// Requests to one cluster at a time. Others wait, without their body in memory: a cluster that hangs holds up
/// its own senders only, and many senders do not fill the memory (the largest request costs some 30 MB).
const TURNS: usize = 2;

/// Until when everything has to be done, and what that is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    limit: Duration,
}

impl Deadline {
    pub(super) fn after(limit: Duration) -> Self {
        Self { at: Instant::now() + limit, limit }
    }

    /// For those who missed it.
    pub(super) fn missed(&self) -> String {
        format!("not applied within KUBECTL_TIMEOUT ({:?})", self.limit)
    }
}

/// One cluster.
pub(super) struct LiveTarget {
    /// Where the objects go.
    pub(super) namespace: String,
    way: Way,
    turns: Arc<Semaphore>,
}

enum Way {
    Local(LocalTarget),
    Ssh(SshTarget),
}

impl LiveTarget {
    pub(super) fn new(target: Target, host_keys: &HostKeys) -> Self {
        let way = match target.mode {
            Mode::Local(cluster) => Way::Local(LocalTarget::new(cluster)),
            Mode::Ssh(bastion) => Way::Ssh(SshTarget::new(*bastion, host_keys.clone())),
        };
        Self { namespace: target.namespace, way, turns: Arc::new(Semaphore::new(TURNS)) }
    }

    /// Waits for a turn; `None` when the deadline came first.
    pub(super) async fn turn(&self, deadline: Deadline) -> Option<OwnedSemaphorePermit> {
        timeout_at(deadline.at, Arc::clone(&self.turns).acquire_owned()).await.ok()?.ok()
    }

    pub(super) async fn apply(&self, objects: &[MultiNicNodeConfig], deadline: Deadline) -> Outcome {
        match &self.way {
            Way::Local(target) => target.apply(objects, deadline).await,
            Way::Ssh(target) => target.apply(objects, deadline).await,
        }
    }
}
