//! The views that the HTTP routes read, over what the tree publishes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use multinic_actors::domain::inventory::Snapshot;
use multinic_actors::inventory::InventoryHandle;
use multinic_actors::supervision::Tree;

use super::objects::watch_check;
use crate::http::{Check, HealthReader, InventoryReader, TreeReader};
use crate::kube::watch::WatchHealth;
use crate::policy::PolicyFile;
use crate::telemetry::{MetricsHandle, names};

/// What readers see of the reign there is; nothing on a replica that stands by.
#[derive(Default)]
pub(super) struct Current(RwLock<Option<Arc<Views>>>);

/// What readers see of one reign.
pub(super) struct Views {
    inventory: InventoryHandle,
    is_inventory_enabled: bool,
    tree: Tree,
    health: Arc<Health>,
}

impl Views {
    pub(super) fn new(
        inventory: InventoryHandle,
        is_inventory_enabled: bool,
        tree: Tree,
        health: Arc<Health>,
    ) -> Self {
        Self { inventory, is_inventory_enabled, tree, health }
    }
}

impl Current {
    pub(super) fn set(&self, views: Option<Views>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = views.map(Arc::new);
    }

    pub(super) fn inventory(&self) -> Option<InventoryHandle> {
        self.views().map(|views| views.inventory.clone())
    }

    fn views(&self) -> Option<Arc<Views>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl InventoryReader for Current {
    fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let views = self.views()?;
        let is_readable = views.is_inventory_enabled && views.inventory.health().is_loaded;
        is_readable.then(|| views.inventory.snapshot())
    }
}

impl TreeReader for Current {
    fn tree(&self) -> serde_json::Value {
        let tree = self.views().map(|views| views.tree.snapshot());
        // Text, numbers and lists only: that cannot fail.
        serde_json::to_value(tree).unwrap_or_default()
    }
}

/// Who leads, as far as this replica knows.
pub(super) struct Standing {
    metrics: MetricsHandle,
    state: Mutex<StandingState>,
}

#[derive(Default)]
struct StandingState {
    /// There is no election, or it is won.
    is_leading: bool,
    leader: Option<String>,
    /// Why the lease cannot be read or written.
    problem: Option<String>,
}

impl Standing {
    pub(super) fn new(metrics: MetricsHandle) -> Self {
        metrics.gauge(names::LEADER, &[], 0.0);
        Self { metrics, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, StandingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_leading(&self, is_leading: bool) {
        self.state().is_leading = is_leading;
        self.metrics.gauge(names::LEADER, &[], f64::from(u8::from(is_leading)));
    }

    pub(super) fn set_leader(&self, leader: Option<&str>) {
        self.state().leader = leader.map(str::to_owned);
    }

    /// Whether that is news.
    pub(super) fn set_problem(&self, problem: Option<String>) -> bool {
        let mut state = self.state();
        let is_news = state.problem != problem;
        state.problem = problem;
        is_news
    }

    /// Whom to ask instead of this replica.
    pub(super) fn leader_elsewhere(&self) -> Option<String> {
        let state = self.state();
        let somebody = || state.leader.clone().unwrap_or_else(|| "which is not known yet".to_owned());
        (!state.is_leading).then(somebody)
    }

    fn check(&self) -> Check {
        let elsewhere = self.leader_elsewhere();
        let problem = self.state().problem.clone();
        let standing = elsewhere.map(|leader| format!("stands by; the leader is {leader}"));
        Check {
            name: "leader".to_owned(),
            ok: problem.is_none(),
            // Whoever stands by does what it is there for.
            required: false,
            message: problem.or(standing),
        }
    }
}

/// How the process is: the reign if there is one, and its part in an election.
pub(super) struct Readiness {
    current: Arc<Current>,
    standing: Arc<Standing>,
    policy: Option<Arc<PolicyFile>>,
}

impl Readiness {
    pub(super) fn new(
        current: Arc<Current>,
        standing: Arc<Standing>,
        policy: Option<Arc<PolicyFile>>,
    ) -> Self {
        Self { current, standing, policy }
    }
}

impl HealthReader for Readiness {
    fn alive(&self) -> Result<(), String> {
        Ok(())
    }

    fn checks(&self) -> Vec<Check> {
        let mut checks = self.current.views().map_or_else(Vec::new, |views| views.health.checks());
        let leader = self.standing.check();
        // Without an election there is nothing to say.
        if checks.is_empty() || leader.message.is_some() {
            checks.push(leader);
        }
        if let Some(policy) = &self.policy {
            let message = policy.problem();
            let ok = message.is_none();
            checks.push(Check { name: "policy".to_owned(), ok, required: false, message });
        }
        checks
    }
}

/// How a reign is.
pub(super) struct Health {
    inventory: InventoryHandle,
    tree: Tree,
    is_inventory_enabled: bool,
    files: Mutex<BTreeMap<PathBuf, String>>,
    /// Of the cluster, where there is one instead of a folder.
    watch: Option<Arc<WatchHealth>>,
}

impl Health {
    pub(super) fn new(
        inventory: InventoryHandle,
        tree: Tree,
        is_inventory_enabled: bool,
        watch: Option<Arc<WatchHealth>>,
    ) -> Self {
        Self { inventory, tree, is_inventory_enabled, files: Mutex::default(), watch }
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, String>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file of the config folder cannot be used as it is, or can again.
    pub(super) fn note_file(&self, path: &Path, problem: Option<String>) {
        match problem {
            Some(problem) => self.files().insert(path.to_owned(), problem),
            None => self.files().remove(path),
        };
    }

    fn inventory_check(&self) -> Check {
        let health = self.inventory.health();
        let message = match (&health.problem, self.is_inventory_enabled) {
            (Some(problem), _) => Some(problem.clone()),
            (None, false) => Some("disabled: deliveries are remembered until the restart only".to_owned()),
            (None, true) if !health.is_loaded => Some("being read".to_owned()),
            (None, true) if health.warnings.is_empty() => None,
            (None, true) => Some(health.warnings.join("; ")),
        };
        // Not read: nothing is delivered. Not written: deliveries go on from memory.
        let (ok, required) = match health.is_loaded {
            false => (false, true),
            true => (health.problem.is_none(), false),
        };
        Check { name: "inventory".to_owned(), ok, required, message }
    }

    fn configs_check(&self) -> Check {
        if let Some(watch) = &self.watch {
            return watch_check(watch);
        }
        let problems: Vec<String> =
            self.files().iter().map(|(path, problem)| format!("{}: {problem}", path.display())).collect();
        Check {
            name: "config-dir".to_owned(),
            ok: problems.is_empty(),
            required: false,
            message: (!problems.is_empty()).then(|| problems.join("; ")),
        }
    }
}

impl Health {
    fn checks(&self) -> Vec<Check> {
        let phase = self.tree.snapshot().phase;
        let root = Check {
            name: "root".to_owned(),
            ok: phase == "running",
            required: true,
            message: (phase != "running").then_some(phase),
        };
        vec![root, self.inventory_check(), self.configs_check()]
    }
}
