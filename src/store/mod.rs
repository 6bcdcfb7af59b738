//! Where the inventory is kept: one JSON file, or nowhere.
//!
//! `format` knows what the file says, `disk` how a file is replaced without ever being less than
//! whole, `file` puts both behind [`Store`].

mod disk;
mod file;
mod format;
mod lenient;
mod metered;

use std::sync::Arc;

use multinic_actors::boundary::{BoxFuture, Loaded, Saved, Store, StoreError};
use multinic_actors::domain::inventory::Snapshot;

pub use file::{JsonFileStore, previous_of, read};
pub use format::{FORMAT_VERSION, FormatError, decode, encode};
pub use metered::MeteredStore;

/// The store of a disabled inventory: what was delivered is remembered until the process ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryStore;

impl Store for MemoryStore {
    fn load(&self) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        Box::pin(async { Ok(Loaded::default()) })
    }

    fn save(&self, _snapshot: Arc<Snapshot>) -> BoxFuture<'_, Result<Saved, StoreError>> {
        Box::pin(async { Ok(Saved::Everywhere) })
    }
}
