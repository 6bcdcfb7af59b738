//! One write of one state, and what a conflict means.

use multinic_actors::domain::ids::ConfigName;
use multinic_actors::domain::inventory::Snapshot;

use super::api::{StateApi, StateError, encode};
use super::layout::{Head, Packed, Sizes};
use super::maps::Known;
use crate::kube::client::CallError;

/// Somebody else wrote between our look and our write: so often it is looked again.
const TRIES: usize = 3;

/// What came of a write or a removal.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It lies there.
    Written(Known),
    /// It is gone.
    Removed,
    /// The object is there after all: its state stays.
    Kept,
    /// Another release works on the config: this one.
    Held(String),
    /// It is to be tried again.
    Failed(StateError),
}

/// Writes what `snapshot` tells of the config over what is `known` of its state.
pub(super) async fn write(
    api: &StateApi,
    config: &ConfigName,
    known: &Known,
    snapshot: &Snapshot,
    holder: &str,
    sizes: Sizes,
) -> Outcome {
    let revision = snapshot.configs.get(config).map_or(0, |state| state.revision);
    let packed = Packed::new(config, revision, holder, encode(snapshot, config), sizes);
    let mut at = known.clone();
    for _ in 0..TRIES {
        let written = match &at.version {
            None => api.create(config, &packed).await,
            Some(version) => api.replace(config, &packed, version).await,
        };
        let error = match written {
            Ok(version) => return tidied(api, config, &packed, version, at).await,
            Err(error) => error,
        };
        match error.code() {
            // Beside a config whose namespace goes there is nothing to keep; if it comes back, so does the object.
            Some(403 | 404) if is_ending(&error) || (at.version.is_none() && error.code() == Some(404)) => {
                return Outcome::Written(Known { version: None, revision: Some(revision), ..at });
            }
            Some(404) => at.version = None,
            Some(409) => match look_again(api, config, holder, &mut at).await {
                None => {}
                Some(outcome) => return outcome,
            },
            _ => return Outcome::Failed(error.into()),
        }
    }
    let problem = CallError::Unreadable("somebody else writes it all the time".to_owned());
    Outcome::Failed(problem.into())
}

/// What lies there now decides: another release's is left alone, anything else is written over.
async fn look_again(api: &StateApi, config: &ConfigName, holder: &str, at: &mut Known) -> Option<Outcome> {
    match api.head(config).await {
        Ok(None) => {
            *at = Known { leftovers: std::mem::take(&mut at.leftovers), ..Known::default() };
            None
        }
        Ok(Some((head, _))) if is_foreign(&head, holder) => Some(Outcome::Held(head.holder)),
        Ok(Some((head, version))) => {
            tracing::warn!("{config}: somebody else wrote its state ConfigMap; it is written over");
            at.version = Some(version);
            at.parts = head.parts;
            None
        }
        Err(error) => Some(Outcome::Failed(error)),
    }
}

/// Whether another release holds the config.
pub(super) fn is_foreign(head: &Head, holder: &str) -> bool {
    !head.holder.is_empty() && head.holder != holder
}

fn is_ending(error: &CallError) -> bool {
    matches!(error, CallError::Refused(status) if status.message.contains("is being terminated"))
}

/// The head is switched: the parts that only the one before named go.
async fn tidied(
    api: &StateApi,
    config: &ConfigName,
    packed: &Packed,
    version: String,
    before: Known,
) -> Outcome {
    let parts: Vec<String> = packed.parts().iter().map(|(name, _)| name.clone()).collect();
    let mut old = before.leftovers;
    old.extend(before.parts);
    old.retain(|name| !parts.contains(name));
    let leftovers = api.remove_parts(config, old).await;
    Outcome::Written(Known { version: Some(version), revision: Some(packed.revision), parts, leftovers })
}

/// Removes the state of a config that is pruned, unless the object is there after all (it went to another
/// release) or another release holds it.
pub(super) async fn remove(api: &StateApi, config: &ConfigName, holder: &str) -> Outcome {
    match api.has_object(config).await {
        Ok(true) => return Outcome::Kept,
        Ok(false) => {}
        Err(error) => return Outcome::Failed(error.into()),
    }
    match api.head(config).await {
        Ok(None) => Outcome::Removed,
        Ok(Some((head, _))) if is_foreign(&head, holder) => Outcome::Held(head.holder),
        Ok(Some((head, version))) => match api.remove(config, &version, &head.parts).await {
            Ok(()) => Outcome::Removed,
            Err(error) => Outcome::Failed(error.into()),
        },
        // Not ours, or not to be understood: it stays.
        Err(StateError::Layout(error)) => {
            tracing::warn!("{config}: its state ConfigMap stays: {error}");
            Outcome::Kept
        }
        Err(error) => Outcome::Failed(error),
    }
}
