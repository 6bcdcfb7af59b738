//! What the routes read.

use std::sync::Arc;

use multinic_actors::domain::inventory::Snapshot;
use multinic_actors::domain::status::ConfigStatus;
use serde::Serialize;

/// The inventory as it was persisted.
pub trait InventoryReader: Send + Sync + 'static {
    /// The newest persisted inventory; `None` while it is disabled or not loaded.
    fn snapshot(&self) -> Option<Arc<Snapshot>>;
}

/// The state of the configs.
pub trait ConfigReader: Send + Sync + 'static {
    /// All of them, in any order.
    fn configs(&self) -> Vec<Arc<ConfigStatus>>;
}

/// The supervision tree.
pub trait TreeReader: Send + Sync + 'static {
    /// `{kind,name,phase,restarts,lastError,children}`.
    fn tree(&self) -> serde_json::Value;
}

/// How the process is.
pub trait HealthReader: Send + Sync + 'static {
    /// Whether the process works at all; an error is a reason to restart it.
    ///
    /// # Errors
    /// What is wrong, when it does not.
    fn alive(&self) -> Result<(), String>;

    /// What readiness is made of.
    fn checks(&self) -> Vec<Check>;
}

/// One part of the readiness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What is looked at: `inventory`, `watch`, …
    pub name: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// Whether the process is not ready without it. A full disk is bad but no reason to be taken out.
    pub required: bool,
    /// What is wrong, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
