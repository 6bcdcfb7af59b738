//! The second way of delivery: straight into the workload cluster.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::core::DynamicObject;
use multinic_actors::boundary::{self, BoxFuture};
use multinic_actors::domain::config::{Config, WorkloadCluster};
use multinic_actors::domain::node::{Interface, NodeConfig};
use multinic_actors::domain::post::{NodeResult, PostAnswer, PostError, PostFailure};
use tokio::time::Instant;

use super::WorkloadClusters;
use super::follower::number;
use super::objects::NodeConfigObject;
use crate::kube::client::CallError;
use crate::kube::node_config::apply::ApplyError;
use crate::kube::node_config::batch::{apply_all, is_about_all, may_pass};
use crate::kube::node_config::object::object_of;
use crate::kube::node_config::{MultiNicNodeConfig, MultiNicNodeConfigSpec, NodeInterface};

/// How long a batch may take once it is its turn: at most a hundred nodes, sixteen at a time.
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Each config's way of delivery: its workload cluster, or else `viola`.
pub struct Delivery<D> {
    viola: D,
    clusters: Arc<WorkloadClusters>,
}

impl<D> Delivery<D> {
    /// Straight into `clusters` for configs that say so, by `viola` for all others.
    pub fn new(viola: D, clusters: Arc<WorkloadClusters>) -> Self {
        Self { viola, clusters }
    }
}

impl<D: boundary::Delivery> boundary::Delivery for Delivery<D> {
    fn post(
        &self,
        config: Arc<Config>,
        nodes: Vec<Arc<NodeConfig>>,
    ) -> BoxFuture<'_, Result<PostAnswer, PostError>> {
        if config.delivery.direct().is_none() {
            return self.viola.post(config, nodes);
        }
        Box::pin(async move {
            match config.delivery.direct() {
                Some(target) => self.clusters.apply(&config, target, &nodes).await,
                None => Ok(PostAnswer::PerNode(Vec::new())),
            }
        })
    }
}

impl WorkloadClusters {
    async fn apply(
        &self,
        config: &Config,
        target: &WorkloadCluster,
        nodes: &[Arc<NodeConfig>],
    ) -> Result<PostAnswer, PostError> {
        let namespace = &config.id.name.namespace;
        let access = self.access(namespace, target);
        let failed = |failure, problem: &dyn fmt::Display| PostError {
            failure,
            message: format!("workload cluster {}: apply node configs: {problem}", access.name()),
            retry_after: None,
        };
        let client = access.client().await.map_err(|problem| failed(PostFailure::Unavailable, &problem))?;
        let _turn = access.turns.acquire().await;
        let provider = config.provider.as_str();
        let objects: Option<Vec<_>> =
            nodes.iter().map(|node| object_of(spec_of(node), &target.namespace, Some(provider))).collect();
        let objects: Vec<MultiNicNodeConfig> =
            objects.ok_or_else(|| failed(PostFailure::Refused, &"a node's name is no object's name"))?;
        let batch = apply_all(&client, &objects, Instant::now() + BATCH_TIMEOUT).await;
        let cluster = self.watched(namespace, target);
        let mut results = Vec::with_capacity(nodes.len());
        for (node, result) in nodes.iter().zip(batch.results) {
            match result {
                Some(Ok(object)) => {
                    // Seen before its event comes: what is there is known as soon as it counts as delivered.
                    if let Some((cluster, (name, version, found))) = cluster.as_ref().zip(seen(object)) {
                        cluster.applied(name, version, found);
                    }
                    results.push((node, Ok(())));
                }
                Some(Err(error)) => results.push((node, Err(error))),
                None => {
                    let error = batch.stopped.clone().unwrap_or(ApplyError::Call(CallError::TimedOut));
                    results.push((node, Err(error)));
                }
            }
        }
        answer(&results).map_err(|(failure, problem)| failed(failure, &problem))
    }
}

type Applied<'a> = (&'a Arc<NodeConfig>, Result<(), ApplyError>);

/// A failure that is about the cluster fails the batch: what was applied of it is applied once more, which
/// changes nothing. A refusal is about its node.
fn answer(results: &[Applied<'_>]) -> Result<PostAnswer, (PostFailure, String)> {
    let errors = || results.iter().filter_map(|(_, result)| result.as_ref().err());
    if let Some(error) = errors().find(|error| is_about_all(error) || may_pass(error)) {
        let is_begun = results.iter().any(|(_, result)| result.is_ok());
        let kind = if is_begun { PostFailure::UnknownOutcome } else { kind(error) };
        return Err((kind, said(error)));
    }
    let is_forbidden =
        |error: &ApplyError| matches!(error, ApplyError::Call(error) if error.code() == Some(403));
    if let Some(error) = errors().next()
        && errors().count() == results.len()
        && errors().all(is_forbidden)
    {
        return Err((PostFailure::Rejected, said(error)));
    }
    let judged = |(node, result): &Applied<'_>| NodeResult {
        node: node.node_name.clone(),
        result: result.as_ref().map(|_| ()).map_err(said),
        is_conflict: matches!(result, Err(ApplyError::Conflict(_))),
    };
    Ok(match errors().next() {
        None => PostAnswer::AllAccepted,
        Some(_) => PostAnswer::PerNode(results.iter().map(judged).collect()),
    })
}

fn kind(error: &ApplyError) -> PostFailure {
    match error {
        ApplyError::Call(CallError::TimedOut | CallError::Unreachable(_)) => PostFailure::UnknownOutcome,
        ApplyError::Call(error) => match error.code() {
            Some(401 | 404) => PostFailure::Rejected,
            Some(408 | 500..) => PostFailure::UnknownOutcome,
            _ => PostFailure::Unavailable,
        },
        ApplyError::Conflict(_) | ApplyError::Unsteady => PostFailure::Unavailable,
    }
}

/// The API server's own words where it gave some, nothing that varies.
fn said(error: &ApplyError) -> String {
    match error {
        ApplyError::Call(error @ CallError::Refused(_)) => error.detail(),
        error => error.to_string(),
    }
}

/// What an apply's answer says is there.
fn seen(object: DynamicObject) -> Option<(String, Option<u64>, multinic_actors::domain::readback::Found)> {
    let value = serde_json::to_value(object).ok()?;
    let object: NodeConfigObject = serde_json::from_value(value).ok()?;
    let version = number(object.metadata.resource_version.as_deref());
    Some((object.metadata.name.clone()?, version, object.found()))
}

/// The fields that the agent's kind has; a server-side apply refuses others.
fn spec_of(node: &NodeConfig) -> MultiNicNodeConfigSpec {
    let interface = |interface: &Interface| NodeInterface {
        id: Some(i64::from(interface.id)),
        name: Some(interface.name.clone()),
        mac_address: interface.mac_address.to_string(),
        address: Some(interface.address.to_string()),
        cidr: Some(interface.cidr.to_string()),
        mtu: Some(i64::from(interface.mtu)),
        port_id: interface.port_id.as_ref().map(ToString::to_string),
    };
    MultiNicNodeConfigSpec {
        node_name: node.node_name.to_string(),
        instance_id: Some(node.instance_id.to_string()),
        interfaces: node.interfaces.iter().map(interface).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube::core::Status;
    use multinic_actors::domain::readback::Found;

    use super::*;
    use crate::kube::node_config::apply::FieldConflict;

    fn node(name: &str) -> Arc<NodeConfig> {
        let value = serde_json::json!({"nodeName": name, "instanceId": "vm", "interfaces": [{
            "id": 0, "name": "multinic0", "macAddress": "fa:16:3e:00:00:01", "address": "192.0.2.10",
            "cidr": "192.0.2.0/24", "mtu": 1450, "portId": "p", "subnetId": "s"}]});
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn refused(code: u16) -> ApplyError {
        let mut status = Status::failure("words", "Reason");
        status.code = code;
        ApplyError::Call(CallError::Refused(Box::new(status)))
    }

    #[test]
    fn what_is_applied_is_found_as_the_same() {
        let node = node("a");
        let object = object_of(spec_of(&node), "ns", Some("biz")).unwrap();
        let value = serde_json::to_value(&object).unwrap();
        let object: NodeConfigObject = serde_json::from_value(value).unwrap();
        let Found { config: Some(config), .. } = object.found() else { panic!("unreadable") };
        assert!(config.is_same(&node));
    }

    #[test]
    fn a_failure_of_the_cluster_is_none_of_a_node() {
        let (a, b) = (node("a"), node("b"));
        let check = |error: ApplyError, expect: PostFailure| {
            let found = answer(&[(&a, Err(error.clone())), (&b, Err(error.clone()))]).unwrap_err().0;
            assert_eq!(found, expect, "{error}");
            let begun = answer(&[(&a, Ok(())), (&b, Err(error.clone()))]).unwrap_err().0;
            assert_eq!(begun, PostFailure::UnknownOutcome, "{error}: one of them has it");
        };
        check(ApplyError::Call(CallError::TimedOut), PostFailure::UnknownOutcome);
        check(ApplyError::Call(CallError::Unreachable("x".to_owned())), PostFailure::UnknownOutcome);
        check(refused(401), PostFailure::Rejected);
        check(refused(404), PostFailure::Rejected);
        check(refused(503), PostFailure::UnknownOutcome);
        check(refused(429), PostFailure::Unavailable);
        assert_eq!(answer(&[(&a, Err(refused(403)))]).unwrap_err().0, PostFailure::Rejected);
        assert_eq!(answer(&[(&a, Ok(()))]).unwrap(), PostAnswer::AllAccepted);
    }

    #[test]
    fn a_refusal_is_the_nodes_own() {
        let (a, b, c) = (node("a"), node("b"), node("c"));
        let conflict = FieldConflict {
            managers: BTreeSet::from(["gitops".to_owned()]),
            fields: BTreeSet::from([".spec.interfaces".to_owned()]),
        };
        let results = [(&a, Ok(())), (&b, Err(ApplyError::Conflict(conflict))), (&c, Err(refused(422)))];
        let Ok(PostAnswer::PerNode(nodes)) = answer(&results) else { panic!("no answer per node") };
        let is_conflict: Vec<_> = nodes.iter().map(|node| node.is_conflict).collect();
        assert_eq!(is_conflict, [false, true, false]);
        assert!(nodes[0].result.is_ok() && nodes[1].result.is_err() && nodes[2].result.is_err());
    }
}
