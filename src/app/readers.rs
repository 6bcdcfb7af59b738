//! The views that the HTTP routes read, over what the tree publishes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use multinic_actors::domain::inventory::Snapshot;
use multinic_actors::inventory::InventoryHandle;
use multinic_actors::supervision::Tree;

use super::objects::watch_check;
use crate::http::{Check, HealthReader, InventoryReader, TreeReader};
use crate::kube::watch::WatchHealth;

/// What readers may see of the inventory.
pub(super) struct PublishedInventory {
    inventory: InventoryHandle,
    is_enabled: bool,
}

impl PublishedInventory {
    pub(super) fn new(inventory: InventoryHandle, is_enabled: bool) -> Self {
        Self { inventory, is_enabled }
    }
}

impl InventoryReader for PublishedInventory {
    fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let is_readable = self.is_enabled && self.inventory.health().is_loaded;
        is_readable.then(|| self.inventory.snapshot())
    }
}

/// The supervision tree as JSON.
pub(super) struct TreeView(pub(super) Tree);

impl TreeReader for TreeView {
    fn tree(&self) -> serde_json::Value {
        // Text, numbers and lists only: that cannot fail.
        serde_json::to_value(self.0.snapshot()).unwrap_or_default()
    }
}

/// How the process is.
pub(super) struct Health {
    inventory: InventoryHandle,
    tree: Tree,
    is_inventory_enabled: bool,
    files: Mutex<BTreeMap<PathBuf, String>>,
    /// Of the cluster, where there is one instead of a folder.
    watch: Option<Arc<WatchHealth>>,
}

impl Health {
    pub(super) fn new(
        inventory: InventoryHandle,
        tree: Tree,
        is_inventory_enabled: bool,
        watch: Option<Arc<WatchHealth>>,
    ) -> Self {
        Self { inventory, tree, is_inventory_enabled, files: Mutex::default(), watch }
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, String>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file of the config folder cannot be used as it is, or can again.
    pub(super) fn note_file(&self, path: &Path, problem: Option<String>) {
        match problem {
            Some(problem) => self.files().insert(path.to_owned(), problem),
            None => self.files().remove(path),
        };
    }

    fn inventory_check(&self) -> Check {
        let health = self.inventory.health();
        let message = match (&health.problem, self.is_inventory_enabled) {
            (Some(problem), _) => Some(problem.clone()),
            (None, false) => Some("disabled: deliveries are remembered until the restart only".to_owned()),
            (None, true) if !health.is_loaded => Some("being read".to_owned()),
            (None, true) if health.warnings.is_empty() => None,
            (None, true) => Some(health.warnings.join("; ")),
        };
        // Not read: nothing is delivered. Not written: deliveries go on from memory.
        let (ok, required) = match health.is_loaded {
            false => (false, true),
            true => (health.problem.is_none(), false),
        };
        Check { name: "inventory".to_owned(), ok, required, message }
    }

    fn configs_check(&self) -> Check {
        if let Some(watch) = &self.watch {
            return watch_check(watch);
        }
        let problems: Vec<String> =
            self.files().iter().map(|(path, problem)| format!("{}: {problem}", path.display())).collect();
        Check {
            name: "config-dir".to_owned(),
            ok: problems.is_empty(),
            required: false,
            message: (!problems.is_empty()).then(|| problems.join("; ")),
        }
    }
}

impl HealthReader for Health {
    fn alive(&self) -> Result<(), String> {
        Ok(())
    }

    fn checks(&self) -> Vec<Check> {
        let phase = self.tree.snapshot().phase;
        let root = Check {
            name: "root".to_owned(),
            ok: phase == "running",
            required: true,
            message: (phase != "running").then_some(phase),
        };
        vec![root, self.inventory_check(), self.configs_check()]
    }
}
