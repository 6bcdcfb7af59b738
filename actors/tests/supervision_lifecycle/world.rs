//! One small tree per test, and the ways to look at it and to hurt it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use multinic_actors::domain::backoff::BackoffPolicy;
use multinic_actors::domain::restart::{ExitCause, RestartPolicy};
use multinic_actors::supervision::testing::assert_no_actor_left;
use multinic_actors::supervision::{ChildExit, Fault, Hook, Tree, TreeNode};
use ractor::{Actor, ActorRef};
use tokio::sync::oneshot;

pub use crate::actors::{ChildMsg, OnGaveUp, ParentMsg, ParentState, Settings};
use crate::actors::{Outer, OuterMsg, Shared};

pub const SECOND: Duration = Duration::from_secs(1);

/// Restarts after 1, 2, 4 … seconds, exactly; at most three in 100 seconds.
pub fn policy() -> RestartPolicy {
    RestartPolicy {
        backoff: BackoffPolicy { jitter: 0.0, ..BackoffPolicy::doubling(SECOND, 60 * SECOND) },
        max_restarts: 3,
        window: 100 * SECOND,
        calm: 1000 * SECOND,
    }
}

/// Lets everything that can happen without the time going on happen.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// What the actors of a world write down, in order.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

pub struct World {
    pub tree: Tree,
    pub outer: ActorRef<OuterMsg>,
    pub shared: Shared,
}

impl World {
    /// A world in which nothing fails by itself.
    pub async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub async fn with(settings: Settings) -> Self {
        Self::with_faults(settings, |_: &str, _: &str, _: Hook| None).await
    }

    pub async fn with_faults(
        settings: Settings,
        faults: impl Fn(&str, &str, Hook) -> Option<Fault> + Send + Sync + 'static,
    ) -> Self {
        let tree = Tree::with_faults("outer", "o", Arc::new(faults));
        let shared = Shared { settings, log: Log::default(), exits: Arc::default(), parent: Arc::default() };
        let (outer, _) = Outer::spawn(None, Outer, (tree.root(), shared.clone())).await.unwrap();
        settle().await;
        Self { tree, outer, shared }
    }

    /// Stops the world in order; everything must be gone afterwards.
    pub async fn end(self) -> Vec<String> {
        self.outer.stop_and_wait(None, Some(100 * SECOND)).await.unwrap();
        assert_no_actor_left(&self.tree).await;
        self.shared.log.lines()
    }

    pub fn parent(&self) -> ActorRef<ParentMsg> {
        self.shared.parent.lock().unwrap().clone().unwrap()
    }

    pub fn tell(&self, message: ParentMsg) {
        self.parent().cast(message).unwrap();
    }

    /// Runs `look` inside the parent.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut ParentState) -> T + Send + 'static,
    ) -> T {
        let (tx, rx) = oneshot::channel();
        self.tell(ParentMsg::Look(Box::new(move |state| {
            let _ = tx.send(look(state));
        })));
        rx.await.unwrap()
    }

    pub async fn child(&self) -> Option<ActorRef<ChildMsg>> {
        self.look(|state| state.one.actor().cloned()).await
    }

    pub async fn generation(&self) -> u64 {
        self.look(|state| state.one.generation()).await
    }

    /// Starts children of the set.
    pub async fn start_many(&self, keys: &[&str]) {
        for key in keys {
            self.tell(ParentMsg::StartMany((*key).to_owned()));
        }
        settle().await;
    }

    pub fn exits(&self) -> Vec<ChildExit> {
        self.shared.exits.lock().unwrap().clone()
    }

    pub fn last_exit(&self) -> ChildExit {
        self.exits().pop().expect("a child has ended")
    }

    pub fn parent_node(&self) -> TreeNode {
        self.tree.snapshot().child("parent", "p").cloned().expect("the parent is in the tree")
    }

    pub fn node(&self, name: &str) -> Option<TreeNode> {
        self.parent_node().child("child", name).cloned()
    }

    pub fn phase(&self, name: &str) -> String {
        self.node(name).map_or_else(|| "absent".to_owned(), |node| node.phase)
    }
}

/// A way for a running child to end.
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    Panic,
    Err,
    Kill,
    Stop,
}

impl Failure {
    pub fn hit(self, child: &ActorRef<ChildMsg>) {
        match self {
            Self::Panic => child.cast(ChildMsg::Panic).unwrap(),
            Self::Err => child.cast(ChildMsg::Fail).unwrap(),
            Self::Kill => child.kill(),
            Self::Stop => child.cast(ChildMsg::StopYourself).unwrap(),
        }
    }

    pub fn cause(self) -> ExitCause {
        match self {
            Self::Panic => ExitCause::Panic,
            Self::Err => ExitCause::Error,
            Self::Kill => ExitCause::Killed,
            Self::Stop => ExitCause::Stopped,
        }
    }

    pub fn text(self) -> &'static str {
        if let Self::Kill = self { "killed" } else { "boom" }
    }
}
