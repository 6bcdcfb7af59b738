//! Who may ask, and who can answer.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;

use super::api::Api;
use super::error::ApiError;
use super::token_file::{TokenFile, is_same_secret};

/// In front of `/v1/*`: the bearer token, where one is set, and then the question whether this replica knows
/// anything.
pub(super) async fn admit(
    State(api): State<Api>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    check_token(api.parts.token.as_ref(), request.headers()).await?;
    if let Some(leader) = api.parts.standby.as_ref().and_then(|standby| standby()) {
        let text = format!("this replica stands by; ask the leader, {leader}");
        return Err(ApiError::unavailable(text));
    }
    Ok(next.run(request).await)
}

/// The bearer token alone, where one is set.
pub(crate) async fn admit_bearer(
    State(token): State<Option<TokenFile>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    check_token(token.as_ref(), request.headers()).await?;
    Ok(next.run(request).await)
}

async fn check_token(token: Option<&TokenFile>, headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(file) = token else {
        return Ok(());
    };
    let expected = file.token().await.map_err(|error| {
        tracing::warn!(%error, "the API refuses every request");
        ApiError::unavailable("the API's token file cannot be read")
    })?;
    match bearer(headers) {
        Some(given) if is_same_secret(given, &expected) => Ok(()),
        Some(_) => Err(ApiError::unauthorized("this is not the API's token")),
        None => Err(ApiError::unauthorized("a bearer token is required")),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
