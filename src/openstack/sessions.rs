//! Sessions: one login for all configs with the same account and project, renewed at half of its life.
//!
//! A *binding* is where a config gets its credentials from, and the handle that the tree holds; it leads to
//! the *session* that those credentials open. Bindings that lead to the same account and project share it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use multinic_actors::boundary::{CloudError, Urgency};
use multinic_actors::domain::config::{Config, CredentialSource};
use multinic_actors::domain::ids::ProjectId;
use multinic_actors::domain::reason::Reason;
use secrecy::ExposeSecret;
use tokio::time::Instant;

use super::budget::{Budgets, Exhausted, Try};
use super::cache::Caches;
use super::contrabass::{Contrabass, Lookup};
use super::errors;
use super::fingerprint::Fingerprint;
use super::flight::Flight;
use super::http::Http;
use super::keystone::{self, Account, LoginError, Token};
use super::patience::Patience;
use super::secrets;
use super::service::Service;
use crate::secrets::SecretSource;
use crate::upstream::{Call, Repeat, Tls, Turn};

/// A binding that no config used for this long is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(2 * 3600);

/// Which tokens will do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Need {
    /// Any that still works.
    Usable,
    /// One in the first half of its life.
    Young,
    /// Any but this one, which a service refused.
    Other(u64),
}

impl Need {
    fn is_met_by(self, token: &Token) -> bool {
        token.is_usable()
            && match self {
                Self::Usable => true,
                Self::Young => token.renew_at() > Instant::now(),
                Self::Other(refused) => token.serial != refused,
            }
    }
}

/// One account in one project of one cloud.
#[derive(Debug)]
pub(super) struct Session {
    account: Account,
    /// Hashes of the account, the password and the project.
    fingerprints: (Fingerprint, Fingerprint, Fingerprint),
    pub(super) project: ProjectId,
    pub(super) tls: Tls,
    /// Keystone's base URL: whose limits hold.
    pub(super) cloud: Arc<str>,
    login: Flight<Arc<Token>>,
    token: Mutex<Option<Arc<Token>>>,
    /// How often each service refused our tokens in a row.
    pub(super) patience: Patience,
    pub(super) caches: Arc<Caches>,
}

impl Session {
    pub(super) fn token(&self) -> Option<Arc<Token>> {
        lock(&self.token).clone()
    }

    fn meets(&self, need: Need) -> bool {
        self.token().is_some_and(|token| need.is_met_by(&token))
    }
}

/// Where a config's credentials come from, and the session they led to.
#[derive(Debug)]
pub(super) struct Binding {
    resolving: Flight<Arc<Session>>,
    /// Kept beside `resolving` to be read without waiting.
    session: Mutex<Option<Arc<Session>>>,
    /// There was an attempt before: look everything up anew.
    was_tried: AtomicBool,
    used: Mutex<Instant>,
}

impl Binding {
    fn new() -> Self {
        Self {
            resolving: Flight::default(),
            session: Mutex::default(),
            was_tried: AtomicBool::new(false),
            used: Mutex::new(Instant::now()),
        }
    }

    fn session(&self) -> Option<Arc<Session>> {
        lock(&self.session).clone()
    }
}

/// All sessions.
pub(super) struct Sessions {
    pub(super) http: Http,
    secrets: Arc<dyn SecretSource>,
    contrabass: Contrabass,
    budgets: Budgets,
    bindings: Mutex<HashMap<Fingerprint, Arc<Binding>>>,
    sessions: Mutex<HashMap<Fingerprint, Weak<Session>>>,
    /// What was read with an account in a project; outlives a change of the password.
    caches: Mutex<HashMap<Fingerprint, Weak<Caches>>>,
    keep: Duration,
}

impl Sessions {
    /// `keep`: how long a provider look-up serves further first logins.
    pub(super) fn new(http: Http, secrets: Arc<dyn SecretSource>, keep: Duration) -> Self {
        Self {
            http,
            secrets,
            contrabass: Contrabass::default(),
            budgets: Budgets::default(),
            bindings: Mutex::default(),
            sessions: Mutex::default(),
            caches: Mutex::default(),
            keep,
        }
    }

    /// The binding of a config: the same for all that name the same source, project and TLS settings.
    pub(super) fn binding(&self, config: &Config) -> Arc<Binding> {
        let mut bindings = lock(&self.bindings);
        let key = source_fingerprint(config);
        if let Some(binding) = bindings.get(&key) {
            *lock(&binding.used) = Instant::now();
            return Arc::clone(binding);
        }
        bindings.retain(|_, binding| lock(&binding.used).elapsed() < FORGET_AFTER);
        let binding = Arc::new(Binding::new());
        bindings.insert(key, Arc::clone(&binding));
        binding
    }

    /// A session with a token that meets `need`: the one there is, or by one login.
    pub(super) async fn ready(
        &self,
        config: &Config,
        binding: &Binding,
        need: Need,
    ) -> Result<(Arc<Session>, Arc<Token>), CloudError> {
        if let Some(session) = binding.session()
            && let Some(token) = session.token()
            && need.is_met_by(&token)
        {
            return Ok((session, token));
        }
        let resolve = Box::pin(self.resolve(config, binding, need));
        let session = binding.resolving.run(|session, _| session.meets(need), resolve).await?;
        let token = session.token().ok_or_else(|| {
            CloudError::new(Reason::KeystoneError, "keystone: log in: the session has no token")
        })?;
        Ok((session, token))
    }

    /// A service answered 401. A token to try once more, or `None` where another login would not help.
    pub(super) async fn after_refusal(
        &self,
        config: &Config,
        binding: &Binding,
        refused: (&Session, &Token),
        service: Service,
    ) -> Result<Option<(Arc<Session>, Arc<Token>)>, CloudError> {
        let (session, token) = refused;
        let is_current = session.token().is_some_and(|current| current.serial == token.serial);
        if is_current && !session.patience.may_renew(service, token) {
            return Ok(None);
        }
        self.ready(config, binding, Need::Other(token.serial)).await.map(Some)
    }

    /// Reads the Secrets, asks for the provider and logs in.
    async fn resolve(
        &self,
        config: &Config,
        binding: &Binding,
        need: Need,
    ) -> Result<Arc<Session>, CloudError> {
        let is_first = !binding.was_tried.swap(true, Ordering::AcqRel);
        let bundle = self.ca_bundle(config).await?;
        let account = self.account(config, bundle.as_deref(), is_first).await?;
        let tls = tls(config.cloud.insecure_tls, bundle.as_deref())?;
        let session = self.session(account, &config.cloud.project, tls, bundle.as_deref());
        // Before a login is joined that others, who may, have under way.
        let call = call(config, &session, keystone::SERVICE, keystone::OPERATION);
        let permitted = self.http.upstream.permits(&call, &session.account.keystone);
        permitted.map_err(|error| errors::of(Reason::KeystoneError, error))?;
        *lock(&binding.session) = Some(Arc::clone(&session));
        session.login.run(|token, _| need.is_met_by(token), self.log_in(config, &session)).await?;
        Ok(session)
    }

    async fn ca_bundle(&self, config: &Config) -> Result<Option<String>, CloudError> {
        let namespace = &config.id.name.namespace;
        let pem = secrets::ca_bundle(&*self.secrets, namespace, config.cloud.ca_bundle.as_ref()).await?;
        Ok(pem.map(|pem| pem.expose_secret().to_owned()))
    }

    async fn account(
        &self,
        config: &Config,
        bundle: Option<&str>,
        is_first: bool,
    ) -> Result<Account, CloudError> {
        let CredentialSource::Contrabass { endpoint, provider_id, key, timeout, insecure_tls } =
            &config.cloud.source;
        let key = secrets::encrypt_key(&*self.secrets, &config.id.name.namespace, key).await?;
        let lookup = Lookup {
            namespace: &config.id.name.namespace,
            endpoint,
            provider: provider_id,
            timeout: *timeout,
            tls: tls(*insecure_tls, bundle)?,
        };
        let keep = if is_first { self.keep } else { Duration::ZERO };
        let provider = self.contrabass.provider(&self.http.upstream, &lookup, keep).await?;
        provider.account(&key)
    }

    fn session(&self, account: Account, project: &ProjectId, tls: Tls, bundle: Option<&str>) -> Arc<Session> {
        let cloud = account.keystone.as_str().trim_end_matches('/');
        let (domain, user) = (account.domain.to_lowercase(), account.user.to_lowercase());
        let of_account = Fingerprint::of(&[cloud, &domain, &user]);
        let of_password = Fingerprint::of(&[account.password.expose_secret()]);
        let of_project = Fingerprint::of(&[project.as_str()]);
        let key = Fingerprint::of(&[
            cloud,
            &account.domain,
            &account.user,
            account.password.expose_secret(),
            project.as_str(),
            &format!("{tls:?}"),
            bundle.unwrap_or_default(),
        ]);
        let cache_key = Fingerprint::of(&[cloud, &domain, &user, project.as_str()]);
        let caches = shared(&self.caches, cache_key, Caches::default);
        shared(&self.sessions, key, || Session {
            cloud: Arc::from(cloud),
            fingerprints: (of_account, of_password, of_project),
            project: project.clone(),
            tls,
            login: Flight::default(),
            token: Mutex::default(),
            patience: Patience::default(),
            caches,
            account: account.clone(),
        })
    }

    async fn log_in(&self, config: &Config, session: &Session) -> Result<Arc<Token>, CloudError> {
        let (account, password, project) = session.fingerprints;
        let attempt = Try { account, password, project, is_renewal: session.token().is_some() };
        // No `Retry-After`: the polls go on, for they are what notices that the credentials have changed.
        let attempt = self.budgets.admit(attempt).await.map_err(|Exhausted| {
            CloudError::new(
                Reason::KeystoneError,
                format!(
                    "keystone: log in: 401 Unauthorized too often for user {:?}: no further attempt for a while \
                     (so that the account is not locked), or until the credentials change",
                    session.account.user
                ),
            )
        })?;
        let turn = turn(config, session, keystone::SERVICE, Urgency::Event);
        let call = call(config, session, keystone::SERVICE, keystone::OPERATION);
        match keystone::log_in(&self.http, &turn, &call, &session.account, &session.project).await {
            Ok(token) => {
                attempt.accepted();
                let token = Arc::new(token);
                *lock(&session.token) = Some(Arc::clone(&token));
                Ok(token)
            }
            Err(LoginError::Refused(error)) => {
                attempt.refused();
                Err(error)
            }
            Err(LoginError::Failed(error)) => Err(error),
        }
    }
}

/// Whose turn a request of this config is.
pub(super) fn turn(config: &Config, session: &Session, service: &'static str, urgency: Urgency) -> Turn {
    Turn {
        cloud: Arc::clone(&session.cloud),
        service,
        config: Arc::from(config.id.name.to_string()),
        urgency,
        label: label(config),
    }
}

/// How a request of this config is sent.
pub(super) fn call(
    config: &Config,
    session: &Session,
    service: &'static str,
    operation: &'static str,
) -> Call {
    Call {
        service,
        operation,
        namespace: Arc::from(&*config.id.name.namespace),
        cloud: label(config),
        timeout: config.cloud.timeout,
        repeat: Repeat::OnceIfClosed,
        tls: session.tls.clone(),
    }
}

/// The metric label `cloud`.
fn label(config: &Config) -> Arc<str> {
    let CredentialSource::Contrabass { provider_id, .. } = &config.cloud.source;
    Arc::from(provider_id.as_str())
}

fn tls(insecure: bool, bundle: Option<&str>) -> Result<Tls, CloudError> {
    Tls::new(insecure, bundle)
        .map_err(|bad| CloudError::new(Reason::ConfigError, format!("settings.caBundleSecretRef: {bad}")))
}

/// Everything that decides which session a config gets, save what the Secrets and Contrabass say.
fn source_fingerprint(config: &Config) -> Fingerprint {
    let CredentialSource::Contrabass { endpoint, provider_id, key, timeout: _, insecure_tls } =
        &config.cloud.source;
    let reference = |reference: Option<&multinic_actors::domain::config::SecretKeyRef>| {
        reference.map_or([String::new(), String::new()], |r| [r.name.clone(), r.key.clone()])
    };
    let ([key_name, key_key], [ca_name, ca_key]) =
        (reference(key.secret.as_ref()), reference(config.cloud.ca_bundle.as_ref()));
    Fingerprint::of(&[
        &config.id.name.namespace,
        endpoint,
        provider_id,
        &key_name,
        &key_key,
        key.inline.as_ref().map_or("", |inline| inline.expose_secret()),
        &ca_name,
        &ca_key,
        if *insecure_tls { "insecure" } else { "" },
        if config.cloud.insecure_tls { "insecure" } else { "" },
        config.cloud.project.as_str(),
    ])
}

/// The living value of `key`, or a new one. Dead ones are swept out on the way.
fn shared<T>(
    map: &Mutex<HashMap<Fingerprint, Weak<T>>>,
    key: Fingerprint,
    new: impl FnOnce() -> T,
) -> Arc<T> {
    let mut map = lock(map);
    if let Some(value) = map.get(&key).and_then(Weak::upgrade) {
        return value;
    }
    map.retain(|_, value| value.strong_count() > 0);
    let value = Arc::new(new());
    map.insert(key, Arc::downgrade(&value));
    value
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
