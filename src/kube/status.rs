//! Writes the state of each config into its object's status.
//!
//! Newest wins: while a write is under way or waits for another try, newer states take the place of older ones.
//! What is written by server-side apply conflicts with nobody, and goes to the status subresource only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Resource};
use multinic_actors::boundary::{Clock, StatusSink};
use multinic_actors::domain::backoff::{Backoff, BackoffPolicy};
use multinic_actors::domain::ids::ConfigId;
use multinic_actors::domain::status::ConfigStatus;
use serde_json::json;
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinHandle;

use super::client::{CallError, bounded};
use super::openstack_config::{OpenstackConfig, OpenstackConfigStatus};
use super::status_object::{differs_in_time_only, status_of};

/// Who writes, for the API server's record of owned fields.
const MANAGER: &str = "multinic-operator";
/// Writes at the same time.
const WRITERS: usize = 4;
/// The time of the last success alone is not written more often.
const TIME_ONLY: Duration = Duration::from_secs(120);
/// Pauses after a write that failed.
const RETRY: BackoffPolicy = BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(60));

/// Writes statuses until it is dropped.
pub struct KubeStatus {
    shared: Arc<Shared>,
    writers: Vec<JoinHandle<()>>,
}

struct Shared {
    client: Client,
    clock: Arc<dyn Clock>,
    entries: Mutex<HashMap<ConfigId, Entry>>,
    queue: mpsc::UnboundedSender<ConfigId>,
}

/// One object. It stands in the queue, is being written or waits for another try at most once.
struct Entry {
    newest: Arc<ConfigStatus>,
    is_dirty: bool,
    is_scheduled: bool,
    written: Option<Written>,
    backoff: Backoff,
}

#[derive(Clone)]
struct Written {
    status: OpenstackConfigStatus,
    at: Instant,
}

impl KubeStatus {
    /// Writes to the cluster that the client leads to.
    pub fn start(client: Client, clock: Arc<dyn Clock>) -> Self {
        // Bounded by the number of objects: none is in it twice.
        let (queue, waiting) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared { client, clock, entries: Mutex::default(), queue });
        let waiting = Arc::new(AsyncMutex::new(waiting));
        let writer = |_| tokio::spawn(write_all(Arc::clone(&shared), Arc::clone(&waiting)));
        let writers = (0..WRITERS).map(writer).collect();
        Self { shared, writers }
    }
}

impl Drop for KubeStatus {
    fn drop(&mut self) {
        for writer in &self.writers {
            writer.abort();
        }
    }
}

impl StatusSink for KubeStatus {
    fn publish(&self, id: &ConfigId, status: Arc<ConfigStatus>) {
        let mut entries = self.shared.entries();
        let entry = entries.entry(id.clone()).or_insert_with(|| Entry {
            newest: Arc::clone(&status),
            is_dirty: true,
            is_scheduled: false,
            written: None,
            backoff: Backoff::new(RETRY, rand::random(), Instant::now()),
        });
        entry.newest = status;
        entry.is_dirty = true;
        if !entry.is_scheduled {
            entry.is_scheduled = true;
            let _ = self.shared.queue.send(id.clone());
        }
    }

    fn forget(&self, id: &ConfigId) {
        self.shared.entries().remove(id);
    }
}

async fn write_all(shared: Arc<Shared>, waiting: Arc<AsyncMutex<mpsc::UnboundedReceiver<ConfigId>>>) {
    loop {
        let next = waiting.lock().await.recv().await;
        let Some(id) = next else { return };
        let Some((state, written)) = shared.take(&id) else { continue };
        let outcome = shared.write(&id, &state, written).await;
        shared.settle(id, outcome);
    }
}

impl Shared {
    fn entries(&self) -> MutexGuard<'_, HashMap<ConfigId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, id: &ConfigId) -> Option<(Arc<ConfigStatus>, Option<Written>)> {
        let mut entries = self.entries();
        let entry = entries.get_mut(id)?;
        entry.is_dirty = false;
        Some((Arc::clone(&entry.newest), entry.written.clone()))
    }

    /// What stands in the object's status now; `None` when the object is gone.
    async fn write(
        &self,
        id: &ConfigId,
        state: &ConfigStatus,
        written: Option<Written>,
    ) -> Result<Option<Written>, CallError> {
        let resource = ApiResource::erase::<OpenstackConfig>(&());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &id.name.namespace, &resource);
        let before = match written {
            Some(written) => Some(written),
            None => match bounded(api.get_opt(&id.name.name)).await? {
                Some(object) if object.metadata.uid.as_deref() == Some(&*id.uid) => read(&object),
                _ => return Ok(None),
            },
        };
        let status = status_of(state, before.as_ref().map(|before| &before.status), self.clock.now());
        if let Some(before) = before
            && (before.status == status
                || before.at.elapsed() < TIME_ONLY && differs_in_time_only(&before.status, &status))
        {
            return Ok(Some(before));
        }
        let body = json!({
            "apiVersion": OpenstackConfig::api_version(&()),
            "kind": OpenstackConfig::kind(&()),
            // With the uid, so that an object of the same name that came later is not taken for this one.
            "metadata": {"name": &*id.name.name, "namespace": &*id.name.namespace, "uid": &*id.uid},
            "status": &status,
        });
        let params = PatchParams::apply(MANAGER).force();
        match bounded(api.patch_status(&id.name.name, &params, &Patch::Apply(&body))).await {
            Ok(_) => Ok(Some(Written { status, at: Instant::now() })),
            Err(CallError::Refused { code: 404 | 409, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn settle(&self, id: ConfigId, outcome: Result<Option<Written>, CallError>) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&id) else { return };
        let pause = match outcome {
            Ok(written) => {
                if entry.backoff.attempts() > 0 {
                    tracing::info!(config = %id.name, "its status is written again");
                }
                entry.backoff.reset(Instant::now());
                entry.written = written;
                entry.is_scheduled = entry.is_dirty;
                Duration::ZERO
            }
            Err(error) => {
                if entry.backoff.attempts() == 0 {
                    tracing::warn!(config = %id.name, "its status cannot be written: {error}");
                }
                entry.is_scheduled = true;
                entry.backoff.next(Instant::now())
            }
        };
        if !entry.is_scheduled {
            return;
        }
        let queue = self.queue.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let _ = queue.send(id);
        });
    }
}

/// The status that stands in an object. One that is not understood counts as none. When it was written is not
/// known, so the time of the last success may be written at once.
fn read(object: &DynamicObject) -> Option<Written> {
    let status = serde_json::from_value(object.data.get("status")?.clone()).ok()?;
    let now = Instant::now();
    Some(Written { status, at: now.checked_sub(TIME_ONLY).unwrap_or(now) })
}
