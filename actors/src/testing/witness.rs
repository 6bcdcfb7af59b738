use std::sync::{Arc, Mutex};

use super::lock;
use crate::boundary::{ChangesDelivered, RoundEnded, Witness};

/// Remembers everything it was told. Clones are one memory.
#[derive(Clone, Default)]
pub struct FakeWitness(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    rounds: Vec<RoundEnded>,
    deliveries: Vec<ChangesDelivered>,
}

impl FakeWitness {
    /// The rounds that ended.
    pub fn rounds(&self) -> Vec<RoundEnded> {
        lock(&self.0).rounds.clone()
    }

    /// What was delivered, POST by POST.
    pub fn deliveries(&self) -> Vec<ChangesDelivered> {
        lock(&self.0).deliveries.clone()
    }
}

impl Witness for FakeWitness {
    fn round_ended(&self, round: &RoundEnded) {
        lock(&self.0).rounds.push(round.clone());
    }

    fn changes_delivered(&self, delivered: &ChangesDelivered) {
        lock(&self.0).deliveries.push(delivered.clone());
    }
}
