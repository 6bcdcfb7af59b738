//! For the kubelet and for Prometheus: probes on one port, metrics on another.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use super::api::{alive, guarded};
use super::guard::GuardLimits;
use super::readers::HealthReader;
use crate::telemetry::MetricsHandle;

type Health = Arc<dyn HealthReader>;

/// `/healthz` (live) and `/readyz` (ready, with what it is made of).
pub fn probe_router(health: Health) -> Router {
    let router = Router::new()
        .route("/healthz", get(|State(health): State<Health>| async move { alive(&*health) }))
        .route("/readyz", get(readyz))
        .with_state(health);
    guarded(router, GuardLimits::default())
}

async fn readyz(State(health): State<Health>) -> Response {
    let checks = health.checks();
    let is_ready = checks.iter().all(|check| check.ok || !check.required);
    let status = match is_ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(json!({"ready": is_ready, "checks": checks}))).into_response()
}

/// `/metrics` in Prometheus' text format.
pub fn metrics_router(metrics: MetricsHandle) -> Router {
    let render = |State(metrics): State<MetricsHandle>| async move {
        let format = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
        (format, metrics.render())
    };
    guarded(Router::new().route("/metrics", get(render)).with_state(metrics), GuardLimits::default())
}
