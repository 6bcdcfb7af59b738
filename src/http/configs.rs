//! `/v1/configs` and `/v1/actors`: what the operator is doing.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use jiff::Timestamp;
use multinic_actors::domain::ids::ConfigId;
use multinic_actors::domain::port::Verdict;
use multinic_actors::domain::reason::Reason;
use multinic_actors::domain::status::{
    ConfigStatus, Degraded, DownPortRetry, NodeCounts, PendingChange, SkippedVm,
};
use serde::Serialize;

use super::answer::Answer;
use super::api::Api;
use super::error::{ApiError, ErrorBody};
use super::page::Page;
use super::query::Query;
use super::schemas::{Actor, ConfigDetail, Configs};

/// All configs
///
/// Without the ports of each VM.
#[utoipa::path(
    get,
    path = "/v1/configs",
    tag = "configs",
    params(("limit" = Option<u32>, Query, description = "At most so many entries; without it all.", minimum = 1),
        ("continue" = Option<String>, Query, description = "Goes on behind an answer with a limit: its `continue`.")),
    responses(
        (status = 200, description = "All configs.", body = Configs),
        (status = 400, description = "A parameter is missing or wrong.", body = ErrorBody),
        (status = 304, description = "As the `ETag` in `If-None-Match` says."),
        (status = 401, description = "A bearer token is required (where one is set).", body = ErrorBody),
        (status = 503, description = "Another replica leads; the message names it.", body = ErrorBody)
    ),
    security((), ("bearer" = []))
)]
pub(super) async fn list(
    State(api): State<Api>,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let page = Page::of(&query)?;
    let mut configs = api.parts.configs.configs();
    configs.sort_by(|a, b| a.id.cmp(&b.id));
    let (configs, more) = page.cut(configs, |config| {
        let id = &config.id;
        vec![id.name.namespace.to_string(), id.name.name.to_string(), id.uid.to_string()]
    });
    Answer::object("{\"configs\":[", configs, write_summary, more).respond(&headers).await
}

/// One config
///
/// With the verdict of each port.
#[utoipa::path(
    get,
    path = "/v1/configs/{namespace}/{name}",
    tag = "configs",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses(
        (status = 200, description = "One config.", body = ConfigDetail),
        (status = 404, description = "There is none.", body = ErrorBody),
        (status = 304, description = "As the `ETag` in `If-None-Match` says."),
        (status = 401, description = "A bearer token is required (where one is set).", body = ErrorBody),
        (status = 503, description = "Another replica leads; the message names it.", body = ErrorBody)
    ),
    security((), ("bearer" = []))
)]
pub(super) async fn one(
    State(api): State<Api>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let is_it = |config: &Arc<ConfigStatus>| {
        let id = &config.id.name;
        *id.namespace == *namespace && *id.name == *name
    };
    let found = api.parts.configs.configs().into_iter().find(is_it);
    let config = found.ok_or_else(|| ApiError::not_found("no such config"))?;
    Answer::single(config).respond(&headers).await
}

/// The actors
///
/// The supervision tree as it is.
#[utoipa::path(
    get,
    path = "/v1/actors",
    tag = "configs",
    responses(
        (status = 200, description = "The actors.", body = Actor),
        (status = 304, description = "As the `ETag` in `If-None-Match` says."),
        (status = 401, description = "A bearer token is required (where one is set).", body = ErrorBody),
        (status = 503, description = "Another replica leads; the message names it.", body = ErrorBody)
    ),
    security((), ("bearer" = []))
)]
pub(super) async fn actors(State(api): State<Api>, headers: HeaderMap) -> Result<Response, ApiError> {
    Answer::single(api.parts.tree.tree()).respond(&headers).await
}

/// A [`ConfigStatus`] without `vms`, which grows with VMs × ports.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    #[serde(flatten)]
    id: &'a ConfigId,
    observed_generation: i64,
    ready: Option<bool>,
    reason: Reason,
    message: &'a str,
    degraded: Degraded,
    paused: bool,
    last_synced_at: Option<Timestamp>,
    last_error: &'a Option<String>,
    down_port_retry: &'a Option<DownPortRetry>,
    nodes: NodeCounts,
    skipped: &'a [SkippedVm],
    pending_changes: &'a [PendingChange],
    ports: &'a BTreeMap<Verdict, u32>,
    next_poll_at: Option<Timestamp>,
    last_poll_at: Option<Timestamp>,
    last_error_detail: &'a Option<String>,
    token_expires_at: Option<Timestamp>,
}

fn write_summary(config: &Arc<ConfigStatus>, out: &mut Vec<u8>) -> serde_json::Result<()> {
    serde_json::to_writer(out, &Summary::of(config))
}

impl<'a> Summary<'a> {
    fn of(config: &'a ConfigStatus) -> Self {
        // Without `..`: a new field has to be placed here too.
        let ConfigStatus {
            id,
            observed_generation,
            ready,
            reason,
            message,
            degraded,
            paused,
            last_synced_at,
            last_error,
            down_port_retry,
            nodes,
            skipped,
            pending_changes,
            ports,
            vms: _,
            next_poll_at,
            last_poll_at,
            last_error_detail,
            token_expires_at,
        } = config;
        Self {
            id,
            observed_generation: *observed_generation,
            ready: *ready,
            reason: *reason,
            message,
            degraded: *degraded,
            paused: *paused,
            last_synced_at: *last_synced_at,
            last_error,
            down_port_retry,
            nodes: *nodes,
            skipped,
            pending_changes,
            ports,
            next_poll_at: *next_poll_at,
            last_poll_at: *last_poll_at,
            last_error_detail,
            token_expires_at: *token_expires_at,
        }
    }
}
