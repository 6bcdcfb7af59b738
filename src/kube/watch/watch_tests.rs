//! The watch against an API server that does what it is told, in virtual time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use futures::{StreamExt, stream};
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::*;
use crate::kube::label_selector::LabelSelector;
use crate::source::SourceEvent;

/// What the API server answers.
enum Answer {
    /// One object.
    Object(Value),
    /// A page of a list: objects, and the token of the next page.
    List(Vec<Value>, Option<&'static str>),
    /// An error.
    Status(u16),
    /// A watch that brings these events and then ends.
    Ends(Vec<Value>),
    /// A watch that brings these events and then nothing.
    Hangs(Vec<Value>),
}

/// Answers by a script; when that is at its end, lists are empty and watches hang.
#[derive(Clone)]
struct Server {
    script: Arc<Mutex<VecDeque<Answer>>>,
    otherwise: fn(bool) -> Answer,
    selector: Option<LabelSelector>,
    /// When what was asked.
    requests: Arc<Mutex<Vec<(Duration, String)>>>,
    start: Instant,
}

fn calm(is_watch: bool) -> Answer {
    if is_watch { Answer::Hangs(vec![]) } else { Answer::List(vec![], None) }
}

impl Server {
    fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            script: Arc::new(Mutex::new(script.into_iter().collect())),
            otherwise: calm,
            selector: None,
            requests: Arc::default(),
            start: Instant::now(),
        }
    }

    fn source(&self, namespaces: &[&str]) -> (KubeSource, SourceEvents) {
        let client = Client::new(self.clone(), "default");
        let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
        let wanted = KubeSettings { namespaces, selector: self.selector.clone(), ..KubeSettings::default() };
        KubeSource::start(&client, &wanted, Defaults::default(), 1)
    }

    /// `list` and `watch`, in the order they were asked for.
    fn asked(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|(_, what)| what.clone()).collect()
    }

    fn answer(&self, request: &Request<kube::client::Body>) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.contains("watch=true");
        let is_get = !request.uri().path().ends_with("openstackconfigs");
        assert_eq!(query.contains("labelSelector=shard%3Da"), self.selector.is_some() && !is_get, "{query}");
        let what = match (is_get, is_watch, query.contains("continue=")) {
            (true, ..) => "get",
            (false, true, _) => "watch",
            (false, false, true) => "more",
            (false, false, false) => "list",
        };
        self.requests.lock().unwrap().push((self.start.elapsed(), what.to_owned()));
        let scripted = self.script.lock().unwrap().pop_front();
        match scripted.unwrap_or_else(|| (self.otherwise)(is_watch)) {
            Answer::List(items, next) => {
                let metadata = json!({"resourceVersion": "7", "continue": next});
                let list = json!({"apiVersion": "multinic.example.com/v1alpha1", "kind": "OpenstackConfigList",
                    "metadata": metadata, "items": items});
                Response::new(Body::from(list.to_string()))
            }
            Answer::Object(object) => Response::new(Body::from(object.to_string())),
            Answer::Status(code) => {
                let mut response = Response::new(Body::from(status(code).to_string()));
                *response.status_mut() = code.try_into().unwrap();
                response
            }
            Answer::Ends(events) => Response::new(Body::from_stream(lines(events))),
            Answer::Hangs(events) => Response::new(Body::from_stream(lines(events).chain(stream::pending()))),
        }
    }
}

impl tower_service::Service<Request<kube::client::Body>> for Server {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        ready(Ok(self.answer(&request)))
    }
}

fn lines(events: Vec<Value>) -> impl futures::Stream<Item = Result<String, Infallible>> {
    stream::iter(events).map(|event| Ok(format!("{event}\n")))
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "m",
        "reason": "R", "code": code})
}

fn object(name: &str, version: u32) -> Value {
    json!({"apiVersion": "multinic.example.com/v1alpha1", "kind": "OpenstackConfig", "spec": {},
        "metadata": {"namespace": "n", "name": name, "uid": name, "generation": 1,
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-01-10T00:00:00Z"}})
}

fn event(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

/// The next events; `-` instead of one that does not come within a minute.
async fn told(events: &mut SourceEvents, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..count {
        let event = timeout(Duration::from_secs(60), events.recv()).await;
        told.push(match event {
            Err(_) => "-".to_owned(),
            Ok(Some(SourceEvent::Apply(declared))) => format!("+{}", declared.id().name.name),
            Ok(Some(SourceEvent::Delete(id))) => format!("-{}", id.name.name),
            Ok(Some(SourceEvent::LetGo(id))) => format!("~{}", id.name.name),
            Ok(Some(SourceEvent::Synced)) => "synced".to_owned(),
            Ok(other) => format!("{other:?}"),
        });
    }
    told
}

#[tokio::test(start_paused = true)]
async fn gone_in_either_form_lists_anew_and_what_vanished_meanwhile_is_deleted() {
    let ab = || Answer::List(vec![object("a", 1), object("b", 2)], None);
    let server = Server::new([
        ab(),
        Answer::Hangs(vec![event("ADDED", object("c", 8)), event("ERROR", status(410))]),
        Answer::List(vec![object("a", 1), object("c", 8)], None),
        Answer::Status(410),
        Answer::List(vec![object("c", 8)], None),
    ]);
    let (source, mut events) = server.source(&[]);
    assert_eq!(told(&mut events, 6).await, ["+a", "+b", "synced", "+c", "-b", "-a"]);
    assert_eq!(told(&mut events, 1).await, ["-"]);
    assert_eq!(server.asked()[..6], ["list", "watch", "list", "watch", "list", "watch"]);
    assert_eq!(source.health().check(), WatchCheck { is_listed: true, problem: None });
}

#[tokio::test(start_paused = true)]
async fn what_a_selector_selects_no_more_is_deleted_only_if_the_api_server_says_so() {
    let all = ["a", "b", "c", "d"].map(|name| object(name, 1)).to_vec();
    let mut server = Server::new([
        Answer::List(all, None),
        Answer::Hangs(vec![
            event("DELETED", object("a", 2)),
            event("DELETED", object("b", 3)),
            event("ERROR", status(410)),
        ]),
        Answer::Status(404),
        Answer::Object(object("b", 3)),
        // One that went while nobody watched, and one of which nothing is known.
        Answer::List(vec![object("c", 1)], None),
        Answer::Status(500),
    ]);
    server.selector = Some(LabelSelector::parse("shard=a").unwrap());
    let (_source, mut events) = server.source(&[]);
    // What was told of them first is not read before they have gone.
    assert_eq!(told(&mut events, 5).await, ["-a", "~b", "+c", "+d", "synced"]);
    assert_eq!(told(&mut events, 2).await, ["~d", "-"]);
    assert_eq!(server.asked()[..6], ["list", "watch", "get", "get", "list", "get"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_between_its_pages_starts_over() {
    let server = Server::new([
        Answer::List(vec![object("a", 1)], Some("next")),
        Answer::Status(410),
        Answer::List(vec![object("b", 1)], Some("next")),
        Answer::List(vec![object("c", 1)], None),
    ]);
    let (_source, mut events) = server.source(&[]);
    assert_eq!(told(&mut events, 4).await, ["+b", "+c", "synced", "-"]);
    assert_eq!(server.asked()[..4], ["list", "more", "list", "more"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_each_watch_at_once_is_not_asked_in_a_hot_loop() {
    let mut server = Server::new([]);
    server.otherwise = |is_watch| if is_watch { Answer::Ends(vec![]) } else { Answer::List(vec![], None) };
    let (source, _events) = server.source(&[]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let asked = server.asked();
    assert!((300..600).contains(&asked.len()), "{} requests in an hour", asked.len());
    assert_eq!(asked.iter().filter(|what| *what == "list").count(), 1);
    let problem = source.health().check().problem;
    assert_eq!(problem.as_deref(), Some("all namespaces: the API server ends each watch at once"));
}

#[tokio::test(start_paused = true)]
async fn a_server_for_which_every_list_is_too_old_is_not_asked_in_a_hot_loop() {
    let mut server = Server::new([]);
    server.otherwise = |is_watch| if is_watch { Answer::Status(410) } else { Answer::List(vec![], None) };
    let (_source, _events) = server.source(&[]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let asked = server.asked().len();
    assert!((600..1200).contains(&asked), "{asked} requests in an hour");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_and_a_missing_crd_are_told_and_pass() {
    let server = Server::new([Answer::Status(404), Answer::Status(404), Answer::Status(403)]);
    let (source, mut events) = server.source(&[]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let check = source.health().check();
    assert!(!check.is_listed);
    let problem = check.problem.unwrap();
    assert!(problem.contains("openstackconfigs.multinic.example.com is not there"), "{problem}");
    assert_eq!(told(&mut events, 1).await, ["synced"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(source.health().check(), WatchCheck { is_listed: true, problem: None });
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_replaced_within_minutes_and_nothing_is_listed_for_it() {
    let server = Server::new([]);
    let (_source, _events) = server.source(&[]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let requests = server.requests.lock().unwrap().clone();
    assert_eq!(requests.iter().filter(|(_, what)| what == "list").count(), 1);
    let gaps: Vec<u64> = requests.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_secs()).collect();
    assert!(gaps.len() >= 18 && gaps[1..].iter().all(|gap| (130..=200).contains(gap)), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn one_namespace_that_cannot_be_read_holds_up_only_itself() {
    let server = Server::new([]);
    *server.script.lock().unwrap() = [Answer::Status(403), Answer::List(vec![object("a", 1)], None)].into();
    let (source, mut events) = server.source(&["m", "n"]);
    assert_eq!(told(&mut events, 1).await, ["+a"]);
    let problem = source.health().check().problem.unwrap();
    assert!(problem.starts_with("namespace m: the API server does not allow it"), "{problem}");
    assert_eq!(told(&mut events, 1).await, ["synced"], "as soon as both are known");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_taken_apart_does_not_end_the_watch() {
    let server = Server::new([
        Answer::List(vec![], None),
        Answer::Hangs(vec![
            event("ADDED", json!({"apiVersion": "x", "kind": "y", "metadata": {"name": 7}})),
            event("ADDED", json!({"apiVersion": "x", "kind": "y", "metadata": {"name": "B A D"}})),
            event("UNHEARD-OF", json!({})),
            event("ADDED", object("a", 8)),
        ]),
    ]);
    let (_source, mut events) = server.source(&[]);
    assert_eq!(told(&mut events, 2).await, ["synced", "+a"]);
}
