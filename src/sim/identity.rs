//! Who may log in: domains, users, application credentials, tokens.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::objects::Project;

/// A domain of users and projects.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub id: String,
    pub name: String,
}

#[derive(Clone, Debug)]
pub(crate) struct User {
    pub id: String,
    pub name: String,
    pub domain_id: String,
    pub password: String,
    pub is_enabled: bool,
    /// Roles by project id.
    pub roles: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug)]
pub(crate) struct AppCredential {
    pub id: String,
    pub name: String,
    pub secret: String,
    pub user_id: String,
    pub project_id: String,
    pub expires_at: Option<Timestamp>,
}

/// An application credential as its owner gets it, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppCredentialSecret {
    /// 32 hex digits.
    pub id: String,
    /// Unique for its user.
    pub name: String,
    /// The password of it.
    pub secret: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Unscoped,
    Project(String),
    Domain(String),
    System,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub user_id: String,
    pub scope: Scope,
    pub roles: Vec<String>,
    pub app_credential: Option<String>,
    pub audit_id: String,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Token {
    pub fn project(&self) -> Option<&str> {
        match &self.scope {
            Scope::Project(id) => Some(id),
            _ => None,
        }
    }

    pub fn is_admin(&self) -> bool {
        self.roles.iter().any(|role| role == "admin")
    }
}

/// Everything Keystone knows, the catalog aside.
#[derive(Debug)]
pub(crate) struct Identity {
    pub domains: Vec<Domain>,
    pub projects: Vec<Project>,
    pub users: Vec<User>,
    pub app_credentials: Vec<AppCredential>,
    pub tokens: BTreeMap<String, Token>,
    pub token_ttl: Duration,
    /// How far the cloud's clock is ahead of ours.
    pub clock_offset: SignedDuration,
    /// The next logins get 201 with a token that is dead.
    pub dead_logins: u32,
}

impl Identity {
    pub fn new() -> Self {
        Self {
            domains: vec![Domain { id: "default".into(), name: "Default".into() }],
            projects: Vec::new(),
            users: Vec::new(),
            app_credentials: Vec::new(),
            tokens: BTreeMap::new(),
            token_ttl: Duration::from_secs(3600),
            clock_offset: SignedDuration::ZERO,
            dead_logins: 0,
        }
    }

    /// The cloud's time.
    pub fn now(&self) -> Timestamp {
        Timestamp::now().saturating_add(self.clock_offset).unwrap_or(Timestamp::MAX)
    }

    pub fn project(&self, id: &str) -> Option<&Project> {
        self.projects.iter().find(|project| project.id == id)
    }

    pub fn user(&self, id: &str) -> Option<&User> {
        self.users.iter().find(|user| user.id == id)
    }

    pub fn domain_name(&self, id: &str) -> &str {
        self.domains.iter().find(|domain| domain.id == id).map_or("", |domain| &domain.name)
    }

    /// The token's record, unless it is unknown, revoked, or too old.
    pub fn valid(&self, token: Option<&str>) -> Option<&Token> {
        let record = self.tokens.get(token?)?;
        (self.now() < record.expires_at).then_some(record)
    }
}

/// `2026-11-30T20:42:51Z`: whole seconds, as Neutron and Nova write them.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-11-30T20:42:51.000000Z`, as Keystone writes them.
pub(crate) fn microseconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string()
}
