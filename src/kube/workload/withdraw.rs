//! Taking node configs away, where that is asked for: only those that this operator put there, and only while
//! they are still of the VMs that they were delivered for.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, DeleteParams, Preconditions};
use multinic_actors::boundary::Withdrawal;
use multinic_actors::domain::ids::{NodeName, VmId};

use super::access::Access;
use super::objects::NodeConfigObject;
use crate::kube::client::{CALL_TIMEOUT, CallError, call};
use crate::kube::node_config::apply::FIELD_MANAGER;
use crate::kube::node_config::object::object_name;

/// Objects at the same time.
const PARALLEL: usize = 8;
/// How often an object may change between the look and the deletion.
const ATTEMPTS: usize = 3;
/// How long all of it may take; what is not done then is asked for again.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Takes the node configs away.
pub(super) async fn withdraw(access: &Access, order: &Withdrawal) -> Result<(), String> {
    let client = access.client().await?;
    let api: Api<NodeConfigObject> = Api::namespaced(client, &order.cluster.namespace);
    let work = stream::iter(order.nodes.clone())
        .map(|(node, vm)| {
            let api = api.clone();
            async move { one(&api, &node, &vm).await }
        })
        .buffer_unordered(PARALLEL)
        .try_for_each(|()| async { Ok(()) });
    let ended = tokio::time::timeout(TIMEOUT, work).await;
    let told = |problem: &str| format!("workload cluster {}: {problem}", access.name());
    ended.map_err(|_| told("it does not end in time"))?.map_err(|problem| told(&problem))
}

async fn one(api: &Api<NodeConfigObject>, node: &NodeName, vm: &VmId) -> Result<(), String> {
    let Some(name) = object_name(node.as_str()) else { return Ok(()) };
    let told = |error: CallError| format!("node config {name}: {}", error.detail());
    for _ in 0..ATTEMPTS {
        let Some(object) = call(CALL_TIMEOUT, api.get_opt(&name)).await.map_err(told)? else {
            return Ok(());
        };
        if !is_ours(&object, vm) {
            tracing::info!(
                "node config {name} of the workload cluster is not VM {vm}'s any more and is left"
            );
            return Ok(());
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: object.metadata.uid.clone(),
                resource_version: object.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        match call(CALL_TIMEOUT, api.delete(&name, &params)).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(404) => return Ok(()),
            // It changed since: what it is now decides.
            Err(error) if error.code() == Some(409) => {}
            Err(error) => return Err(told(error)),
        }
    }
    Err(format!("node config {name}: somebody else keeps changing it"))
}

fn is_ours(object: &NodeConfigObject, vm: &VmId) -> bool {
    let managers = object.metadata.managed_fields.iter().flatten();
    let is_managed = managers.into_iter().any(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER));
    let is_the_vms = object.spec["instanceId"].as_str().is_some_and(|id| VmId::new(id) == *vm);
    is_managed && is_the_vms
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_ours_and_still_the_vms_goes() {
        let check = |manager: &str, id: &str, expect: bool| {
            let object = json!({"metadata": {"name": "n", "managedFields": [{"manager": manager}]},
                "spec": {"instanceId": id}});
            let object: NodeConfigObject = serde_json::from_value(object).unwrap();
            assert_eq!(is_ours(&object, &"vm-1".into()), expect, "{manager} {id}");
        };
        check("multinic-operator", "VM-1", true);
        check("multinic-operator", "vm-2", false);
        check("kubectl", "vm-1", false);
    }
}
