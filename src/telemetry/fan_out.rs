use std::fmt;
use std::sync::Arc;

use multinic_actors::boundary::{ChangesDelivered, RoundEnded, StatusSink, Witness};
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

/// Tells several what happened.
#[derive(Clone)]
pub struct Witnesses(pub Vec<Arc<dyn Witness>>);

impl fmt::Debug for Witnesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Witnesses({})", self.0.len())
    }
}

impl Witness for Witnesses {
    fn round_ended(&self, round: &RoundEnded) {
        self.0.iter().for_each(|witness| witness.round_ended(round));
    }

    fn changes_delivered(&self, delivered: &ChangesDelivered) {
        self.0.iter().for_each(|witness| witness.changes_delivered(delivered));
    }
}
