//! Workload clusters that configs give a kubeconfig of: node configs go straight there, and what stands there is
//! looked at.
//!
//! One client a kubeconfig Secret, one watch a cluster and namespace, however many configs share them. Who
//! follows a cluster keeps it watched; with the last one the watch ends.

mod access;
mod cluster;
mod delivery;
mod follower;
mod objects;
mod withdraw;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use multinic_actors::boundary::{BoxFuture, Changed, Withdrawal, Workload, WorkloadView};
use multinic_actors::domain::backoff::seed_for;
use multinic_actors::domain::config::{Config, SecretKeyRef, WorkloadCluster};
use multinic_actors::domain::ids::NodeName;
use multinic_actors::domain::machines::Machines;
use multinic_actors::domain::readback::{Found, Reach};
use tokio::task::JoinHandle;

use crate::policy::PolicyHandle;
use crate::secrets::SecretSource;
use access::Access;
use cluster::{Cluster, Subscription};
pub use delivery::Delivery;

/// A kubeconfig: the namespace of its Secret, and the Secret.
type AccessKey = (String, SecretKeyRef);
/// A namespace of a cluster.
type WatchKey = (AccessKey, String);

/// All workload clusters that are in use.
pub struct WorkloadClusters {
    secrets: Arc<dyn SecretSource>,
    policy: PolicyHandle,
    seed: u64,
    accesses: Mutex<HashMap<AccessKey, Weak<Access>>>,
    watched: Mutex<HashMap<WatchKey, Weak<Watched>>>,
}

/// A cluster that is watched until this is dropped.
struct Watched {
    cluster: Arc<Cluster>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl WorkloadClusters {
    /// None is known yet. Kubeconfigs are read from `secrets`; `policy` says whom their namespaces may reach.
    pub fn new(secrets: Arc<dyn SecretSource>, policy: PolicyHandle, seed: u64) -> Self {
        Self { secrets, policy, seed, accesses: Mutex::default(), watched: Mutex::default() }
    }

    fn access(&self, namespace: &str, cluster: &WorkloadCluster) -> Arc<Access> {
        let key = (namespace.to_owned(), cluster.kubeconfig.clone());
        shared(&self.accesses, key, |(namespace, secret)| {
            Access::new(namespace.clone(), secret.clone(), Arc::clone(&self.secrets), self.policy.clone())
        })
    }

    fn watch_key(namespace: &str, cluster: &WorkloadCluster) -> WatchKey {
        ((namespace.to_owned(), cluster.kubeconfig.clone()), cluster.namespace.clone())
    }

    fn watch(&self, namespace: &str, target: &WorkloadCluster) -> Arc<Watched> {
        let access = self.access(namespace, target);
        shared(&self.watched, Self::watch_key(namespace, target), |(_, objects_in)| {
            let cluster = Arc::new(Cluster::new(access.name()));
            let seed = seed_for(self.seed, &access.name());
            let configs =
                follower::node_configs(Arc::clone(&access), Arc::clone(&cluster), objects_in.clone(), seed);
            let nodes = follower::nodes(Arc::clone(&access), Arc::clone(&cluster), seed);
            Watched { cluster, tasks: [tokio::spawn(configs), tokio::spawn(nodes)] }
        })
    }

    /// The cluster, if somebody follows it.
    fn watched(&self, namespace: &str, target: &WorkloadCluster) -> Option<Arc<Cluster>> {
        let watched = lock(&self.watched).get(&Self::watch_key(namespace, target))?.upgrade()?;
        Some(Arc::clone(&watched.cluster))
    }
}

impl Workload for WorkloadClusters {
    fn follow(&self, config: &Config, changed: Changed) -> Option<Box<dyn WorkloadView>> {
        let target = config.delivery.cluster()?;
        let watched = self.watch(&config.id.name.namespace, target);
        let subscription = Subscription::new(Arc::clone(&watched.cluster), changed);
        Some(Box::new(View { subscription, _watched: watched }))
    }

    fn withdraw(&self, order: Withdrawal) -> BoxFuture<'_, Result<(), String>> {
        let access = self.access(&order.name.namespace, &order.cluster);
        Box::pin(async move { withdraw::withdraw(&access, &order).await })
    }
}

/// A config's view of its cluster.
struct View {
    subscription: Subscription,
    _watched: Arc<Watched>,
}

impl WorkloadView for View {
    fn reach(&self) -> Reach {
        self.subscription.cluster().reach()
    }

    fn found(&self, node: &NodeName) -> Option<Arc<Found>> {
        self.subscription.cluster().found(node.as_str())
    }

    fn machines(&self) -> Option<Arc<Machines>> {
        self.subscription.cluster().machines()
    }
}

/// What is in use under `key`, or a new one. What is not in use any more goes.
fn shared<K: Eq + Hash, V>(map: &Mutex<HashMap<K, Weak<V>>>, key: K, make: impl FnOnce(&K) -> V) -> Arc<V> {
    let mut map = lock(map);
    if let Some(known) = map.get(&key).and_then(Weak::upgrade) {
        return known;
    }
    map.retain(|_, value| value.strong_count() > 0);
    let value = Arc::new(make(&key));
    map.insert(key, Arc::downgrade(&value));
    value
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every critical section leaves what it guards consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
