//! What is shown of a reign: as long as it lasts, and no longer.

use std::sync::Arc;

use multinic_actors::inventory::InventoryHandle;
use multinic_actors::supervision::Tree;

use super::configs::ConfigMetrics;
use super::families::Collector;
use super::inventory::InventoryMetrics;
use super::names;
use super::recorder::MetricsHandle;
use super::tree::{HandleTimes, TreeMetrics};

/// The metrics of the reigns of this process, one after the other.
#[derive(Clone, Debug)]
pub struct ReignMetrics {
    metrics: MetricsHandle,
    /// Those of the configs.
    pub configs: Arc<ConfigMetrics>,
    /// How long actors take.
    pub handling: Arc<HandleTimes>,
    tree: Arc<TreeMetrics>,
    inventory: Arc<InventoryMetrics>,
}

impl ReignMetrics {
    /// No reign yet.
    pub fn new(metrics: &MetricsHandle) -> Self {
        Self {
            metrics: metrics.clone(),
            configs: Arc::new(ConfigMetrics::new(metrics.clone())),
            handling: Arc::new(HandleTimes(metrics.clone())),
            tree: Arc::default(),
            inventory: Arc::default(),
        }
    }

    /// What is read at each scrape.
    pub fn collectors(&self) -> [Arc<dyn Collector>; 3] {
        [Arc::clone(&self.configs) as _, Arc::clone(&self.tree) as _, Arc::clone(&self.inventory) as _]
    }

    /// A reign begins.
    pub fn begin(&self, tree: &Tree, inventory: &InventoryHandle) {
        self.tree.set(Some(tree.clone()));
        self.inventory.set(Some(inventory.clone()));
    }

    /// It is over: another replica shows the configs now.
    pub fn end(&self) {
        self.configs.stand_by();
        self.tree.set(None);
        self.inventory.set(None);
        self.metrics.gauge(names::INVENTORY_RECORDS, &[], 0.0);
    }
}
