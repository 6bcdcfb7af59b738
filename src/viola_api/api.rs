//! The routes, and what a request goes through.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware};
use futures::StreamExt;
use tokio::time::timeout;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::openapi;
use super::outcome::{Answer, Failure};
use super::request::{self, PostedNode};
use super::routes::Live;
use super::target::Deadline;
use crate::http::{ApiError, ErrorBody, GuardLimits, TokenFile, admit_bearer, document, guarded};

/// Where nodes are posted.
pub const PATH: &str = "/v1/k8s/multinic/node-configs";
/// The header that names the cluster.
const PROVIDER_ID: &str = "x-provider-id";

/// The longest body: more than ten thousand nodes of one interface.
const MAX_BODY: usize = 4 * 1024 * 1024;
/// How much of a longer one is read all the same: a client that is still sending hears no answer.
const MAX_DRAINED: usize = 4 * MAX_BODY;
/// Until a body has to be there.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(super) struct Api {
    routes: Live,
    timeout: Duration,
}

/// The routes with their document.
pub(super) fn router(routes: Live, limit: Duration, token: Option<TokenFile>) -> Router {
    let api = Api { routes, timeout: limit };
    let (posts, _) = admitted().split_for_parts();
    let posts = posts.route_layer(middleware::from_fn_with_state(token, admit_bearer));
    let (open, _) = open().split_for_parts();
    // A turn, a body and an apply have their own limits; what takes longer than all of them is stuck.
    let limits = GuardLimits { body: u64::MAX, deadline: 2 * limit + BODY_TIMEOUT + Duration::from_secs(5) };
    guarded(posts.merge(open).with_state(api).merge(document(openapi::document())), limits)
}

/// What asks for the token, with its place in the document.
pub(super) fn admitted() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(post_node_configs))
}

/// What does not.
pub(super) fn open() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(healthz))
}

/// Deliver nodes
///
/// Makes a `MultiNicNodeConfig` object of each node and applies it in the cluster that `x-provider-id` names. One
/// node that is refused holds up no other.
#[utoipa::path(
    post,
    path = "/v1/k8s/multinic/node-configs",
    tag = "viola",
    params((
        "x-provider-id" = Option<String>,
        Header,
        description = "The workload cluster: an object's `k8sProviderID`. May be missing only where a default target serves."
    )),
    request_body(content = Vec<PostedNode>, content_type = "application/json", description = "At least one node; at most 4 MiB."),
    responses(
        (status = 200, description = "All nodes were applied.", body = Answer),
        (status = 207, description = "Some nodes were applied; `results` tells which.", body = Answer),
        (status = 400, description = "No JSON array of nodes, something required is missing, two nodes make one object, or no cluster is routed to.", body = ErrorBody),
        (status = 401, description = "A bearer token is required (where one is set).", body = ErrorBody),
        (status = 413, description = "The body is longer than 4 MiB.", body = ErrorBody),
        (status = 500, description = "No node was applied: the cluster refuses, cannot be reached, or did not answer within KUBECTL_TIMEOUT.", body = Failure),
        (status = 503, description = "Other requests to the same cluster do not end.", body = ErrorBody),
    ),
    security((), ("bearer" = []))
)]
async fn post_node_configs(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    refuse_if_endless(&headers)?;
    let provider_id = provider_id(&headers)?;
    let target = api.routes.find(provider_id).map_err(|error| ApiError::bad_request(error.to_string()))?;
    // Only who has a turn is read: bodies that wait stay with their senders.
    let waiting = Deadline::after(api.timeout);
    let turn = target.turn(waiting).await;
    let _turn = turn.ok_or_else(|| ApiError::unavailable("earlier requests to this cluster do not end"))?;
    let body = timeout(BODY_TIMEOUT, read(body)).await;
    let body =
        body.map_err(|_| ApiError::bad_request(format!("the body did not come within {BODY_TIMEOUT:?}")))??;
    let objects = request::objects(&body, &target.namespace, provider_id)?;
    drop(body);
    let outcome = target.apply(&objects, Deadline::after(api.timeout)).await;
    let (nodes, applied) = (objects.len(), outcome.applied());
    match outcome.first_problem() {
        None => tracing::info!(provider_id, nodes, "applied"),
        Some(problem) => tracing::warn!(provider_id, nodes, applied, "not all applied: {problem}"),
    }
    Ok(outcome.into_response())
}

/// `None` without one; white space round it does not count.
fn provider_id(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut found = None;
    for value in headers.get_all(PROVIDER_ID) {
        let text = std::str::from_utf8(value.as_bytes()).map(str::trim);
        let text = text.map_err(|_| ApiError::bad_request("the header x-provider-id is not UTF-8"))?;
        if found.is_some_and(|found| found != text) {
            return Err(ApiError::bad_request("the header x-provider-id is there twice"));
        }
        found = Some(text);
    }
    Ok(found.filter(|text| !text.is_empty()))
}

fn too_large() -> ApiError {
    ApiError::payload_too_large(format!(
        "the body is longer than {MAX_BODY} bytes; send fewer nodes at a time"
    ))
}

fn refuse_if_endless(headers: &HeaderMap) -> Result<(), ApiError> {
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > MAX_DRAINED) { Err(too_large()) } else { Ok(()) }
}

async fn read(body: Body) -> Result<Vec<u8>, ApiError> {
    let (mut bytes, mut length) = (Vec::new(), 0);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| ApiError::bad_request("the body ends early"))?;
        length += chunk.len();
        if length <= MAX_BODY {
            bytes.extend_from_slice(&chunk);
        } else if length > MAX_DRAINED {
            break;
        }
    }
    if length > MAX_BODY { Err(too_large()) } else { Ok(bytes) }
}

/// Health
///
/// `ok`, and on a second line what is wrong with the routing file, if anything is.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "health",
    responses((status = 200, description = "It works.", body = String, content_type = "text/plain", example = "ok"))
)]
async fn healthz(State(api): State<Api>) -> String {
    match api.routes.problem() {
        None => "ok".to_owned(),
        Some(problem) => format!("ok\n{problem}"),
    }
}
