//! Neutron's lists: filters, fields, pages.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::exchange::{Answer, Call};
use super::neutron::{Row, error};
use super::world::{PageLinks, World};

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Port,
    Subnet,
    Network,
}

/// Parameters that are no filters.
const CONTROLS: [&str; 6] = ["fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"];

impl Kind {
    pub fn singular(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Subnet => "subnet",
            Self::Network => "network",
        }
    }

    fn plural(self) -> String {
        format!("{}s", self.singular())
    }

    pub fn not_found(self, id: &str) -> Answer {
        let name = match self {
            Self::Port => "Port",
            Self::Subnet => "Subnet",
            Self::Network => "Network",
        };
        error(404, &format!("{name}NotFound"), &format!("{name} {id} could not be found."))
    }

    fn filters(self) -> &'static [&'static str] {
        match self {
            Self::Port => &[
                "id",
                "name",
                "network_id",
                "tenant_id",
                "project_id",
                "mac_address",
                "admin_state_up",
                "status",
                "device_id",
                "device_owner",
                "fixed_ips",
                "security_groups",
                "description",
                "binding:vnic_type",
                "binding:host_id",
                "port_security_enabled",
                "qos_policy_id",
                "revision_number",
            ],
            Self::Subnet => &[
                "id",
                "name",
                "tenant_id",
                "project_id",
                "network_id",
                "ip_version",
                "subnetpool_id",
                "enable_dhcp",
                "ipv6_ra_mode",
                "ipv6_address_mode",
                "gateway_ip",
                "cidr",
                "description",
                "revision_number",
                "router:external",
            ],
            Self::Network => &[
                "id",
                "name",
                "tenant_id",
                "project_id",
                "admin_state_up",
                "mtu",
                "status",
                "shared",
                "router:external",
                "description",
                "port_security_enabled",
                "qos_policy_id",
                "revision_number",
            ],
        }
    }

    /// Only the fields that were asked for; unknown names are ignored.
    pub fn pick(self, call: &Call, object: &Value) -> Value {
        let wanted: Vec<&str> = call.values("fields").collect();
        match object {
            Value::Object(all) if !wanted.is_empty() => {
                let kept = all.iter().filter(|(name, _)| wanted.contains(&name.as_str()));
                Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
            }
            other => other.clone(),
        }
    }
}

/// Answers a list request over the rows that the caller may see.
pub(crate) fn list(world: &World, call: &Call, kind: Kind, mut rows: Vec<Row>) -> Answer {
    let limit = match checked(call, kind) {
        Ok(limit) => limit,
        Err(refused) => return refused,
    };
    rows.retain(|row| matches(call, &row.fields));
    sort(call, &mut rows);
    let size = page_size(limit, world.port_page_max);
    let start = match call.values("marker").last() {
        None => 0,
        Some(marker) => match after(world, kind, &rows, marker) {
            Some(start) => start,
            None => return kind.not_found(marker),
        },
    };
    let page = &rows[start..rows.len().min(start.saturating_add(size.unwrap_or(usize::MAX)))];
    let objects: Vec<Value> = page.iter().map(|row| kind.pick(call, &row.served)).collect();
    let mut body = Map::from_iter([(kind.plural(), Value::Array(objects))]);
    if let Some(size) = size {
        body.insert(format!("{}_links", kind.plural()), links(world.page_links, call, page, size));
    }
    Answer::json(200, &Value::Object(body)).on_page(start.div_ceil(size.unwrap_or(usize::MAX)) + 1)
}

/// Where the page after a marker starts. The marker must exist; it need not match
/// the filters any more.
fn after(world: &World, kind: Kind, rows: &[Row], marker: &str) -> Option<usize> {
    let exists = match kind {
        Kind::Port => world.ports.contains_key(marker),
        Kind::Subnet => world.subnets.contains_key(marker),
        Kind::Network => world.networks.contains_key(marker),
    };
    let position = rows.iter().position(|row| row.id == marker);
    let by_order = || exists.then(|| rows.partition_point(|row| row.id.as_str() <= marker));
    position.map(|position| position + 1).or_else(by_order)
}

/// The limit that was asked for, if everything in the query is known.
fn checked(call: &Call, kind: Kind) -> Result<Option<usize>, Answer> {
    let unknown = |name: &&str| !CONTROLS.contains(name) && !kind.filters().contains(name);
    if let Some(name) = call.query.iter().map(|(name, _)| name.as_str()).find(unknown) {
        return Err(error(400, "HTTPBadRequest", &format!("['{name}'] is invalid attribute for filtering")));
    }
    if let Some(key) = call.values("sort_key").find(|key| !kind.filters().contains(key)) {
        return Err(error(400, "HTTPBadRequest", &format!("['{key}'] is invalid attribute for sort_keys")));
    }
    call.values("limit").last().map(|text| text.parse().map_err(|_| bad_limit(text))).transpose()
}

fn bad_limit(text: &str) -> Answer {
    let message = format!("Bad limit request: Limit must be an integer 0 or greater and not '{text}'.");
    error(400, "BadRequest", &message)
}

/// The server's own maximum cuts whatever was asked; 0 asks for everything.
fn page_size(limit: Option<usize>, max: Option<usize>) -> Option<usize> {
    let limit = limit.filter(|limit| *limit > 0);
    match (limit, max) {
        (Some(limit), Some(max)) => Some(limit.min(max)),
        (limit, max) => limit.or(max),
    }
}

/// Values of one name are OR-ed, names are AND-ed.
fn matches(call: &Call, fields: &Value) -> bool {
    let names = call.query.iter().map(|(name, _)| name.as_str()).filter(|name| !CONTROLS.contains(name));
    names.into_iter().all(|name| call.values(name).any(|wanted| has(fields, name, wanted)))
}

fn has(fields: &Value, name: &str, wanted: &str) -> bool {
    match &fields[name] {
        Value::Array(items) => items.iter().any(|item| list_has(item, wanted)),
        // The database compares without case.
        Value::String(text) => text.eq_ignore_ascii_case(wanted),
        Value::Null => false,
        other => other.to_string().eq_ignore_ascii_case(wanted),
    }
}

/// `fixed_ips=subnet_id=…` and `fixed_ips=ip_address=…`; plain lists by value.
fn list_has(item: &Value, wanted: &str) -> bool {
    match wanted.split_once('=') {
        Some((key, value)) => item[key] == json!(value),
        None => *item == json!(wanted),
    }
}

/// By the keys that were asked for, and always by id in the end.
fn sort(call: &Call, rows: &mut [Row]) {
    let keys: Vec<&str> = call.values("sort_key").collect();
    let is_descending: Vec<bool> = call.values("sort_dir").map(|dir| dir == "desc").collect();
    rows.sort_by(|a, b| {
        let by_key = keys.iter().enumerate().map(|(turn, key)| {
            let order = a.fields[*key].to_string().cmp(&b.fields[*key].to_string());
            if is_descending.get(turn) == Some(&true) { order.reverse() } else { order }
        });
        by_key.fold(Ordering::Equal, Ordering::then).then_with(|| a.id.cmp(&b.id))
    });
}

/// `next` whenever the page is full, even if nothing follows; `previous` always.
fn links(style: PageLinks, call: &Call, page: &[Row], size: usize) -> Value {
    let base = match style {
        PageLinks::Relative => String::new(),
        PageLinks::WrongScheme => call.base_url().replacen("http://", "https://", 1),
        PageLinks::Absolute | PageLinks::Loop => call.base_url(),
    };
    let href = |marker: Option<&str>, is_back: bool| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(call.query.iter().filter(|(name, _)| name != "marker" && name != "page_reverse"));
        if let Some(marker) = marker {
            query.append_pair("marker", marker);
        }
        if is_back {
            query.append_pair("page_reverse", "True");
        }
        format!("{base}{}?{}", call.path(), query.finish())
    };
    let mut links = Vec::new();
    if page.len() == size {
        let last = page.last().map(|row| row.id.as_str());
        let next = if style == PageLinks::Loop { call.values("marker").last() } else { last };
        links.push(json!({"rel": "next", "href": href(next, false)}));
    }
    links.push(json!({"rel": "previous", "href": href(page.first().map(|row| row.id.as_str()), true)}));
    Value::Array(links)
}
