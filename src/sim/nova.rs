//! Nova: servers, one by one and in pages.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::exchange::{Answer, Call};
use super::identity::Token;
use super::neutron::unauthorized;
use super::nova_json::{Attached, server_json};
use super::objects::Server;
use super::service::Operation;
use super::world::{PageLinks, World};

/// The newest microversion.
const MAX_MINOR: u32 = 100;

/// What a path under `/v2.1` asks for.
enum Asked<'a> {
    Detail,
    Brief,
    One(&'a str),
    Version,
    Unknown,
}

/// The project in the path, if there is one, and the rest.
fn parse(segments: &[String]) -> (Option<&str>, Asked<'_>) {
    let parts: Vec<&str> = segments.iter().skip(1).map(String::as_str).collect();
    match parts.as_slice() {
        [] => (None, Asked::Version),
        ["servers", rest @ ..] => (None, servers(rest)),
        [project, "servers", rest @ ..] => (Some(project), servers(rest)),
        _ => (None, Asked::Unknown),
    }
}

fn servers<'a>(rest: &[&'a str]) -> Asked<'a> {
    match rest {
        [] => Asked::Brief,
        ["detail"] => Asked::Detail,
        [id] => Asked::One(id),
        _ => Asked::Unknown,
    }
}

pub(crate) fn operation(call: &Call) -> Operation {
    let segments = call.segments();
    if call.method != Method::GET || segments.first().map(String::as_str) != Some("v2.1") {
        return Operation::Other;
    }
    match parse(&segments).1 {
        Asked::Detail | Asked::Brief => Operation::ListServers,
        Asked::One(_) => Operation::ShowServer,
        Asked::Version | Asked::Unknown => Operation::Other,
    }
}

pub(crate) fn answer(world: &mut World, call: &Call) -> Answer {
    let segments = call.segments();
    let request_id = format!("req-{}", world.ids.uuid());
    match segments.first().map(String::as_str) {
        None => return versions(call),
        Some("v2.1") => {}
        Some(_) => return Answer::text(404, "text/plain", "404 Not Found\n".into()),
    }
    let answer = match world.identity.valid(call.header("x-auth-token")) {
        None => unauthorized(world),
        Some(token) => match microversion(call) {
            Err(refused) => refused,
            Ok(version) => versioned(dispatch(world, call, token, &segments), &version),
        },
    };
    answer.header("x-openstack-request-id", request_id.clone()).header("x-compute-request-id", request_id)
}

fn versioned(answer: Answer, version: &str) -> Answer {
    answer
        .header("OpenStack-API-Version", format!("compute {version}"))
        .header("X-OpenStack-Nova-API-Version", version)
        .header("Vary", "OpenStack-API-Version")
        .header("Vary", "X-OpenStack-Nova-API-Version")
}

/// An error as Nova words it.
fn error(status: u16, kind: &str, message: &str) -> Answer {
    let body = json!({kind: {"code": status, "message": message}});
    Answer::text(status, "application/json; charset=UTF-8", body.to_string())
}

/// The version that answers: 2.1 unless the client asks for another.
fn microversion(call: &Call) -> Result<String, Answer> {
    let new = call.header("openstack-api-version").and_then(|value| value.strip_prefix("compute "));
    let Some(asked) = new.or_else(|| call.header("x-openstack-nova-api-version")) else {
        return Ok("2.1".into());
    };
    if asked == "latest" {
        return Ok(format!("2.{MAX_MINOR}"));
    }
    let parts: Option<(u32, u32)> =
        asked.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    match parts {
        None => Err(error(
            400,
            "badRequest",
            &format!("API Version String {asked} is of invalid format. Must be of format MajorNum.MinorNum."),
        )),
        Some((2, 1..=MAX_MINOR)) => Ok(asked.into()),
        Some(_) => {
            let message = format!(
                "Version {asked} is not supported by the API. Minimum is 2.1 and maximum is 2.{MAX_MINOR}."
            );
            Err(versioned(error(406, "computeFault", &message), asked))
        }
    }
}

fn dispatch(world: &World, call: &Call, token: &Token, segments: &[String]) -> Answer {
    let (project, asked) = parse(segments);
    if let (Some(in_path), own) = (project, token.project().unwrap_or("None"))
        && in_path != own
    {
        let message = format!(
            "Malformed request URL: URL's project_id '{in_path}' doesn't match Context's project_id '{own}'"
        );
        return error(400, "badRequest", &message);
    }
    match asked {
        _ if call.method != Method::GET => error(405, "computeFault", "The method is not allowed."),
        Asked::Version => Answer::json(200, &json!({"version": version(call)})),
        Asked::Detail => list(world, call, token, true),
        Asked::Brief => list(world, call, token, false),
        Asked::One(id) => show(world, call, token, id),
        Asked::Unknown => error(404, "itemNotFound", "The resource could not be found."),
    }
}

fn version(call: &Call) -> Value {
    json!({
        "id": "v2.1", "status": "CURRENT", "version": format!("2.{MAX_MINOR}"), "min_version": "2.1",
        "updated": "2013-07-23T11:33:21Z",
        "links": [
            {"rel": "self", "href": format!("{}/v2.1/", call.base_url())},
            {"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"},
        ],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}],
    })
}

fn versions(call: &Call) -> Answer {
    let entry = |id: &str, status: &str, version: &str, min: &str, updated: &str, path: &str| {
        json!({
            "id": id, "status": status, "version": version, "min_version": min, "updated": updated,
            "links": [{"rel": "self", "href": format!("{}/{path}/", call.base_url())}],
        })
    };
    let old = entry("v2.0", "SUPPORTED", "", "", "2011-01-21T11:33:21Z", "v2");
    let new = entry("v2.1", "CURRENT", &format!("2.{MAX_MINOR}"), "2.1", "2013-07-23T11:33:21Z", "v2.1");
    Answer::json(200, &json!({"versions": [old, new]}))
}

fn show(world: &World, call: &Call, token: &Token, id: &str) -> Answer {
    if token.project().is_none() {
        let message = "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach \
                       the Nova API log if possible.\n<class 'nova.exception.NovaException'>";
        return error(500, "computeFault", message);
    }
    let visible = |server: &&Server| token.is_admin() || token.project() == Some(&server.project_id);
    match world.servers.get(&id.to_ascii_lowercase()).filter(visible) {
        Some(server) => {
            let attached = Attached::of(world);
            let body = server_json(world, &attached, server, &call.base_url(), token.is_admin());
            Answer::json(200, &json!({"server": body}))
        }
        None => error(404, "itemNotFound", &format!("Instance {id} could not be found.")),
    }
}

fn forbidden(rule: &str) -> Answer {
    error(403, "forbidden", &format!("Policy doesn't allow os_compute_api:servers:{rule} to be performed."))
}

fn list(world: &World, call: &Call, token: &Token, is_detail: bool) -> Answer {
    let rule = if is_detail { "detail" } else { "index" };
    let all_tenants = call.values("all_tenants").last().is_some_and(|value| value != "0");
    let Some(project) = token.project() else {
        return forbidden(rule);
    };
    if all_tenants && !token.is_admin() {
        return forbidden(&format!("{rule}:get_all_tenants"));
    }
    let mut found: Vec<&Server> = world
        .servers
        .values()
        .filter(|server| all_tenants || server.project_id == project)
        .filter(|server| matches(call, server, token.is_admin()))
        .collect();
    // The newest first.
    found.sort_by_key(|server| std::cmp::Reverse(server.sequence));
    let attached = Attached::of(world);
    paged(world, call, &found, |server| {
        if is_detail {
            server_json(world, &attached, server, &call.base_url(), token.is_admin())
        } else {
            json!({"id": server.id, "name": server.name})
        }
    })
}

/// Unknown filters are ignored, and so are a tenant's `uuid=` and `project_id=`.
/// Of a filter that is repeated, the last counts.
fn matches(call: &Call, server: &Server, is_admin: bool) -> bool {
    let last = |key| call.values(key).last();
    let is_named = last("name").is_none_or(|part| server.name.contains(part));
    let is_in_status = last("status").is_none_or(|status| server.status.eq_ignore_ascii_case(status));
    let is_changed = last("changes-since").is_none_or(|since| server.created_at.as_str() >= since);
    let is_wanted = !is_admin || last("uuid").is_none_or(|id| server.id == id);
    let is_of_project = !is_admin || last("project_id").is_none_or(|id| server.project_id == id);
    is_named && is_in_status && is_changed && is_wanted && is_of_project
}

fn paged(world: &World, call: &Call, found: &[&Server], render: impl Fn(&Server) -> Value) -> Answer {
    let limit = match call.values("limit").last().map(str::parse::<usize>).transpose() {
        Ok(limit) => limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX).min(world.server_page_max),
        Err(_) => return error(400, "badRequest", "Invalid input for query parameters limit."),
    };
    let marker = call.values("marker").last();
    let start = match marker.map(|marker| found.iter().position(|server| server.id == marker)) {
        None => 0,
        Some(Some(position)) => position + 1,
        Some(None) => {
            let message = format!("marker [{}] not found", marker.unwrap_or_default());
            return error(400, "badRequest", &message);
        }
    };
    let page = &found[start..found.len().min(start + limit)];
    let servers: Vec<Value> = page.iter().map(|server| render(server)).collect();
    let mut body = Map::from_iter([("servers".to_owned(), Value::Array(servers))]);
    if let Some(last) = page.last().filter(|_| page.len() == limit) {
        let next = if world.page_links == PageLinks::Loop { marker } else { Some(last.id.as_str()) };
        body.insert("servers_links".into(), json!([{"rel": "next", "href": next_page(world, call, next)}]));
    }
    Answer::json(200, &Value::Object(body)).on_page(start.div_ceil(limit.max(1)) + 1)
}

fn next_page(world: &World, call: &Call, marker: Option<&str>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(call.query.iter().filter(|(name, _)| name != "marker"));
    if let Some(marker) = marker {
        query.append_pair("marker", marker);
    }
    let base = match world.page_links {
        PageLinks::Relative => String::new(),
        PageLinks::WrongScheme => call.base_url().replacen("http://", "https://", 1),
        PageLinks::Absolute | PageLinks::Loop => call.base_url(),
    };
    format!("{base}{}?{}", call.path(), query.finish())
}
