use std::time::Duration;

use dashmap::DashMap;
use multinic_actors::domain::ids::ConfigId;

use super::openstack_config::OpenstackConfigStatus;

/// What is known of each object beside its spec: what its status says and how often its status need change.
/// Written by the watch, read by the status writer.
#[derive(Default)]
pub struct ObservedStatuses {
    objects: DashMap<ConfigId, Observed>,
}

/// What is known of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// Its status, if it has one that can be read.
    pub(super) status: Option<OpenstackConfigStatus>,
    /// Its slow interval, if its spec is valid.
    pub(super) slow: Option<Duration>,
}

impl ObservedStatuses {
    pub(super) fn note(&self, id: &ConfigId, observed: Observed) {
        self.objects.insert(id.clone(), observed);
    }

    pub(super) fn forget(&self, id: &ConfigId) {
        self.objects.remove(id);
    }

    /// `None`: there is no such object.
    pub(super) fn get(&self, id: &ConfigId) -> Option<Observed> {
        self.objects.get(id).map(|entry| entry.value().clone())
    }
}

impl std::fmt::Debug for ObservedStatuses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ObservedStatuses({} objects)", self.objects.len())
    }
}
