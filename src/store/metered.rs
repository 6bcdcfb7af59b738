//! Counts and times what a store does.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use metrics::{counter, gauge, histogram};
use multinic_actors::boundary::{BoxFuture, Loaded, Saved, Store, StoreError};
use multinic_actors::domain::inventory::Snapshot;

use crate::telemetry::names;

/// Any store, with metrics.
#[derive(Clone, Debug)]
pub struct MeteredStore<S>(pub S);

impl<S: Store> Store for MeteredStore<S> {
    fn load(&self) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        Box::pin(async move {
            let loaded = self.0.load().await?;
            gauge!(names::INVENTORY_RECORDS).set(loaded.snapshot.records.len() as f64);
            Ok(loaded)
        })
    }

    fn save(&self, snapshot: Arc<Snapshot>) -> BoxFuture<'_, Result<Saved, StoreError>> {
        Box::pin(async move {
            let records = snapshot.records.len();
            let started = Instant::now();
            let result = self.0.save(snapshot).await;
            histogram!(names::INVENTORY_PERSIST_DURATION).record(started.elapsed().as_secs_f64());
            let is_kept = matches!(result, Ok(Saved::Everywhere));
            let word = if is_kept { "ok" } else { "error" };
            counter!(names::INVENTORY_PERSISTS, "result" => word).increment(1);
            if is_kept {
                gauge!(names::INVENTORY_RECORDS).set(records as f64);
                let now = Timestamp::now().as_duration().as_secs_f64();
                gauge!(names::INVENTORY_LAST_PERSIST).set(now);
            }
            result
        })
    }
}
