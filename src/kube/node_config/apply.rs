//! One object into a cluster, by server-side apply.

use std::time::Duration;

use kube::api::{Api, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::MultiNicNodeConfig;
use super::takeover::{Verdict, judge};
use crate::kube::client::{CallError, call};

pub use super::takeover::FieldConflict;

/// As whom the objects are applied, whoever does it: a node that is moved from one way of delivery to the other
/// meets no conflict.
pub const FIELD_MANAGER: &str = "multinic-operator";

/// How often an object may change between the look at its managers and the forced apply.
const ATTEMPTS: usize = 3;

/// Why an object was not applied.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplyError {
    /// A call failed.
    Call(CallError),
    /// Another applier owns a field.
    Conflict(FieldConflict),
    /// It changed each time between look and write.
    Unsteady,
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Conflict(conflict) => conflict.fmt(f),
            Self::Unsteady => f.write_str("somebody else keeps changing this object"),
        }
    }
}

impl From<CallError> for ApplyError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// Applies an object: created where there is none, taken over where others only updated it (see
/// [`judge`]). `limit` is for each call; there are up to seven, usually one.
///
/// # Errors
/// When the API server cannot be reached or refuses, or another applier owns a field.
pub async fn apply(client: Client, object: &MultiNicNodeConfig, limit: Duration) -> Result<(), ApplyError> {
    let name = object.name_any();
    // The answer has the agent's status, which may have words that our types do not know: it is not read.
    let resource = ApiResource::erase::<MultiNicNodeConfig>(&());
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &resource);
    let params = PatchParams::apply(FIELD_MANAGER);
    for _ in 0..ATTEMPTS {
        let applied = call(limit, api.patch(&name, &params, &Patch::Apply(object))).await;
        let conflict = match applied {
            Ok(_) => return Ok(()),
            Err(CallError::Refused(status)) if status.code == 409 => status,
            Err(error) => return Err(error.into()),
        };
        let Some(found) = call(limit, api.get_metadata_opt(&name)).await? else {
            // Deleted since: there is nobody left to conflict with.
            continue;
        };
        if let Verdict::Respect(conflict) = judge(&conflict, found.managed_fields()) {
            return Err(ApplyError::Conflict(conflict));
        }
        // With the version that was looked at: a manager that came since is a conflict again.
        let mut forced = json!(object);
        forced["metadata"]["resourceVersion"] = json!(found.resource_version());
        match call(limit, api.patch(&name, &params.clone().force(), &Patch::Apply(forced))).await {
            Ok(_) => return Ok(()),
            Err(CallError::Refused(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ApplyError::Unsteady)
}
