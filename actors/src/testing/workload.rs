use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::{FakeDelivery, TestClock};
use crate::boundary::{
    BoxFuture, Changed, Clock as _, Delivery, PostAnswer, PostError, Withdrawal, Workload, WorkloadView,
};
use crate::domain::config::Config;
use crate::domain::ids::NodeName;
use crate::domain::machines::Machines;
use crate::domain::node::NodeConfig;
use crate::domain::readback::{Agent, Found, Reach};

/// One workload cluster in memory, whichever kubeconfig it is reached by. Node configs that are posted for a
/// config that looks into the cluster appear in it.
#[derive(Clone)]
pub struct FakeWorkload {
    state: Arc<Mutex<State>>,
    clock: TestClock,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<NodeName, Arc<Found>>,
    machines: Option<Arc<Machines>>,
    reach: Reach,
    subscribers: HashMap<u64, Arc<Changed>>,
    next: u64,
    withdrawals: Vec<Withdrawal>,
    refuses_withdrawals: bool,
}

impl FakeWorkload {
    /// A cluster that can be looked at, without objects, whose nodes are not known.
    pub fn new(clock: TestClock) -> Self {
        let workload = Self { state: Arc::default(), clock };
        workload.state().reach = Reach { is_reachable: Some(true), since: None, problem: None };
        workload
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let subscribers: Vec<_> = {
            let mut state = self.state();
            change(&mut state);
            state.subscribers.values().cloned().collect()
        };
        subscribers.iter().for_each(|changed| changed());
    }

    /// What a node's object says.
    pub fn object(&self, node: &str) -> Option<NodeConfig> {
        let node = NodeName::new(node).ok()?;
        self.state().objects.get(&node)?.config.clone()
    }

    /// Somebody deletes a node's object.
    pub fn delete(&self, node: &str) {
        if let Ok(node) = NodeName::new(node) {
            self.change(|state| drop(state.objects.remove(&node)));
        }
    }

    /// Somebody edits a node's object.
    pub fn edit(&self, node: &str, edit: impl FnOnce(&mut NodeConfig)) {
        let Some(mut config) = self.object(node) else { return };
        edit(&mut config);
        self.put(Arc::new(config));
    }

    /// A node's agent says how far it is.
    pub fn agent(&self, node: &str, agent: Agent) {
        let Ok(node) = NodeName::new(node) else { return };
        self.change(|state| {
            if let Some(found) = state.objects.get(&node) {
                let found = Found { agent, ..Found::clone(found) };
                state.objects.insert(node, Arc::new(found));
            }
        });
    }

    /// The cluster goes away, or is not known yet (`None`), or comes back.
    pub fn reach(&self, is_reachable: Option<bool>) {
        let since: Option<Timestamp> = is_reachable.map(|_| self.clock.now());
        let problem = (is_reachable == Some(false)).then(|| "the API server cannot be reached".to_owned());
        self.change(|state| state.reach = Reach { is_reachable, since, problem });
    }

    /// The cluster's nodes are these, with their system UUIDs.
    pub fn nodes(&self, nodes: &[(&str, &str)]) {
        let mut machines = Machines::default();
        for (name, uuid) in nodes {
            machines.insert(name, Some(uuid));
        }
        self.change(|state| state.machines = Some(Arc::new(machines)));
    }

    /// Withdrawals fail, or not any more.
    pub fn refuse_withdrawals(&self, refuses: bool) {
        self.state().refuses_withdrawals = refuses;
    }

    /// What was asked to be taken away.
    pub fn withdrawals(&self) -> Vec<Withdrawal> {
        self.state().withdrawals.clone()
    }

    fn put(&self, node: Arc<NodeConfig>) {
        self.change(|state| {
            let before = state.objects.get(&node.node_name);
            // An agent has yet to see what is new.
            let agent = match before {
                Some(before) if before.config.as_ref().is_some_and(|before| before.is_same(&node)) => {
                    before.agent.clone()
                }
                _ => Agent::InProgress,
            };
            let found = Found { config: Some(NodeConfig::clone(&node)), agent };
            state.objects.insert(node.node_name.clone(), Arc::new(found));
        });
    }
}

impl Workload for FakeWorkload {
    fn follow(&self, config: &Config, changed: Changed) -> Option<Box<dyn WorkloadView>> {
        config.delivery.cluster()?;
        changed();
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        state.subscribers.insert(id, Arc::new(changed));
        Some(Box::new(View { workload: self.clone(), id }))
    }

    fn withdraw(&self, order: Withdrawal) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            self.state().withdrawals.push(order.clone());
            if self.state().refuses_withdrawals {
                return Err("the API server cannot be reached".to_owned());
            }
            self.change(|state| {
                for (node, _) in &order.nodes {
                    state.objects.remove(node);
                }
            });
            Ok(())
        })
    }
}

struct View {
    workload: FakeWorkload,
    id: u64,
}

impl WorkloadView for View {
    fn reach(&self) -> Reach {
        self.workload.state().reach.clone()
    }

    fn found(&self, node: &NodeName) -> Option<Arc<Found>> {
        self.workload.state().objects.get(node).cloned()
    }

    fn machines(&self) -> Option<Arc<Machines>> {
        self.workload.state().machines.clone()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.workload.state().subscribers.remove(&self.id);
    }
}

/// A delivery whose nodes appear in the workload cluster.
pub(super) struct IntoWorkload(pub(super) FakeDelivery, pub(super) FakeWorkload);

impl Delivery for IntoWorkload {
    fn post(
        &self,
        config: Arc<Config>,
        nodes: Vec<Arc<NodeConfig>>,
    ) -> BoxFuture<'_, Result<PostAnswer, PostError>> {
        Box::pin(async move {
            let answer = self.0.post(Arc::clone(&config), nodes.clone()).await?;
            let is_taken = |node: &NodeConfig| match &answer {
                PostAnswer::AllAccepted => true,
                PostAnswer::PerNode(results) => {
                    results.iter().any(|result| result.node == node.node_name && result.result.is_ok())
                }
            };
            if config.delivery.cluster().is_some() {
                nodes.into_iter().filter(|node| is_taken(node)).for_each(|node| self.1.put(node));
            }
            Ok(answer)
        })
    }
}
