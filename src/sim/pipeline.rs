//! The way of one request: counted, judged by the fault rules, answered.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderName, HeaderValue, Response};

use super::exchange::{Answer, Call};
use super::faults::{self, Fault, Subject, Verdict};
use super::server::{Connection, Traffic, lock};
use super::service::{Operation, Service};

/// More than any request of a client of ours; a longer body ends the connection.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// What answers: pure over its own state, without waiting.
pub(crate) trait Backend: Send + Sync {
    /// What a request asks for.
    fn operation(&self, call: &Call) -> Operation;
    /// The answer.
    fn answer(&self, call: &Call) -> Answer;
}

/// What every request of one service passes.
pub(crate) struct Gate {
    pub service: Service,
    pub backend: Arc<dyn Backend>,
    pub traffic: Arc<Traffic>,
}

/// Takes one off the requests in flight, also when the client goes away.
struct InFlight<'a>(&'a Gate);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        lock(&self.0.traffic.counters).ended(self.0.service);
    }
}

pub(crate) async fn answer(
    State(gate): State<Arc<Gate>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    request: Request,
) -> Response<Body> {
    let is_reused = connection.is_reused();
    let (head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, MAX_BODY).await else {
        return ended(&connection, true);
    };
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let call = Call::new(head.method, target, head.headers, body);
    let operation = gate.backend.operation(&call);
    lock(&gate.traffic.counters).began(gate.service, operation);
    let _in_flight = InFlight(&gate);
    let subject = Subject { service: gate.service, operation, call: &call, is_reused };
    let verdict = lock(&gate.traffic.faults).judge(&subject);
    if !verdict.latency.is_zero() {
        tokio::time::sleep(verdict.latency).await;
    }
    carry_out(&gate, &connection, call, verdict).await
}

async fn carry_out(gate: &Gate, connection: &Connection, call: Call, verdict: Verdict) -> Response<Body> {
    match verdict.fault {
        Some(Fault::Hang) => return hung(connection).await,
        Some(Fault::Reset) => return ended(connection, true),
        _ => {}
    }
    if let Some(answer) = verdict.fault.as_ref().and_then(|fault| faults::instead(fault, gate.service)) {
        return respond(connection, answer, false);
    }
    let is_filter_lost = verdict.fault == Some(Fault::LostFilter);
    let call = if is_filter_lost { call.without_query() } else { call };
    let answer = gate.backend.answer(&call);
    let page = answer.page;
    let by_page = verdict.by_page.into_iter().find(|(wanted, _)| Some(*wanted) == page);
    match verdict.fault.or(by_page.map(|(_, fault)| fault)) {
        None => respond(connection, answer, false),
        Some(fault) => respond_spoilt(gate, connection, answer, &fault).await,
    }
}

async fn respond_spoilt(
    gate: &Gate,
    connection: &Connection,
    answer: Answer,
    fault: &Fault,
) -> Response<Body> {
    match fault {
        Fault::Hang | Fault::HangAfter => hung(connection).await,
        Fault::Reset | Fault::LoseAnswer => ended(connection, true),
        Fault::Latency(more) => {
            tokio::time::sleep(*more).await;
            respond(connection, answer, false)
        }
        Fault::CutBody => respond(connection, answer, true),
        _ => match faults::instead(fault, gate.service) {
            Some(instead) => respond(connection, instead, false),
            None => respond(connection, faults::spoil(fault, answer), false),
        },
    }
}

/// Never answers; ends with its connection.
async fn hung(connection: &Connection) -> Response<Body> {
    connection.ended().await;
    Response::new(Body::empty())
}

/// The socket is dead before this response could be written.
fn ended(connection: &Connection, is_reset: bool) -> Response<Body> {
    connection.end(is_reset);
    Response::new(Body::empty())
}

fn respond(connection: &Connection, answer: Answer, is_cut: bool) -> Response<Body> {
    if answer.is_closed {
        return ended(connection, false);
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status;
    for (name, value) in &answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(*name), HeaderValue::from_str(value)) {
            response.headers_mut().append(name, value);
        }
    }
    *response.body_mut() = if is_cut {
        let length = HeaderValue::from(answer.body.len());
        response.headers_mut().insert("content-length", length);
        half_of(answer.body)
    } else {
        Body::from(answer.body)
    };
    response
}

/// The first half, then an error: the connection ends in the middle of the body.
fn half_of(mut body: Vec<u8>) -> Body {
    body.truncate(body.len() / 2);
    let parts = [Ok(Bytes::from(body)), Err(io::Error::from(io::ErrorKind::ConnectionReset))];
    Body::from_stream(futures::stream::iter(parts))
}
