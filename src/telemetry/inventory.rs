//! What the inventory actor says of its store, as metrics.

use std::fmt;

use multinic_actors::inventory::InventoryHandle;

use super::families::{Collector, Families};
use super::names;

/// Changes that no store has yet.
#[derive(Clone)]
pub struct InventoryMetrics(pub InventoryHandle);

impl fmt::Debug for InventoryMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InventoryMetrics")
    }
}

impl Collector for InventoryMetrics {
    fn collect(&self, families: &mut Families) {
        families.sample(names::INVENTORY_UNPERSISTED, "", self.0.health().unpersisted as f64);
    }
}
