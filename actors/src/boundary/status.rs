use std::sync::Arc;

use crate::domain::ids::ConfigId;
use crate::domain::status::ConfigStatus;

/// Where the state of a config is shown: REST, metrics and (with Kubernetes) the object's status.
pub trait StatusSink: Send + Sync + 'static {
    /// The newest state of a config. Must not wait: newest wins, a slow consumer skips states.
    fn publish(&self, id: &ConfigId, status: Arc<ConfigStatus>);

    /// The config is gone.
    fn forget(&self, id: &ConfigId);
}
