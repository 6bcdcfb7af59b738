//! `/v1/interfaces/*`: what was delivered, as the previous operator answered it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use jiff::Timestamp;
use multinic_actors::domain::ids::{NodeName, ProviderId, VmId};
use multinic_actors::domain::inventory::{Owner, Record, Snapshot};
use multinic_actors::domain::node::{ConfigHash, NodeConfig};
use serde::{Serialize, Serializer};

use super::answer::Answer;
use super::api::Api;
use super::error::{ApiError, ErrorBody};
use super::page::Page;
use super::query::Query;
use super::schemas::{Providers, Record as RecordSchema};

type Records = Vec<Arc<Record>>;

/// Workload clusters and their nodes
///
/// Sorted by provider and node.
#[utoipa::path(
    get,
    path = "/v1/interfaces/providers",
    tag = "interfaces",
    params(("limit" = Option<u32>, Query, description = "At most so many entries; without it all.", minimum = 1),
        ("continue" = Option<String>, Query, description = "Goes on behind an answer with a limit: its `continue`.")),
    responses(
        (status = 200, description = "Workload clusters and their nodes.", body = Providers),
        (status = 400, description = "A parameter is missing or wrong.", body = ErrorBody),
        (status = 304, description = "As the `ETag` in `If-None-Match` says."),
        (status = 401, description = "A bearer token is required (where one is set).", body = ErrorBody),
        (status = 503, description = "The inventory is disabled or not loaded yet, or another replica leads.", body = ErrorBody)
    ),
    security((), ("bearer" = []))
)]
pub(super) async fn providers(
    State(api): State<Api>,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let page = Page::of(&query)?;
    let groups = by_provider(&*snapshot(&api)?);
    let (groups, more) = page.cut(groups, |group| {
        let provider = group.first().map(|record| record.provider_id.to_string());
        provider.into_iter().collect()
    });
    let answer = Answer::object("{\"providers\":[", groups, write_provider, more);
    answer.respond(&headers).await
}

/// What was delivered to the nodes of one workload cluster
///
/// An unknown `providerId` has none.
#[utoipa::path(
    get,
    path = "/v1/interfaces/node-configs",
    tag = "interfaces",
    params(("providerId" = String, Query, description = "An object's `k8sProviderID`."),
        ("limit" = Option<u32>, Query, description = "At most so many entries; without it all.", minimum = 1),
        ("continue" = Option<String>, Query, description = "Goes on behind an answer with a limit: its `x-continue`.")),
    responses(
        (status = 200, description = "What was delivered to the nodes of one workload cluster.", body = Vec<RecordSchema>),
        (status = 400, description = "A parameter is missing or wrong.", body = ErrorBody),
        (status = 304, description = "As the `ETag` in `If-None-Match` says."),
        (status = 401, description = "A bearer token is required (where one is set).", body = ErrorBody),
        (status = 503, description = "The inventory is disabled or not loaded yet, or another replica leads.", body = ErrorBody)
    ),
    security((), ("bearer" = []))
)]
pub(super) async fn by_provider_id(
    State(api): State<Api>,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // The inventory's state first: without one, a wrong question is not the problem.
    let snapshot = snapshot(&api)?;
    let provider = query.get("providerId").ok_or_else(|| ApiError::bad_request("providerId is required"))?;
    let records = select(&snapshot, |record| record.provider_id.as_str() == provider);
    respond(records, &query, &headers).await
}

/// What was delivered to one VM
///
/// In any case of letters; in several workload clusters, if it is a node of several.
#[utoipa::path(
    get,
    path = "/v1/interfaces/node-configs/by-instance/{instanceId}",
    tag = "interfaces",
    params(("instanceId" = String, Path, description = "UUID of the VM."),
        ("providerId" = Option<String>, Query, description = "Only of this workload cluster."),
        ("limit" = Option<u32>, Query, description = "At most so many entries; without it all.", minimum = 1),
        ("continue" = Option<String>, Query, description = "Goes on behind an answer with a limit: its `x-continue`.")),
    responses(
        (status = 200, description = "What was delivered to one VM.", body = Vec<RecordSchema>),
        (status = 400, description = "A parameter is missing or wrong.", body = ErrorBody),
        (status = 404, description = "There is none.", body = ErrorBody),
        (status = 304, description = "As the `ETag` in `If-None-Match` says."),
        (status = 401, description = "A bearer token is required (where one is set).", body = ErrorBody),
        (status = 503, description = "The inventory is disabled or not loaded yet, or another replica leads.", body = ErrorBody)
    ),
    security((), ("bearer" = []))
)]
pub(super) async fn by_instance(
    State(api): State<Api>,
    Path(instance): Path<String>,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let snapshot = snapshot(&api)?;
    let vm = VmId::new(instance);
    let provider = query.get("providerId");
    let is_asked_for =
        |record: &&Arc<Record>| provider.is_none_or(|provider| record.provider_id.as_str() == provider);
    let records: Records = snapshot.records.of_vm(&vm).filter(is_asked_for).cloned().collect();
    if records.is_empty() {
        return Err(ApiError::not_found("no node config of this instance"));
    }
    respond(records, &query, &headers).await
}

/// `GET /v1/interfaces/node-configs/by-instance/`
pub(super) async fn without_instance() -> ApiError {
    ApiError::bad_request("instanceId is required")
}

fn snapshot(api: &Api) -> Result<Arc<Snapshot>, ApiError> {
    let unavailable = || ApiError::unavailable("the inventory is disabled or not loaded yet");
    api.parts.inventory.snapshot().ok_or_else(unavailable)
}

/// The records are shared with the inventory: this copies pointers.
fn select(snapshot: &Snapshot, is_wanted: impl Fn(&Record) -> bool) -> Records {
    let records = snapshot.records.values();
    records.filter(|record| is_wanted(record)).cloned().collect()
}

async fn respond(records: Records, query: &Query, headers: &HeaderMap) -> Result<Response, ApiError> {
    let (records, more) = Page::of(query)?
        .cut(records, |record| vec![record.provider_id.to_string(), record.node_name.to_string()]);
    Answer::array(records, write_record, more).respond(headers).await
}

fn by_provider(snapshot: &Snapshot) -> Vec<Records> {
    let records: Records = snapshot.records.values().cloned().collect();
    records.chunk_by(|a, b| a.provider_id == b.provider_id).map(<[_]>::to_vec).collect()
}

/// A time as the previous operator wrote it: RFC 3339 in whole seconds.
struct WholeSeconds(Timestamp);

impl Serialize for WholeSeconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let whole = Timestamp::from_second(self.0.as_second()).unwrap_or(self.0);
        whole.serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordView<'a> {
    provider_id: &'a ProviderId,
    node_name: &'a NodeName,
    instance_id: &'a VmId,
    config: &'a NodeConfig,
    last_config_hash: &'a ConfigHash,
    updated_at: WholeSeconds,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a Owner>,
}

fn write_record(record: &Arc<Record>, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let view = RecordView {
        provider_id: &record.provider_id,
        node_name: &record.node_name,
        instance_id: &record.instance_id,
        config: &record.config,
        last_config_hash: &record.last_config_hash,
        updated_at: WholeSeconds(record.updated_at),
        owner: record.owner.as_ref(),
    };
    serde_json::to_writer(out, &view)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProviderView<'a> {
    provider_id: Option<&'a ProviderId>,
    node_count: usize,
    updated_at: WholeSeconds,
    nodes: Vec<NodeView<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeView<'a> {
    provider_id: &'a ProviderId,
    node_name: &'a NodeName,
    instance_id: &'a VmId,
    interface_count: usize,
    updated_at: WholeSeconds,
}

fn write_provider(records: &Records, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let newest = records.iter().map(|record| record.updated_at).max();
    let nodes = records.iter().map(|record| NodeView {
        provider_id: &record.provider_id,
        node_name: &record.node_name,
        instance_id: &record.instance_id,
        interface_count: record.config.interfaces.len(),
        updated_at: WholeSeconds(record.updated_at),
    });
    let view = ProviderView {
        provider_id: records.first().map(|record| &record.provider_id),
        node_count: records.len(),
        updated_at: WholeSeconds(newest.unwrap_or_default()),
        nodes: nodes.collect(),
    };
    serde_json::to_writer(out, &view)
}
