//! One list and watch after the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use jiff::Timestamp;
use kube::api::{Api, ListParams, WatchParams};
use kube::core::{ApiResource, DynamicObject, WatchEvent};
use kube::{Client, Resource};
use multinic_actors::domain::backoff::{Backoff, BackoffPolicy, Jitter, seed_for};
use multinic_actors::domain::config::Declared;
use multinic_actors::domain::ids::ConfigId;

use super::Scope;
use super::health::WatchHealth;
use super::tracker::Tracker;
use crate::kube::client::{CALL_TIMEOUT, CallError, call};
use crate::kube::label_selector::LabelSelector;
use crate::kube::observed::{Observed, ObservedStatuses};
use crate::kube::openstack_config::OpenstackConfig;
use crate::kube::raw_object::RawObject;
use crate::source::{SourceEvent, SourceSender};
use crate::telemetry::names;

/// Pauses before a watch is opened anew after it failed or ended at once.
const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    // What is changed meanwhile waits as long: one request in ten seconds is no burden to anybody.
    max: Duration::from_secs(10),
    multiplier: 2.0,
    // Replicas and namespaces must not come back in step with each other.
    jitter: 0.3,
};
/// How long the API server is asked to let a watch last. A connection that died without a word is noticed when
/// this is over, so it is a good deal shorter than client-go's five to ten minutes.
const WATCH_SECONDS: Duration = Duration::from_secs(150);
/// What a watch may last longer than it was asked to before it counts as dead.
const WATCH_GRACE: Duration = Duration::from_secs(15);
/// The deadline of one page of a list, and of the answer to a watch's request.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// A watch that has lasted this long works.
const SETTLED: Duration = Duration::from_secs(5);
/// Ends of watches before that in a row until people are told.
const MAX_QUICK_ENDS: u32 = 3;
/// Objects on a page of a list, as in client-go.
const PAGE: u32 = 500;
/// The label of this watch's metrics.
const KIND: &str = "OpenstackConfig";

/// Follows the objects of one scope.
pub(super) struct Follower {
    pub(super) client: Client,
    pub(super) scope: Scope,
    pub(super) selector: Option<LabelSelector>,
    pub(super) tracker: Arc<Mutex<Tracker>>,
    pub(super) sender: Arc<SourceSender>,
    pub(super) health: Arc<WatchHealth>,
    pub(super) observed: Arc<ObservedStatuses>,
}

/// How a watch ended.
enum Ended {
    /// As it was asked to, or by the server in good order; it goes on from where it was.
    InOrder,
    /// Before it could be said to work.
    AtOnce,
    /// What happened since is no longer known: everything is listed anew.
    Gone,
}

impl Follower {
    pub(super) async fn run(self, seed: u64) {
        let seed = seed_for(seed, &self.scope.to_string());
        let mut backoff = Backoff::new(RETRY, seed, Instant::now());
        let mut jitter = Jitter::new(seed);
        let mut version = None;
        let (mut quick_ends, mut was_gone) = (0, false);
        loop {
            let ended = self.follow(&mut version, &mut quick_ends, &mut backoff, &mut jitter).await;
            let is_gone = matches!(ended, Ok(Ended::Gone));
            let pause = match ended {
                Ok(Ended::InOrder) => Duration::ZERO,
                Ok(Ended::Gone) => {
                    version = None;
                    // Usual once after a restart of the API server; one that says so of each new list is not.
                    if was_gone { backoff.next(Instant::now()) } else { RETRY.initial }
                }
                Ok(Ended::AtOnce) => {
                    quick_ends += 1;
                    if quick_ends >= MAX_QUICK_ENDS {
                        let problem = "the API server ends each watch at once";
                        self.health.troubled(&self.scope, problem, problem);
                    }
                    backoff.next(Instant::now())
                }
                Err(error) => {
                    let (problem, detail) = describe(&error);
                    self.health.troubled(&self.scope, &problem, &detail);
                    // A watch that is refused as a whole may be so for what it starts from.
                    if error.code().is_some_and(|code| code != 429 && code < 500) {
                        version = None;
                    }
                    backoff.next(Instant::now())
                }
            };
            was_gone = is_gone;
            metrics::counter!(names::WATCH_RESTARTS, "kind" => KIND).increment(1);
            tokio::time::sleep(pause).await;
        }
    }

    /// Lists, unless it is known where to go on, and watches once.
    async fn follow(
        &self,
        version: &mut Option<String>,
        quick_ends: &mut u32,
        backoff: &mut Backoff,
        jitter: &mut Jitter,
    ) -> Result<Ended, CallError> {
        let start = match version.take() {
            Some(version) => version,
            None => match self.list().await {
                Err(error) if error.code() == Some(410) => return Ok(Ended::Gone),
                listed => listed?,
            },
        };
        let lasting = jitter.spread(WATCH_SECONDS, 0.2);
        let mut params = WatchParams::default().timeout(lasting.as_secs() as u32);
        params.label_selector = self.selector.as_ref().map(LabelSelector::to_string);
        *version = Some(start.clone());
        let watch = call(LIST_TIMEOUT, self.api().watch(&params, &start)).await;
        let stream = match watch {
            Err(error) if error.code() == Some(410) => return Ok(Ended::Gone),
            watch => watch?,
        };
        let settled = tokio::time::sleep(SETTLED);
        let dead = tokio::time::sleep(lasting + WATCH_GRACE);
        tokio::pin!(stream, settled, dead);
        if *quick_ends == 0 {
            self.health.well(&self.scope);
        }
        self.health.heard(&self.scope);
        let mut is_settled = false;
        loop {
            let event = tokio::select! {
                biased;
                event = stream.try_next() => match event.map_err(CallError::from) {
                    // Ending the watch would bring the same event again, and keep the others from coming.
                    Err(CallError::Unreadable(detail)) => {
                        tracing::error!("an event about an OpenstackConfig of {} is left out: {detail}", self.scope);
                        continue;
                    }
                    Err(error) if error.code() == Some(410) => return Ok(Ended::Gone),
                    event => event?,
                },
                () = &mut settled, if !is_settled => {
                    is_settled = true;
                    *quick_ends = 0;
                    backoff.reset(Instant::now());
                    self.health.well(&self.scope);
                    continue;
                }
                () = &mut dead => return Err(CallError::TimedOut),
            };
            let Some(event) = event else {
                return Ok(if is_settled { Ended::InOrder } else { Ended::AtOnce });
            };
            self.health.heard(&self.scope);
            match self.take(event).await {
                Ok(seen) => *version = seen.or(version.take()),
                Err(status) if status.code == 410 => return Ok(Ended::Gone),
                Err(status) => return Err(CallError::Refused(status)),
            }
        }
    }

    fn api(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<OpenstackConfig>(&());
        match &self.scope.0 {
            None => Api::all_with(self.client.clone(), &resource),
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    /// Tells every object there is; the version to watch from.
    async fn list(&self) -> Result<String, CallError> {
        let mut objects = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = self.selector.as_ref().map(LabelSelector::to_string);
        let version = loop {
            let page = call(LIST_TIMEOUT, self.api().list(&params)).await?;
            self.health.heard(&self.scope);
            objects.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break page.metadata.resource_version,
            }
        };
        let version = version.filter(|version| !version.is_empty());
        let version = version.ok_or_else(|| CallError::Unreadable("a list without a version".to_owned()))?;
        let raws = objects.iter().filter_map(|object| self.read(object)).collect();
        let gone = self.tell(|tracker| tracker.listed(&self.scope, raws), &objects);
        self.part_with(gone).await;
        self.health.listed(&self.scope);
        Ok(version)
    }

    /// The version that an event leads to.
    async fn take(
        &self,
        event: WatchEvent<DynamicObject>,
    ) -> Result<Option<String>, Box<kube::core::Status>> {
        let (object, is_there) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
            WatchEvent::Deleted(object) => (object, false),
            WatchEvent::Bookmark(bookmark) => return Ok(Some(bookmark.metadata.resource_version)),
            WatchEvent::Error(status) => return Err(status),
        };
        metrics::counter!(names::WATCH_EVENTS, "kind" => KIND).increment(1);
        metrics::gauge!(names::WATCH_LAST_EVENT, "kind" => KIND)
            .set(Timestamp::now().as_duration().as_secs_f64());
        let version = object.metadata.resource_version.clone();
        if let Some(raw) = self.read(&object) {
            let gone = match is_there {
                true => self.tell(|tracker| tracker.applied(raw), std::slice::from_ref(&object)),
                false => self.tell(|tracker| tracker.deleted(&raw), &[]),
            };
            self.part_with(gone).await;
        }
        Ok(version)
    }

    fn read(&self, object: &DynamicObject) -> Option<RawObject> {
        match RawObject::from_dynamic(object) {
            Ok(raw) => Some(raw),
            Err(problem) => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                tracing::error!("an OpenstackConfig {name:?} of {} is left out: {problem}", self.scope);
                None
            }
        }
    }

    /// Sends what `change` makes of it. What the objects' status says is noted before: whoever hears of an
    /// object may look it up at once. Where a selector selects, what has gone from the selection is not sent but
    /// returned: it may be there still.
    fn tell(
        &self,
        change: impl FnOnce(&mut Tracker) -> Vec<SourceEvent>,
        objects: &[DynamicObject],
    ) -> Vec<ConfigId> {
        let mut gone = Vec::new();
        let mut tracker = self.tracker.lock().unwrap_or_else(PoisonError::into_inner);
        let events = change(&mut tracker);
        let slow: HashMap<&ConfigId, Option<Duration>> = events.iter().filter_map(slow_interval).collect();
        for object in objects {
            self.note_status(object, &slow);
        }
        for event in events {
            if let SourceEvent::Delete(id) = &event {
                self.observed.forget(id);
                if self.selector.is_some() {
                    gone.push(id.clone());
                    continue;
                }
            }
            self.sender.send(event);
        }
        gone
    }

    /// Objects that a selector selects no more: deleted only if the API server says so.
    async fn part_with(&self, gone: Vec<ConfigId>) {
        let resource = ApiResource::erase::<OpenstackConfig>(&());
        for id in gone {
            let namespace = &id.name.namespace;
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
            let found = call(CALL_TIMEOUT, api.get_opt(&id.name.name)).await;
            self.sender.send(match found {
                Ok(None) => SourceEvent::Delete(id),
                Err(error) if error.code() == Some(404) => SourceEvent::Delete(id),
                // It changed hands, or that is not known: then nothing of it may go.
                Ok(Some(_)) | Err(_) => SourceEvent::LetGo(id),
            });
        }
    }

    fn note_status(&self, object: &DynamicObject, slow: &HashMap<&ConfigId, Option<Duration>>) {
        let meta = object.meta();
        let (Some(namespace), Some(name), Some(uid)) = (&meta.namespace, &meta.name, &meta.uid) else {
            return;
        };
        let id = ConfigId::new(namespace, name, uid);
        let slow = match slow.get(&id) {
            Some(slow) => *slow,
            // Its spec has not changed.
            None => self.observed.get(&id).and_then(|observed| observed.slow),
        };
        let status = object.data.get("status").cloned();
        let status = status.and_then(|status| serde_json::from_value(status).ok());
        self.observed.note(&id, Observed { status, slow });
    }
}

fn slow_interval(event: &SourceEvent) -> Option<(&ConfigId, Option<Duration>)> {
    match event {
        SourceEvent::Apply(Declared::Valid(config)) => Some((&config.id, Some(config.polling.slow))),
        SourceEvent::Apply(Declared::Invalid(invalid)) => Some((&invalid.id, None)),
        _ => None,
    }
}

/// What people are told, and what the log has beside it.
fn describe(error: &CallError) -> (String, String) {
    match error.code() {
        // Without the CRD there is no such path; an object of it cannot be meant.
        Some(404) => {
            let text = "the CustomResourceDefinition openstackconfigs.multinic.example.com is not there; install \
                        it, e.g. with `multinic-operator crd | kubectl apply -f -`";
            (text.to_owned(), text.to_owned())
        }
        _ => (error.to_string(), error.detail()),
    }
}
