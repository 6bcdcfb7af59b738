use std::fmt;
use std::sync::Arc;

use multinic_actors::boundary::StatusSink;
use multinic_actors::domain::ids::ConfigId;
use multinic_actors::domain::status::ConfigStatus;

/// Shows a config's state in several places.
#[derive(Clone)]
pub struct FanOut(pub Vec<Arc<dyn StatusSink>>);

impl fmt::Debug for FanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FanOut({} sinks)", self.0.len())
    }
}

impl StatusSink for FanOut {
    fn publish(&self, id: &ConfigId, status: Arc<ConfigStatus>) {
        for sink in &self.0 {
            sink.publish(id, Arc::clone(&status));
        }
    }

    fn forget(&self, id: &ConfigId) {
        for sink in &self.0 {
            sink.forget(id);
        }
    }
}
