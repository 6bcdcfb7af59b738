//! Which states lie in the cluster and which must be written: the bookkeeping, and the writer's task.
//!
//! [`StateMaps::save`] offers a snapshot and waits, but not for long: while the API server is away every caller
//! is told so at once, and the newest snapshot is written when it is back. Only configs that were admitted by
//! the [gate](super::gate) are written: of all others it is not known what the cluster has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use multinic_actors::domain::backoff::{Backoff, BackoffPolicy, seed_for};
use multinic_actors::domain::ids::ConfigName;
use multinic_actors::domain::inventory::Snapshot;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::api::StateApi;
use super::layout::Sizes;
use super::write::{Outcome, write};

/// Writes at the same time: a change of a whole fleet must not be a burst on the API server.
const MAX_IN_FLIGHT: usize = 8;
/// Pauses between tries after a failure.
const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(30),
    multiplier: 2.0,
    jitter: 0.3,
};
/// How long a caller waits for an API server that is slow; less than the inventory waits for a write.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of the state of one config in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The version of the head; `None`: there is none.
    pub(super) version: Option<String>,
    /// The revision that lies there.
    pub(super) revision: Option<u64>,
    /// The parts that the head names.
    pub(super) parts: Vec<String>,
    /// Parts that are no longer named and are still to be removed.
    pub(super) leftovers: Vec<String>,
}

/// How far the writer is.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// The newest offer that was worked on to its end.
    done: u64,
    /// What fails at the moment.
    problem: Option<String>,
}

/// The states of the configs in the cluster. Its task ends with it.
pub struct StateMaps {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    api: StateApi,
    holder: String,
    sizes: Sizes,
    known: Mutex<BTreeMap<ConfigName, Known>>,
    /// Configs that another release turned out to hold.
    lost: Mutex<BTreeSet<ConfigName>>,
    has_lost: Notify,
    offer: watch::Sender<(u64, Arc<Snapshot>)>,
    progress: watch::Sender<Progress>,
    kick: Notify,
    /// The writer must not touch anything before it was offered a snapshot.
    has_offer: AtomicBool,
}

impl StateMaps {
    /// States are written as `holder`; empty where this release shares its objects with no other.
    pub fn start(client: Client, holder: String, seed: u64) -> Self {
        Self::start_with(client, holder, Sizes::default(), seed)
    }

    pub(super) fn start_with(client: Client, holder: String, sizes: Sizes, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            api: StateApi::new(client),
            holder,
            sizes,
            known: Mutex::default(),
            lost: Mutex::default(),
            has_lost: Notify::new(),
            offer: watch::Sender::default(),
            progress: watch::Sender::default(),
            kick: Notify::new(),
            has_offer: AtomicBool::new(false),
        });
        let task = tokio::spawn(run(Arc::clone(&shared), shared.offer.subscribe(), seed));
        Self { shared, task }
    }

    pub(super) fn api(&self) -> &StateApi {
        &self.shared.api
    }

    /// How this release is called in the states it holds.
    pub fn holder(&self) -> &str {
        &self.shared.holder
    }

    /// From now on the config's state is written.
    pub(super) fn admit(&self, config: ConfigName, known: Known) {
        lock(&self.shared.known).insert(config, known);
        self.shared.kick.notify_one();
    }

    /// The config's state is no longer ours to write.
    pub(super) fn dismiss(&self, config: &ConfigName) {
        lock(&self.shared.known).remove(config);
    }

    pub(super) fn known(&self, config: &ConfigName) -> Option<Known> {
        lock(&self.shared.known).get(config).cloned()
    }

    /// The next configs that another release turned out to hold.
    pub(super) async fn lost(&self) -> BTreeSet<ConfigName> {
        loop {
            let notified = self.shared.has_lost.notified();
            let lost = std::mem::take(&mut *lock(&self.shared.lost));
            if !lost.is_empty() {
                return lost;
            }
            notified.await;
        }
    }

    /// Has the snapshot written, or the newest if another one comes meanwhile.
    ///
    /// # Errors
    /// With what fails, at once while it does; what could not be written is tried again.
    pub async fn save(&self, snapshot: Arc<Snapshot>) -> Result<(), String> {
        let mut number = 0;
        self.shared.offer.send_modify(|offer| {
            *offer = (offer.0 + 1, snapshot);
            number = offer.0;
        });
        self.shared.has_offer.store(true, Ordering::Release);
        let mut progress = self.shared.progress.subscribe();
        let settled = progress.wait_for(|now| now.done >= number || now.problem.is_some());
        match tokio::time::timeout(PATIENCE, settled).await {
            Ok(Ok(now)) => now.problem.clone().map_or(Ok(()), Err),
            Ok(Err(_)) => Err("state ConfigMaps: the writer has ended".to_owned()),
            Err(_) => Err("state ConfigMaps: the API server does not answer in time".to_owned()),
        }
    }
}

impl Drop for StateMaps {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl std::fmt::Debug for StateMaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateMaps").field("holder", &self.shared.holder).finish_non_exhaustive()
    }
}

/// Of the clock that timers follow.
pub(super) fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every critical section is one statement: nothing is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What has to be done to one config.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    Write(ConfigName, Known),
    Remove(ConfigName, Known),
}

async fn run(shared: Arc<Shared>, mut offers: watch::Receiver<(u64, Arc<Snapshot>)>, seed: u64) {
    let mut backoff = Backoff::new(RETRY, seed_for(seed, "state"), now());
    let mut before: Arc<Snapshot> = Arc::default();
    let mut doomed: BTreeSet<ConfigName> = BTreeSet::new();
    let mut retry_at: Option<tokio::time::Instant> = None;
    loop {
        tokio::select! {
            changed = offers.changed(), if retry_at.is_none() => if changed.is_err() { return },
            () = shared.kick.notified(), if retry_at.is_none() => {}
            () = sleep_until(retry_at) => {}
        }
        if !shared.has_offer.load(Ordering::Acquire) {
            continue;
        }
        let (number, snapshot) = offers.borrow_and_update().clone();
        // Of a config that is no longer in the inventory the state goes, too.
        doomed.extend(before.configs.keys().filter(|name| !snapshot.configs.contains_key(*name)).cloned());
        doomed.retain(|name| !snapshot.configs.contains_key(name));
        before = Arc::clone(&snapshot);
        let problem = work(&shared, &snapshot, &mut doomed).await;
        retry_at = match &problem {
            None => {
                backoff.reset(now());
                None
            }
            Some(problem) => {
                let pause = backoff.next(now());
                tracing::warn!("{problem}, trying again in {pause:.0?}");
                Some(tokio::time::Instant::now() + pause)
            }
        };
        shared.progress.send_modify(|progress| *progress = Progress { done: number, problem });
    }
}

async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Writes what differs; the first problem, stable and with the number of configs that have one.
async fn work(
    shared: &Arc<Shared>,
    snapshot: &Arc<Snapshot>,
    doomed: &mut BTreeSet<ConfigName>,
) -> Option<String> {
    let mut queue = due(&lock(&shared.known), snapshot, doomed).into_iter();
    let mut running = tokio::task::JoinSet::new();
    let mut problems: Vec<String> = Vec::new();
    let mut is_away = false;
    loop {
        while running.len() < MAX_IN_FLIGHT && !is_away {
            let Some(next) = queue.next() else { break };
            running.spawn(one(Arc::clone(shared), Arc::clone(snapshot), next));
        }
        let Some(done) = running.join_next().await else { break };
        let Ok((work, outcome)) = done else {
            problems.push("state ConfigMaps: a write failed by a defect".to_owned());
            continue;
        };
        if let Some(failure) = take(shared, work, outcome, doomed) {
            is_away |= failure.is_away;
            problems.push(failure.problem.clone());
            // Whoever waits for this round learns of it now, not when the last call has timed out.
            shared.progress.send_modify(|progress| progress.problem = Some(failure.problem));
        }
    }
    problems.sort();
    let first = problems.into_iter().next()?;
    Some(first)
}

/// The configs whose state in the cluster is not what the snapshot tells.
fn due(known: &BTreeMap<ConfigName, Known>, snapshot: &Snapshot, doomed: &BTreeSet<ConfigName>) -> Vec<Work> {
    let differs = |(name, known): (&ConfigName, &Known)| {
        let state = snapshot.configs.get(name)?;
        (known.revision != Some(state.revision)).then(|| Work::Write(name.clone(), known.clone()))
    };
    let writes = known.iter().filter_map(differs);
    let removals =
        doomed.iter().map(|name| Work::Remove(name.clone(), known.get(name).cloned().unwrap_or_default()));
    writes.chain(removals).collect()
}

async fn one(shared: Arc<Shared>, snapshot: Arc<Snapshot>, work: Work) -> (Work, Outcome) {
    let outcome = match &work {
        Work::Write(name, known) => {
            write(&shared.api, name, known, &snapshot, &shared.holder, shared.sizes).await
        }
        Work::Remove(name, _) => super::write::remove(&shared.api, name, &shared.holder).await,
    };
    (work, outcome)
}

struct Failure {
    problem: String,
    /// The next call would fail the same way.
    is_away: bool,
}

fn take(shared: &Shared, work: Work, outcome: Outcome, doomed: &mut BTreeSet<ConfigName>) -> Option<Failure> {
    let (name, is_removal) = match work {
        Work::Write(name, _) => (name, false),
        Work::Remove(name, _) => (name, true),
    };
    match outcome {
        Outcome::Written(known) => {
            // Dismissed meanwhile: then it is not ours any more.
            if let Some(entry) = lock(&shared.known).get_mut(&name) {
                *entry = known;
            }
        }
        Outcome::Removed => {
            doomed.remove(&name);
            if let Some(entry) = lock(&shared.known).get_mut(&name) {
                *entry = Known::default();
            }
        }
        Outcome::Kept => drop(doomed.remove(&name)),
        Outcome::Held(holder) => {
            doomed.remove(&name);
            lock(&shared.known).remove(&name);
            if !is_removal {
                tracing::warn!("{name}: {holder} holds it now and works on it; this release stops");
                lock(&shared.lost).insert(name);
                shared.has_lost.notify_one();
            }
        }
        Outcome::Failed(error) => {
            tracing::debug!("{name}: its state ConfigMap cannot be written: {}", error.detail());
            let is_away = error.code().is_none();
            return Some(Failure { problem: format!("state ConfigMaps: {name}: {error}"), is_away });
        }
    }
    None
}
