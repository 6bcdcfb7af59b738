//! What is logged, to be read and changed while the process runs.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::api::Api;
use super::error::ApiError;
use crate::telemetry::{LogLevel, log_level};

/// `{"level":"info"}`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Level {
    level: String,
}

pub(super) async fn get() -> Result<Json<Level>, ApiError> {
    Ok(Json(Level { level: current()?.get() }))
}

/// Only where the API asks for a token: whoever can reach the port must not be able to silence the log.
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
