//! Traces as a collector gets them: the binary with `OTEL_EXPORTER_OTLP_ENDPOINT`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Held;
use prost::Message as _;

use crate::e2e_support::{GLANCE, Operator, PATIENCE};
use crate::process::Process;
use crate::world::{STORAGE, World};
use multinic_operator::sim::{Reachability, Service};

/// A collector on loopback that keeps what it is sent.
struct Collector {
    endpoint: String,
    kept: Arc<Kept>,
}

#[derive(Default)]
struct Kept {
    bodies: Mutex<Vec<Bytes>>,
    is_away: std::sync::atomic::AtomicBool,
}

/// What matters of a span.
#[derive(Clone, Debug)]
struct Seen {
    name: String,
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    is_error: bool,
    attributes: BTreeMap<String, String>,
}

impl Seen {
    fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

impl Collector {
    async fn start() -> Self {
        let kept = Arc::new(Kept::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let take = |State(kept): State<Arc<Kept>>, body: Bytes| async move {
            if kept.is_away.load(std::sync::atomic::Ordering::SeqCst) {
                return StatusCode::SERVICE_UNAVAILABLE;
            }
            kept.bodies.lock().unwrap().push(body);
            StatusCode::OK
        };
        let router = axum::Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&kept));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { endpoint, kept }
    }

    fn set_away(&self, is_away: bool) {
        self.kept.is_away.store(is_away, std::sync::atomic::Ordering::SeqCst);
    }

    /// (service name, spans) of everything that came.
    fn spans(&self) -> Vec<Seen> {
        let bodies = self.kept.bodies.lock().unwrap().clone();
        let requests = bodies.iter().map(|body| ExportTraceServiceRequest::decode(body.clone()).unwrap());
        let mut seen = Vec::new();
        for resource in requests.flat_map(|request| request.resource_spans) {
            let of_resource = resource.resource.unwrap().attributes;
            let is_ours = |text: &Held| *text == Held::StringValue("multinic-operator".to_owned());
            let name = of_resource.iter().find(|attribute| attribute.key == "service.name").unwrap();
            assert!(is_ours(name.value.as_ref().unwrap().value.as_ref().unwrap()), "{of_resource:?}");
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let attributes = span.attributes.iter().map(|attribute| {
                    let value = attribute.value.as_ref().and_then(|value| value.value.as_ref());
                    let text = match value {
                        Some(Held::StringValue(text)) => text.clone(),
                        Some(Held::IntValue(number)) => number.to_string(),
                        other => format!("{other:?}"),
                    };
                    (attribute.key.clone(), text)
                });
                seen.push(Seen {
                    attributes: attributes.collect(),
                    is_error: span.status.is_some_and(|status| status.code == 2),
                    name: span.name,
                    trace: span.trace_id,
                    id: span.span_id,
                    parent: span.parent_span_id,
                });
            }
        }
        seen
    }

    /// Waits for a span, and gives all that have come.
    async fn until(&self, process: &Process, what: &str, is_it: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let spans = self.spans();
            if is_it(&spans) {
                return spans;
            }
            assert!(Instant::now() < deadline, "no {what} in {spans:#?}\n{}", process.log_end());
            tokio::time::sleep(GLANCE).await;
        }
    }
}

/// The operator, whose traces go to this collector.
async fn traced(operator: &Operator, collector: &Collector) -> Process {
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.endpoint),
        // The specification's five seconds are long for a test.
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    Process::start_as(operator, &[], &variables).await
}

fn round_of(spans: &[Seen], is_it: impl Fn(&Seen) -> bool) -> Option<&Seen> {
    spans.iter().find(|span| span.name == "round" && is_it(span))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_is_one_trace_with_a_span_for_each_request_and_nothing_secret() {
    let (world, collector) = (World::new(), Collector::start().await);
    world.operator.declare(&world.spec("a", &world.vms(2)));
    let mut process = traced(&world.operator, &collector).await;
    let is_first = |span: &Seen| span.attribute("round") == "1";
    let spans = collector
        .until(&process, "first round", |spans| {
            round_of(spans, is_first)
                .is_some_and(|round| spans.iter().any(|s| s.trace == round.trace && s.name == "delivery"))
        })
        .await;
    let round = round_of(&spans, is_first).unwrap();
    assert!(round.parent.is_empty() && !round.is_error, "{round:?}");
    assert_eq!(round.attribute("config").rsplit('/').next(), Some("a"));
    assert_eq!(round.attribute("reason"), "Synced");
    let of_trace: Vec<_> = spans.iter().filter(|span| span.trace == round.trace).collect();
    for (name, parent) in [
        ("contrabass look up provider", "round"),
        ("keystone log in", "round"),
        ("neutron list ports", "round"),
        ("viola post node configs", "delivery"),
    ] {
        let found: Vec<_> = of_trace.iter().filter(|span| span.name == name).collect();
        assert_eq!(found.len(), 1, "{name}: {of_trace:#?}");
        let above = of_trace.iter().find(|span| span.id == found[0].parent).unwrap();
        assert_eq!(above.name, parent, "{name}");
        assert_eq!(found[0].attribute("server.address"), "127.0.0.1", "{name}");
        assert!(found[0].attribute("http.response.status_code").starts_with('2'), "{name}");
    }
    let neutron = of_trace.iter().find(|span| span.name == "neutron list ports").unwrap();
    assert!(neutron.attribute("openstack.request_id").starts_with("req-"), "{neutron:?}");
    process.terminate();
    assert!(process.ended().await.success(), "{}", process.log_end());
    let spans = collector.spans();
    let requests = |service: &str| spans.iter().filter(|s| s.attribute("service") == service).count() as u64;
    let services = ["contrabass", "keystone", "nova", "neutron"];
    assert_eq!(services.map(requests), world.requests(), "the last ones are sent before it ends: {spans:#?}");
    assert_eq!(requests("viola"), world.viola.posts().len() as u64);
    let everything = format!("{spans:?}");
    for secret in [&*world.user, "device_id", "gAAAA"] {
        assert!(!everything.contains(secret), "{secret:?} in {everything}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_fails_says_so_in_its_trace_and_the_next_round_is_another() {
    let (world, collector) = (World::new(), Collector::start().await);
    let spec = world.spec("a", &world.vms(1));
    world.operator.declare(&spec);
    world.cloud.set_reachability(Service::Neutron, Reachability::Refused);
    let process = traced(&world.operator, &collector).await;
    let spans = collector
        .until(&process, "failed round", |spans| round_of(spans, |round| round.is_error).is_some())
        .await;
    let failed = round_of(&spans, |round| round.is_error).unwrap();
    assert!(failed.attribute("reason").starts_with("Neutron"), "{failed:?}");
    let is_call = |span: &&Seen| span.trace == failed.trace && span.name.starts_with("neutron ");
    let calls: Vec<_> = spans.iter().filter(is_call).collect();
    assert!(!calls.is_empty(), "{spans:#?}");
    assert!(calls.iter().all(|call| call.is_error && call.parent == failed.id), "{calls:#?}");
    world.cloud.set_reachability(Service::Neutron, Reachability::Up);
    world.port(&spec.vms[0], STORAGE);
    let spans = collector
        .until(&process, "good round", |spans| {
            round_of(spans, |round| round.attribute("reason") == "Synced").is_some()
        })
        .await;
    let good = round_of(&spans, |round| round.attribute("reason") == "Synced").unwrap();
    assert_ne!(good.trace, failed.trace);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_is_told_once_and_costs_only_its_traces() {
    let (world, collector) = (World::new(), Collector::start().await);
    collector.set_away(true);
    let spec = world.spec("a", &world.vms(1));
    world.operator.declare(&spec);
    let mut process = traced(&world.operator, &collector).await;
    let lines = |process: &Process, text: &str| {
        let has = |line: &serde_json::Value| line["message"].as_str().is_some_and(|m| m.contains(text));
        process.log_lines().iter().filter(|line| has(line)).count()
    };
    let deadline = Instant::now() + PATIENCE;
    while lines(&process, "traces are lost") == 0 || world.viola.posts().is_empty() {
        assert!(Instant::now() < deadline, "{}", process.log_end());
        tokio::time::sleep(GLANCE).await;
    }
    collector.set_away(false);
    while lines(&process, "takes traces again") == 0 {
        assert!(Instant::now() < deadline, "{}", process.log_end());
        world.port(&spec.vms[0], STORAGE);
        tokio::time::sleep(GLANCE * 10).await;
    }
    assert_eq!(lines(&process, "traces are lost"), 1, "{}", process.log_end());
    process.terminate();
    assert!(process.ended().await.success(), "{}", process.log_end());
}
