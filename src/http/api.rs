//! The REST API on the inventory port.

use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};

use super::error::ApiError;
use super::readers::{ConfigReader, HealthReader, InventoryReader, TreeReader};
use super::token_file::TokenFile;
use super::{auth, configs, guard, interfaces, log_level};

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
    let admitted = Router::new()
        .route("/v1/interfaces/providers", get(interfaces::providers))
        .route("/v1/interfaces/node-configs", get(interfaces::by_provider_id))
        .route("/v1/interfaces/node-configs/by-instance/", get(interfaces::without_instance))
        .route("/v1/interfaces/node-configs/by-instance/{instanceId}", get(interfaces::by_instance))
        .route("/v1/configs", get(configs::list))
        .route("/v1/configs/{namespace}/{name}", get(configs::one))
        .route("/v1/actors", get(configs::actors))
        .route("/v1/log-level", get(log_level::get).put(log_level::put))
        .route_layer(middleware::from_fn_with_state(api.clone(), auth::admit));
    let open = Router::new().route("/healthz", get(healthz));
    guarded(admitted.merge(open).with_state(api))
}

/// JSON for what no route answers, and the guard in front of all.
pub(super) fn guarded(router: Router) -> Router {
    router
        .fallback(|| async { ApiError::not_found("no such path") })
        .method_not_allowed_fallback(|| async {
            ApiError::method_not_allowed("only GET and HEAD are allowed")
        })
        .layer(middleware::from_fn(guard::guard))
}

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
