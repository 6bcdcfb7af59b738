//! The adapters of the outside world as the settings want them.

use std::path::Path;
use std::sync::Arc;

use multinic_actors::claim_table::ClaimTable;
use multinic_actors::config::Shared;
use multinic_actors::domain::restart::RestartPolicy;
use multinic_actors::inventory::InventoryHandle;

use super::StartError;
use super::reign::Plan;
use super::tenure::WithinTenure;
use crate::http::TokenFile;
use crate::openstack::{OpenstackCloud, OpenstackSettings};
use crate::policy::{PolicyFile, PolicyHandle};
use crate::secrets::SecretSource;
use crate::settings::Settings;
use crate::telemetry::{FanOut, MeteredDelivery};
use crate::upstream::{CloudLimits, Tls, Upstream, UpstreamSettings};
use crate::viola::{ViolaClient, ViolaSettings};

/// What the configs of one reign share.
pub(super) fn shared(
    plan: &Plan,
    secrets: Arc<dyn SecretSource>,
    sinks: FanOut,
    inventory: &InventoryHandle,
) -> Result<Shared, StartError> {
    let settings = &plan.settings;
    let ca_bundle = read_ca_bundle(settings.ca_bundle.as_deref())?;
    let policy = &plan.policy;
    let cloud = cloud(settings, ca_bundle.clone(), policy, Arc::clone(&secrets))?;
    let upstream = UpstreamSettings { ca_bundle, policy: policy.clone(), ..UpstreamSettings::default() };
    let viola = ViolaClient::new(
        Arc::new(Upstream::new(&upstream).map_err(StartError::new)?),
        secrets,
        ViolaSettings {
            timeout: settings.viola.timeout,
            insecure_tls: settings.viola.insecure_tls,
            token: settings.viola.token_file.as_ref().map(TokenFile::new),
        },
    );
    Ok(Shared {
        cloud: Arc::new(cloud),
        delivery: Arc::new(WithinTenure { inner: MeteredDelivery(viola), tenure: plan.tenure.clone() }),
        status: Arc::new(sinks),
        clock: Arc::clone(&plan.options.clock),
        inventory: inventory.clone(),
        claims: ClaimTable::default(),
        restart: RestartPolicy::default(),
        seed: rand::random(),
    })
}

/// The OpenStack adapter as the settings want it.
///
/// # Errors
/// When the CA bundle has no certificate.
pub fn cloud(
    settings: &Settings,
    ca_bundle: Option<String>,
    policy: &PolicyHandle,
    secrets: Arc<dyn SecretSource>,
) -> Result<OpenstackCloud, StartError> {
    let limits = CloudLimits {
        max_in_flight: settings.cloud.max_in_flight as usize,
        rate: settings.cloud.rate,
        burst: settings.cloud.burst,
    };
    let openstack = OpenstackSettings {
        limits,
        neutron_request_bytes: settings.cloud.neutron_request_bytes,
        ca_bundle,
        policy: policy.clone(),
        ..OpenstackSettings::default()
    };
    OpenstackCloud::new(openstack, secrets).map_err(StartError::new)
}

/// Reads the operator-wide CA bundle, if there is one.
///
/// # Errors
/// When the file cannot be read or has no certificate.
pub fn read_ca_bundle(path: Option<&Path>) -> Result<Option<String>, StartError> {
    let read = |path: &Path| {
        let problem =
            |error: &dyn std::fmt::Display| StartError(format!("--ca-bundle {}: {error}", path.display()));
        let pem = std::fs::read_to_string(path).map_err(|error| problem(&error))?;
        Tls::new(false, Some(&pem)).map_err(|error| problem(&error))?;
        Ok(pem)
    };
    path.map(read).transpose()
}

/// The policy, if there is one.
///
/// # Errors
/// When the file cannot be read or is none.
pub async fn open_policy(settings: &Settings) -> Result<Option<PolicyFile>, StartError> {
    let Some(path) = &settings.policy_file else {
        return Ok(None);
    };
    let opened = PolicyFile::open(path, settings.defaults.viola_endpoint.as_deref()).await;
    opened.map(Some).map_err(StartError)
}
