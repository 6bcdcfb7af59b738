//! ConfigMaps and the existence of objects as an API server has them, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::FutureExt as _;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use multinic_actors::boundary::BoxFuture;
use serde_json::{Value, json};

use super::maps::lock;

/// Clones are one server.
#[derive(Clone, Default)]
pub(super) struct FakeApi(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    maps: BTreeMap<String, Value>,
    objects: BTreeSet<String>,
    version: u64,
    /// Method and path of every request that was answered with success.
    log: Vec<(Method, String)>,
    trouble: Option<Trouble>,
}

/// What the server does instead of its work.
#[derive(Clone, Copy)]
pub(super) enum Trouble {
    Refuses(StatusCode),
    Hangs,
}

impl FakeApi {
    pub(super) fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    pub(super) fn trouble(&self, trouble: Option<Trouble>) {
        lock(&self.0).trouble = trouble;
    }

    /// The ConfigMaps, by name.
    pub(super) fn names(&self) -> Vec<String> {
        lock(&self.0).maps.keys().cloned().collect()
    }

    pub(super) fn map(&self, name: &str) -> Option<Value> {
        lock(&self.0).maps.get(name).cloned()
    }

    pub(super) fn data(&self, name: &str, key: &str) -> String {
        let map = self.map(name).unwrap_or_default();
        map["data"][key].as_str().unwrap_or_default().to_owned()
    }

    /// As another hand would.
    pub(super) fn edit(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut inner = lock(&self.0);
        inner.version += 1;
        let version = inner.version.to_string();
        let map = inner.maps.get_mut(name).unwrap();
        edit(map);
        map["metadata"]["resourceVersion"] = json!(version);
    }

    pub(super) fn delete(&self, name: &str) {
        lock(&self.0).maps.remove(name);
    }

    pub(super) fn set_object(&self, name: &str, is_there: bool) {
        let mut inner = lock(&self.0);
        match is_there {
            true => inner.objects.insert(name.to_owned()),
            false => inner.objects.remove(name),
        };
    }

    /// Successful writes since the last call.
    pub(super) fn writes(&self) -> usize {
        let log = std::mem::take(&mut lock(&self.0).log);
        log.iter().filter(|(method, _)| method != Method::GET).count()
    }
}

impl Inner {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> Result<Value, StatusCode> {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        if path.contains("/openstackconfigs/") {
            let is_there = self.objects.contains(&name);
            return is_there.then(|| json!({"metadata": {"name": name}})).ok_or(StatusCode::NOT_FOUND);
        }
        let known = self.maps.get(&name).cloned();
        let version = |value: &Value| value["resourceVersion"].as_str().map(str::to_owned);
        match *method {
            Method::POST => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if self.maps.contains_key(&name) {
                    return Err(StatusCode::CONFLICT);
                }
                Ok(self.store(name, body.clone()))
            }
            Method::PATCH => {
                let mut map = known.ok_or(StatusCode::NOT_FOUND)?;
                if version(&body["metadata"]).is_some_and(|at| Some(at) != version(&map["metadata"])) {
                    return Err(StatusCode::CONFLICT);
                }
                merge(&mut map, body);
                Ok(self.store(name, map))
            }
            Method::DELETE => {
                let map = known.ok_or(StatusCode::NOT_FOUND)?;
                let at = version(&body["preconditions"]);
                if at.is_some() && at != version(&map["metadata"]) {
                    return Err(StatusCode::CONFLICT);
                }
                self.maps.remove(&name);
                Ok(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            }
            _ => known.ok_or(StatusCode::NOT_FOUND),
        }
    }

    fn store(&mut self, name: String, mut map: Value) -> Value {
        // What a real one would not take.
        let _: ConfigMap = serde_json::from_value(map.clone()).unwrap();
        self.version += 1;
        map["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.maps.insert(name, map.clone());
        map
    }
}

fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => drop(into.as_object_mut().unwrap().remove(key)),
            value => merge(&mut into[key], value),
        }
    }
}

impl tower_service::Service<Request<Body>> for FakeApi {
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap_or_default();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let trouble = lock(&server.0).trouble;
            let answer = match trouble {
                Some(Trouble::Hangs) => std::future::pending().await,
                Some(Trouble::Refuses(code)) => Err(code),
                None => {
                    let mut inner = lock(&server.0);
                    let answer = inner.answer(&parts.method, parts.uri.path(), &body);
                    if answer.is_ok() {
                        inner.log.push((parts.method, parts.uri.path().to_owned()));
                    }
                    answer
                }
            };
            let (code, body) = match answer {
                Ok(body) => (StatusCode::OK, body),
                Err(code) => {
                    let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
                    (
                        code,
                        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                        "code": code.as_u16(), "reason": reason, "message": "as ordered"}),
                    )
                }
            };
            let response = Response::builder().status(code).header("content-type", "application/json");
            Ok(response.body(Body::from(body.to_string().into_bytes())).unwrap())
        }
        .boxed()
    }
}
