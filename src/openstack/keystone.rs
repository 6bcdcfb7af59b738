//! Keystone v3: one login, and the token it gives.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use multinic_actors::boundary::CloudError;
use multinic_actors::domain::ids::ProjectId;
use multinic_actors::domain::reason::Reason;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::catalog::Catalog;
use super::errors;
use super::http::Http;
use super::url_parts;
use crate::upstream::{Body, Call, ErrorKind, Turn};

pub(super) const SERVICE: &str = "keystone";
pub(super) const OPERATION: &str = "log in";
/// A token is not used in its last moments: the request has to arrive with it.
const LAST_MOMENTS: Duration = Duration::from_secs(30);

/// Who logs in where.
#[derive(Clone, Debug)]
pub(super) struct Account {
    /// Keystone's base URL, without a version.
    pub(super) keystone: Url,
    /// The domain's name.
    pub(super) domain: String,
    /// The user's name.
    pub(super) user: String,
    pub(super) password: SecretString,
}

/// Why there is no token.
#[derive(Debug)]
pub(super) enum LoginError {
    /// 401: password, user, project or role; Keystone does not say which.
    Refused(CloudError),
    /// Anything else.
    Failed(CloudError),
}

/// A token and what came with it.
#[derive(Debug)]
pub(super) struct Token {
    /// Tells tokens apart without looking at them.
    pub(super) serial: u64,
    /// Marked as sensitive: it does not show in `Debug`.
    pub(super) header: HeaderValue,
    pub(super) catalog: Catalog,
    pub(super) expires_at: Timestamp,
    /// Before the login was sent: on the safe side.
    obtained: Instant,
    life: Duration,
}

impl Token {
    pub(super) fn age(&self) -> Duration {
        self.obtained.elapsed()
    }

    pub(super) fn is_usable(&self) -> bool {
        self.age() + LAST_MOMENTS.min(self.life / 10) < self.life
    }

    /// When half of its life is over.
    pub(super) fn renew_at(&self) -> Instant {
        self.obtained + self.life / 2
    }
}

/// Logs in with a password, scoped to `project`.
pub(super) async fn log_in(
    http: &Http,
    turn: &Turn,
    call: &Call,
    account: &Account,
    project: &ProjectId,
) -> Result<Token, LoginError> {
    let obtained = Instant::now();
    let answer = match http.send(turn, call, request(account, project)).await {
        Ok(answer) => answer,
        Err(error) => return Err(refusal(error, account)),
    };
    let invalid = |problem: String| {
        LoginError::Failed(errors::of(Reason::KeystoneError, errors::invalid(SERVICE, OPERATION, problem)))
    };
    let mut header = answer
        .headers
        .get("x-subject-token")
        .cloned()
        .ok_or_else(|| invalid("the answer has no X-Subject-Token".to_owned()))?;
    header.set_sensitive(true);
    let granted = Granted::read(&answer.body, project).map_err(invalid)?;
    Ok(Token {
        serial: next_serial(),
        header,
        catalog: granted.catalog,
        expires_at: granted.expires_at,
        obtained,
        life: granted.life,
    })
}

fn next_serial() -> u64 {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    SERIAL.fetch_add(1, Ordering::Relaxed)
}

fn request(account: &Account, project: &ProjectId) -> Request {
    // The domain goes by name: names match without case, ids do not.
    let body = json!({"auth": {
        "identity": {
            "methods": ["password"],
            "password": {"user": {
                "name": account.user,
                "domain": {"name": account.domain},
                "password": account.password.expose_secret(),
            }},
        },
        "scope": {"project": {"id": project.as_str()}},
    }});
    let mut request = Request::new(Method::POST, url_parts::join(&account.keystone, "v3/auth/tokens"));
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *request.body_mut() = Some(body.to_string().into());
    request
}

fn refusal(error: crate::upstream::UpstreamError, account: &Account) -> LoginError {
    let reason = Reason::KeystoneError;
    match &error.kind {
        ErrorKind::Status { code: 401, .. } => LoginError::Refused(errors::with_hint(
            reason,
            error,
            "user, password, domain or project is wrong, or the user has no role in the project",
        )),
        // Keystone itself answers in JSON; this is whatever else lives at the URL.
        ErrorKind::Status { code: 404, body: Body::Html | Body::Empty | Body::Other, .. } => {
            let hint = format!("there is no Keystone v3 at {}", without_user(&account.keystone));
            LoginError::Failed(errors::with_hint(reason, error, &hint))
        }
        _ => LoginError::Failed(errors::of(reason, error)),
    }
}

fn without_user(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

/// The part of a login's answer that is of use.
struct Granted {
    catalog: Catalog,
    expires_at: Timestamp,
    life: Duration,
}

impl Granted {
    fn read(body: &[u8], project: &ProjectId) -> Result<Self, String> {
        let answer: Value = serde_json::from_slice(body).map_err(|_| "the answer is not JSON".to_owned())?;
        let token = answer.get("token").ok_or("the answer has no token")?;
        // Neutron answers a token without the right project with 200 and an empty list.
        match token.pointer("/project/id").and_then(Value::as_str) {
            Some(id) if is_same_project(id, project.as_str()) => {}
            Some(id) => return Err(format!("the token is for project {id}, not for {project}")),
            None => return Err(format!("the token is not scoped to project {project}")),
        }
        let moment = |key: &str| token.get(key).and_then(Value::as_str).and_then(|text| text.parse().ok());
        let expires_at: Timestamp = moment("expires_at").ok_or("the answer has no expires_at")?;
        // The difference of Keystone's own times: its clock need not be ours.
        let issued_at = moment("issued_at").unwrap_or_else(Timestamp::now);
        let life = Duration::try_from(expires_at.duration_since(issued_at)).unwrap_or_default();
        if life.is_zero() {
            return Err("the token has expired already".to_owned());
        }
        Ok(Self { catalog: token.get("catalog").map(Catalog::of_json).unwrap_or_default(), expires_at, life })
    }
}

/// Project ids are UUIDs, with or without dashes.
fn is_same_project(a: &str, b: &str) -> bool {
    let plain = |id: &str| id.replace('-', "").to_ascii_lowercase();
    plain(a) == plain(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(exchange: &str) -> String {
        let (_, body) = exchange.rsplit_once("\n\n{").unwrap();
        format!("{{{}", body.trim())
    }

    fn read(exchange: &str, project: &str) -> Result<Granted, String> {
        Granted::read(recorded(exchange).as_bytes(), &ProjectId::from(project))
    }

    const OK: &str = include_str!("../../tests/fixtures/openstack/keystone-auth-ok.http");
    const UNSCOPED: &str = include_str!("../../tests/fixtures/openstack/keystone-auth-unscoped.http");
    const PROJECT: &str = "0764b6ee59a64e378881651220874c09";

    #[test]
    fn a_recorded_token_lives_for_the_difference_of_its_times() {
        let granted = read(OK, PROJECT).unwrap();
        assert_eq!(granted.life, Duration::from_secs(3600));
        assert_eq!(granted.expires_at.to_string(), "2026-11-30T21:42:51Z");
    }

    #[test]
    fn a_token_for_another_project_or_none_is_refused() {
        assert_eq!(read(OK, "p2").err().unwrap(), format!("the token is for project {PROJECT}, not for p2"));
        assert_eq!(
            read(UNSCOPED, PROJECT).err().unwrap(),
            format!("the token is not scoped to project {PROJECT}")
        );
        assert!(read(OK, "0764B6EE-59A6-4E37-8881-651220874C09").is_ok());
    }

    #[test]
    fn a_useless_answer_is_told() {
        let read = |body: &str| Granted::read(body.as_bytes(), &ProjectId::from("p")).err().unwrap();
        assert_eq!(read("<html>"), "the answer is not JSON");
        assert_eq!(read("{}"), "the answer has no token");
        assert_eq!(read(r#"{"token":{"project":{"id":"p"}}}"#), "the answer has no expires_at");
    }
}
