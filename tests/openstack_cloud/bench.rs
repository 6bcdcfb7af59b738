//! A cloud under test, and configs that use it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use multinic_actors::boundary::{BoxFuture, Cloud, CloudError, ObserveRequest, Session, Urgency};
use multinic_actors::domain::config::{
    AllowedStatuses, Baseline, ChangePolicy, CloudAccess, Config, CredentialSource, EncryptKeySource,
    Polling, RemovalPolicy, SelectionRules, SubnetSelector,
};
use multinic_actors::domain::ids::{ConfigId, ProjectId, ProviderId, SubnetId, VmId};
use multinic_actors::domain::port::Observation;
use multinic_operator::openstack::{OpenstackCloud, OpenstackSettings};
use multinic_operator::secrets::{SecretData, SecretError, SecretSource};
use multinic_operator::upstream::CloudLimits;
use secrecy::SecretString;

use super::fake::{Fake, KEY, PROJECT};

type Entries = Vec<(String, String)>;

/// Secrets by namespace and name.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Mutex<BTreeMap<(String, String), Entries>>>);

impl Secrets {
    pub fn set(&self, namespace: &str, name: &str, key: &str, value: &str) {
        let entry = vec![(key.to_owned(), value.to_owned())];
        self.0.lock().unwrap().insert((namespace.to_owned(), name.to_owned()), entry);
    }
}

impl SecretSource for Secrets {
    fn get(&self, namespace: &str, name: &str) -> BoxFuture<'_, Result<Option<SecretData>, SecretError>> {
        let secrets = self.0.lock().unwrap();
        let data = secrets.get(&(namespace.to_owned(), name.to_owned())).map(|entries| {
            let mut data = SecretData::default();
            for (key, value) in entries {
                data.insert(key, SecretString::from(value.as_str()));
            }
            data
        });
        Box::pin(std::future::ready(Ok(data)))
    }
}

pub struct Bench {
    pub fake: Fake,
    pub cloud: Arc<OpenstackCloud>,
    pub secrets: Secrets,
}

impl Bench {
    pub async fn start() -> Self {
        Self::with(generous()).await
    }

    pub async fn with(settings: OpenstackSettings) -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let secrets = Secrets::default();
        Self {
            fake: Fake::start().await,
            cloud: Arc::new(OpenstackCloud::new(settings, Arc::new(secrets.clone())).unwrap()),
            secrets,
        }
    }

    /// A config `ns/<name>` for these servers in subnets `sub-1` and `sub-2`.
    pub fn config(&self, name: &str, vms: &[String]) -> Config {
        config(&self.fake, name, vms)
    }

    pub async fn session(&self, config: &Config) -> Result<Session, CloudError> {
        self.cloud.session(Arc::new(config.clone()), false).await
    }

    /// Logs in if need be and looks at all of the config's servers.
    pub async fn poll(&self, config: &Config) -> Result<Observation, CloudError> {
        let session = self.session(config).await?;
        self.look(session, config, false).await
    }

    pub async fn poll_anew(&self, config: &Config) -> Result<Observation, CloudError> {
        let session = self.session(config).await?;
        self.look(session, config, true).await
    }

    pub async fn look(
        &self,
        session: Session,
        config: &Config,
        drop_caches: bool,
    ) -> Result<Observation, CloudError> {
        let request = ObserveRequest {
            config: Arc::new(config.clone()),
            vms: config.vms.clone(),
            urgency: Urgency::Routine,
            drop_caches,
        };
        self.cloud.observe(session, request).await
    }
}

/// Limits that no test meets by accident.
pub fn generous() -> OpenstackSettings {
    OpenstackSettings {
        limits: CloudLimits { max_in_flight: 8, rate: 100_000.0, burst: 100_000 },
        ..OpenstackSettings::default()
    }
}

pub fn config(fake: &Fake, name: &str, vms: &[String]) -> Config {
    Config {
        id: ConfigId::new("ns", name, "uid"),
        generation: 1,
        revision: 1,
        created: "2026-11-30T00:00:00Z".parse().unwrap(),
        paused: false,
        vms: vms.iter().map(VmId::new).collect(),
        subnets: SubnetSelector::Ids(vec![SubnetId::from("sub-1"), SubnetId::from("sub-2")]),
        provider: ProviderId::from("k8s"),
        cloud: CloudAccess {
            source: CredentialSource::Contrabass {
                endpoint: format!("http://{}/contrabass/", fake.addr),
                provider_id: "provider-1".to_owned(),
                key: EncryptKeySource { secret: None, inline: Some(SecretString::from(KEY)) },
                timeout: Duration::from_secs(20),
                insecure_tls: false,
            },
            project: ProjectId::from(PROJECT),
            timeout: Duration::from_secs(20),
            insecure_tls: false,
            neutron_endpoint: None,
            nova_endpoint: None,
            interface: None,
            region: None,
            node_name_metadata_key: None,
            ca_bundle: None,
        },
        rules: SelectionRules {
            statuses: AllowedStatuses::All,
            baseline: Baseline::Any,
            project: None,
            order: Default::default(),
            rewiring_grace: Duration::from_secs(180),
        },
        change_policy: ChangePolicy::Auto,
        approvals: Default::default(),
        removal_policy: RemovalPolicy::Retain,
        polling: Polling::default(),
        down_port_fast_retry_max: 5,
        viola_endpoint: "http://viola.invalid".to_owned(),
        force_reconcile: None,
    }
}

pub fn with_inline_key(mut config: Config, key: &str) -> Config {
    let CredentialSource::Contrabass { key: source, .. } = &mut config.cloud.source;
    source.inline = Some(SecretString::from(key));
    config
}
