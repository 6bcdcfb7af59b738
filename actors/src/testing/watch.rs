use std::sync::{Arc, Mutex};

use super::{Post, lock};
use crate::domain::config::Config;
use crate::domain::ids::ConfigId;
use crate::domain::node::NodeConfig;
use crate::domain::port::Observation;
use crate::domain::status::ConfigStatus;

/// Sees what passes the boundaries at the moment at which it does. Nothing by default.
pub trait Watch: Send + Sync + 'static {
    /// A login began.
    fn login(&self, _config: &Arc<Config>) {}

    /// A look began.
    fn look_began(&self, _config: &Arc<Config>) {}

    /// A look ended well, and gave this.
    fn looked(&self, _config: &Arc<Config>, _observation: &Observation) {}

    /// A POST leaves; the number is its place in [`super::FakeDelivery::posts`].
    fn posting(&self, _number: usize, _config: &Arc<Config>, _nodes: &[Arc<NodeConfig>]) {}

    /// Viola took a node, whether the answer arrives or not.
    fn taken(&self, _config: &Arc<Config>, _node: &Arc<NodeConfig>) {}

    /// A POST was answered, in whichever way. A sender that went away hears nothing, and nothing is told here.
    fn answered(&self, _number: usize, _config: &Arc<Config>, _post: &Post) {}

    /// A state is shown to people.
    fn shown(&self, _id: &ConfigId, _status: &ConfigStatus) {}
}

/// Who watches a boundary.
#[derive(Clone, Default)]
pub(super) struct Watcher(Arc<Mutex<Option<Arc<dyn Watch>>>>);

impl Watcher {
    pub(super) fn set(&self, watch: Arc<dyn Watch>) {
        *lock(&self.0) = Some(watch);
    }

    pub(super) fn tell(&self, what: impl FnOnce(&dyn Watch)) {
        let watch = lock(&self.0).clone();
        if let Some(watch) = watch {
            what(&*watch);
        }
    }
}
