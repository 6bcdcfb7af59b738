//! A store and the states in the cluster behind one [`Store`].

use std::sync::Arc;

use multinic_actors::boundary::{BoxFuture, Loaded, Saved, Store, StoreError};
use multinic_actors::domain::inventory::Snapshot;

use super::maps::StateMaps;

/// Keeps every snapshot in `store` and, per config, in the cluster. Only `store` is loaded from: the states are
/// read by the [gate](super::gate), one by one.
#[derive(Debug)]
pub struct StoreWithStates<S> {
    /// The file, or nothing.
    pub store: S,
    /// The states in the cluster.
    pub maps: Arc<StateMaps>,
}

impl<S: Store> Store for StoreWithStates<S> {
    fn load(&self) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        self.store.load()
    }

    fn save(&self, snapshot: Arc<Snapshot>) -> BoxFuture<'_, Result<Saved, StoreError>> {
        Box::pin(async move {
            let (kept, states) =
                tokio::join!(self.store.save(Arc::clone(&snapshot)), self.maps.save(snapshot));
            Ok(match (kept?, states) {
                (Saved::Everywhere, Ok(())) => Saved::Everywhere,
                (Saved::InPart(problem), _) | (Saved::Everywhere, Err(problem)) => Saved::InPart(problem),
            })
        })
    }
}
