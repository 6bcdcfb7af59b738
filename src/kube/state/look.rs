//! One look at the state of an object that is about to be worked on.

use std::time::Duration;

use multinic_actors::domain::ids::ConfigName;
use multinic_actors::domain::inventory::Event;
use multinic_actors::inventory::InventoryHandle;

use super::api::{StateError, Stored};
use super::gate::GateParts;
use super::layout::{LayoutError, head_name};
use super::maps::Known;
use super::write::is_foreign;

/// How often it is looked whether the inventory is there.
const GLANCE: Duration = Duration::from_millis(50);

/// What came of a look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// What it tells is in the inventory, and this release holds it.
    Known,
    /// Not yet, and why.
    Not(String),
}

/// Looks at the state of an object, takes over what it tells, and holds it from then on.
pub(super) async fn look(parts: &GateParts, name: &ConfigName) -> Looked {
    // What the file tells comes first: then the newer of both can be told.
    while !parts.inventory.health().is_loaded {
        tokio::time::sleep(GLANCE).await;
    }
    match parts.maps.api().read(name).await {
        Ok(None) => {
            parts.maps.admit(name.clone(), Known::default());
            Looked::Known
        }
        Ok(Some(stored)) => take_over(parts, name, stored).await,
        Err(error) => unreadable(name, &error),
    }
}

fn unreadable(name: &ConfigName, error: &StateError) -> Looked {
    let map = head_name(name);
    tracing::debug!("{name}: configmap {map}: {}", error.detail());
    let advice = match error {
        StateError::Layout(LayoutError::Damaged(_)) => {
            "; without it interfaces could be renamed, so nothing is sent: restore it from a backup, or delete it to \
             go on with what the inventory file has"
        }
        StateError::Layout(LayoutError::Newer(_)) => "; run that release",
        StateError::Call(error) if error.code() == Some(403) => {
            "; what was delivered is not known without it, so nothing is sent"
        }
        StateError::Call(_) => "",
    };
    Looked::Not(format!("waits for what was delivered: configmap {map}: {error}{advice}"))
}

async fn take_over(parts: &GateParts, name: &ConfigName, stored: Stored) -> Looked {
    let holder = parts.maps.holder();
    let Stored { head, mut version, snapshot } = stored;
    if is_foreign(&head, holder) {
        let (map, foreign, namespace) = (head_name(name), &head.holder, &name.namespace);
        return Looked::Not(format!(
            "waits until release {foreign} lets it go; if that release is gone for good: kubectl -n {namespace} patch \
             configmap {map} --type=merge -p '{{\"data\":{{\"holder\":\"\"}}}}'"
        ));
    }
    if head.holder != holder {
        // At the version that was read: of two releases only one gets it.
        match parts.maps.api().hold(name, holder, &version).await {
            Ok(held) => version = held,
            Err(error) => {
                tracing::debug!("{name}: its state cannot be held: {}", error.detail());
                return Looked::Not(format!("waits for its state ConfigMap: {error}"));
            }
        }
    }
    for state in snapshot.configs.into_values() {
        let records: Vec<_> = snapshot.records.values().cloned().collect();
        restore(&parts.inventory, Event::Restored { state, records: records.clone() }).await;
        let applied = parts.inventory.applied();
        parts.claims.restore(applied.records.of_owner(name).map(AsRef::as_ref));
    }
    let known = Known {
        version: Some(version),
        revision: Some(head.revision),
        parts: head.parts,
        leftovers: Vec::new(),
    };
    parts.maps.admit(name.clone(), known);
    Looked::Known
}

/// Until it is in the inventory: its actor may be between two lives.
async fn restore(inventory: &InventoryHandle, event: Event) {
    loop {
        let (done, applied) = tokio::sync::oneshot::channel();
        let is_sent = inventory.record(
            event.clone(),
            Box::new(move |_| {
                // Whoever asked may be gone.
                let _ = done.send(());
            }),
        );
        if is_sent && applied.await.is_ok() {
            return;
        }
        tokio::time::sleep(GLANCE).await;
    }
}
