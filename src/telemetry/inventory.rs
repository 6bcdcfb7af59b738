//! What the inventory actor says of its store, as metrics.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use multinic_actors::inventory::InventoryHandle;

use super::families::{Collector, Families};
use super::names;

/// Changes that no store has yet; none on a replica that stands by.
#[derive(Default)]
pub struct InventoryMetrics(Mutex<Option<InventoryHandle>>);

impl fmt::Debug for InventoryMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InventoryMetrics")
    }
}

impl InventoryMetrics {
    /// This inventory counts from now on, or none.
    pub fn set(&self, inventory: Option<InventoryHandle>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = inventory;
    }
}

impl Collector for InventoryMetrics {
    fn collect(&self, families: &mut Families) {
        let inventory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unpersisted = inventory.as_ref().map_or(0, |inventory| inventory.health().unpersisted);
        families.sample(names::INVENTORY_UNPERSISTED, "", unpersisted as f64);
    }
}
