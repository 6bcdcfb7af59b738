use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::cloud_objects::SUBNET;
use crate::domain::config::{
    AllowedStatuses, Baseline, ChangePolicy, CloudAccess, Config, CredentialSource, Declared, DeliveryMode,
    EncryptKeySource, InterfaceOrder, Polling, RemovalPolicy, SecretKeyRef, SelectionRules, SubnetSelector,
    WorkloadCluster,
};
use crate::domain::ids::{ConfigId, ProjectId, ProviderId, SubnetId, VmId};

/// Builds a valid config step by step: `config("a").vms(3)`. Whatever differs gives another revision.
#[derive(Clone, Debug)]
pub struct ConfigBuilder(Config);

/// The object `default/<name>` with the documented defaults, created when the world began, without VMs.
pub fn config(name: &str) -> ConfigBuilder {
    let source = CredentialSource::Contrabass {
        endpoint: "http://contrabass".to_owned(),
        provider_id: "cloud".to_owned(),
        key: EncryptKeySource { secret: None, inline: None },
        timeout: Duration::from_secs(30),
        insecure_tls: false,
    };
    ConfigBuilder(Config {
        id: ConfigId::new("default", name, format!("uid-{name}")),
        generation: 1,
        revision: 0,
        created: super::START,
        paused: false,
        vms: Vec::new(),
        subnets: SubnetSelector::Ids(vec![SubnetId::new(SUBNET)]),
        provider: ProviderId::new("biz"),
        cloud: CloudAccess {
            source,
            project: ProjectId::new("project"),
            timeout: Duration::from_secs(30),
            insecure_tls: false,
            neutron_endpoint: None,
            nova_endpoint: None,
            interface: None,
            region: None,
            node_name_metadata_key: None,
            ca_bundle: None,
        },
        rules: SelectionRules {
            statuses: AllowedStatuses::Only(["ACTIVE", "DOWN"].map(str::to_owned).into()),
            baseline: Baseline::Since(super::START),
            project: None,
            order: InterfaceOrder::Sticky,
            rewiring_grace: Polling::default().fast_window,
        },
        change_policy: ChangePolicy::Auto,
        approvals: BTreeSet::new(),
        removal_policy: RemovalPolicy::Retain,
        polling: Polling::default(),
        down_port_fast_retry_max: 5,
        viola_endpoint: "http://viola".to_owned(),
        delivery: DeliveryMode::Viola,
        force_reconcile: None,
    })
}

fn workload_cluster() -> WorkloadCluster {
    let kubeconfig = SecretKeyRef { name: "biz-kubeconfig".to_owned(), key: "value".to_owned() };
    WorkloadCluster { kubeconfig, namespace: "multinic-system".to_owned() }
}

impl ConfigBuilder {
    /// `n` VMs: `<name>-1`, `<name>-2`, …
    pub fn vms(self, n: usize) -> Self {
        let name = Arc::clone(&self.0.id.name.name);
        (1..=n).fold(self, |config, number| config.vm(&format!("{name}-{number}")))
    }

    /// One VM more.
    pub fn vm(mut self, id: &str) -> Self {
        self.0.vms.push(VmId::new(id));
        self
    }

    /// Without this VM.
    pub fn without(mut self, id: &str) -> Self {
        self.0.vms.retain(|vm| vm != &VmId::new(id));
        self
    }

    /// Another life of the object, created at this time.
    pub fn recreated(mut self, uid: &str, created: Timestamp) -> Self {
        self.0.id.uid = Arc::from(uid);
        self.0.created = created;
        self.0.rules.baseline = Baseline::Since(created);
        self
    }

    /// Created at this time; the baseline stays when the world began.
    pub fn created(mut self, created: Timestamp) -> Self {
        self.0.created = created;
        self
    }

    /// `metadata.generation`.
    pub fn generation(mut self, generation: i64) -> Self {
        self.0.generation = generation;
        self
    }

    /// Paused, or not any more.
    pub fn paused(mut self, paused: bool) -> Self {
        self.0.paused = paused;
        self
    }

    /// `k8sProviderID`.
    pub fn provider(mut self, provider: &str) -> Self {
        self.0.provider = ProviderId::new(provider);
        self
    }

    /// `delivery.mode: Apply`.
    pub fn direct(mut self) -> Self {
        self.0.delivery = DeliveryMode::Apply(workload_cluster());
        self
    }

    /// `delivery.mode: Verify`.
    pub fn verify(mut self) -> Self {
        self.0.delivery = DeliveryMode::Verify(workload_cluster());
        self
    }

    /// `settings.violaEndpoint`.
    pub fn viola(mut self, endpoint: &str) -> Self {
        self.0.viola_endpoint = endpoint.to_owned();
        self
    }

    /// The intervals.
    pub fn polling(mut self, edit: impl FnOnce(&mut Polling)) -> Self {
        edit(&mut self.0.polling);
        self
    }

    /// Exactly these VMs.
    pub fn only_vms(mut self, vms: Vec<VmId>) -> Self {
        self.0.vms = vms;
        self
    }

    /// `subnetIDs`.
    pub fn subnets(mut self, ids: &[&str]) -> Self {
        self.0.subnets = SubnetSelector::Ids(ids.iter().map(SubnetId::new).collect());
        self
    }

    /// `settings.removalPolicy`.
    pub fn removal(mut self, policy: RemovalPolicy) -> Self {
        self.0.removal_policy = policy;
        self
    }

    /// `settings.openstackNodeNameMetadataKey`.
    pub fn node_name_key(mut self, key: Option<&str>) -> Self {
        self.0.cloud.node_name_metadata_key = key.map(str::to_owned);
        self
    }

    /// `settings.interfaceOrder`.
    pub fn order(mut self, order: InterfaceOrder) -> Self {
        self.0.rules.order = order;
        self
    }

    /// `settings.changePolicy`.
    pub fn policy(mut self, policy: ChangePolicy) -> Self {
        self.0.change_policy = policy;
        self
    }

    /// The `approve` annotation.
    pub fn approves(mut self, change_id: &str) -> Self {
        self.0.approvals.insert(change_id.to_owned());
        self
    }

    /// `settings.removalPolicy: Prune`.
    pub fn prunes(mut self) -> Self {
        self.0.removal_policy = RemovalPolicy::Prune;
        self
    }

    /// `settings.downPortFastRetryMax`.
    pub fn fast_retries(mut self, max: u32) -> Self {
        self.0.down_port_fast_retry_max = max;
        self
    }

    /// The `approve` annotation names only these changes.
    pub fn approves_only(mut self, change_ids: BTreeSet<String>) -> Self {
        self.0.approvals = change_ids;
        self
    }

    /// The `force-reconcile` annotation.
    pub fn force_reconcile(mut self, value: &str) -> Self {
        self.0.force_reconcile = Some(value.to_owned());
        self
    }

    /// The VMs so far.
    pub fn vm_ids(&self) -> Vec<VmId> {
        self.0.vms.clone()
    }

    /// Which object it is.
    pub fn id(&self) -> ConfigId {
        self.0.id.clone()
    }

    /// The config, its revision made from all the rest.
    pub fn build(mut self) -> Arc<Config> {
        self.0.revision = 0;
        let mut hasher = DefaultHasher::new();
        format!("{:?}", self.0).hash(&mut hasher);
        self.0.revision = hasher.finish();
        Arc::new(self.0)
    }
}

impl From<ConfigBuilder> for Declared {
    fn from(builder: ConfigBuilder) -> Self {
        Self::Valid(builder.build())
    }
}
