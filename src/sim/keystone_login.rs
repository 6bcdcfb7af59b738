//! `POST /v3/auth/tokens`: who is it, and what may the token do.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

use super::identity::{AppCredential, Scope, Token, User};
use super::keystone::expiry;
use super::world::World;

/// Why there is no token.
pub(crate) enum LoginError {
    /// Wrong user, password, project, role: all the same to the client.
    Refused,
    /// An application credential asked for a scope.
    ScopeNotAllowed,
    /// No such application credential.
    UnknownCredential(String),
    /// The request makes no sense.
    Malformed(String),
}

/// Keystone ends every message about a malformed request so.
const BLAME: &str = "The server could not comply with the request since it is either malformed or \
                     otherwise incorrect. The client is assumed to be in error.";

fn expecting(what: &str) -> LoginError {
    LoginError::Malformed(format!("Expecting to find {what}. {BLAME}"))
}

/// Checks the request and makes the token.
pub(crate) fn log_in(world: &mut World, body: &[u8]) -> Result<(String, Token), LoginError> {
    let body: Value = serde_json::from_slice(body).map_err(|_| expecting("valid JSON in request body"))?;
    let auth = body.get("auth").ok_or_else(|| required("auth"))?;
    let identity = auth.get("identity").ok_or_else(|| required("identity"))?;
    let method = identity.pointer("/methods/0").and_then(Value::as_str).ok_or_else(|| required("methods"))?;
    let token = match method {
        "password" => by_password(world, &identity["password"], auth.get("scope"))?,
        "application_credential" => {
            by_app_credential(world, &identity["application_credential"], auth.get("scope"))?
        }
        _ => return Err(LoginError::Refused),
    };
    let text = world.ids.token();
    if world.identity.dead_logins > 0 {
        world.identity.dead_logins -= 1;
    } else {
        world.identity.tokens.insert(text.clone(), token.clone());
    }
    Ok((text, token))
}

fn required(property: &str) -> LoginError {
    LoginError::Malformed(format!(
        "'{property}' is a required property\n\nFailed validating 'required' in schema"
    ))
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// A domain by id (with case) or by name (without). `owner` is what lacks one.
fn domain_id(world: &World, holder: &Value, owner: &str) -> Result<String, LoginError> {
    let domain = holder.get("domain").ok_or_else(|| expecting(&format!("domain in {owner}")))?;
    let found =
        world.identity.domains.iter().find(|known| match (text(domain, "id"), text(domain, "name")) {
            (Some(id), _) => known.id == id,
            (None, Some(name)) => known.name.eq_ignore_ascii_case(name),
            (None, None) => false,
        });
    found.map(|domain| domain.id.clone()).ok_or(LoginError::Refused)
}

fn find_user<'a>(world: &'a World, holder: &Value) -> Result<&'a User, LoginError> {
    let user = match text(holder, "id") {
        Some(id) => world.identity.user(id),
        None => {
            let domain = domain_id(world, holder, "user")?;
            let name = text(holder, "name").unwrap_or_default();
            let matches = |user: &&User| user.domain_id == domain && user.name.eq_ignore_ascii_case(name);
            world.identity.users.iter().find(matches)
        }
    };
    user.filter(|user| user.is_enabled).ok_or(LoginError::Refused)
}

fn by_password(world: &mut World, password: &Value, scope: Option<&Value>) -> Result<Token, LoginError> {
    let holder = password.get("user").ok_or_else(|| required("user"))?;
    let user = find_user(world, holder)?.clone();
    if text(holder, "password") != Some(&user.password) {
        return Err(LoginError::Refused);
    }
    let (scope, roles) = scope_of(world, &user, scope)?;
    Ok(issue(world, &user, scope, roles, None))
}

fn scope_of(world: &World, user: &User, scope: Option<&Value>) -> Result<(Scope, Vec<String>), LoginError> {
    let Some(scope) = scope.filter(|scope| scope.as_str() != Some("unscoped")) else {
        return Ok((Scope::Unscoped, Vec::new()));
    };
    if let Some(project) = scope.get("project") {
        let id = project_id(world, project)?;
        let roles = user.roles.get(&id).cloned().ok_or(LoginError::Refused)?;
        return Ok((Scope::Project(id), roles));
    }
    // Beyond projects only administrators have roles here: those of their project.
    let admin_roles = user.roles.values().find(|roles| roles.iter().any(|role| role == "admin"));
    let roles = admin_roles.cloned().ok_or(LoginError::Refused)?;
    let scope = if scope.get("system").is_some() {
        Scope::System
    } else {
        let domain = scope.get("domain").and_then(|domain| text(domain, "id")).unwrap_or("default");
        Scope::Domain(domain.into())
    };
    Ok((scope, roles))
}

fn project_id(world: &World, project: &Value) -> Result<String, LoginError> {
    let mut projects = world.identity.projects.iter();
    let found = match text(project, "id") {
        Some(id) => projects.find(|known| known.id == id),
        None => {
            let domain = domain_id(world, project, "project")?;
            let name = text(project, "name").unwrap_or_default();
            projects.find(|known| known.domain_id == domain && known.name.eq_ignore_ascii_case(name))
        }
    };
    found.filter(|project| project.is_enabled).map(|project| project.id.clone()).ok_or(LoginError::Refused)
}

fn by_app_credential(world: &mut World, claim: &Value, scope: Option<&Value>) -> Result<Token, LoginError> {
    let credential = find_credential(world, claim)?.clone();
    let is_over = credential.expires_at.is_some_and(|end| end <= world.identity.now());
    if is_over || text(claim, "secret") != Some(&credential.secret) {
        return Err(LoginError::Refused);
    }
    if scope.is_some() {
        return Err(LoginError::ScopeNotAllowed);
    }
    let user = world.identity.user(&credential.user_id).cloned().ok_or(LoginError::Refused)?;
    let is_project_enabled =
        world.identity.project(&credential.project_id).is_some_and(|project| project.is_enabled);
    let roles = user.roles.get(&credential.project_id).cloned();
    match roles.filter(|_| user.is_enabled && is_project_enabled) {
        Some(roles) => {
            let scope = Scope::Project(credential.project_id.clone());
            Ok(issue(world, &user, scope, roles, Some(credential)))
        }
        None => Err(LoginError::Refused),
    }
}

fn find_credential<'a>(world: &'a World, claim: &Value) -> Result<&'a AppCredential, LoginError> {
    let mut credentials = world.identity.app_credentials.iter();
    if let Some(id) = text(claim, "id") {
        let found = credentials.find(|credential| credential.id == id);
        return found.ok_or_else(|| LoginError::UnknownCredential(id.into()));
    }
    let holder = claim.get("user").ok_or_else(|| expecting("user in application credential"))?;
    let user = find_user(world, holder)?;
    let name = text(claim, "name").unwrap_or_default();
    let found = credentials.find(|credential| credential.user_id == user.id && credential.name == name);
    found.ok_or_else(|| LoginError::UnknownCredential(name.into()))
}

fn issue(
    world: &mut World,
    user: &User,
    scope: Scope,
    roles: Vec<String>,
    credential: Option<AppCredential>,
) -> Token {
    let limit = credential.as_ref().and_then(|credential| credential.expires_at);
    Token {
        user_id: user.id.clone(),
        scope,
        roles,
        app_credential: credential.map(|credential| credential.id),
        audit_id: BASE64_URL_SAFE_NO_PAD.encode(&world.ids.bytes()[..16]),
        issued_at: world.identity.now(),
        expires_at: expiry(world, limit),
    }
}
