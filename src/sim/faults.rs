//! Faults by rule: which requests they hit, when, and what happens then.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::exchange::{Answer, Call};
use super::service::{Operation, Service};

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The answer comes later. Adds to other latencies and to other faults.
    Latency(Duration),
    /// No answer, the connection stays open.
    Hang,
    /// The connection is reset before the request is looked at.
    Reset,
    /// The request is carried out, then the connection is reset: the outcome is unknown.
    LoseAnswer,
    /// The request is carried out, but no answer ever comes.
    HangAfter,
    /// The service's own 401.
    Unauthorized,
    /// The service's own 403.
    Forbidden,
    /// 429, with `Retry-After` as given.
    TooManyRequests(Option<String>),
    /// A 5xx (or any status) with a JSON body.
    Status(u16),
    /// A status with an HTML page, as a proxy sends it.
    HtmlStatus(u16),
    /// A status with a JSON body and `Retry-After` as given.
    StatusRetryAfter(u16, String),
    /// 200 and the first half of the JSON text.
    TruncatedJson,
    /// 200, a full `Content-Length`, and the connection ends half-way.
    CutBody,
    /// 200 and valid JSON in which lists and objects are text.
    WrongShape,
    /// 200 and HTML instead of JSON.
    HtmlInsteadOfJson,
    /// The filter gets lost: 200 with everything.
    LostFilter,
    /// 200, and the list is empty.
    EmptyList,
    /// 200, and the list holds its first half only, without page links.
    HalfList,
}

/// When a rule hits, counted over the requests that it matches (from 1).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum When {
    /// Every time, until cleared.
    #[default]
    Always,
    /// Only the nth.
    Nth(u64),
    /// The first n.
    First(u64),
    /// All after the first n.
    After(u64),
    /// With this probability, from the seeded generator.
    Probability(f64),
    /// Requests for the nth page of a list (from 1).
    Page(usize),
    /// Requests that reuse a connection.
    ReusedConnection,
}

/// One rule. Empty fields match everything.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    service: Option<Service>,
    operation: Option<Operation>,
    containing: Option<String>,
    when: When,
    fault: Fault,
}

impl FaultRule {
    /// A rule that hits every request.
    pub fn new(fault: Fault) -> Self {
        Self { service: None, operation: None, containing: None, when: When::Always, fault }
    }

    /// Only requests to this service.
    pub fn service(mut self, service: Service) -> Self {
        self.service = Some(service);
        self
    }

    /// Only this operation.
    pub fn operation(mut self, operation: Operation) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Only requests whose target (path and query) or body holds this text.
    pub fn containing(mut self, text: impl Into<String>) -> Self {
        self.containing = Some(text.into());
        self
    }

    /// Only then.
    pub fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }

    fn matches(&self, subject: &Subject<'_>) -> bool {
        self.service.is_none_or(|service| service == subject.service)
            && self.operation.is_none_or(|operation| operation == subject.operation)
            && self.containing.as_deref().is_none_or(|text| subject.contains(text))
    }
}

/// What rules are matched against.
pub(crate) struct Subject<'a> {
    pub service: Service,
    pub operation: Operation,
    pub call: &'a Call,
    pub is_reused: bool,
}

impl Subject<'_> {
    fn contains(&self, text: &str) -> bool {
        self.call.target.contains(text) || String::from_utf8_lossy(&self.call.body).contains(text)
    }
}

/// Names a rule, to clear it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(u64);

/// The faults that hit one request.
#[derive(Default)]
pub(crate) struct Verdict {
    pub latency: Duration,
    pub fault: Option<Fault>,
    /// Faults that hit if the answer is that page of a list.
    pub by_page: Vec<(usize, Fault)>,
}

/// The rules in force.
pub(crate) struct Faults {
    rules: BTreeMap<FaultId, (FaultRule, u64)>,
    next: u64,
    rng: StdRng,
    pub latency: Duration,
}

impl Faults {
    pub fn new(seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        Self { rules: BTreeMap::new(), next: 0, rng, latency: Duration::ZERO }
    }

    pub fn add(&mut self, rule: FaultRule) -> FaultId {
        self.next += 1;
        self.rules.insert(FaultId(self.next), (rule, 0));
        FaultId(self.next)
    }

    pub fn remove(&mut self, id: FaultId) {
        self.rules.remove(&id);
    }

    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// All latencies that apply, and the oldest other fault.
    pub fn judge(&mut self, subject: &Subject<'_>) -> Verdict {
        let mut verdict = Verdict { latency: self.latency, ..Verdict::default() };
        for (rule, seen) in self.rules.values_mut() {
            if !rule.matches(subject) {
                continue;
            }
            *seen += 1;
            match (&rule.fault, &rule.when) {
                (fault, When::Page(page)) => verdict.by_page.push((*page, fault.clone())),
                (_, when) if !hits(when, *seen, subject.is_reused, &mut self.rng) => {}
                (Fault::Latency(more), _) => verdict.latency += *more,
                (fault, _) => verdict.fault = verdict.fault.or_else(|| Some(fault.clone())),
            }
        }
        verdict
    }
}

fn hits(when: &When, seen: u64, is_reused: bool, rng: &mut StdRng) -> bool {
    match when {
        When::Always => true,
        When::Nth(n) => seen == *n,
        When::First(n) => seen <= *n,
        When::After(n) => seen > *n,
        When::Probability(p) => rng.random_bool(p.clamp(0.0, 1.0)),
        When::Page(_) => false,
        When::ReusedConnection => is_reused,
    }
}

/// The answer of a fault that needs none from the service; `None` for the others.
pub(crate) fn instead(fault: &Fault, service: Service) -> Option<Answer> {
    match fault {
        Fault::Unauthorized => {
            Some(refusal(service, 401, "The request you have made requires authentication."))
        }
        Fault::Forbidden => {
            Some(refusal(service, 403, "You are not authorized to perform the requested action."))
        }
        Fault::TooManyRequests(retry_after) => {
            let answer = refusal(service, 429, "Too many requests.");
            Some(match retry_after {
                Some(value) => answer.header("Retry-After", value.clone()),
                None => answer,
            })
        }
        Fault::Status(status) => Some(refusal(service, *status, "simulated failure")),
        Fault::StatusRetryAfter(status, value) => {
            Some(refusal(service, *status, "simulated failure").header("Retry-After", value.clone()))
        }
        Fault::HtmlStatus(status) => Some(proxy_page(*status)),
        Fault::HtmlInsteadOfJson => Some(Answer::html(200, "<html><body>Please log in</body></html>\n")),
        _ => None,
    }
}

/// The body shapes as each service words its errors.
fn refusal(service: Service, status: u16, message: &str) -> Answer {
    let title =
        axum::http::StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()).unwrap_or("Error");
    let fault = format!("HTTP{}", title.replace(' ', ""));
    let body = match service {
        _ if status == 401 => json!({"error": {"code": 401, "title": title, "message": message}}),
        Service::Neutron => json!({"NeutronError": {"type": fault, "message": message, "detail": ""}}),
        Service::Nova if status == 403 => json!({"forbidden": {"code": status, "message": message}}),
        Service::Nova => json!({"computeFault": {"code": status, "message": message}}),
        _ => json!({"error": {"code": status, "message": message, "title": title}}),
    };
    Answer::json(status, &body)
}

fn proxy_page(status: u16) -> Answer {
    let title =
        axum::http::StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()).unwrap_or("Error");
    Answer::html(
        status,
        format!(
            "<html>\r\n<head><title>{status} {title}</title></head>\r\n<body>\r\n<center><h1>{status} {title}</h1></center>\r\n</body>\r\n</html>\r\n"
        ),
    )
}

/// Changes an answer of the service as the fault says.
pub(crate) fn spoil(fault: &Fault, mut answer: Answer) -> Answer {
    match fault {
        Fault::TruncatedJson => answer.body.truncate(answer.body.len() / 2),
        Fault::WrongShape => edit(&mut answer, wrong_shape),
        Fault::EmptyList => edit(&mut answer, |body| cut_lists(body, |_| 0)),
        Fault::HalfList => edit(&mut answer, |body| cut_lists(body, |len| len / 2)),
        _ => {}
    }
    answer
}

fn edit(answer: &mut Answer, change: impl FnOnce(&mut Value)) {
    if let Ok(mut body) = serde_json::from_slice(&answer.body) {
        change(&mut body);
        answer.body = body.to_string().into_bytes();
    }
}

fn wrong_shape(body: &mut Value) {
    if let Value::Object(fields) = body {
        for value in fields.values_mut().filter(|value| value.is_array() || value.is_object()) {
            *value = json!("not what you expect");
        }
    }
}

fn cut_lists(body: &mut Value, keep: impl Fn(usize) -> usize) {
    if let Value::Object(fields) = body {
        fields.retain(|name, _| !name.ends_with("_links"));
        for list in fields.values_mut().filter_map(Value::as_array_mut) {
            list.truncate(keep(list.len()));
        }
    }
}
