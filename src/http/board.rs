use std::fmt;
use std::sync::Arc;

use dashmap::DashMap;
use multinic_actors::boundary::StatusSink;
use multinic_actors::domain::ids::{ConfigId, ConfigName};
use multinic_actors::domain::status::ConfigStatus;

use super::readers::ConfigReader;

/// The newest state of every config: written by the tree, read by REST.
#[derive(Default)]
pub struct ConfigBoard {
    configs: DashMap<ConfigName, Arc<ConfigStatus>>,
}

impl fmt::Debug for ConfigBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigBoard({} configs)", self.configs.len())
    }
}

impl StatusSink for ConfigBoard {
    fn publish(&self, id: &ConfigId, status: Arc<ConfigStatus>) {
        self.configs.insert(id.name.clone(), status);
    }

    fn forget(&self, id: &ConfigId) {
        // An object of the same name that was created since stays.
        self.configs.remove_if(&id.name, |_, status| status.id == *id);
    }
}

impl ConfigReader for ConfigBoard {
    fn configs(&self) -> Vec<Arc<ConfigStatus>> {
        self.configs.iter().map(|entry| Arc::clone(entry.value())).collect()
    }
}
