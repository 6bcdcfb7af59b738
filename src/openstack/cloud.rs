use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use multinic_actors::boundary::{BoxFuture, Cloud, CloudError, ObserveRequest, Session};
use multinic_actors::domain::config::Config;
use multinic_actors::domain::ids::VmId;
use multinic_actors::domain::port::{Observation, Server};
use multinic_actors::domain::reason::Reason;
use reqwest::Url;
use tokio::time::Instant;

use super::api::Api;
use super::cache::Caches;
use super::catalog::{Catalog, NoEndpoint, Wanted};
use super::chunks::Learned;
use super::http::Http;
use super::names::Names;
use super::service::Service;
use super::sessions::{Binding, Need, Sessions};
use super::subnets::{self, Freshness};
use super::{neutron, url_parts};
use crate::policy::PolicyHandle;
use crate::secrets::SecretSource;
use crate::upstream::{BadCaBundle, CloudLimits, Limiter, Upstream, UpstreamSettings};

/// How many Nova endpoints one account may have names of before they are read anew.
const MOST_ENDPOINTS: usize = 64;

/// Settings that hold for every cloud.
#[derive(Clone, Debug)]
pub struct OpenstackSettings {
    /// What one cloud is asked at most.
    pub limits: CloudLimits,
    /// 2 × request target + headers of a port list stay below this many bytes.
    pub neutron_request_bytes: usize,
    /// PEM that is trusted for every endpoint beside the system's roots.
    pub ca_bundle: Option<String>,
    /// How long subnets, networks, servers' names and provider look-ups are kept.
    pub cache_ttl: Duration,
    /// How long an unused connection is kept.
    pub keep_idle: Duration,
    /// Which namespace may reach which host.
    pub policy: PolicyHandle,
}

impl Default for OpenstackSettings {
    fn default() -> Self {
        let upstream = UpstreamSettings::default();
        Self {
            limits: CloudLimits::default(),
            neutron_request_bytes: 3800,
            ca_bundle: upstream.ca_bundle,
            cache_ttl: Duration::from_secs(600),
            keep_idle: upstream.keep_idle,
            policy: upstream.policy,
        }
    }
}

/// Contrabass, Keystone, Neutron and Nova as one [`Cloud`]. Sessions, caches, connections and limits are
/// shared by all configs.
pub struct OpenstackCloud {
    sessions: Sessions,
    learned: Learned,
    request_bytes: usize,
    keep: Duration,
}

impl OpenstackCloud {
    /// Nothing is asked yet. Needs rustls' process-wide crypto provider to be installed.
    ///
    /// # Errors
    /// When the operator-wide CA bundle has no certificate.
    pub fn new(settings: OpenstackSettings, secrets: Arc<dyn SecretSource>) -> Result<Self, BadCaBundle> {
        let upstream = Upstream::new(&UpstreamSettings {
            ca_bundle: settings.ca_bundle,
            keep_idle: settings.keep_idle,
            policy: settings.policy,
        })?;
        let http = Http { upstream, limiter: Limiter::new(settings.limits) };
        Ok(Self {
            sessions: Sessions::new(http, secrets, settings.cache_ttl),
            learned: Learned::default(),
            request_bytes: settings.neutron_request_bytes,
            keep: settings.cache_ttl,
        })
    }

    async fn log_in(&self, config: &Config, renew: bool) -> Result<Session, CloudError> {
        let binding = self.sessions.binding(config);
        let need = if renew { Need::Young } else { Need::Usable };
        let (_, token) = self.sessions.ready(config, &binding, need).await?;
        Ok(Session { renew_at: token.renew_at().into_std(), expires_at: token.expires_at, handle: binding })
    }

    async fn look(&self, session: Session, request: ObserveRequest) -> Result<Observation, CloudError> {
        let config = &*request.config;
        // Another adapter's session leads nowhere here; the config's own binding does.
        let binding = match session.handle.downcast::<Binding>() {
            Ok(binding) => binding,
            Err(_) => self.sessions.binding(config),
        };
        let api = Api { sessions: &self.sessions, config, binding: &binding, urgency: request.urgency };
        let (session, token) = api.session().await?;
        let endpoints = Endpoints::choose(config, &token.catalog)?;
        let freshness = Freshness { keep: self.keep, not_before: request.drop_caches.then(Instant::now) };
        // First, and by itself: it is nearly always cached, and which of two errors is told stays the same.
        let subnets =
            Box::pin(subnets::targets(&api, &endpoints.neutron, &session.caches, freshness)).await?;
        let ports =
            neutron::list_ports(&api, &endpoints.neutron, &request.vms, self.request_bytes, &self.learned);
        let servers = servers(&api, endpoints.nova.as_ref(), &request.vms, &session.caches, freshness);
        let (ports, servers) = tokio::join!(Box::pin(ports), Box::pin(servers));
        Ok(Observation { subnets, ports: ports?, servers })
    }
}

impl Cloud for OpenstackCloud {
    fn session(&self, config: Arc<Config>, renew: bool) -> BoxFuture<'_, Result<Session, CloudError>> {
        Box::pin(async move { self.log_in(&config, renew).await })
    }

    fn observe(
        &self,
        session: Session,
        request: ObserveRequest,
    ) -> BoxFuture<'_, Result<Observation, CloudError>> {
        Box::pin(self.look(session, request))
    }
}

async fn servers(
    api: &Api<'_>,
    root: Option<&Url>,
    vms: &[VmId],
    caches: &Caches,
    freshness: Freshness,
) -> BTreeMap<VmId, Server> {
    match root {
        None => vms.iter().map(|vm| (vm.clone(), Server::NoComputeService)).collect(),
        Some(root) => names(caches, root).servers(api, root, vms, freshness).await,
    }
}

fn names(caches: &Caches, root: &Url) -> Arc<Names> {
    let mut names = caches.names.lock().unwrap_or_else(PoisonError::into_inner);
    if names.len() >= MOST_ENDPOINTS && !names.contains_key(root.as_str()) {
        names.clear();
    }
    Arc::clone(names.entry(root.to_string()).or_default())
}

/// Where a config's services are.
struct Endpoints {
    neutron: Url,
    /// `None`: the catalog knows no compute service at all.
    nova: Option<Url>,
}

impl Endpoints {
    fn choose(config: &Config, catalog: &Catalog) -> Result<Self, CloudError> {
        let access = &config.cloud;
        let project = access.project.as_str();
        let neutron = match &access.neutron_endpoint {
            Some(text) => {
                url_parts::neutron_root(text).ok_or_else(|| bad_override("openstackNeutronEndpoint"))?
            }
            None => from_catalog(config, catalog, Service::Neutron, url_parts::neutron_root)
                .map_err(|none| no_endpoint(Service::Neutron, none))?,
        };
        let nova = match &access.nova_endpoint {
            Some(text) => Some(
                url_parts::nova_root(text, project).ok_or_else(|| bad_override("openstackNovaEndpoint"))?,
            ),
            None => {
                let root = |text: &str| url_parts::nova_root(text, project);
                match from_catalog(config, catalog, Service::Nova, root) {
                    Ok(url) => Some(url),
                    Err(NoEndpoint::NoService(_)) => None,
                    Err(none) => return Err(no_endpoint(Service::Nova, none)),
                }
            }
        };
        Ok(Self { neutron, nova })
    }
}

fn from_catalog(
    config: &Config,
    catalog: &Catalog,
    service: Service,
    root: impl Fn(&str) -> Option<Url>,
) -> Result<Url, NoEndpoint> {
    let wanted = Wanted { interface: config.cloud.interface, region: config.cloud.region.as_deref() };
    let text = catalog.choose(service.kind(), wanted)?;
    root(text).ok_or_else(|| {
        NoEndpoint::NoMatch(format!("the catalog's {} endpoint is not an http(s) URL", service.kind()))
    })
}

fn no_endpoint(service: Service, none: NoEndpoint) -> CloudError {
    CloudError::new(service.endpoint_reason(), format!("{}: {}", service.name(), none.into_text()))
}

fn bad_override(field: &str) -> CloudError {
    CloudError::new(Reason::ConfigError, format!("settings.{field} is not an http(s) URL"))
}
