//! Errors as the routes answer them: `{"error":{"code","message"}}`.

use std::borrow::Cow;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use utoipa::ToSchema;

/// A request that is not answered with what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: Cow<'static, str>,
}

/// Every error of the API.
#[derive(ToSchema)]
#[schema(as = Error)]
#[allow(dead_code, reason = "what the document says of `ApiError`'s body")]
pub(crate) struct ErrorBody {
    error: ErrorText,
}

#[derive(ToSchema)]
#[schema(as = ErrorText)]
#[allow(dead_code, reason = "what the document says of `ApiError`'s body")]
struct ErrorText {
    /// One word.
    #[schema(example = "bad_request")]
    code: String,
    /// What is wrong, for a person.
    message: String,
}

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $status:ident, $code:literal;)*) => {
        impl ApiError {
            $($(#[$doc])*
            pub fn $name(message: impl Into<Cow<'static, str>>) -> Self {
                Self { status: StatusCode::$status, code: $code, message: message.into() }
            })*
        }
    };
}

errors! {
    /// 400: a parameter is missing or wrong.
    bad_request = BAD_REQUEST, "bad_request";
    /// 401: no token, or not the right one.
    unauthorized = UNAUTHORIZED, "unauthorized";
    /// 404: no such path, or nothing that fits.
    not_found = NOT_FOUND, "not_found";
    /// 405: the path exists, the method does not.
    method_not_allowed = METHOD_NOT_ALLOWED, "method_not_allowed";
    /// 413: a body where none, or only a small one, belongs.
    payload_too_large = PAYLOAD_TOO_LARGE, "payload_too_large";
    /// 414: a path and query longer than any that makes sense.
    uri_too_long = URI_TOO_LONG, "uri_too_long";
    /// 500: a fault of ours.
    internal = INTERNAL_SERVER_ERROR, "internal";
    /// 503: not now; or not here, but at the leader.
    unavailable = SERVICE_UNAVAILABLE, "unavailable";
    /// 503: the answer took too long.
    timeout = SERVICE_UNAVAILABLE, "timeout";
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {"code": self.code, "message": self.message}});
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
