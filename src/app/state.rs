//! Where the inventory is kept: the file, the objects' state ConfigMaps, both, or memory alone.

use std::sync::Arc;

use kube::Client;
use multinic_actors::boundary::Store;
use multinic_actors::config::Shared;
use multinic_actors::supervision::Tree;

use crate::kube::state::{GateParts, StateMaps, StoreWithStates, gate};
use crate::settings::{KubeSettings, Settings};
use crate::source::SourceEvents;
use crate::store::{JsonFileStore, MemoryStore, MeteredStore};

/// The states in the cluster; nothing is read or written yet.
pub(super) fn start(settings: &KubeSettings, client: &Client) -> Arc<StateMaps> {
    Arc::new(StateMaps::start(client.clone(), holder(settings, client), rand::random()))
}

/// How this release is called in the states. Without a selector nobody else works on its objects, so nobody has
/// to be told who holds them; and it may move to another namespace. The selector is no part of it: who selects
/// otherwise from now on still holds what it held.
fn holder(settings: &KubeSettings, client: &Client) -> String {
    let Some(lease) = &settings.shard else { return String::new() };
    let own = settings.election.as_ref().and_then(|election| election.namespace.as_deref());
    format!("{}/{lease}", own.unwrap_or_else(|| client.default_namespace()))
}

/// Every store in use, behind one.
pub(super) fn open_store(settings: &Settings, states: Option<&Arc<StateMaps>>) -> Arc<dyn Store> {
    let file = || JsonFileStore::new(&settings.inventory.db_path);
    match (settings.inventory.enabled, states.cloned()) {
        (true, Some(maps)) => Arc::new(MeteredStore(StoreWithStates { store: file(), maps })),
        (true, None) => Arc::new(MeteredStore(file())),
        (false, Some(maps)) => Arc::new(MeteredStore(StoreWithStates { store: MemoryStore, maps })),
        (false, None) => Arc::new(MemoryStore),
    }
}

/// What the source tells, each object held back until its state in the cluster is known.
pub(super) fn gated(
    events: SourceEvents,
    states: Option<Arc<StateMaps>>,
    shared: &Shared,
    tree: &Tree,
) -> SourceEvents {
    let Some(maps) = states else { return events };
    let parts = GateParts {
        maps,
        inventory: shared.inventory.clone(),
        claims: shared.claims.clone(),
        tree: tree.clone(),
        seed: shared.seed,
    };
    gate(events, parts)
}
