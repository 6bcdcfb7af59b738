//! A list, then a watch from there on, for ever: the node configs of one namespace, and the cluster's nodes.
//!
//! Nothing is told of a watch that breaks: only what cannot be listed or watched again is away.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use kube::api::{Api, ListParams, WatchParams};
use kube::core::WatchEvent;
use kube::{Client, Resource};
use multinic_actors::domain::backoff::{Backoff, BackoffPolicy, Jitter, seed_for};
use serde::de::DeserializeOwned;

use super::access::Access;
use super::cluster::Cluster;
use super::objects::{MachineNode, NodeConfigObject};
use crate::kube::client::{CallError, call};
use crate::telemetry::names;

/// Pauses before a cluster that does not answer is asked again. A cluster that is gone for good costs one
/// request in half a minute.
const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(30),
    multiplier: 2.0,
    jitter: 0.3,
};
/// How long the API server is asked to let a watch last. A connection that died without a word, and a kubeconfig
/// that is another one, are noticed when this is over.
const WATCH_SECONDS: Duration = Duration::from_secs(150);
/// What a watch may last longer than it was asked to before it counts as dead.
const WATCH_GRACE: Duration = Duration::from_secs(15);
/// The deadline of one page of a list, and of the answer to a watch's request.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// A watch that has lasted this long works.
const SETTLED: Duration = Duration::from_secs(5);
/// Objects on a page of a list, as in client-go.
const PAGE: u32 = 500;

/// Follows the node configs of a namespace.
pub(super) async fn node_configs(access: Arc<Access>, cluster: Arc<Cluster>, namespace: String, seed: u64) {
    let api = move |client: Client| Api::<NodeConfigObject>::namespaced(client, &namespace);
    let seed = seed_for(seed, "node configs");
    Follower { access, api, sink: NodeConfigs(cluster) }.run(seed).await;
}

/// Follows the cluster's nodes.
pub(super) async fn nodes(access: Arc<Access>, cluster: Arc<Cluster>, seed: u64) {
    let seed = seed_for(seed, "nodes");
    Follower { access, api: Api::<MachineNode>::all, sink: Machines(cluster) }.run(seed).await;
}

/// What takes in what is seen.
trait Sink: Send + Sync {
    /// The kind of object.
    type Object: Resource<DynamicType = ()> + DeserializeOwned + Clone + fmt::Debug + Send + 'static;

    /// These are all there are, as of `version`.
    fn listed(&self, version: &str, objects: Vec<Self::Object>);
    /// This one is there.
    fn applied(&self, object: &Self::Object);
    /// This one is gone.
    fn deleted(&self, object: &Self::Object);
    /// They can be listed and watched.
    fn well(&self);
    /// They cannot.
    fn troubled(&self, trouble: &Trouble);
}

/// Why something cannot be looked at.
enum Trouble {
    /// No client can be made.
    Access(String),
    /// A call failed.
    Call(CallError),
}

impl From<CallError> for Trouble {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl Trouble {
    fn code(&self) -> Option<u16> {
        match self {
            Self::Access(_) => None,
            Self::Call(error) => error.code(),
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Access(problem) => problem.clone(),
            Self::Call(error) => error.detail(),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(problem) => f.write_str(problem),
            Self::Call(error) => error.fmt(f),
        }
    }
}

/// How a watch ended that had begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// As it was asked to, or after it had worked for a while.
    InOrder,
    /// Before it could be said to work.
    AtOnce,
    /// What happened since is no longer known: everything is listed anew.
    Gone,
}

struct Follower<S, A> {
    access: Arc<Access>,
    api: A,
    sink: S,
}

impl<S: Sink, A: Fn(Client) -> Api<S::Object>> Follower<S, A> {
    async fn run(self, seed: u64) {
        let mut backoff = Backoff::new(RETRY, seed, Instant::now());
        let mut jitter = Jitter::new(seed);
        let mut version = None;
        let kind = S::Object::kind(&()).into_owned();
        loop {
            let lasting = jitter.spread(WATCH_SECONDS, 0.2);
            let pause = match self.follow(&mut version, lasting, &kind).await {
                Ok(Ended::InOrder) => {
                    backoff.reset(Instant::now());
                    Duration::ZERO
                }
                Ok(ended) => {
                    if ended == Ended::Gone {
                        version = None;
                    }
                    backoff.next(Instant::now())
                }
                Err(trouble) => {
                    // What is refused as a whole may be so for what it starts from.
                    if trouble.code().is_none_or(|code| code != 429 && code < 500) {
                        version = None;
                    }
                    self.sink.troubled(&trouble);
                    backoff.next(Instant::now())
                }
            };
            metrics::counter!(names::WATCH_RESTARTS, "kind" => kind.clone()).increment(1);
            tokio::time::sleep(pause).await;
        }
    }

    /// Lists, unless it is known where to go on, and watches once.
    async fn follow(
        &self,
        version: &mut Option<String>,
        lasting: Duration,
        kind: &str,
    ) -> Result<Ended, Trouble> {
        let api = (self.api)(self.access.client().await.map_err(Trouble::Access)?);
        let start = match version.clone() {
            Some(version) => version,
            None => self.list(&api).await?,
        };
        let params = WatchParams::default().timeout(lasting.as_secs() as u32);
        let watch = call(LIST_TIMEOUT, api.watch(&params, &start)).await;
        let stream = match watch {
            Err(error) if error.code() == Some(410) => return Ok(Ended::Gone),
            watch => watch?,
        };
        *version = Some(start);
        self.sink.well();
        let begun = Instant::now();
        let dead = tokio::time::sleep(lasting + WATCH_GRACE);
        tokio::pin!(stream, dead);
        loop {
            let event = tokio::select! {
                event = stream.try_next() => event.map_err(CallError::from),
                () = &mut dead => Err(CallError::TimedOut),
            };
            let event = match event {
                Ok(Some(event)) => event,
                // Ending the watch would bring the same event again, and keep the others from coming.
                Err(CallError::Unreadable(detail)) => {
                    tracing::error!("an event about a {kind} is left out: {detail}");
                    continue;
                }
                Err(error) if error.code() == Some(410) => return Ok(Ended::Gone),
                Ok(None) | Err(_) => {
                    return Ok(if begun.elapsed() >= SETTLED { Ended::InOrder } else { Ended::AtOnce });
                }
            };
            metrics::counter!(names::WATCH_EVENTS, "kind" => kind.to_owned()).increment(1);
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    *version = object.meta().resource_version.clone().or(version.take());
                    self.sink.applied(&object);
                }
                WatchEvent::Deleted(object) => {
                    *version = object.meta().resource_version.clone().or(version.take());
                    self.sink.deleted(&object);
                }
                WatchEvent::Bookmark(bookmark) => *version = Some(bookmark.metadata.resource_version),
                WatchEvent::Error(_) => return Ok(Ended::Gone),
            }
        }
    }

    /// Tells every object there is; the version to watch from.
    async fn list(&self, api: &Api<S::Object>) -> Result<String, Trouble> {
        let mut objects = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        let version = loop {
            let page = call(LIST_TIMEOUT, api.list(&params)).await?;
            objects.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break page.metadata.resource_version,
            }
        };
        let version = version.filter(|version| !version.is_empty());
        let version = version.ok_or_else(|| CallError::Unreadable("a list without a version".to_owned()))?;
        self.sink.listed(&version, objects);
        Ok(version)
    }
}

struct NodeConfigs(Arc<Cluster>);

/// Versions of one server are numbers that grow, although clients are not told so before Kubernetes 1.35.
pub(super) fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

fn name_of(object: &impl Resource) -> String {
    object.meta().name.clone().unwrap_or_default()
}

impl Sink for NodeConfigs {
    type Object = NodeConfigObject;

    fn listed(&self, version: &str, objects: Vec<NodeConfigObject>) {
        let told = |object: &NodeConfigObject| {
            (name_of(object), number(object.metadata.resource_version.as_deref()), object.found())
        };
        self.0.listed(number(Some(version)), objects.iter().map(told).collect());
    }

    fn applied(&self, object: &NodeConfigObject) {
        let version = number(object.metadata.resource_version.as_deref());
        self.0.applied(name_of(object), version, object.found());
    }

    fn deleted(&self, object: &NodeConfigObject) {
        self.0.deleted(name_of(object), number(object.metadata.resource_version.as_deref()));
    }

    fn well(&self) {
        self.0.well();
    }

    fn troubled(&self, trouble: &Trouble) {
        let problem = match trouble.code() {
            Some(404) => {
                "it does not know MultiNicNodeConfig: install its CustomResourceDefinition there".to_owned()
            }
            _ => trouble.to_string(),
        };
        self.0.troubled(&problem, &trouble.detail());
    }
}

struct Machines(Arc<Cluster>);

impl Sink for Machines {
    type Object = MachineNode;

    fn listed(&self, _version: &str, objects: Vec<MachineNode>) {
        self.0.change_nodes(|machines| {
            let mut all = multinic_actors::domain::machines::Machines::default();
            for node in &objects {
                all.insert(&name_of(node), node.system_uuid());
            }
            let is_news = *machines != all;
            *machines = all;
            is_news
        });
    }

    fn applied(&self, node: &MachineNode) {
        self.0.change_nodes(|machines| machines.insert(&name_of(node), node.system_uuid()));
    }

    fn deleted(&self, node: &MachineNode) {
        self.0.change_nodes(|machines| machines.remove(&name_of(node)));
    }

    fn well(&self) {}

    fn troubled(&self, trouble: &Trouble) {
        self.0.without_nodes(&trouble.detail());
    }
}
