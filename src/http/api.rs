//! The REST API on the inventory port.

use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::docs::document;
use super::error::{ApiError, ErrorBody};
use super::guard::GuardLimits;
use super::readers::{ConfigReader, HealthReader, InventoryReader, TreeReader};
use super::token_file::TokenFile;
use super::{auth, configs, guard, interfaces, openapi};

/// Who leads, while it is another replica.
pub type Standby = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// What the routes read.
#[derive(Clone)]
pub struct ApiParts {
    /// The persisted inventory.
    pub inventory: Arc<dyn InventoryReader>,
    /// The state of the configs.
    pub configs: Arc<dyn ConfigReader>,
    /// The supervision tree.
    pub tree: Arc<dyn TreeReader>,
    /// How the process is.
    pub health: Arc<dyn HealthReader>,
    /// Set: `/v1/*` is only for those who have the token.
    pub token: Option<TokenFile>,
    /// Set: while it names a leader, `/v1/*` is 503 with that name.
    pub standby: Option<Standby>,
}

impl fmt::Debug for ApiParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiParts").field("token", &self.token).finish_non_exhaustive()
    }
}

#[derive(Clone)]
pub(super) struct Api {
    pub(super) parts: Arc<ApiParts>,
}

/// The inventory routes, the state of configs and actors, and health.
pub fn api_router(parts: ApiParts) -> Router {
    let api = Api { parts: Arc::new(parts) };
    let (admitted, _) = admitted().split_for_parts();
    let admitted = admitted
        .route("/v1/interfaces/node-configs/by-instance/", get(interfaces::without_instance))
        .route_layer(middleware::from_fn_with_state(api.clone(), auth::admit));
    let (open, _) = open().split_for_parts();
    let router = admitted.merge(open).with_state(api).merge(document(openapi::document()));
    guarded(router, GuardLimits::default())
}

/// The routes that ask for the token, with their place in the document.
pub(super) fn admitted() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(interfaces::providers))
        .routes(routes!(interfaces::by_provider_id))
        .routes(routes!(interfaces::by_instance))
        .routes(routes!(configs::list))
        .routes(routes!(configs::one))
        .routes(routes!(configs::actors))
}

/// The routes that do not.
pub(super) fn open() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(healthz))
}

/// JSON for what no route answers, and the guard in front of all.
pub(crate) fn guarded(router: Router, limits: GuardLimits) -> Router {
    router
        .fallback(|| async { ApiError::not_found("no such path") })
        .method_not_allowed_fallback(|| async {
            ApiError::method_not_allowed("this method is not allowed here; see the header allow")
        })
        .layer(middleware::from_fn_with_state(limits, guard::guard))
}

/// Health
///
/// Whether the process works at all.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "health",
    responses(
        (status = 200, description = "It works.", body = String, content_type = "text/plain", example = "ok"),
        (status = 503, description = "It does not: restart it.", body = ErrorBody)
    )
)]
async fn healthz(State(api): State<Api>) -> Response {
    alive(&*api.parts.health)
}

/// `ok` as plain text, as the previous operator answered.
pub(super) fn alive(health: &dyn HealthReader) -> Response {
    match health.alive() {
        Ok(()) => "ok".into_response(),
        Err(problem) => ApiError::unavailable(problem).into_response(),
    }
}
