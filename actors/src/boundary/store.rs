use std::sync::Arc;

use super::BoxFuture;
use crate::domain::inventory::Snapshot;

/// Where the inventory is kept.
pub trait Store: Send + Sync + 'static {
    /// Reads what was kept. A damaged file is set aside and reported in the warnings, not an error.
    fn load(&self) -> BoxFuture<'_, Result<Loaded, StoreError>>;

    /// Keeps `snapshot` durably: when this returns [`Saved::Everywhere`], a crash does not lose it.
    fn save(&self, snapshot: Arc<Snapshot>) -> BoxFuture<'_, Result<Saved, StoreError>>;
}

/// What [`Store::load`] found.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The inventory; empty if there was none.
    pub snapshot: Snapshot,
    /// What was wrong and what was done about it.
    pub warnings: Vec<String>,
}

/// How far a snapshot that was written is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    /// In every store in use.
    Everywhere,
    /// One of several stores refuses it: with what. That store is tried again, and holds back no other.
    InPart(String),
}

/// The store could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);
