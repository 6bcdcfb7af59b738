//! Keeps the root actor alive and feeds it what the source tells.

use std::sync::Arc;
use std::time::Duration;

use multinic_actors::boundary::Store;
use multinic_actors::config::Shared;
use multinic_actors::domain::backoff::{Backoff, BackoffPolicy};
use multinic_actors::domain::ids::ConfigId;
use multinic_actors::domain::inventory::{Event, Owner};
use multinic_actors::root::{Root, RootArgs, RootRef};
use multinic_actors::supervision::Tree;
use ractor::Actor;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::STOP_TIMEOUT;
use super::objects::Source;
use super::readers::Health;
use super::source::Told;
use crate::policy::PolicyHandle;
use crate::source::{SourceEvent, SourceEvents};

/// Pauses before the root is started anew.
const ROOT_RESTART: BackoffPolicy = BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(60));

/// What the supervisor needs.
pub(super) struct Parts {
    pub(super) shared: Shared,
    pub(super) store: Arc<dyn Store>,
    pub(super) tree: Tree,
    /// What the objects may use.
    pub(super) policy: PolicyHandle,
    pub(super) spread_first_polls: bool,
    pub(super) knows_all: bool,
    pub(super) source: Source,
    pub(super) events: SourceEvents,
    pub(super) health: Arc<Health>,
}

/// Runs the tree until it is told to stop.
pub(super) struct Supervisor {
    task: JoinHandle<()>,
    stop: CancellationToken,
    kill: CancellationToken,
}

impl Supervisor {
    pub(super) fn start(parts: Parts) -> Self {
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let task = tokio::spawn(supervise(parts, stop.clone(), kill.clone()));
        Self { task, stop, kill }
    }

    /// Ends in order; from the moment that `at_once` is cancelled, without.
    pub(super) async fn stop(mut self, at_once: &CancellationToken) {
        self.stop.cancel();
        let ended = tokio::select! {
            ended = &mut self.task => ended,
            () = at_once.cancelled() => {
                self.kill.cancel();
                self.task.await
            }
        };
        if ended.is_err() {
            tracing::error!("the supervisor failed while it stopped");
        }
    }
}

async fn supervise(mut parts: Parts, stop: CancellationToken, kill: CancellationToken) {
    let mut told = Told::default();
    let mut backoff = Backoff::new(ROOT_RESTART, parts.shared.seed, std::time::Instant::now());
    loop {
        let args = RootArgs {
            shared: parts.shared.clone(),
            store: Arc::clone(&parts.store),
            node: parts.tree.root(),
            spread_first_polls: parts.spread_first_polls,
            knows_all: parts.knows_all,
        };
        match Actor::spawn(None, Root, args).await {
            Ok((root, ended)) => {
                told.tell_again(&root, &parts.policy);
                match feed(&mut parts, &mut told, &root, ended, &stop, &kill).await {
                    Ended::Stopped => return end(&parts, &root, &kill).await,
                    Ended::Killed => return root.kill(),
                    Ended::Failed => tracing::error!("the root actor failed"),
                }
            }
            Err(error) => tracing::error!("the root actor did not start: {error}"),
        }
        let pause = backoff.next(std::time::Instant::now());
        tracing::error!("starting the tree anew in {pause:.0?}");
        parts.tree.root().set_phase("restarting");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
            () = kill.cancelled() => return,
        }
    }
}

/// Why feeding ended.
enum Ended {
    Stopped,
    Killed,
    Failed,
}

async fn feed(
    parts: &mut Parts,
    told: &mut Told,
    root: &RootRef,
    mut ended: JoinHandle<()>,
    stop: &CancellationToken,
    kill: &CancellationToken,
) -> Ended {
    let mut is_source_open = true;
    loop {
        tokio::select! {
            biased;
            () = kill.cancelled() => return Ended::Killed,
            () = stop.cancelled() => return Ended::Stopped,
            _ = &mut ended => return Ended::Failed,
            () = parts.policy.changed() => told.tell_again(root, &parts.policy),
            event = parts.events.recv(), if is_source_open => match event {
                Some(event) => take(parts, told, root, event),
                None => {
                    is_source_open = false;
                    tracing::error!("the objects are no longer watched; what is known of them goes on");
                }
            }
        }
    }
}

fn take(parts: &Parts, told: &mut Told, root: &RootRef, event: SourceEvent) {
    match event {
        SourceEvent::Apply(declared) => told.declare(declared, root, &parts.policy),
        SourceEvent::Delete(id) => told.remove(id, root),
        SourceEvent::LetGo(id) => told.let_go(id, root),
        SourceEvent::Synced => told.synced(root),
        SourceEvent::FirstSeen { name, at } => {
            // Also for an object that is not valid yet: its creation must not move with its repair.
            let owner = Owner { id: ConfigId { name, uid: "".into() }, created: at };
            parts.shared.inventory.record(Event::FirstSeen { owner }, Box::new(|_| {}));
        }
        SourceEvent::FileProblem { path, problem } => {
            tracing::error!("{}: {problem}", path.display());
            parts.health.note_file(&path, Some(problem));
        }
        SourceEvent::FileRecovered { path } => {
            tracing::info!("{}: in order again", path.display());
            parts.health.note_file(&path, None);
        }
    }
}

async fn end(parts: &Parts, root: &RootRef, kill: &CancellationToken) {
    // The objects are not watched any more from here on.
    let _ = &parts.source;
    tokio::select! {
        ended = root.stop_and_wait(None, Some(STOP_TIMEOUT)) => {
            if ended.is_err() {
                tracing::error!("the tree did not end within {STOP_TIMEOUT:?} and is killed");
                root.kill();
            }
        }
        () = kill.cancelled() => {
            tracing::error!("the tree did not end in time and is killed");
            root.kill();
        }
    }
}
