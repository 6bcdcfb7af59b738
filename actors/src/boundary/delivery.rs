use std::sync::Arc;

use super::BoxFuture;
use crate::domain::config::Config;
use crate::domain::node::NodeConfig;
use crate::domain::post::{PostAnswer, PostError};

/// Where node configs go: Viola, or the workload cluster itself.
pub trait Delivery: Send + Sync + 'static {
    /// Sends one batch. The caller keeps it within 100 nodes and 1 MiB.
    fn post(
        &self,
        config: Arc<Config>,
        nodes: Vec<Arc<NodeConfig>>,
    ) -> BoxFuture<'_, Result<PostAnswer, PostError>>;
}
