use std::sync::Arc;

use super::BoxFuture;
use crate::domain::config::{Config, WorkloadCluster};
use crate::domain::ids::{ConfigName, NodeName, VmId};
use crate::domain::machines::Machines;
use crate::domain::readback::{Found, Reach};

/// Called when something in a workload cluster is another. Must not block.
pub type Changed = Box<dyn Fn() + Send + Sync>;

/// The workload clusters that configs give a kubeconfig of.
pub trait Workload: Send + Sync + 'static {
    /// Follows the config's workload cluster until the view is dropped. Several configs of one cluster share
    /// what is behind it. `None` where the config names no cluster.
    fn follow(&self, config: &Config, changed: Changed) -> Option<Box<dyn WorkloadView>>;

    /// Takes node configs out of a workload cluster, as far as they are this operator's and still those VMs'.
    ///
    /// # Errors
    /// In words, when it is not known that all are gone.
    fn withdraw(&self, order: Withdrawal) -> BoxFuture<'_, Result<(), String>>;
}

/// A workload cluster as it was seen last. Reading does not wait.
pub trait WorkloadView: Send + Sync {
    /// Whether it can be looked at now.
    fn reach(&self) -> Reach;

    /// A node's object; `None` if there is none.
    fn found(&self, node: &NodeName) -> Option<Arc<Found>>;

    /// Its nodes; `None` while they are not known.
    fn machines(&self) -> Option<Arc<Machines>>;
}

/// Node configs that are to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// On whose behalf.
    pub name: ConfigName,
    /// Where.
    pub cluster: WorkloadCluster,
    /// The nodes, and the VMs that they were delivered for.
    pub nodes: Vec<(NodeName, VmId)>,
}

/// No workload cluster is ever looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWorkload;

impl Workload for NoWorkload {
    fn follow(&self, _config: &Config, _changed: Changed) -> Option<Box<dyn WorkloadView>> {
        None
    }

    fn withdraw(&self, _order: Withdrawal) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}
