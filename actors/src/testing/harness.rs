use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorRef};

use super::workload::IntoWorkload;
use super::{
    ConfigBuilder, FakeCloud, FakeDelivery, FakeStore, FakeWitness, FakeWorkload, Faults, StatusBoard,
    Strike, TestClock,
};
use crate::claim_table::ClaimTable;
use crate::config::Shared;
use crate::domain::config::Declared;
use crate::domain::ids::ConfigId;
use crate::domain::inventory::{ConfigState, Record, RecordKey, Snapshot};
use crate::domain::reason::Reason;
use crate::domain::restart::{ExitCause, RestartPolicy};
use crate::domain::status::ConfigStatus;
use crate::inventory::InventoryHandle;
use crate::root::{Root, RootArgs, RootMsg};
use crate::supervision::testing::{StartedActor, assert_no_actor_left, largest_sizes, live_actors, orphans};
use crate::supervision::{Tree, TreeNode};

/// How long [`Harness::until`] waits: every state a test waits for is reached within a few polls.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How often [`Harness::until`] looks.
const GLANCE: Duration = Duration::from_millis(10);
/// How long an ordered stop may take.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In order, as on SIGTERM.
    Stop,
    /// The process dies: nobody gets to say anything.
    Crash,
    /// Leadership ends: in order for this long, and then all at once.
    Lease(Duration),
}

/// The real root with everything below it, over a world in memory.
///
/// What is outside (cloud, Viola, store, clock) outlives a [`Self::restart`]; what is inside does not. A
/// test ends with [`Self::end`], which fails if an actor is left.
pub struct Harness {
    /// The cloud.
    pub cloud: FakeCloud,
    /// Viola.
    pub viola: FakeDelivery,
    /// The workload cluster.
    pub workload: FakeWorkload,
    /// Where the inventory is kept.
    pub store: FakeStore,
    /// What people see.
    pub status: StatusBoard,
    /// What happened.
    pub witness: FakeWitness,
    /// The time of day.
    pub clock: TestClock,
    /// Whom to let fail.
    pub faults: Faults,
    /// First polls after a start are spread.
    pub spread: bool,
    /// The source tells every object there is.
    pub knows_all: bool,
    /// How children are restarted.
    pub restart: RestartPolicy,
    /// For every jitter.
    pub seed: u64,
    run: Option<Run>,
}

/// One life of the process.
struct Run {
    root: ActorRef<RootMsg>,
    tree: Tree,
    shared: Shared,
}

impl Harness {
    /// A world in which nothing exists and nothing runs yet.
    pub fn new() -> Self {
        let clock = TestClock::new();
        Self {
            cloud: FakeCloud::new(clock.clone()),
            viola: FakeDelivery::new(clock.clone()),
            workload: FakeWorkload::new(clock.clone()),
            store: FakeStore::default(),
            status: StatusBoard::default(),
            witness: FakeWitness::default(),
            clock,
            faults: Faults::default(),
            spread: true,
            knows_all: true,
            restart: RestartPolicy::default(),
            seed: 7,
            run: None,
        }
    }

    /// A world whose VMs are those of `config`, each with `nics` NICs, and an operator to which the object
    /// was declared after its start.
    pub async fn with(config: &ConfigBuilder, nics: u16) -> Self {
        let mut world = Self::new();
        world.cloud.has(config, nics);
        world.start().await;
        world.synced();
        world.declare(config);
        world
    }

    /// Starts the operator. Objects that exist are declared next, and then [`Self::synced`].
    pub async fn start(&mut self) {
        assert!(self.run.is_none(), "the operator runs already");
        let tree = Tree::with_faults("root", "root", Arc::new(self.faults.clone()));
        let shared = Shared {
            cloud: Arc::new(self.cloud.clone()),
            delivery: Arc::new(IntoWorkload(self.viola.clone(), self.workload.clone())),
            workload: Arc::new(self.workload.clone()),
            status: Arc::new(self.status.clone()),
            witness: Arc::new(self.witness.clone()),
            clock: Arc::new(self.clock.clone()),
            inventory: InventoryHandle::default(),
            claims: ClaimTable::default(),
            restart: self.restart,
            seed: self.seed,
        };
        self.run = Some(self.start_root(tree, shared).await);
    }

    async fn start_root(&self, tree: Tree, shared: Shared) -> Run {
        let args = RootArgs {
            shared: shared.clone(),
            store: Arc::new(self.store.clone()),
            node: tree.root(),
            spread_first_polls: self.spread,
            knows_all: self.knows_all,
        };
        let root = Actor::spawn(None, Root, args).await;
        let (root, _) = root.unwrap_or_else(|refusal| unreachable!("the root starts always: {refusal}"));
        Run { root, tree, shared }
    }

    /// The root dies, everything below it with it, and is started anew as the application does: over the
    /// same tree and what its configs share. Objects are to be declared again.
    pub async fn lose_root(&mut self) {
        let Some(run) = self.run.take() else {
            return;
        };
        assert!(run.root.kill_and_wait(Some(STOP_PATIENCE)).await.is_ok(), "the root does not end");
        assert_all_dead(&run.tree).await;
        self.run = Some(self.start_root(run.tree, run.shared).await);
    }

    fn run(&self) -> &Run {
        self.run.as_ref().unwrap_or_else(|| unreachable!("the operator does not run"))
    }

    fn tell(&self, message: RootMsg) {
        assert!(self.run().root.send_message(message).is_ok(), "the root is gone");
    }

    /// An object exists and looks like this.
    pub fn declare(&self, config: &ConfigBuilder) {
        self.declare_as(config.clone().into());
    }

    /// As [`Self::declare`], also for an object that cannot be used.
    pub fn declare_as(&self, declared: Declared) {
        self.tell(RootMsg::Declare(declared));
    }

    /// [`Self::declare`] for a task that does so later.
    pub fn declarer(&self) -> impl Fn(&ConfigBuilder) + Send + Sync + 'static {
        let root = self.run().root.clone();
        move |config| {
            let _ = root.send_message(RootMsg::Declare(config.clone().into()));
        }
    }

    /// An object is somebody else's now.
    pub fn let_go(&self, id: ConfigId) {
        self.tell(RootMsg::LetGo(id));
    }

    /// An object is gone.
    pub fn remove(&self, id: ConfigId) {
        self.tell(RootMsg::Remove(id));
    }

    /// Every object has been declared.
    pub fn synced(&self) {
        self.tell(RootMsg::SourceSynced);
    }

    /// Lets the (virtual) time go on.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Waits until `is_so`; `what` says for what, should it never be.
    pub async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = self.clock.elapsed() + PATIENCE;
        while !is_so(self) {
            assert!(self.clock.elapsed() < deadline, "never: {what}\n{}", self.describe());
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Waits until the object's `Ready` has this reason.
    pub async fn until_reason(&self, config: &str, reason: Reason) {
        let is_so = |world: &Self| world.status.reason(config) == Some(reason);
        self.until(&format!("{config} is {reason}"), is_so).await;
    }

    /// Waits until every node of `config` has in Viola exactly the NICs that its VM has in the cloud, and
    /// the inventory says so too.
    pub async fn until_delivered(&self, config: &ConfigBuilder) {
        self.until(&format!("{} is delivered", config.id()), |world| world.is_delivered(config)).await;
    }

    /// Whether every node of `config` has what its VM has, and the inventory says so.
    pub fn is_delivered(&self, config: &ConfigBuilder) -> bool {
        let provider = config.clone().build().provider.clone();
        let snapshot = self.snapshot();
        config.vm_ids().iter().all(|vm| {
            let Some(record) = snapshot.records_of(vm, &provider).next() else {
                return false;
            };
            let in_viola = self.viola.node_at(provider.as_str(), record.node_name.as_str());
            in_viola.is_some_and(|node| {
                node.is_same(&record.config) && super::macs(&node) == self.cloud.macs_of(vm)
            })
        })
    }

    /// What readers see of a node of the target `biz`.
    pub fn record(&self, node: &str) -> Option<Arc<Record>> {
        let node = crate::domain::ids::NodeName::new(node).ok()?;
        self.snapshot().records.get(&RecordKey { provider: "biz".into(), node }).cloned()
    }

    /// What readers see.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.run().shared.inventory.snapshot()
    }

    /// The inventory.
    pub fn inventory(&self) -> &InventoryHandle {
        &self.run().shared.inventory
    }

    /// What is kept of an object beside its records.
    pub fn kept(&self, config: &str) -> Option<Arc<ConfigState>> {
        self.run().shared.inventory.config_state(&crate::domain::ids::ConfigName::new("default", config))
    }

    /// The newest state of an object.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn shown(&self, config: &str) -> Arc<ConfigStatus> {
        let status = self.status.of(config);
        assert!(status.is_some(), "{config} has no status\n{}", self.describe());
        status.unwrap_or_else(|| unreachable!("checked above"))
    }

    /// Why a VM is left out, if it is.
    pub fn skip_of(&self, config: &str, vm: &str) -> Option<String> {
        let status = self.status.of(config)?;
        let skip = status.skipped.iter().find(|skip| skip.vm.as_str() == vm)?;
        Some(skip.reason.to_string())
    }

    /// The tree as it is.
    pub fn tree(&self) -> TreeNode {
        self.run().tree.snapshot()
    }

    /// Restarts of one kind for one cause.
    pub fn restarts_by(&self, kind: &str, cause: ExitCause) -> u64 {
        self.run().tree.restarts_by(kind, cause)
    }

    /// Restarts of one kind.
    pub fn restarts_of(&self, kind: &str) -> u64 {
        let restarts = self.run().tree.restarts();
        restarts.iter().filter(|((of, _), _)| *of == kind).map(|(_, count)| count).sum()
    }

    /// Reads the restarts of all kinds in this life of the process.
    pub fn restart_counter(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let tree = self.run().tree.clone();
        move || tree.restarts().values().sum()
    }

    /// Actors that run while their parent is gone.
    pub fn orphans(&self) -> Vec<String> {
        orphans(&self.run().tree).into_iter().map(|actor| format!("{} {}", actor.kind, actor.name)).collect()
    }

    /// How large the tables of this life of the process are now, or were at most.
    pub fn sizes(&self) -> std::collections::BTreeMap<&'static str, usize> {
        let mut sizes = largest_sizes(&self.run().tree);
        let applied = self.run().shared.inventory.applied();
        sizes.insert("claims", self.run().shared.claims.count());
        sizes.insert("records", applied.records.len());
        sizes.insert("config states", applied.configs.len());
        sizes.insert("allocations", applied.configs.values().map(|state| state.allocations.len()).sum());
        sizes
    }

    /// Whether the operator runs.
    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// The running actors of one kind.
    pub fn actors(&self, kind: &str) -> Vec<StartedActor> {
        live_actors(&self.run().tree).into_iter().filter(|actor| actor.kind == kind).collect()
    }

    /// Hurts the first running actor of this kind; returns the cause that the tree must show.
    pub fn strike(&self, kind: &'static str, strike: Strike) -> ExitCause {
        let victim = || {
            let actors = self.actors(kind);
            assert!(!actors.is_empty(), "no {kind} runs\n{}", self.describe());
            actors[0].actor.clone()
        };
        match strike {
            Strike::Panic => self.faults.panic_next(kind),
            Strike::Err => self.faults.fail_next(kind),
            Strike::Kill => victim().kill(),
            Strike::Stop => victim().stop(None),
            Strike::RefuseStart => {
                self.faults.refuse_starts(kind, 2);
                victim().kill();
            }
        }
        match strike {
            Strike::Panic => ExitCause::Panic,
            Strike::Err => ExitCause::Error,
            Strike::Kill => ExitCause::Killed,
            Strike::Stop => ExitCause::Stopped,
            Strike::RefuseStart => ExitCause::StartRefused,
        }
    }

    /// Ends the operator.
    ///
    /// # Panics
    ///
    /// If an actor is left.
    pub async fn halt(&mut self, ending: Ending) {
        let Some(run) = self.run.take() else {
            return;
        };
        let patience = Some(STOP_PATIENCE);
        let ended = match ending {
            Ending::Stop => run.root.stop_and_wait(None, patience).await.is_ok(),
            Ending::Crash => run.root.kill_and_wait(patience).await.is_ok(),
            Ending::Lease(time) => {
                run.root.stop_and_wait(None, Some(time)).await.is_ok()
                    || run.root.kill_and_wait(patience).await.is_ok()
            }
        };
        assert!(ended, "the root does not end: {:#?}", run.tree.snapshot());
        match ending {
            Ending::Stop => assert_no_actor_left(&run.tree).await,
            // The entries of a root that was killed go with the tree.
            Ending::Crash | Ending::Lease(_) => assert_all_dead(&run.tree).await,
        }
    }

    /// Ends the operator and starts it anew over the same world: a new process. Objects are to be declared
    /// again.
    pub async fn restart(&mut self, ending: Ending) {
        self.halt(ending).await;
        self.start().await;
    }

    /// Stops everything in order; nothing may be left.
    ///
    /// # Panics
    ///
    /// If an actor is left.
    pub async fn end(mut self) {
        self.halt(Ending::Stop).await;
    }

    /// Everything that tells why a test waits in vain.
    pub fn describe(&self) -> String {
        use std::fmt::Write as _;
        let mut text = format!("{:.3?} after the world began\n", self.clock.elapsed());
        if let Some(run) = &self.run {
            describe_tree(&run.tree.snapshot(), 0, &mut text);
        }
        for status in self.status.all() {
            let (id, nodes) = (&status.id, status.nodes);
            let _ = writeln!(text, "{id}: {} {:?} {nodes:?}", status.reason, status.message);
            for skip in &status.skipped {
                let _ = writeln!(text, "  {} is left out: {} {}", skip.vm, skip.reason, skip.message);
            }
        }
        let posts = self.viola.posts();
        for post in posts.iter().skip(posts.len().saturating_sub(10)) {
            let (at, from, names) = (post.at, &post.config, post.names());
            let _ = writeln!(text, "POST at {at:.3?} from {from}: {names:?} → {:?}", post.answer);
        }
        let looks = self.cloud.looks();
        for look in looks.iter().skip(looks.len().saturating_sub(5)) {
            let _ = writeln!(text, "{look:?}");
        }
        text
    }
}

async fn assert_all_dead(tree: &Tree) {
    for _ in 0..1000 {
        if live_actors(tree).is_empty() {
            return;
        }
        tokio::time::sleep(GLANCE).await;
    }
    assert!(live_actors(tree).is_empty(), "actors left: {:#?}", live_actors(tree));
}

fn describe_tree(node: &TreeNode, depth: usize, text: &mut String) {
    use std::fmt::Write as _;
    let error = node.last_error.as_deref().map_or(String::new(), |error| format!(" ({error})"));
    let (kind, name, phase, restarts) = (&node.kind, &node.name, &node.phase, node.restarts);
    let _ = writeln!(text, "{:depth$}{kind} {name}: {phase}, {restarts} restarts{error}", "");
    node.children.iter().for_each(|child| describe_tree(child, depth + 2, text));
}

impl Default for Harness {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        let is_left = self.run.is_some() && !std::thread::panicking();
        assert!(!is_left, "a test ends its world with `end`");
    }
}
