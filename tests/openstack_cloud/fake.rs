//! A small cloud on loopback: Contrabass, Keystone, Neutron and Nova, as far as the adapter needs them, and
//! every fault we want to see.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeEncrypt, KeyIvInit};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

pub const KEY: &str = "conbaEncrypt2025";
pub const PASSWORD: &str = "CloudExpert2025!";
pub const PROJECT: &str = "0764b6ee59a64e378881651220874c09";

/// What happens to a request instead of an answer.
#[derive(Clone, Debug)]
pub enum Fault {
    Status(u16, &'static str),
    RetryAfter(u16, u64),
    Hang,
    /// The connection is closed without an answer.
    Close,
}

/// What a front end does with a port list for more servers than this.
#[derive(Clone, Copy, Debug)]
pub enum TooMany {
    Status(u16),
    Close,
    /// Answers as if there were no query string at all.
    LoseFilter,
}

/// How `next` links look.
#[derive(Clone, Copy, Debug, Default)]
pub enum Links {
    #[default]
    Absolute,
    Relative,
    /// Another scheme and host, as behind a proxy.
    Elsewhere,
    /// Always the same.
    Circle,
}

pub struct World {
    pub password: String,
    pub contrabass_password: String,
    pub keystone_url: String,
    pub catalog: Value,
    /// Contents of `token` in a login's answer that differ from the usual.
    pub token_extra: Value,
    pub token_life_seconds: u64,
    pub ports: Vec<Value>,
    pub subnets: Vec<Value>,
    pub networks: Vec<Value>,
    pub servers: BTreeMap<String, Value>,
    pub page: usize,
    pub links: Links,
    pub most_ids: Option<(usize, TooMany)>,
    /// Faults by operation, one for each request; then all is well.
    pub faults: HashMap<&'static str, VecDeque<Fault>>,
    /// Faults for every request.
    pub broken: HashMap<&'static str, Fault>,
    pub tokens: HashSet<String>,
    /// Tokens of these services are refused however good they are.
    pub refusing: HashSet<&'static str>,
    pub log: Vec<Request>,
    issued: usize,
}

#[derive(Clone, Debug)]
pub struct Request {
    pub operation: &'static str,
    query: String,
}

impl Request {
    pub fn values(&self, key: &str) -> Vec<String> {
        values(&self.query, key)
    }
}

fn values(query: &str, key: &str) -> Vec<String> {
    url::form_urlencoded::parse(query.as_bytes())
        .filter(|(k, _)| k == key)
        .map(|(_, v)| v.into_owned())
        .collect()
}

#[derive(Clone)]
pub struct Fake {
    pub addr: SocketAddr,
    world: Arc<Mutex<World>>,
}

pub fn port(id: &str, vm: &str) -> Value {
    json!({
        "id": id, "device_id": vm, "device_owner": "compute:nova", "mac_address": "fa:16:3e:00:00:01",
        "network_id": "net-1", "status": "ACTIVE", "project_id": PROJECT, "created_at": "2026-11-30T20:00:00Z",
        "fixed_ips": [{"subnet_id": "sub-1", "ip_address": "10.1.0.5"}], "tags": [],
    })
}

pub fn subnet(id: &str, name: &str, network: &str, project: &str) -> Value {
    json!({"id": id, "name": name, "network_id": network, "cidr": "10.1.0.0/16", "project_id": project, "ip_version": 4})
}

pub fn server(id: &str, name: &str) -> Value {
    json!({"id": id, "name": name, "metadata": {"node": format!("meta-{name}")}, "status": "ACTIVE"})
}

pub fn seal(key: &str, password: &str) -> String {
    let iv = [3; 16];
    let key: &[u8; 16] = key.as_bytes().try_into().unwrap();
    let sealed = cbc::Encryptor::<aes::Aes128>::new(key.into(), &iv.into())
        .encrypt_padded_vec::<Pkcs7>(password.as_bytes());
    BASE64_STANDARD.encode([&iv[..], &sealed].concat())
}

impl Fake {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let endpoint = |interface: &str, path: &str| {
            json!({"interface": interface, "region": "RegionOne", "region_id": "RegionOne", "id": "e",
                   "url": format!("http://{addr}{path}")})
        };
        let world = World {
            password: PASSWORD.to_owned(),
            contrabass_password: PASSWORD.to_owned(),
            keystone_url: format!("http://{addr}/identity/v3/"),
            catalog: json!([
                {"type": "network", "name": "neutron", "endpoints": [endpoint("public", "/network/")]},
                {"type": "compute", "name": "nova",
                 "endpoints": [endpoint("admin", "/nowhere"), endpoint("public", "/compute/v2.1")]},
            ]),
            token_extra: json!({}),
            token_life_seconds: 3600,
            ports: Vec::new(),
            subnets: vec![subnet("sub-1", "one", "net-1", PROJECT), subnet("sub-2", "two", "net-2", PROJECT)],
            networks: vec![json!({"id": "net-1", "mtu": 1450}), json!({"id": "net-2", "mtu": 9000})],
            servers: BTreeMap::new(),
            page: 1000,
            links: Links::default(),
            most_ids: None,
            faults: HashMap::new(),
            broken: HashMap::new(),
            tokens: HashSet::new(),
            refusing: HashSet::new(),
            log: Vec::new(),
            issued: 0,
        };
        let fake = Self { addr, world: Arc::new(Mutex::new(world)) };
        let app = Router::new()
            .route("/contrabass/v1/contrabass/admin/infra/provider/{id}", get(provider))
            .route("/identity/v3/auth/tokens", post(login))
            .route("/network/v2.0/ports", get(list_ports))
            .route("/network/v2.0/subnets", get(list_subnets))
            .route("/network/v2.0/subnets/{id}", get(get_subnet))
            .route("/network/v2.0/networks/{id}", get(get_network))
            .route("/compute/v2.1/servers/detail", get(list_servers))
            .route("/compute/v2.1/servers/{id}", get(get_server))
            .with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        fake
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Adds `n` servers, each with one port, and gives their ids.
    pub fn vms(&self, n: usize) -> Vec<String> {
        let mut world = self.world();
        let ids: Vec<String> = (0..n).map(|i| format!("00000000-0000-0000-0000-{i:012}")).collect();
        for (i, id) in ids.iter().enumerate() {
            world.ports.push(port(&format!("port-{i:04}"), id));
            world.servers.insert(id.clone(), server(id, &format!("vm-{i}")));
        }
        ids
    }

    pub fn fault(&self, operation: &'static str, faults: impl IntoIterator<Item = Fault>) {
        self.world().faults.entry(operation).or_default().extend(faults);
    }

    pub fn break_down(&self, operation: &'static str, fault: Fault) {
        self.world().broken.insert(operation, fault);
    }

    /// Every token so far stops to work.
    pub fn revoke(&self) {
        self.world().tokens.clear();
    }

    pub fn count(&self, operation: &str) -> usize {
        self.world().log.iter().filter(|r| r.operation == operation).count()
    }

    pub fn requests(&self, operation: &str) -> Vec<Request> {
        self.world().log.iter().filter(|r| r.operation == operation).cloned().collect()
    }

    pub fn clear_log(&self) -> usize {
        std::mem::take(&mut self.world().log).len()
    }

    /// Notes a request and carries out what is to happen to it.
    async fn meet(
        &self,
        operation: &'static str,
        query: Option<&str>,
        headers: Option<&HeaderMap>,
    ) -> Result<(), Response> {
        let (fault, refused) = {
            let mut world = self.world();
            world.log.push(Request { operation, query: query.unwrap_or_default().to_owned() });
            let fault = world.faults.get_mut(operation).and_then(VecDeque::pop_front);
            let fault = fault.or_else(|| world.broken.get(operation).cloned());
            let service = if operation.contains("server") { "nova" } else { "neutron" };
            let refused = headers.is_some_and(|headers| {
                let token = headers.get("x-auth-token").and_then(|t| t.to_str().ok()).unwrap_or_default();
                world.refusing.contains(service) || !world.tokens.contains(token)
            });
            (fault, refused)
        };
        match fault {
            Some(Fault::Status(code, body)) => return Err(answer(code, body.to_owned())),
            Some(Fault::RetryAfter(code, seconds)) => {
                let header = [(HeaderName::from_static("retry-after"), seconds.to_string())];
                return Err(
                    (StatusCode::from_u16(code).unwrap(), header, "{\"message\": \"later\"}").into_response()
                );
            }
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Close) => close(),
            None => {}
        }
        if refused {
            let body = json!({"error": {"code": 401, "message": "The request you have made requires authentication."}});
            return Err(answer(401, body.to_string()));
        }
        Ok(())
    }
}

/// Ends the connection without an answer: hyper drops it when a handler unwinds.
fn close() -> ! {
    std::panic::resume_unwind(Box::new(()))
}

fn answer(code: u16, body: String) -> Response {
    let headers = [
        (HeaderName::from_static("content-type"), "application/json"),
        (HeaderName::from_static("x-openstack-request-id"), "req-fake"),
    ];
    (StatusCode::from_u16(code).unwrap(), headers, body).into_response()
}

fn ok(body: Value) -> Response {
    answer(200, body.to_string())
}

fn neutron_error(code: u16, kind: &str, message: String) -> Response {
    answer(code, json!({"NeutronError": {"type": kind, "message": message, "detail": ""}}).to_string())
}

async fn provider(State(fake): State<Fake>) -> Response {
    if let Err(response) = fake.meet("look up provider", None, None).await {
        return response;
    }
    let world = fake.world();
    ok(json!({"data": {"url": world.keystone_url, "attributes": {
        "adminId": "admin", "adminPw": seal(KEY, &world.contrabass_password), "domain": "default",
    }}}))
}

async fn login(State(fake): State<Fake>, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let user = body.pointer("/auth/identity/password/user").cloned().unwrap_or_default();
    let project = body.pointer("/auth/scope/project/id").cloned().unwrap_or_default();
    if let Err(response) = fake.meet("log in", None, None).await {
        return response;
    }
    let mut world = fake.world();
    if user != json!({"name": "admin", "domain": {"name": "default"}, "password": world.password}) {
        let body = json!({"error": {"code": 401, "title": "Unauthorized",
            "message": "The request you have made requires authentication."}});
        return answer(401, body.to_string());
    }
    world.issued += 1;
    let secret = format!("token-{}-{}", world.issued, "x".repeat(170));
    world.tokens.insert(secret.clone());
    let issued_at: jiff::Timestamp = "2001-01-01T00:00:00Z".parse().unwrap();
    let expires_at = issued_at + jiff::SignedDuration::from_secs(world.token_life_seconds as i64);
    let mut token = json!({
        "issued_at": issued_at, "expires_at": expires_at, "project": {"id": project}, "catalog": world.catalog,
    });
    for (key, value) in world.token_extra.as_object().unwrap() {
        token[key] = value.clone();
    }
    let header = [(HeaderName::from_static("x-subject-token"), secret)];
    (StatusCode::CREATED, header, json!({"token": token}).to_string()).into_response()
}

/// One page of `items` (sorted by id), as the real ones cut it.
fn page(fake: &Fake, key: &str, path: &str, query: &str, items: Vec<Value>) -> Result<Value, ()> {
    let world = fake.world();
    let limit = values(query, "limit").first().and_then(|l| l.parse().ok()).unwrap_or(usize::MAX);
    let start = match values(query, "marker").first() {
        None => 0,
        Some(marker) => 1 + items.iter().position(|item| item["id"] == json!(marker)).ok_or(())?,
    };
    let size = world.page.min(limit);
    let cut: Vec<Value> = items.iter().skip(start).take(size).cloned().collect();
    let mut body = json!({ key: cut });
    if cut.len() == size {
        let last = cut.last().unwrap()["id"].as_str().unwrap();
        let query: String = query
            .split('&')
            .filter(|pair| !pair.starts_with("marker=") && !pair.is_empty())
            .map(|pair| format!("{pair}&"))
            .collect();
        let next = format!("{path}?{query}marker={last}");
        let href = match world.links {
            Links::Absolute => format!("http://{}{next}", fake.addr),
            Links::Relative => next,
            Links::Elsewhere => format!("https://internal.invalid:9696{next}"),
            Links::Circle => format!("{path}?{query}marker={}", items[0]["id"].as_str().unwrap()),
        };
        body[format!("{key}_links")] =
            json!([{"rel": "previous", "href": "?"}, {"rel": "next", "href": href}]);
    }
    Ok(body)
}

async fn list_ports(State(fake): State<Fake>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    let mut query = query.unwrap_or_default();
    if let Err(response) = fake.meet("list ports", Some(&query), Some(&headers)).await {
        return response;
    }
    let ids: HashSet<String> = values(&query, "device_id").into_iter().map(|id| id.to_lowercase()).collect();
    let too_many = fake.world().most_ids.filter(|(most, _)| ids.len() > *most).map(|(_, what)| what);
    let is_listed = |port: &&Value| {
        let device = port["device_id"].as_str().unwrap_or_default().to_lowercase();
        port["device_id"].is_null() || ids.contains(&device)
    };
    let mut ports: Vec<Value> = match too_many {
        Some(TooMany::Status(code)) => return answer(code, "<html><body>too long</body></html>".to_owned()),
        Some(TooMany::Close) => close(),
        Some(TooMany::LoseFilter) => {
            query.clear();
            fake.world().ports.clone()
        }
        None => fake.world().ports.iter().filter(is_listed).cloned().collect(),
    };
    ports.sort_by_key(|port| port["id"].as_str().unwrap_or_default().to_owned());
    match page(&fake, "ports", "/network/v2.0/ports", &query, ports) {
        Ok(body) => ok(body),
        Err(()) => neutron_error(404, "PortNotFound", "Port x could not be found.".to_owned()),
    }
}

async fn list_subnets(State(fake): State<Fake>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    if let Err(response) = fake.meet("find subnet", Some(&query), Some(&headers)).await {
        return response;
    }
    let matches = |key: &str, subnet: &Value| {
        values(&query, key).first().is_none_or(|value| subnet[key] == json!(value))
    };
    let world = fake.world();
    let found: Vec<&Value> = world
        .subnets
        .iter()
        .filter(|subnet| matches("name", subnet) && matches("project_id", subnet))
        .collect();
    ok(json!({"subnets": found}))
}

fn one(list: &[Value], id: &str) -> Option<Value> {
    list.iter().find(|item| item["id"] == json!(id)).cloned()
}

async fn get_subnet(State(fake): State<Fake>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    if let Err(response) = fake.meet("get subnet", None, Some(&headers)).await {
        return response;
    }
    match one(&fake.world().subnets, &id) {
        Some(subnet) => ok(json!({"subnet": subnet})),
        None => neutron_error(404, "SubnetNotFound", format!("Subnet {id} could not be found.")),
    }
}

async fn get_network(State(fake): State<Fake>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    if let Err(response) = fake.meet("get network", None, Some(&headers)).await {
        return response;
    }
    match one(&fake.world().networks, &id) {
        Some(network) => ok(json!({"network": network})),
        None => neutron_error(404, "NetworkNotFound", format!("Network {id} could not be found.")),
    }
}

async fn list_servers(State(fake): State<Fake>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    if let Err(response) = fake.meet("list servers", Some(&query), Some(&headers)).await {
        return response;
    }
    let servers: Vec<Value> =
        fake.world().servers.values().filter(|s| s["hidden"].is_null()).cloned().collect();
    match page(&fake, "servers", "/compute/v2.1/servers/detail", &query, servers) {
        Ok(body) => ok(body),
        Err(()) => {
            answer(400, json!({"badRequest": {"code": 400, "message": "marker [x] not found"}}).to_string())
        }
    }
}

async fn get_server(State(fake): State<Fake>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    if let Err(response) = fake.meet("get server", None, Some(&headers)).await {
        return response;
    }
    match fake.world().servers.get(&id) {
        Some(server) => ok(json!({"server": server})),
        None => answer(
            404,
            json!({"itemNotFound": {"code": 404, "message": format!("Instance {id} could not be found.")}})
                .to_string(),
        ),
    }
}
