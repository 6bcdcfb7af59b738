//! The document of an API and a page to read it with. Both come from the binary: nothing is loaded from another
//! host, so that the page works where there is no internet.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use utoipa::openapi::OpenApi;
use utoipa_swagger_ui::Config;

use super::error::ApiError;
use super::openapi;

/// Whatever the page's scripts ask for, a browser gets it from this server or not at all.
const OWN_HOST_ONLY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; \
                             base-uri 'none'; form-action 'self'; frame-ancestors 'self'";

/// A document in its two notations.
struct Document {
    yaml: String,
    json: String,
    page: Arc<Config<'static>>,
}

/// `/openapi.yaml`, `/openapi.json` and the page at `/docs`.
pub(crate) fn document(document: OpenApi) -> Router {
    let document = Document {
        yaml: openapi::yaml(&document).unwrap_or_default(),
        json: document.to_json().unwrap_or_default(),
        // Relative to /docs/, so that it also works below a path of a proxy. The validator is a service elsewhere.
        page: Arc::new(Config::new(["../openapi.json"]).validator_url("none").try_it_out_enabled(true)),
    };
    Router::new()
        .route("/openapi.yaml", get(yaml))
        .route("/openapi.json", get(json))
        // The page's files are relative to it.
        .route("/docs", get(|| async { (StatusCode::FOUND, [(header::LOCATION, "docs/")]) }))
        .route("/docs/", get(|State(document): State<Arc<Document>>| async move { file(&document, "") }))
        .route("/docs/{*file}", get(page_file))
        .with_state(Arc::new(document))
}

async fn yaml(State(document): State<Arc<Document>>) -> Response {
    ([(header::CONTENT_TYPE, "application/yaml")], document.yaml.clone()).into_response()
}

async fn json(State(document): State<Arc<Document>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document.json.clone()).into_response()
}

async fn page_file(State(document): State<Arc<Document>>, Path(name): Path<String>) -> Response {
    file(&document, &name)
}

fn file(document: &Document, name: &str) -> Response {
    match utoipa_swagger_ui::serve(name, Arc::clone(&document.page)) {
        Ok(Some(file)) => {
            let kind = HeaderValue::try_from(file.content_type);
            let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
            let headers = [
                (header::CONTENT_TYPE, kind),
                (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(OWN_HOST_ONLY)),
                (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            ];
            // The large ones are a part of the binary: they are not copied for each reader.
            let bytes = match file.bytes {
                Cow::Borrowed(bytes) => Bytes::from_static(bytes),
                Cow::Owned(bytes) => Bytes::from(bytes),
            };
            (headers, bytes).into_response()
        }
        Ok(None) => ApiError::not_found("no such path").into_response(),
        Err(error) => ApiError::internal(format!("the page cannot be made: {error}")).into_response(),
    }
}
