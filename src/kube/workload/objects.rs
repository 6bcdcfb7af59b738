//! The two kinds that are read in a workload cluster, with no more of them than is needed and without judging
//! what does not matter here.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{CustomResourceExt as _, Resource};
use multinic_actors::domain::readback::{Agent, Found};
use serde::Deserialize;
use serde_json::Value;

use crate::kube::node_config::MultiNicNodeConfig;

/// A node config as anybody may have written it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct NodeConfigObject {
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: Value,
    #[serde(default)]
    status: Value,
}

/// A node, by its machine.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct MachineNode {
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeStatus {
    node_info: NodeInfo,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeInfo {
    #[serde(rename = "systemUUID")]
    system_uuid: Option<String>,
}

macro_rules! resource {
    ($kind:ty, $of:ty, $plural:expr) => {
        impl Resource for $kind {
            type DynamicType = ();
            type Scope = <$of as Resource>::Scope;

            fn kind(_: &()) -> Cow<'_, str> {
                <$of as Resource>::kind(&())
            }

            fn group(_: &()) -> Cow<'_, str> {
                <$of as Resource>::group(&())
            }

            fn version(_: &()) -> Cow<'_, str> {
                <$of as Resource>::version(&())
            }

            fn plural(_: &()) -> Cow<'_, str> {
                $plural
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(NodeConfigObject, MultiNicNodeConfig, MultiNicNodeConfig::api_resource().plural.into());
resource!(MachineNode, k8s_openapi::api::core::v1::Node, "nodes".into());

impl MachineNode {
    pub(super) fn system_uuid(&self) -> Option<&str> {
        self.status.node_info.system_uuid.as_deref()
    }
}

impl NodeConfigObject {
    /// What it says, and how far its agent is with it.
    pub(super) fn found(&self) -> Found {
        Found { config: serde_json::from_value(self.spec.clone()).ok(), agent: self.agent() }
    }

    fn agent(&self) -> Agent {
        let observed = self.status["observedGeneration"].as_i64();
        let is_behind = observed.zip(self.metadata.generation).is_some_and(|(seen, now)| seen < now);
        match self.status["state"].as_str() {
            // What it said of an earlier content says nothing of this one.
            _ if is_behind => Agent::InProgress,
            Some("Configured") => Agent::Configured,
            Some("Failed") => Agent::Failed(words(&self.status)),
            _ => Agent::InProgress,
        }
    }
}

/// Why the agent failed, in its own words: NIC by NIC, else by its conditions.
fn words(status: &Value) -> String {
    let list = |field: &str| status[field].as_array().cloned().unwrap_or_default();
    let is_well = |status: &Value| matches!(status.as_str(), Some("Configured" | "Success" | "True"));
    let told = |name: &Value, entry: &Value| {
        let parts = [name, &entry["reason"], &entry["message"]];
        let parts = parts.iter().filter_map(|part| part.as_str()).filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(": ")
    };
    let nics = list("interfaceStatuses").into_iter().filter(|nic| !is_well(&nic["status"]));
    let mut all: Vec<String> = nics.map(|nic| told(&nic["name"], &nic)).collect();
    if all.is_empty() {
        let conditions = list("conditions").into_iter();
        let bad = conditions.filter(|condition| condition["status"] == "False");
        all = bad.map(|condition| told(&condition["type"], &condition)).collect();
    }
    all.retain(|text| !text.is_empty());
    if all.is_empty() { "the agent gives no reason".to_owned() } else { all.join("; ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent(status: Value) -> Agent {
        let object = json!({"metadata": {"name": "n", "generation": 3}, "spec": {}, "status": status});
        serde_json::from_value::<NodeConfigObject>(object).unwrap().agent()
    }

    #[test]
    fn the_agents_state_counts_for_the_content_that_it_has_seen() {
        assert_eq!(agent(Value::Null), Agent::InProgress);
        assert_eq!(agent(json!({"state": "Configured"})), Agent::Configured);
        assert_eq!(agent(json!({"state": "Configured", "observedGeneration": 3})), Agent::Configured);
        assert_eq!(agent(json!({"state": "Configured", "observedGeneration": 2})), Agent::InProgress);
        assert_eq!(agent(json!({"state": "Failed", "observedGeneration": 2})), Agent::InProgress);
        for state in ["Pending", "InProgress", "SomethingNew"] {
            assert_eq!(agent(json!({"state": state})), Agent::InProgress, "{state}");
        }
    }

    #[test]
    fn a_failure_is_told_in_the_agents_words() {
        let check = |status: Value, expect: &str| {
            assert_eq!(agent(status), Agent::Failed(expect.to_owned()));
        };
        check(json!({"state": "Failed"}), "the agent gives no reason");
        let nics = json!([
            {"name": "multinic0", "status": "Configured", "reason": "Done"},
            {"name": "multinic1", "macAddress": "fa:16:3e:00:00:01", "status": "Failed", "reason": "NicNotFound",
                "message": "no NIC has this MAC"},
        ]);
        let conditions = json!([{"type": "Ready", "status": "False", "reason": "NetplanFailed"}]);
        check(json!({"state": "Failed", "conditions": conditions}), "Ready: NetplanFailed");
        check(
            json!({"state": "Failed", "interfaceStatuses": nics, "conditions": conditions}),
            "multinic1: NicNotFound: no NIC has this MAC",
        );
    }

    #[test]
    fn an_object_that_says_something_odd_is_found_all_the_same() {
        let object = json!({"metadata": {"name": "n"}, "spec": {"nodeName": 7, "interfaces": "none"}});
        let object: NodeConfigObject = serde_json::from_value(object).unwrap();
        assert_eq!(object.found(), Found { config: None, agent: Agent::InProgress });
    }
}
