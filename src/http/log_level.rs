//! What is logged, to be read and changed while the process runs.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::api::Api;
use super::error::{ApiError, ErrorBody};
use crate::telemetry::{LogLevel, log_level};

/// `{"level":"info"}`.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LogLevel)]
pub(super) struct Level {
    /// `off`, `error`, `warn`, `info`, `debug` or `trace`, or directives such as `info,multinic_operator=debug`.
    #[schema(example = "info")]
    level: String,
}

/// What is logged
#[utoipa::path(
    get,
    operation_id = "log_level",
    path = "/v1/log-level",
    tag = "configs",
    responses(
        (status = 200, description = "The level.", body = Level, example = json!({"level": "info"})),
        (status = 401, description = "A bearer token is required (where one is set).", body = ErrorBody),
        (status = 503, description = "Another replica leads; the message names it.", body = ErrorBody)
    ),
    security((), ("bearer" = []))
)]
pub(super) async fn get() -> Result<Json<Level>, ApiError> {
    Ok(Json(Level { level: current()?.get() }))
}

/// Change what is logged
///
/// Until the process ends. Only where the API asks for a token: whoever can reach the port must not be able to
/// silence the log.
#[utoipa::path(
    put,
    operation_id = "set_log_level",
    path = "/v1/log-level",
    tag = "configs",
    request_body = Level,
    responses(
        (status = 200, description = "The level from now on.", body = Level, example = json!({"level": "debug"})),
        (status = 400, description = "There is no such level.", body = ErrorBody),
        (status = 401, description = "A bearer token is required.", body = ErrorBody),
        (status = 403, description = "No token is set, so nobody may change it.", body = ErrorBody),
        (status = 503, description = "Another replica leads; the message names it.", body = ErrorBody)
    ),
    security(("bearer" = []))
)]
pub(super) async fn put(State(api): State<Api>, body: Bytes) -> Result<Json<Level>, ApiError> {
    if api.parts.token.is_none() {
        return Err(ApiError::forbidden("the log level can be changed only with --api-token-file"));
    }
    let wanted: Level = serde_json::from_slice(&body).map_err(|error| {
        ApiError::bad_request(format!("the body must be like {{\"level\":\"info\"}}: {error}"))
    })?;
    let log = current()?;
    log.set(&wanted.level).map_err(|error| ApiError::bad_request(error.to_string()))?;
    tracing::warn!("the log level is now {:?}, by a request to the API", log.get());
    get().await
}

fn current() -> Result<&'static LogLevel, ApiError> {
    log_level().ok_or_else(|| ApiError::unavailable("nothing is logged by this process"))
}
