//! Follows the `OpenstackConfig` objects of an API server: lists them, then watches from there on.
//!
//! Objects go only when the API server says so. While it is away, or does not know the resource, what is known
//! goes on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Client, Resource};
use multinic_actors::domain::backoff::{Backoff, BackoffPolicy};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::client::{CallError, bounded};
use super::known::{Known, Scope};
use super::openstack_config::OpenstackConfig;
use super::secrets::KubeSecrets;
use super::validate::Defaults;
use super::watch_health::{Trouble, WatchHealth};
use crate::source_dir::{SourceEvent, SourceEvents, SourceSender, channel};

/// Pauses after trouble. A watch that lasts ends the row.
const RETRY: BackoffPolicy = BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(30));
/// A watch that ends sooner was no good: a pause before the next one.
const LASTING: Duration = Duration::from_secs(10);
/// How long the API server is asked to keep a watch open, in seconds.
const WATCH_SECONDS: u32 = 240;
/// Nothing, not even a bookmark, for so long: the connection may be dead.
const SILENCE: Duration = Duration::from_secs(90);
/// Objects a page of a list.
const PAGE: u32 = 500;

/// The watched objects. They are watched until this is dropped.
pub struct KubeSource {
    client: Client,
    tasks: Vec<JoinHandle<()>>,
    health: WatchHealth,
}

impl KubeSource {
    /// Follows the objects of these namespaces, or of all if none is named. Returns at once: the API server may
    /// still be away.
    pub fn start(client: &Client, namespaces: &[String], defaults: Defaults) -> (Self, SourceEvents) {
        let scopes: Vec<Scope> = match namespaces {
            [] => vec![None],
            names => names.iter().cloned().map(Some).collect(),
        };
        let health = WatchHealth::new(scopes.iter().cloned());
        let (sender, events) = channel();
        let told = Arc::new(Told { known: Mutex::new(Known::new(defaults, scopes.iter().cloned())), sender });
        let follow = |scope: Scope| {
            let follower = Follower {
                api: api(client, scope.as_deref()),
                scope,
                told: Arc::clone(&told),
                health: health.clone(),
            };
            tokio::spawn(follower.run())
        };
        let tasks = scopes.into_iter().map(follow).collect();
        (Self { client: client.clone(), tasks, health }, events)
    }

    /// The Secrets of the cluster.
    pub fn secrets(&self) -> KubeSecrets {
        KubeSecrets::new(self.client.clone())
    }

    /// How the watch is.
    pub fn health(&self) -> WatchHealth {
        self.health.clone()
    }
}

impl Drop for KubeSource {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Objects as they stand there: one that does not decode must not take the others with it.
fn api(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<OpenstackConfig>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// What was told, by all scopes together.
struct Told {
    known: Mutex<Known>,
    sender: SourceSender,
}

impl Told {
    /// Sent under the lock, so that the order stays.
    fn tell(&self, events: impl FnOnce(&mut Known) -> Vec<SourceEvent>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events(&mut known) {
            self.sender.send(event);
        }
    }
}

/// Follows one scope.
struct Follower {
    api: Api<DynamicObject>,
    scope: Scope,
    told: Arc<Told>,
    health: WatchHealth,
}

/// How a watch ended.
enum End {
    /// As watches do: go on from where it was.
    Closed,
    /// What lies between is lost: list again.
    Gone,
    /// The API server refused.
    Refused(Trouble),
    /// The connection broke or was never made.
    Away(Trouble),
}

impl From<CallError> for End {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused { code: 410, .. } => Self::Gone,
            error @ CallError::Refused { .. } => Self::Refused(trouble(error)),
            error @ CallError::Away(_) => Self::Away(trouble(error)),
        }
    }
}

fn trouble(error: CallError) -> Trouble {
    match error {
        CallError::Refused { code: 404, .. } => {
            let plural = OpenstackConfig::plural(&());
            Trouble::NoResource(format!(
                "the CustomResourceDefinition {plural}.{} is not installed; it is waited for \
                 (`multinic-operator crd | kubectl apply -f -` installs it)",
                OpenstackConfig::group(&())
            ))
        }
        CallError::Refused { code: 403, message } => {
            Trouble::Forbidden(format!("the API server does not allow it (yet): {message}"))
        }
        error => Trouble::Away(error.to_string()),
    }
}

impl Follower {
    async fn run(self) {
        let _ended = self.health.watch_end(&self.scope);
        let mut backoff = Backoff::new(RETRY, rand::random(), std::time::Instant::now());
        let mut version = None;
        loop {
            let from = match version.take() {
                Some(version) => version,
                None => match self.list().await {
                    Ok(version) => version,
                    Err(error) => {
                        self.health.bad(&self.scope, trouble(error));
                        pause(&mut backoff).await;
                        continue;
                    }
                },
            };
            let began = Instant::now();
            let (end, reached) = self.watch(from).await;
            match end {
                End::Closed => version = Some(reached),
                End::Gone => {}
                End::Refused(trouble) => self.health.bad(&self.scope, trouble),
                End::Away(trouble) => {
                    self.health.bad(&self.scope, trouble);
                    version = Some(reached);
                }
            }
            if began.elapsed() >= LASTING {
                backoff.reset(std::time::Instant::now());
            } else {
                pause(&mut backoff).await;
            }
        }
    }

    /// Lists everything and tells it; the version that the list is of.
    async fn list(&self) -> Result<String, CallError> {
        let mut objects = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = bounded(self.api.list(&params)).await?;
            objects.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => {
                    self.told.tell(|known| known.listed(&self.scope, &objects));
                    self.health.listed(&self.scope);
                    return Ok(page.metadata.resource_version.unwrap_or_default());
                }
            }
        }
    }

    /// Watches from a version on, until the watch ends; the version that was reached.
    async fn watch(&self, from: String) -> (End, String) {
        let mut version = from;
        let params = WatchParams::default().timeout(WATCH_SECONDS);
        let stream = match bounded(self.api.watch(&params, &version)).await {
            Ok(stream) => stream,
            Err(error) => return (error.into(), version),
        };
        self.health.good(&self.scope);
        let mut stream = std::pin::pin!(stream);
        loop {
            let event = match timeout(SILENCE, stream.next()).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => return (CallError::from(error).into(), version),
                Ok(None) | Err(_) => return (End::Closed, version),
            };
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.told.tell(|known| known.applied(&object));
                    advance(&mut version, object.metadata.resource_version);
                }
                WatchEvent::Deleted(object) => {
                    self.told.tell(|known| known.deleted(&object));
                    advance(&mut version, object.metadata.resource_version);
                }
                WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => {
                    let error = CallError::Refused { code: status.code, message: status.message.clone() };
                    return (error.into(), version);
                }
            }
        }
    }
}

fn advance(version: &mut String, to: Option<String>) {
    if let Some(to) = to {
        *version = to;
    }
}

async fn pause(backoff: &mut Backoff) {
    tokio::time::sleep(backoff.next(std::time::Instant::now())).await;
}
