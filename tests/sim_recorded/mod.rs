//! Recorded exchanges, a simulated cloud with the same objects in it, and the
//! comparison of the two.

use std::collections::BTreeMap;

use multinic_operator::sim::{PortSpec, Service, SimCloud};
use serde_json::{Value, json};

use crate::sim_client::{Reply, get, request};

const PROJECT: &str = "0764b6ee59a64e378881651220874c09";
const OTHER_PROJECT: &str = "8182d56b2ca546bab38aec98c90b6845";
const ADMIN_PROJECT: &str = "a2a68ea1b44549c08ea1d4da05513d0c";
/// The same project in the second series of recordings.
const PROJECT_ALIAS: &str = "84046776e4ee4e5e9250b2fbcad90403";
const USER: &str = "6cf15e27b3a5495cadc0954bdc485479";
const USER_ALIAS: &str = "87a012b208d74a9f826a385f67822ad7";
const ADMIN: &str = "6ff8d8ee9a4249ccb02b5a29526a7fef";
const ADMIN_ALIAS: &str = "bbbc7de3402649e1aa6ea33bba0bbb2d";
const CREDENTIALS: [&str; 2] = ["37df48bc38ff42aabf821d2313f35413", "fbb06393cc9a4c5983f050769b7ad536"];
const PASSWORD: &str = "demo-password";

/// One recorded exchange.
pub struct Recorded {
    name: String,
    method: String,
    target: String,
    service: Service,
    headers: Vec<(String, String)>,
    body: String,
    reply: Reply,
}

/// Reads `tests/fixtures/openstack/{name}.http`.
pub fn recorded(name: &str) -> Recorded {
    let path = format!("{}/tests/fixtures/openstack/{name}.http", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let text = text.replace(PROJECT_ALIAS, PROJECT).replace(USER_ALIAS, USER).replace(ADMIN_ALIAS, ADMIN);
    let (request, reply) = text.split_once("\nHTTP/1.1 ").unwrap_or_else(|| panic!("{path}: no answer"));
    let (line, rest) = request.split_once('\n').unwrap_or((request, ""));
    let (headers, body) = head_and_body(rest);
    let mut words = line.split(' ');
    let (status, rest) = reply.split_once('\n').unwrap_or((reply, ""));
    let (reply_headers, reply_body) = head_and_body(rest);
    Recorded {
        name: name.into(),
        method: words.next().unwrap_or_default().into(),
        target: words.next().unwrap_or_default().into(),
        service: service_of(name),
        headers,
        body,
        reply: Reply {
            status: status.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(0),
            headers: reply_headers
                .into_iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value))
                .collect(),
            body: reply_body,
        },
    }
}

fn service_of(name: &str) -> Service {
    match name.split('-').next() {
        Some("keystone") => Service::Keystone,
        Some("nova") => Service::Nova,
        _ => Service::Neutron,
    }
}

fn head_and_body(text: &str) -> (Vec<(String, String)>, String) {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let headers = lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    (headers, body.trim().to_owned())
}

/// A cloud with the objects that the recorded one had, under the same ids.
pub struct Bed {
    /// The cloud.
    pub cloud: SimCloud,
    tokens: BTreeMap<&'static str, String>,
    secrets: BTreeMap<&'static str, String>,
}

impl Bed {
    /// Starts and fills it.
    pub fn new() -> Self {
        let cloud = SimCloud::start_with(Default::default()).unwrap();
        let user = add_accounts(&cloud);
        add_topology(&cloud);
        add_ports(&cloud);
        let secrets = CREDENTIALS.map(|id| {
            cloud.set_next_id(id);
            let name = if id.starts_with("fbb") { "probe-dce3c5b0" } else { "probe-1796074135119440485" };
            (id, cloud.add_app_credential(&user, PROJECT, name).secret)
        });
        let tokens = tokens(&cloud);
        Self { cloud, tokens, secrets: secrets.into() }
    }

    /// Sends the recorded request and compares the answers.
    pub fn check(&self, name: &str) {
        let recorded = recorded(name);
        let reply = self.replay(&recorded);
        self.compare(&recorded, &reply);
    }

    /// [`Bed::check`] for several.
    pub fn check_all(&self, names: &[&str]) {
        names.iter().for_each(|name| self.check(name));
    }

    /// The tenant's list of ports with this query.
    pub fn get_ports(&self, query: &str) -> std::io::Result<Reply> {
        get(&self.cloud.url(Service::Neutron), &format!("/v2.0/ports?{query}"), &self.tokens["tenant"])
    }

    /// As [`Bed::check`], for a recording whose long list of filters was left out.
    pub fn check_long(&self, name: &str, filters: usize) {
        let ids: Vec<String> =
            (0..filters).map(|n| format!("device_id=00000000-0000-4000-8000-{n:012}")).collect();
        let reply = self.get_ports(&ids.join("&")).unwrap();
        self.compare(&recorded(name), &reply);
    }

    fn replay(&self, recorded: &Recorded) -> Reply {
        let own = ["host", "accept", "content-type", "connection", "content-length"];
        let headers: Vec<(&str, String)> = recorded
            .headers
            .iter()
            .filter(|(name, _)| !own.contains(&name.to_ascii_lowercase().as_str()))
            .map(|(name, value)| (name.as_str(), self.token(value)))
            .collect();
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let secret =
            self.secrets.iter().find(|(id, _)| recorded.body.contains(**id)).map(|(_, secret)| secret);
        let body = recorded.body.replace("<secret>", secret.map_or("", String::as_str));
        let url = self.cloud.url(recorded.service);
        request(&url, &recorded.method, &recorded.target, &headers, &body)
            .unwrap_or_else(|error| panic!("{}: {error}", recorded.name))
    }

    fn token(&self, value: &str) -> String {
        match value.strip_prefix('<').and_then(|value| value.strip_suffix('>')) {
            Some(holder) => self.tokens.get(holder).cloned().unwrap_or_else(|| "gAAAAAnonsense".into()),
            None => value.to_owned(),
        }
    }

    /// The recorded text with this cloud's addresses in it.
    fn localised(&self, text: &str) -> String {
        text.replace("http://127.0.0.1:15000", &self.cloud.url(Service::Keystone))
            .replace("http://127.0.0.1:15001", &self.cloud.url(Service::Neutron))
            .replace("http://127.0.0.1:15002", &self.cloud.url(Service::Nova))
    }

    fn compare(&self, recorded: &Recorded, reply: &Reply) {
        let name = &recorded.name;
        let expected = &recorded.reply;
        assert_eq!(reply.status, expected.status, "{name}: status; {}", reply.body);
        for header in
            ["content-type", "www-authenticate", "location", "vary", "openstack-api-version", "cache-control"]
        {
            let wanted = expected.header(header).map(|value| self.localised(value));
            assert_eq!(reply.header(header), wanted.as_deref(), "{name}: {header}");
        }
        let subject = expected.header("x-subject-token").is_some();
        assert_eq!(reply.header("x-subject-token").is_some(), subject, "{name}: x-subject-token");
        match serde_json::from_str::<Value>(&self.localised(&expected.body)) {
            Ok(wanted) => same(name, "", &wanted, &reply.json()),
            Err(_) => {
                let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert_eq!(plain(&reply.body), plain(&expected.body), "{name}: body");
            }
        }
    }
}

/// Leaves that must be equal, not only of one type.
const EXACT: [&str; 31] = [
    "id",
    "name",
    "status",
    "device_id",
    "device_owner",
    "mac_address",
    "network_id",
    "project_id",
    "tenant_id",
    "mtu",
    "cidr",
    "ip_version",
    "gateway_ip",
    "start",
    "end",
    "href",
    "rel",
    "code",
    "type",
    "message",
    "title",
    "detail",
    "subnet_id",
    "ip_address",
    "admin_state_up",
    "methods",
    "description",
    "base",
    "ipv6_ra_mode",
    "is_domain",
    "domain_id",
];
/// Subtrees whose order or ids are nobody's business: only their shape counts.
const SHAPE_ONLY: [&str; 5] = ["catalog", "roles", "audit_ids", "security_groups", "links"];

/// The same keys and types everywhere, and the same values where it matters.
fn same(name: &str, path: &str, wanted: &Value, got: &Value) {
    match (wanted, got) {
        (Value::Object(wanted), Value::Object(got)) => {
            let keys = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
            assert_eq!(sorted(keys(got)), sorted(keys(wanted)), "{name}: keys at {path}");
            wanted.iter().for_each(|(key, value)| same(name, &format!("{path}.{key}"), value, &got[key]));
        }
        (Value::Array(wanted), Value::Array(got)) => {
            assert_eq!(got.len(), wanted.len(), "{name}: length at {path}: {got:?}");
            // The catalog's order means nothing.
            let by_type = |list: &[Value]| {
                let mut list = list.to_vec();
                list.sort_by_key(|entry| entry["type"].as_str().map(str::to_owned));
                list
            };
            let pairs = by_type(wanted).into_iter().zip(by_type(got));
            pairs.for_each(|(wanted, got)| same(name, path, &wanted, &got));
        }
        _ if is_exact(path) => assert_message(name, path, wanted, got),
        _ => assert_eq!(kind(got), kind(wanted), "{name}: type at {path}"),
    }
}

fn is_exact(path: &str) -> bool {
    let parts: Vec<&str> = path.split('.').collect();
    let is_in_shape_only = parts.iter().any(|part| SHAPE_ONLY.contains(part));
    !is_in_shape_only && parts.last().is_some_and(|leaf| EXACT.contains(leaf))
}

/// Keystone's dumps of its JSON schema are not imitated beyond their first line.
fn assert_message(name: &str, path: &str, wanted: &Value, got: &Value) {
    let first_line = |value: &Value| value.as_str().map(|text| text.lines().next().map(str::to_owned));
    let is_schema = wanted.as_str().is_some_and(|text| text.contains("Failed validating"));
    if is_schema {
        assert_eq!(first_line(got), first_line(wanted), "{name}: {path}");
    } else {
        assert_eq!(got, wanted, "{name}: {path}");
    }
}

fn sorted(mut keys: Vec<String>) -> Vec<String> {
    keys.sort();
    keys
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The tenant's user id.
fn add_accounts(cloud: &SimCloud) -> String {
    for (id, name) in [(PROJECT, "tenant-a"), (OTHER_PROJECT, "tenant-b"), (ADMIN_PROJECT, "admin")] {
        cloud.set_next_id(id);
        cloud.add_project(name);
    }
    cloud.set_next_id(USER);
    let user = cloud.add_user("tenant-a-user", PASSWORD);
    cloud.grant(&user, PROJECT, "reader");
    cloud.grant(&user, PROJECT, "member");
    let other = cloud.add_user("tenant-b-user", PASSWORD);
    cloud.grant(&other, OTHER_PROJECT, "member");
    cloud.set_next_id(ADMIN);
    let admin = cloud.add_user("admin", PASSWORD);
    ["admin", "manager", "member", "reader"].iter().for_each(|role| cloud.grant(&admin, ADMIN_PROJECT, role));
    user
}

fn add_topology(cloud: &SimCloud) {
    for (project, name, id, mtu) in [
        (PROJECT, "net-0", "246a4759-38b3-484e-a190-100865b7a738", 1500),
        (PROJECT, "net-1", "b895dcd7-6298-4b95-bdbb-cf6fe714ec53", 9000),
        (PROJECT, "Probe-Net-ÄÖ-日本", "41e6b428-6a42-4ad7-8a24-3e19e379351f", 1280),
        (PROJECT, "no-subnet", "7e6cf3cf-501f-462c-a80f-d3256680139e", 1500),
        (OTHER_PROJECT, "b-net-0", "5f2b997f-5dc7-4d64-8eec-c27a62199cba", 1500),
        (OTHER_PROJECT, "b-net-1", "bd158cc0-8ca1-4471-a981-28b1e4554c09", 9000),
    ] {
        cloud.set_next_id(id);
        cloud.add_network(project, name, mtu);
    }
    for (network, name, id, cidr) in [
        (
            "246a4759-38b3-484e-a190-100865b7a738",
            "subnet-0",
            "e359e30a-0f7f-4f3e-9344-dc678a634928",
            "10.1.0.0/16",
        ),
        (
            "41e6b428-6a42-4ad7-8a24-3e19e379351f",
            "p6",
            "56c4b432-4faf-448b-bd0d-0b0463ffda9f",
            "fd00:99::/64",
        ),
    ] {
        cloud.set_next_id(id);
        cloud.add_subnet(network, name, cidr);
    }
    add_servers(cloud);
}

/// Oldest first.
fn add_servers(cloud: &SimCloud) {
    for (project, name, id) in [
        (PROJECT, "vm-0", "226ef162-51f3-4947-9bdc-6362ddb38813"),
        (PROJECT, "vm-1", "0f2a5ddd-331d-4fa1-b5ad-0bb01e8c97b1"),
        (OTHER_PROJECT, "b-vm-1", "85e92581-b40b-40f3-96d9-d6427f31a91a"),
        (OTHER_PROJECT, "b-vm-3", "c39c1abb-2c6f-42da-b19f-59d94e08aa39"),
        (OTHER_PROJECT, "b-vm-2", "0a757954-8f96-4e83-baa2-8ab3aad7aa9e"),
        (OTHER_PROJECT, "b-vm-4", "e295c6da-07d2-4f0d-92a9-54acc03e3aa5"),
        (OTHER_PROJECT, "b-vm-5", "1bf10c39-4315-4efc-9498-db6a05e119fc"),
    ] {
        cloud.set_next_id(id);
        cloud.add_server(project, name, &[]);
    }
}

/// Every port that the recorded administrator saw.
fn add_ports(cloud: &SimCloud) {
    let all: Value = serde_json::from_str(&recorded("neutron-ports-admin-all").reply.body).unwrap();
    for port in all["ports"].as_array().unwrap() {
        let text = |key: &str| port[key].as_str().unwrap_or_default();
        let mut spec = PortSpec::new(text("network_id"))
            .id(text("id"))
            .name(text("name"))
            .server(text("device_id"))
            .project(text("project_id"))
            .mac(text("mac_address"))
            .status(text("status"))
            .device_owner(text("device_owner"))
            .created_at(text("created_at"))
            .field("admin_state_up", port["admin_state_up"].clone());
        for ip in port["fixed_ips"].as_array().unwrap() {
            let text = |key: &str| ip[key].as_str().unwrap_or_default();
            spec = spec.fixed_ip(text("subnet_id"), text("ip_address"));
        }
        if let Some(trunk) = port.get("trunk_details") {
            spec = spec.field("trunk_details", trunk.clone());
        }
        cloud.add_port(spec);
    }
}

fn tokens(cloud: &SimCloud) -> BTreeMap<&'static str, String> {
    let project = |id: &str| json!({"project": {"id": id}});
    [
        ("revoked", "tenant-a-user", Some(project(PROJECT))),
        ("tenant", "tenant-a-user", Some(project(PROJECT))),
        ("other", "tenant-b-user", Some(project(OTHER_PROJECT))),
        ("admin", "admin", Some(project(ADMIN_PROJECT))),
        ("unscoped", "tenant-a-user", None),
        ("system", "admin", Some(json!({"system": {"all": true}}))),
    ]
    .into_iter()
    .map(|(holder, user, scope)| {
        let token = log_in(cloud, user, scope);
        if holder == "revoked" {
            cloud.revoke_tokens();
        }
        (holder, token)
    })
    .collect()
}

fn log_in(cloud: &SimCloud, user: &str, scope: Option<Value>) -> String {
    let who = json!({"user": {"name": user, "domain": {"id": "default"}, "password": PASSWORD}});
    let mut auth = json!({"identity": {"methods": ["password"], "password": who}});
    if let Some(scope) = scope {
        auth["scope"] = scope;
    }
    let body = json!({"auth": auth}).to_string();
    let reply = request(&cloud.url(Service::Keystone), "POST", "/v3/auth/tokens", &[], &body).unwrap();
    reply.header("x-subject-token").unwrap_or_else(|| panic!("{}", reply.body)).to_owned()
}
