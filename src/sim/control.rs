//! The handle's other half: accounts, behaviour, faults, counters.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::catalog::Catalog;
use super::cloud::SimCloud;
use super::contrabass::encrypt;
use super::counters::Counters;
use super::faults::{FaultId, FaultRule};
use super::front_end::FrontEnd;
use super::identity::{AppCredential, AppCredentialSecret, Domain, User};
use super::objects::Project;
use super::server::{Reachability, lock};
use super::service::Service;
use super::world::{PageLinks, Provider};

/// Accounts.
impl SimCloud {
    /// A domain beside `Default`; its id.
    pub fn add_domain(&self, name: &str) -> String {
        let mut world = self.lock();
        let id = world.ids.hex();
        world.identity.domains.push(Domain { id: id.clone(), name: name.into() });
        id
    }

    /// A project of the domain `Default`; its id.
    pub fn add_project(&self, name: &str) -> String {
        self.add_project_in("default", name)
    }

    /// A project of a domain (by id); its id.
    pub fn add_project_in(&self, domain_id: &str, name: &str) -> String {
        let mut world = self.lock();
        let id = world.next_hex();
        let project =
            Project { id: id.clone(), name: name.into(), domain_id: domain_id.into(), is_enabled: true };
        world.identity.projects.push(project);
        id
    }

    /// Enables or disables a project.
    pub fn set_project_enabled(&self, project: &str, is_enabled: bool) {
        let mut world = self.lock();
        if let Some(project) = world.identity.projects.iter_mut().find(|known| known.id == project) {
            project.is_enabled = is_enabled;
        }
    }

    /// A user of the domain `Default`, without roles; its id.
    pub fn add_user(&self, name: &str, password: &str) -> String {
        self.add_user_in("default", name, password)
    }

    /// A user of a domain (by id), without roles; its id.
    pub fn add_user_in(&self, domain_id: &str, name: &str, password: &str) -> String {
        let mut world = self.lock();
        let id = world.next_hex();
        world.identity.users.push(User {
            id: id.clone(),
            name: name.into(),
            domain_id: domain_id.into(),
            password: password.into(),
            is_enabled: true,
            roles: BTreeMap::new(),
        });
        id
    }

    /// Gives a user a role in a project. `admin` sees all projects.
    pub fn grant(&self, user: &str, project: &str, role: &str) {
        self.edit_user(user, |user| user.roles.entry(project.into()).or_default().push(role.into()));
    }

    /// Changes a password; the user's tokens die, as in Keystone.
    pub fn set_password(&self, user: &str, password: &str) {
        self.edit_user(user, |known| known.password = password.into());
        self.lock().identity.tokens.retain(|_, token| token.user_id != user);
    }

    /// Enables or disables a user; disabling kills the user's tokens.
    pub fn set_user_enabled(&self, user: &str, is_enabled: bool) {
        self.edit_user(user, |known| known.is_enabled = is_enabled);
        if !is_enabled {
            self.lock().identity.tokens.retain(|_, token| token.user_id != user);
        }
    }

    fn edit_user(&self, id: &str, change: impl FnOnce(&mut User)) {
        let mut world = self.lock();
        if let Some(user) = world.identity.users.iter_mut().find(|user| user.id == id) {
            change(user);
        }
    }

    /// An application credential of a user for a project.
    pub fn add_app_credential(&self, user: &str, project: &str, name: &str) -> AppCredentialSecret {
        let mut world = self.lock();
        let secret = AppCredentialSecret { id: world.next_hex(), name: name.into(), secret: world.ids.hex() };
        world.identity.app_credentials.push(AppCredential {
            id: secret.id.clone(),
            name: name.into(),
            secret: secret.secret.clone(),
            user_id: user.into(),
            project_id: project.into(),
            expires_at: None,
        });
        secret
    }

    /// Lets an application credential end in so much time; its tokens end with it.
    pub fn expire_app_credential(&self, id: &str, within: Duration) {
        let mut world = self.lock();
        let end = world.identity.now() + SignedDuration::try_from(within).unwrap_or(SignedDuration::MAX);
        let mut credentials = world.identity.app_credentials.iter_mut();
        if let Some(credential) = credentials.find(|credential| credential.id == id) {
            credential.expires_at = Some(end);
        }
    }

    /// Deletes an application credential and its tokens.
    pub fn delete_app_credential(&self, id: &str) {
        let mut world = self.lock();
        world.identity.app_credentials.retain(|credential| credential.id != id);
        world.identity.tokens.retain(|_, token| token.app_credential.as_deref() != Some(id));
    }

    /// A provider in Contrabass whose admin is this user of the domain `Default`.
    ///
    /// # Panics
    /// Unless the key has 16, 24 or 32 bytes.
    pub fn add_provider(&self, id: &str, user_name: &str, password: &str, key: &str) {
        let url = self.keystone_url();
        let mut world = self.lock();
        let iv = world.ids.iv();
        let secret = encrypt(key.as_bytes(), iv, password.as_bytes()).expect("a key of 16, 24 or 32 bytes");
        let attributes = [("adminId", user_name), ("adminPw", &secret), ("domain", "default")];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), json!(value))).into();
        world.providers.insert(id.into(), Provider { url, attributes, key: key.into() });
    }

    /// Contrabass learns the new password; see also [`SimCloud::set_password`].
    pub fn set_provider_password(&self, id: &str, password: &str) {
        let mut world = self.lock();
        let iv = world.ids.iv();
        if let Some(provider) = world.providers.get_mut(id) {
            let secret = encrypt(&provider.key, iv, password.as_bytes());
            provider.attributes.insert("adminPw".into(), json!(secret));
        }
    }

    /// The Keystone URL that Contrabass gives.
    pub fn set_provider_url(&self, id: &str, url: &str) {
        if let Some(provider) = self.lock().providers.get_mut(id) {
            provider.url = url.into();
        }
    }

    /// Sets one attribute (`domain`, `rabbitMQId`, …) of a provider as it is given; `None` removes it.
    pub fn set_provider_attribute(&self, id: &str, name: &str, value: Option<Value>) {
        if let Some(provider) = self.lock().providers.get_mut(id) {
            match value {
                Some(value) => provider.attributes.insert(name.into(), value),
                None => provider.attributes.remove(name),
            };
        }
    }

    /// Contrabass forgets a provider.
    pub fn delete_provider(&self, id: &str) -> bool {
        self.lock().providers.remove(id).is_some()
    }
}

/// Behaviour.
impl SimCloud {
    /// All tokens are dead from now on.
    pub fn revoke_tokens(&self) {
        self.lock().identity.tokens.clear();
    }

    /// How long new tokens live.
    pub fn set_token_ttl(&self, ttl: Duration) {
        self.lock().identity.token_ttl = ttl;
    }

    /// The next so many logins get 201 and a token that no service accepts.
    pub fn issue_dead_tokens(&self, logins: u32) {
        self.lock().identity.dead_logins = logins;
    }

    /// How far the cloud's clock is ahead of ours (behind, if negative).
    pub fn set_clock_offset(&self, offset: SignedDuration) {
        self.lock().identity.clock_offset = offset;
    }

    /// Neutron's `pagination_max_limit`.
    pub fn set_page_limit(&self, max: Option<usize>) {
        self.lock().port_page_max = max;
    }

    /// Nova's `max_limit`.
    pub fn set_server_page_limit(&self, max: usize) {
        self.lock().server_page_max = max.max(1);
    }

    /// How page links are written.
    pub fn set_page_links(&self, style: PageLinks) {
        self.lock().page_links = style;
    }

    /// What Neutron does with long URLs.
    pub fn set_front_end(&self, front_end: FrontEnd) {
        self.lock().front_end = front_end;
    }

    /// The catalog in force.
    pub fn catalog(&self) -> Catalog {
        self.lock().catalog.clone()
    }

    /// Another catalog for new tokens.
    pub fn set_catalog(&self, catalog: Catalog) {
        self.lock().catalog = catalog;
    }

    /// Up, refused, or reset: the next connection finds it so.
    pub fn set_reachability(&self, service: Service, reachability: Reachability) {
        if let Some(server) = self.server(service) {
            server.set_reachability(reachability);
        }
    }

    /// Resets every open connection of a service.
    pub fn drop_connections(&self, service: Service) {
        if let Some(server) = self.server(service) {
            server.drop_connections();
        }
    }
}

/// Faults and counters.
impl SimCloud {
    /// Every answer of every service takes at least so long.
    pub fn set_latency(&self, latency: Duration) {
        lock(&self.traffic.faults).latency = latency;
    }

    /// One more fault.
    pub fn add_fault(&self, rule: FaultRule) -> FaultId {
        lock(&self.traffic.faults).add(rule)
    }

    /// Without this fault.
    pub fn clear_fault(&self, id: FaultId) {
        lock(&self.traffic.faults).remove(id);
    }

    /// Without any fault. What hangs goes on hanging; see [`SimCloud::drop_connections`].
    pub fn clear_faults(&self) {
        lock(&self.traffic.faults).clear();
    }

    /// Requests and connections so far.
    pub fn counters(&self) -> Counters {
        lock(&self.traffic.counters).clone()
    }

    /// Counts from zero.
    pub fn reset_counters(&self) {
        lock(&self.traffic.counters).reset();
    }
}
