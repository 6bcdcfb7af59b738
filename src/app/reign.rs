//! One reign: everything that polls, posts and writes. A new one reads its objects and its store anew.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use multinic_actors::boundary::{Delivery, StatusSink};
use multinic_actors::inventory::InventoryHandle;
use multinic_actors::supervision::Tree;
use tokio_util::sync::CancellationToken;

use super::adapters::shared;
use super::objects::Objects;
use super::readers::{Current, Health, Views};
use super::state;
use super::supervisor::{self, Supervisor};
use super::tenure::Tenure;
use super::{Options, StartError};
use crate::http::{ConfigBoard, ConfigReader as _};
use crate::kube::status::StatusWriter;
use crate::policy::PolicyHandle;
use crate::settings::Settings;
use crate::telemetry::{FanOut, MetricsStatusSink};

/// How long after a kill it is looked whether everything has really ended.
const AFTER_KILL: Duration = Duration::from_millis(500);

/// What every reign is made from. It lives as long as the process.
pub(super) struct Plan {
    pub(super) settings: Settings,
    pub(super) options: Options,
    /// The cluster; none with a folder.
    pub(super) client: Option<Client>,
    /// What configs may use.
    pub(super) policy: PolicyHandle,
    /// Until when may be posted.
    pub(super) tenure: Tenure,
    /// What REST shows of the configs.
    pub(super) configs: Arc<ConfigBoard>,
    /// The configs' metrics.
    pub(super) statuses: Arc<MetricsStatusSink>,
    /// What readers see of the reign there is.
    pub(super) current: Arc<Current>,
}

/// A reign under way.
pub(super) struct Reign {
    supervisor: Supervisor,
    statuses: Option<Arc<StatusWriter>>,
    /// Held by whoever may still post.
    delivery: Arc<dyn Delivery>,
    configs: Arc<ConfigBoard>,
    metrics: Arc<MetricsStatusSink>,
    current: Arc<Current>,
}

impl Reign {
    /// Begins. Does not wait for the cluster nor for the store.
    pub(super) async fn start(plan: &Plan) -> Result<Self, StartError> {
        let Objects { source, events, secrets, statuses, states } = Objects::start(plan).await?;
        let tree = Tree::new("root", "root");
        let inventory = InventoryHandle::default();
        let mut sinks: Vec<Arc<dyn StatusSink>> =
            vec![Arc::clone(&plan.configs) as _, Arc::clone(&plan.statuses) as _];
        sinks.extend(statuses.clone().map(|writer| writer as _));
        let shared = shared(plan, secrets, FanOut(sinks), &inventory)?;
        let delivery = Arc::clone(&shared.delivery);
        let is_enabled = plan.settings.inventory.enabled;
        let outlives = is_enabled || states.is_some();
        let health = Arc::new(Health::new(inventory.clone(), tree.clone(), outlives, source.watch_health()));
        plan.current.set(Some(Views::new(inventory, is_enabled, tree.clone(), Arc::clone(&health))));
        let store = state::open_store(&plan.settings, states.as_ref());
        let events = state::gated(events, states, &shared, &tree);
        let supervisor = Supervisor::start(supervisor::Parts {
            shared,
            store,
            tree,
            policy: plan.policy.clone(),
            spread_first_polls: plan.options.spread_first_polls,
            knows_all: plan.settings.kube.selector.is_none(),
            source,
            events,
            health,
        });
        Ok(Self {
            supervisor,
            statuses,
            delivery,
            configs: Arc::clone(&plan.configs),
            metrics: Arc::clone(&plan.statuses),
            current: Arc::clone(&plan.current),
        })
    }

    /// Stops polling, ends or abandons what is under way within the grace period, persists. From the moment that
    /// `at_once` is cancelled there is no order any more: everything is aborted.
    pub(super) async fn stop(self, at_once: CancellationToken) {
        self.supervisor.stop(&at_once).await;
        if let Some(statuses) = &self.statuses {
            tokio::select! {
                () = statuses.stop() => {}
                () = at_once.cancelled() => {}
            }
            statuses.abort();
        }
        if at_once.is_cancelled() {
            until_nobody_posts(&self.delivery).await;
        }
        for status in self.configs.configs() {
            self.configs.forget(&status.id);
            self.metrics.forget(&status.id);
        }
        self.current.set(None);
    }
}

/// Actors that were killed are gone a moment later, and with them what they had under way.
async fn until_nobody_posts(delivery: &Arc<dyn Delivery>) {
    let gone = async {
        while Arc::strong_count(delivery) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(AFTER_KILL, gone).await.is_err() {
        tracing::error!("something of the reign that was killed is still there");
    }
}
