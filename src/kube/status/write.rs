//! One write of one status.

use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Map, Value, json};

use super::FIELD_MANAGER;
use super::queue::Task;
use crate::kube::client::{CALL_TIMEOUT, CallError, call};
use crate::kube::openstack_config::{OpenstackConfig, OpenstackConfigStatus};

/// What came of a write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// It stands there.
    Written(Box<OpenstackConfigStatus>),
    /// There is no such object any more.
    Gone,
    /// It is to be tried again. `problem` is stable, `detail` is for the log.
    Failed {
        /// What is wrong.
        problem: String,
        /// What is wrong, with what varies.
        detail: String,
    },
}

/// Writes the status of a task by server-side apply: no conflict with anybody, and never the spec.
pub(super) async fn write(client: Client, task: &Task) -> Outcome {
    let resource = ApiResource::erase::<OpenstackConfig>(&());
    let name = &task.id.name;
    let api: Api<DynamicObject> = Api::namespaced_with(client, &name.namespace, &resource);
    let status = match serde_json::to_value(&task.status) {
        Ok(status) => status,
        Err(error) => return failed(&CallError::Unreadable(error.to_string())),
    };
    let applied = match apply(&api, &resource, task, &status).await {
        // Apply needs an object and a status that fit the schema: not so with an object that is bad itself, or
        // with an older CRD. A merge needs neither, and what that CRD does not know is cut off.
        Err(error) if is_about_content(&error) => merge(&api, task, &status, None).await,
        applied => applied,
    };
    let object = match applied {
        Ok(object) => object,
        Err(error) if error.code() == Some(404) => return Outcome::Gone,
        Err(error) => return failed(&error),
    };
    // Created anew under this name in this very moment. A uid in the patch would not prevent that: for a status
    // the API server takes the metadata of the object (seen with 1.37). Its own state follows soon.
    if object.metadata.uid.as_deref() != Some(&*task.id.uid) {
        return Outcome::Gone;
    }
    // What another manager (the previous operator) left there does not go with an apply of ours.
    let left = object.data.get("status").and_then(|has| leftovers(has, &status));
    if let Some(left) = left
        && let Err(error) = merge(&api, task, &status, Some(left)).await
    {
        return failed(&error);
    }
    Outcome::Written(Box::new(task.status.clone()))
}

async fn apply(
    api: &Api<DynamicObject>,
    resource: &ApiResource,
    task: &Task,
    status: &Value,
) -> Result<DynamicObject, CallError> {
    let name = &task.id.name;
    let patch = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name.name, "namespace": name.namespace},
        "status": status,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    call(CALL_TIMEOUT, api.patch_status(&name.name, &params, &Patch::Apply(patch))).await
}

/// A merge patch of the whole status, or of a part.
async fn merge(
    api: &Api<DynamicObject>,
    task: &Task,
    status: &Value,
    part: Option<Value>,
) -> Result<DynamicObject, CallError> {
    let part = part.unwrap_or_else(|| {
        let before = task.before.as_ref().and_then(|before| serde_json::to_value(before).ok());
        with_nulls(status, before.as_ref().unwrap_or(&Value::Null))
    });
    let patch = json!({"status": part});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    call(CALL_TIMEOUT, api.patch_status(&task.id.name.name, &params, &Patch::Merge(patch))).await
}

fn failed(error: &CallError) -> Outcome {
    Outcome::Failed { problem: error.to_string(), detail: error.detail() }
}

/// Whether the object, not the moment, is the reason.
fn is_about_content(error: &CallError) -> bool {
    match error {
        CallError::Refused(status) => {
            status.code == 400
                || status.code == 422
                || (status.code == 500 && status.message.contains("typed"))
        }
        _ => false,
    }
}

/// `null` for everything in `has` that is not in `wanted`: a merge patch that takes it away. Lists are whole
/// values; conditions of others stay.
fn leftovers(has: &Value, wanted: &Value) -> Option<Value> {
    let (Value::Object(has), Value::Object(wanted)) = (has, wanted) else { return None };
    let mut left = Map::new();
    for (key, value) in has {
        match wanted.get(key) {
            None => drop(left.insert(key.clone(), Value::Null)),
            Some(wanted) => {
                if let Some(nested) = leftovers(value, wanted) {
                    left.insert(key.clone(), nested);
                }
            }
        }
    }
    (!left.is_empty()).then_some(Value::Object(left))
}

/// `wanted`, and `null` for what stood there before and is not wanted any more.
fn with_nulls(wanted: &Value, before: &Value) -> Value {
    let mut merged = wanted.clone();
    if let (Value::Object(merged), Value::Object(before)) = (&mut merged, before) {
        for (key, value) in before {
            match merged.get_mut(key) {
                None => drop(merged.insert(key.clone(), Value::Null)),
                Some(wanted) => *wanted = with_nulls(wanted, value),
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_left_in_a_status_is_found() {
        let wanted = json!({"nodes": {"desired": 1}, "conditions": [{"type": "Ready"}]});
        assert_eq!(leftovers(&wanted, &wanted), None);
        let has = json!({"nodes": {"desired": 1, "failed": 2}, "lastError": "old",
            "conditions": [{"type": "Ready"}, {"type": "Other"}]});
        assert_eq!(leftovers(&has, &wanted), Some(json!({"nodes": {"failed": null}, "lastError": null})));
        assert_eq!(leftovers(&json!({"nodes": {"desired": 1}}), &wanted), None);
    }

    #[test]
    fn a_merge_takes_away_what_is_not_wanted_any_more() {
        let before = json!({"nodes": {"desired": 1, "skipped": 1}, "lastError": "x", "skipped": [1]});
        let wanted = json!({"nodes": {"desired": 2}, "skipped": [2]});
        let expect = json!({"nodes": {"desired": 2, "skipped": null}, "lastError": null, "skipped": [2]});
        assert_eq!(with_nulls(&wanted, &before), expect);
        assert_eq!(with_nulls(&wanted, &Value::Null), wanted);
    }

    #[test]
    fn the_object_itself_or_the_moment_may_be_the_reason() {
        let refused = |code: u16, message: &str| {
            let mut status = kube::core::Status::failure(message, "");
            status.code = code;
            CallError::Refused(Box::new(status))
        };
        assert!(is_about_content(&refused(
            500,
            "failed to create typed live object: .spec.vmNames: expected list"
        )));
        assert!(!is_about_content(&refused(500, "etcdserver: request timed out")));
        assert!(is_about_content(&refused(422, "invalid")));
        assert!(!is_about_content(&CallError::TimedOut));
    }
}
