//! An API server that keeps what is applied, and misbehaves where it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, body::Bytes};
use multinic_operator::http::{ServeLimits, serve};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// What it does with an object.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// A Status of this code.
    Refuse(u16, String),
    /// A conflict with this manager, of this operation, unless forced.
    Conflict(String, String),
    /// A Status of this code for so many times.
    RefuseAtFirst(u16, usize),
    /// No answer.
    Hang,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<String, Value>,
    behaviours: BTreeMap<String, Behaviour>,
    forced: BTreeSet<String>,
    patches: usize,
    /// For every object.
    all: Option<Behaviour>,
    tokens: BTreeSet<String>,
}

type Shared = Arc<Mutex<Inner>>;

/// A running one; it stops when dropped.
pub struct Cluster {
    pub url: String,
    inner: Shared,
    stop: CancellationToken,
}

impl Cluster {
    pub async fn start() -> Self {
        let inner = Shared::default();
        let path = "/apis/multinic.io/v1alpha1/namespaces/{namespace}/multinicnodeconfigs/{name}";
        let router = Router::new().route(path, get(read).patch(patch)).with_state(Arc::clone(&inner));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, router, ServeLimits::default(), stop.clone()));
        Self { url, inner, stop }
    }

    pub fn behave(&self, name: &str, behaviour: Behaviour) {
        self.inner.lock().unwrap().behaviours.insert(name.to_owned(), behaviour);
    }

    pub fn behave_always(&self, behaviour: Option<Behaviour>) {
        self.inner.lock().unwrap().all = behaviour;
    }

    /// Namespace/name and object.
    pub fn objects(&self) -> BTreeMap<String, Value> {
        self.inner.lock().unwrap().objects.clone()
    }

    pub fn forced(&self) -> BTreeSet<String> {
        self.inner.lock().unwrap().forced.clone()
    }

    pub fn patches(&self) -> usize {
        self.inner.lock().unwrap().patches
    }

    /// Every `Authorization` that was seen.
    pub fn tokens(&self) -> BTreeSet<String> {
        self.inner.lock().unwrap().tokens.clone()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn status(code: u16, message: &str, more: Value) -> Response {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "Invalid", "code": code});
    status.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    (StatusCode::from_u16(code).unwrap(), Json(status)).into_response()
}

fn behaviour(inner: &Inner, name: &str) -> Option<Behaviour> {
    inner.behaviours.get(name).or(inner.all.as_ref()).cloned()
}

async fn patch(
    State(shared): State<Shared>,
    Path((namespace, name)): Path<(String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    assert_eq!(query.get("fieldManager").map(String::as_str), Some("multinic-operator"));
    assert_eq!(headers["content-type"], "application/apply-patch+yaml");
    let object: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(object["metadata"]["name"], name.as_str());
    let is_forced = query.get("force").is_some_and(|force| force == "true");
    let found = {
        let mut inner = shared.lock().unwrap();
        inner.patches += 1;
        let is_passing = match inner.behaviours.get_mut(&name) {
            Some(Behaviour::RefuseAtFirst(_, times @ 1..)) => {
                *times -= 1;
                false
            }
            Some(Behaviour::RefuseAtFirst(..)) => true,
            _ => false,
        };
        if is_passing {
            inner.behaviours.remove(&name);
        }
        inner.tokens.extend(headers.get("authorization").map(|value| value.to_str().unwrap().to_owned()));
        behaviour(&inner, &name)
    };
    match found {
        Some(Behaviour::Hang) => std::future::pending().await,
        Some(Behaviour::Refuse(code, message)) => return status(code, &message, json!({})),
        Some(Behaviour::RefuseAtFirst(code, _)) => return status(code, "for a moment", json!({})),
        Some(Behaviour::Conflict(manager, _)) if !is_forced => {
            let cause = json!({"reason": "FieldManagerConflict", "field": ".spec.interfaces",
                "message": format!("conflict with {manager:?} using multinic.io/v1alpha1")});
            return status(
                409,
                "Apply failed with 1 conflict",
                json!({"reason": "Conflict", "details": {"causes": [cause]}}),
            );
        }
        Some(Behaviour::Conflict(..)) => {
            assert_eq!(
                object["metadata"]["resourceVersion"], "7",
                "forced without the version that was looked at"
            );
        }
        None => {}
    }
    let mut inner = shared.lock().unwrap();
    if is_forced {
        inner.forced.insert(name.clone());
    }
    inner.objects.insert(format!("{namespace}/{name}"), object.clone());
    // What a newer agent may have written.
    let mut answer = object;
    answer["status"] = json!({"state": "Unheard-of"});
    Json(answer).into_response()
}

async fn read(State(shared): State<Shared>, Path((namespace, name)): Path<(String, String)>) -> Response {
    let Some(Behaviour::Conflict(manager, operation)) = behaviour(&shared.lock().unwrap(), &name) else {
        return status(404, "not found", json!({"reason": "NotFound"}));
    };
    let managed = json!({"manager": manager, "operation": operation, "apiVersion": "multinic.io/v1alpha1"});
    Json(json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": "7", "managedFields": [managed]}}))
    .into_response()
}
