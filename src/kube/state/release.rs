//! Lets go of an object that is gone from here: to another release, or for good.

use std::time::Duration;

use multinic_actors::domain::backoff::{Backoff, BackoffPolicy, seed_for};
use multinic_actors::domain::ids::ConfigName;
use multinic_actors::supervision::Tree;

use super::gate::GateParts;
use super::maps::now;

/// How often it is looked whether the config's actors have ended.
const GLANCE: Duration = Duration::from_millis(100);
/// Pauses between tries.
const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(15),
    multiplier: 2.0,
    jitter: 0.3,
};

/// Waits until nothing works on the config any more and everything it did lies in its state, then says there
/// that nobody holds it.
pub(super) async fn release(parts: GateParts, name: ConfigName) {
    // The tree hears of it at about this moment: its actors may not have been told yet.
    tokio::time::sleep(GLANCE).await;
    while is_running(&parts.tree, &name) || !is_written(&parts, &name) {
        tokio::time::sleep(GLANCE).await;
    }
    let mut backoff = Backoff::new(RETRY, seed_for(parts.seed, &format!("release {name}")), now());
    while let Some(version) = parts.maps.known(&name).and_then(|known| known.version) {
        match parts.maps.api().hold(&name, "", &version).await {
            Ok(_) => {
                tracing::info!("{name}: let go");
                break;
            }
            // Somebody else wrote it, or it is gone: there is nothing of ours to let go.
            Err(error) if matches!(error.code(), Some(404 | 409)) => break,
            Err(error) => {
                let pause = backoff.next(now());
                tracing::warn!("{name}: cannot be let go: {error}, trying again in {pause:.0?}");
                tokio::time::sleep(pause).await;
            }
        }
    }
    parts.maps.dismiss(&name);
}

fn is_running(tree: &Tree, name: &ConfigName) -> bool {
    tree.snapshot().child("config", &name.to_string()).is_some()
}

fn is_written(parts: &GateParts, name: &ConfigName) -> bool {
    let written = parts.maps.known(name).and_then(|known| known.revision);
    let revision = parts.inventory.config_state(name).map(|state| state.revision);
    revision.is_none() || written == revision
}
