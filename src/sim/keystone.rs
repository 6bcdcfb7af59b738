//! Keystone: logins, the catalog, version documents.

use axum::http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::exchange::{Answer, Call};
use super::identity::{Scope, Token, microseconds};
use super::keystone_login::{LoginError, log_in};
use super::service::Operation;
use super::world::World;

/// Longer bodies get 413 (`max_request_body_size`).
const MAX_REQUEST_BODY: usize = 114_688;

pub(crate) fn operation(call: &Call) -> Operation {
    match (call.path(), &call.method) {
        ("/v3/auth/tokens", &Method::POST) => Operation::Login,
        ("/v3/auth/tokens", _) => Operation::Token,
        _ => Operation::Other,
    }
}

pub(crate) fn answer(world: &mut World, call: &Call) -> Answer {
    let request_id = format!("req-{}", world.ids.uuid());
    let answer = if call.body.len() > MAX_REQUEST_BODY { too_large() } else { dispatch(world, call) };
    answer.header("Vary", "X-Auth-Token").header("x-openstack-request-id", request_id)
}

fn dispatch(world: &mut World, call: &Call) -> Answer {
    if call.path().contains("//") {
        return moved(call);
    }
    match (&call.method, call.path().trim_end_matches('/')) {
        (&Method::POST, "/v3/auth/tokens") => login(world, call),
        (&Method::GET, "/v3/auth/tokens") => validate(world, call),
        (&Method::DELETE, "/v3/auth/tokens") => revoke(world, call),
        (&Method::GET, "") => versions(call),
        (&Method::GET, "/v3") => Answer::json(200, &json!({"version": version(call)})),
        (&Method::GET, "/v3/auth/catalog") => catalog(world, call),
        (&Method::GET, "/v3/auth/projects" | "/v3/projects") => projects(world, call),
        _ => not_found_page(),
    }
}

fn error(status: u16, title: &str, message: &str) -> Answer {
    Answer::json(status, &json!({"error": {"code": status, "message": message, "title": title}}))
}

fn unauthorized(call: &Call, body: &Value) -> Answer {
    Answer::json(401, body).header("WWW-Authenticate", challenge(&call.base_url()))
}

/// What a 401 of every service points to.
pub(crate) fn challenge(keystone: &str) -> String {
    format!("Keystone uri=\"{keystone}/v3\"")
}

const UNAUTHENTICATED: &str = "The request you have made requires authentication.";

fn unauthenticated(call: &Call) -> Answer {
    unauthorized(call, &json!({"error": {"code": 401, "message": UNAUTHENTICATED, "title": "Unauthorized"}}))
}

fn login(world: &mut World, call: &Call) -> Answer {
    match log_in(world, &call.body) {
        Ok((text, token)) => {
            let has_catalog = !call.query.iter().any(|(name, _)| name == "nocatalog");
            Answer::json(201, &json!({"token": token_body(world, &token, has_catalog)}))
                .header("X-Subject-Token", text)
        }
        Err(LoginError::Refused) => unauthenticated(call),
        Err(LoginError::ScopeNotAllowed) => {
            let message = "Error authenticating with application credential: \
                           Application credentials cannot request a scope.";
            unauthorized(
                call,
                &json!({"error": {"code": 401, "identity": {}, "message": message, "title": "Unauthorized"}}),
            )
        }
        Err(LoginError::UnknownCredential(id)) => {
            error(404, "Not Found", &format!("Could not find Application Credential: {id}."))
        }
        Err(LoginError::Malformed(message)) => error(400, "Bad Request", &message),
    }
}

fn token_body(world: &mut World, token: &Token, has_catalog: bool) -> Value {
    world.logins += 1;
    let user = world.identity.user(&token.user_id);
    let (name, domain) = user.map_or(("", ""), |user| (&user.name, &user.domain_id));
    let mut body = json!({
        "methods": [if token.app_credential.is_some() { "application_credential" } else { "password" }],
        "user": {
            "domain": domain_body(world, domain),
            "id": token.user_id,
            "name": name,
            "password_expires_at": null,
        },
        "audit_ids": [token.audit_id],
        "expires_at": microseconds(token.expires_at),
        "issued_at": microseconds(token.issued_at),
    });
    let catalog = has_catalog.then(|| world.catalog.render(token.project(), world.logins));
    match &token.scope {
        Scope::Unscoped => return body,
        Scope::Project(id) => {
            body["project"] = project_body(world, id);
            body["is_domain"] = json!(false);
        }
        Scope::Domain(id) => body["domain"] = domain_body(world, id),
        Scope::System => body["system"] = json!({"all": true}),
    }
    body["roles"] = token.roles.iter().map(|role| json!({"id": role_id(role), "name": role})).collect();
    if let Some(catalog) = catalog {
        body["catalog"] = catalog;
    }
    if let Some(id) = &token.app_credential {
        let credential = world.identity.app_credentials.iter().find(|credential| credential.id == *id);
        let name = credential.map_or("", |credential| &credential.name);
        body["application_credential"] = json!({"id": id, "name": name, "restricted": true});
    }
    body
}

fn domain_body(world: &World, id: &str) -> Value {
    json!({"id": id, "name": world.identity.domain_name(id)})
}

fn project_body(world: &World, id: &str) -> Value {
    let project = world.identity.project(id);
    let (name, domain) = project.map_or(("", ""), |project| (&project.name, &project.domain_id));
    json!({"domain": domain_body(world, domain), "id": id, "name": name})
}

fn role_id(role: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(role.as_bytes())[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn subject<'a>(world: &'a World, call: &Call) -> Result<Option<&'a Token>, Answer> {
    let caller = world.identity.valid(call.header("x-auth-token"));
    caller.ok_or_else(|| unauthenticated(call))?;
    Ok(world.identity.valid(call.header("x-subject-token")))
}

fn validate(world: &mut World, call: &Call) -> Answer {
    match subject(world, call).map(|token| token.cloned()) {
        Err(refused) => refused,
        Ok(None) => error(404, "Not Found", "Failed to validate token"),
        Ok(Some(token)) => {
            let body = json!({"token": token_body(world, &token, true)});
            Answer::json(200, &body)
                .header("X-Subject-Token", call.header("x-subject-token").unwrap_or_default())
        }
    }
}

fn revoke(world: &mut World, call: &Call) -> Answer {
    match subject(world, call).map(|token| token.is_some()) {
        Err(refused) => refused,
        Ok(false) => error(404, "Not Found", "Failed to validate token"),
        Ok(true) => {
            world.identity.tokens.remove(call.header("x-subject-token").unwrap_or_default());
            Answer::empty(204)
        }
    }
}

fn catalog(world: &World, call: &Call) -> Answer {
    match world.identity.valid(call.header("x-auth-token")) {
        None => unauthenticated(call),
        Some(token) if token.scope == Scope::Unscoped => {
            error(403, "Forbidden", "You are not authorized to perform the requested action.")
        }
        Some(token) => {
            let links = json!({"self": format!("{}/v3/auth/catalog", call.base_url())});
            let catalog = world.catalog.render(token.project(), world.logins);
            Answer::json(200, &json!({"catalog": catalog, "links": links}))
        }
    }
}

fn projects(world: &World, call: &Call) -> Answer {
    let Some(token) = world.identity.valid(call.header("x-auth-token")) else {
        return unauthenticated(call);
    };
    let roles = world.identity.user(&token.user_id).map(|user| &user.roles);
    let visible = world
        .identity
        .projects
        .iter()
        .filter(|project| roles.is_some_and(|roles| roles.contains_key(&project.id)));
    let list: Vec<Value> = visible
        .map(|project| {
            json!({
                "id": project.id, "name": project.name, "domain_id": project.domain_id, "description": "",
                "enabled": project.is_enabled, "parent_id": project.domain_id, "is_domain": false, "tags": [],
                "options": {}, "links": {"self": format!("{}/v3/projects/{}", call.base_url(), project.id)},
            })
        })
        .collect();
    let links =
        json!({"next": null, "self": format!("{}{}", call.base_url(), call.path()), "previous": null});
    Answer::json(200, &json!({"projects": list, "links": links}))
}

fn version(call: &Call) -> Value {
    json!({
        "id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{}/v3/", call.base_url())}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    })
}

fn versions(call: &Call) -> Answer {
    Answer::json(300, &json!({"versions": {"values": [version(call)]}}))
        .header("Location", format!("{}/v3/", call.base_url()))
}

/// A path with `//`: the web framework sends the client to the tidy one.
fn moved(call: &Call) -> Answer {
    let mut path = call.path().to_owned();
    while path.contains("//") {
        path = path.replace("//", "/");
    }
    let location = format!("{}{path}", call.base_url());
    let page = format!(
        "<!doctype html>\n<html lang=en>\n<title>Redirecting...</title>\n<h1>Redirecting...</h1>\n\
         <p>You should be redirected automatically to the target URL: <a href=\"{location}\">{location}</a>. \
         If not, click the link.\n"
    );
    Answer::html(308, page).header("Location", location)
}

fn not_found_page() -> Answer {
    Answer::html(
        404,
        "<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n\
         <p>The requested URL was not found on the server. If you entered the URL manually \
         please check your spelling and try again.</p>\n",
    )
}

fn too_large() -> Answer {
    let title = "Request Entity Too Large";
    let message = format!(
        "Request is too large. Larger than max_request_body_size ({MAX_REQUEST_BODY}).<br /><br />\n\n\n"
    );
    Answer::json(413, &json!({"message": message, "code": format!("413 {title}"), "title": title}))
}

/// The end of a token's life, never beyond the credential's.
pub(crate) fn expiry(world: &World, limit: Option<jiff::Timestamp>) -> jiff::Timestamp {
    let ttl = SignedDuration::try_from(world.identity.token_ttl).unwrap_or(SignedDuration::MAX);
    let end = world.identity.now().saturating_add(ttl).unwrap_or(jiff::Timestamp::MAX);
    limit.map_or(end, |limit| limit.min(end))
}
