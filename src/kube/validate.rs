//! From an object as somebody wrote it to a [`Config`] that is valid by construction, or to everything that
//! is wrong with it.
//!
//! What could work before is taken here too; where that needed a rule of its
//! own, the rule says so.

mod problems;

use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, civil, tz::TimeZone};
use multinic_actors::domain::config::{
    AllowedStatuses, Baseline, ChangePolicy, CloudAccess, Config, CredentialSource, Declared,
    EncryptKeySource, EndpointInterface, InterfaceOrder, InvalidConfig, Polling, RemovalPolicy, SecretKeyRef,
    SelectionRules, SubnetSelector,
};
use multinic_actors::domain::ids::{ProjectId, ProviderId, SubnetId, VmId};
use secrecy::SecretString;
use sha2::{Digest, Sha256};

use super::openstack_config::{Credentials, Given, OpenstackConfigSpec, SecretKey, Secrets, Settings, kind};
use super::raw_object::{Life, RawObject};
use problems::Problems;

/// What the operator's own settings say for every object that does not say it itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Base URL of the Viola API, valid and without a trailing slash.
    pub viola_endpoint: Option<String>,
    /// How interfaces are numbered.
    pub interface_order: InterfaceOrder,
    /// What may be done to a node that was delivered before.
    pub change_policy: ChangePolicy,
}

/// Fields of other versions. An object that relies on one must not be half understood.
const UNSUPPORTED: [(&str, &str); 5] = [
    ("/credentials/secretRef", "spec.credentials.secretRef"),
    ("/clusterRef", "spec.clusterRef"),
    ("/magnumClusterRef", "spec.magnumClusterRef"),
    ("/delivery", "spec.delivery"),
    ("/settings/notifications", "spec.settings.notifications"),
];

/// Deadline of a request where the object says nothing.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sends of a node with DOWN ports at the fast interval where the object says nothing.
const DOWN_PORT_FAST_RETRY_MAX: u32 = 5;

/// Validates `raw` in its `life`. Everything that is wrong stands in one message, field by field.
pub fn declare(raw: &RawObject, life: &Life, defaults: &Defaults) -> Declared {
    let mut problems = Problems::default();
    for (field, what) in &raw.problems {
        problems.add(field, what);
    }
    for (pointer, field) in UNSUPPORTED {
        if raw.spec.pointer(pointer).is_some_and(|value| !value.is_null()) {
            problems.unsupported(field);
        }
    }
    let config = read(raw, life, defaults, &mut problems);
    match problems.into_message() {
        None => Declared::Valid(Arc::new(config)),
        Some((reason, message)) => Declared::Invalid(InvalidConfig {
            id: raw.id(life),
            generation: life.generation,
            reason,
            message,
        }),
    }
}

fn read(raw: &RawObject, life: &Life, defaults: &Defaults, problems: &mut Problems) -> Config {
    let spec = read_spec(raw, problems);
    let credentials: Credentials = problems.object("spec.credentials", &spec.credentials);
    let settings: Settings = problems.object("spec.settings", &spec.settings);
    let secrets: Secrets = problems.object("spec.secrets", &spec.secrets);
    let project = ProjectId::new(problems.required_id("spec.credentials.projectID", &credentials.project_id));
    let polling = read_polling(&settings, problems);
    Config {
        id: raw.id(life),
        generation: life.generation,
        revision: revision(raw, life, defaults),
        created: life.created,
        paused: problems.flag("spec.paused", &spec.paused),
        vms: read_vms(&spec, problems),
        subnets: read_subnets(&spec, problems),
        provider: ProviderId::new(
            problems.required_header("spec.credentials.k8sProviderID", &credentials.k8s_provider_id),
        ),
        cloud: read_cloud(&credentials, &settings, &secrets, project.clone(), problems),
        rules: read_rules(&settings, life, defaults, project, polling.fast_window, problems),
        change_policy: read_change_policy(&settings, problems).unwrap_or(defaults.change_policy),
        approvals: raw.approvals.clone(),
        removal_policy: read_removal_policy(&settings, problems),
        polling,
        down_port_fast_retry_max: read_fast_retry_max(&settings, problems),
        viola_endpoint: read_viola_endpoint(&settings, defaults, problems),
        force_reconcile: raw.force_reconcile.clone(),
    }
}

fn read_spec(raw: &RawObject, problems: &mut Problems) -> OpenstackConfigSpec {
    if raw.spec.is_null() {
        problems.missing("spec", "is missing");
    } else if !raw.spec.is_object() {
        problems.add("spec", format!("must be an object, not {}", kind(&raw.spec)));
    }
    serde_json::from_value(raw.spec.clone()).unwrap_or_default()
}

fn read_vms(spec: &OpenstackConfigSpec, problems: &mut Problems) -> Vec<VmId> {
    let field = "spec.vmNames";
    let ids = problems.ids(field, &spec.vm_names);
    let was_given = spec.vm_names.as_ref().is_some_and(|list| !list.is_empty());
    if ids.is_empty() && !problems.concern(field) {
        let found = if was_given { " (all entries are blank)" } else { "" };
        problems.missing(field, format!("must list the UUID of at least one VM{found}"));
    }
    without_doubles(ids.into_iter().map(VmId::new))
}

fn read_subnets(spec: &OpenstackConfigSpec, problems: &mut Problems) -> SubnetSelector {
    let field = "spec.subnetIDs";
    let ids = problems.ids(field, &spec.subnet_ids);
    if !ids.is_empty() || problems.concern(field) {
        return SubnetSelector::Ids(without_doubles(ids.into_iter().map(subnet_id)));
    }
    let field = "spec.subnetID";
    if let Some(id) = problems.id(field, &spec.subnet_id) {
        return SubnetSelector::Ids(vec![subnet_id(id)]);
    }
    let name = problems.text("spec.subnetName", &spec.subnet_name);
    if name.is_none() && !problems.concern(field) && !problems.concern("spec.subnetName") {
        problems.subnet_required();
    }
    SubnetSelector::Name(name.unwrap_or_default())
}

/// Neutron's UUIDs are lower case in its answers, whatever was asked for.
fn subnet_id(text: String) -> SubnetId {
    let is_uuid = text.len() == 36 && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    SubnetId::from(if is_uuid { text.to_ascii_lowercase() } else { text })
}

fn without_doubles<T: Clone + Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = std::collections::HashSet::new();
    items.filter(|item| seen.insert(item.clone())).collect()
}

fn read_cloud(
    credentials: &Credentials,
    settings: &Settings,
    secrets: &Secrets,
    project: ProjectId,
    problems: &mut Problems,
) -> CloudAccess {
    CloudAccess {
        source: read_contrabass(credentials, settings, secrets, problems),
        project,
        timeout: read_timeout("openstackTimeout", &settings.openstack_timeout, problems),
        insecure_tls: problems.flag("spec.settings.openstackInsecureTLS", &settings.openstack_insecure_tls),
        neutron_endpoint: problems
            .endpoint("spec.settings.openstackNeutronEndpoint", &settings.openstack_neutron_endpoint),
        nova_endpoint: problems
            .endpoint("spec.settings.openstackNovaEndpoint", &settings.openstack_nova_endpoint),
        interface: read_interface(settings, problems),
        region: problems.text("spec.settings.openstackEndpointRegion", &settings.openstack_endpoint_region),
        node_name_metadata_key: problems
            .text("spec.settings.openstackNodeNameMetadataKey", &settings.openstack_node_name_metadata_key),
        ca_bundle: read_secret_key(
            "spec.settings.caBundleSecretRef",
            &settings.ca_bundle_secret_ref,
            problems,
        ),
    }
}

fn read_contrabass(
    credentials: &Credentials,
    settings: &Settings,
    secrets: &Secrets,
    problems: &mut Problems,
) -> CredentialSource {
    let field = "spec.settings.contrabassEndpoint";
    let endpoint = problems.endpoint(field, &settings.contrabass_endpoint);
    if endpoint.is_none() && !problems.concern(field) {
        problems.missing(field, "is required: the base URL of the Contrabass API");
    }
    CredentialSource::Contrabass {
        endpoint: endpoint.unwrap_or_default(),
        provider_id: problems
            .required_segment("spec.credentials.openstackProviderID", &credentials.openstack_provider_id),
        key: EncryptKeySource {
            secret: read_secret_key(
                "spec.secrets.contrabassEncryptKeySecretRef",
                &secrets.contrabass_encrypt_key_secret_ref,
                problems,
            ),
            inline: read_inline_key(settings, problems),
        },
        timeout: read_timeout("contrabassTimeout", &settings.contrabass_timeout, problems),
        insecure_tls: problems.flag("spec.settings.contrabassInsecureTLS", &settings.contrabass_insecure_tls),
    }
}

fn read_inline_key(settings: &Settings, problems: &mut Problems) -> Option<SecretString> {
    problems.type_of("spec.settings.contrabassEncryptKey", "text", &settings.contrabass_encrypt_key);
    let key = settings.contrabass_encrypt_key.as_ref()?.0.trim();
    (!key.is_empty()).then(|| SecretString::from(key))
}

fn read_secret_key(field: &str, given: &Given<SecretKey>, problems: &mut Problems) -> Option<SecretKeyRef> {
    if given.is_missing() {
        return None;
    }
    let reference = problems.object(field, given);
    if problems.concern(field) {
        return None;
    }
    Some(SecretKeyRef {
        name: problems.secret_name(&format!("{field}.name"), &reference.name),
        key: problems.secret_key(&format!("{field}.key"), &reference.key),
    })
}

fn read_timeout(name: &str, given: &Given<String>, problems: &mut Problems) -> Duration {
    let given = problems.duration(&format!("spec.settings.{name}"), given);
    given.filter(|timeout| !timeout.is_zero()).unwrap_or(TIMEOUT)
}

fn read_interface(settings: &Settings, problems: &mut Problems) -> Option<EndpointInterface> {
    problems.choice(
        "spec.settings.openstackEndpointInterface",
        &settings.openstack_endpoint_interface,
        // Keystone v2's catalog called them so.
        &["publicURL", "internalURL", "adminURL"],
        &[
            ("public", EndpointInterface::Public),
            ("internal", EndpointInterface::Internal),
            ("admin", EndpointInterface::Admin),
        ],
    )
}

fn read_rules(
    settings: &Settings,
    life: &Life,
    defaults: &Defaults,
    project: ProjectId,
    rewiring_grace: Duration,
    problems: &mut Problems,
) -> SelectionRules {
    let own = problems.choice(
        "spec.settings.portProject",
        &settings.port_project,
        &[],
        &[("Any", false), ("Own", true)],
    );
    let order = problems.choice(
        "spec.settings.interfaceOrder",
        &settings.interface_order,
        &[],
        &[
            ("Sticky", InterfaceOrder::Sticky),
            ("MAC", InterfaceOrder::Mac),
            ("Subnet", InterfaceOrder::Subnet),
        ],
    );
    SelectionRules {
        statuses: read_statuses(settings, problems),
        baseline: read_baseline(settings, life, problems),
        project: own.unwrap_or(false).then_some(project),
        order: order.unwrap_or(defaults.interface_order),
        rewiring_grace,
    }
}

fn read_statuses(settings: &Settings, problems: &mut Problems) -> AllowedStatuses {
    let field = "spec.settings.openstackPortAllowedStatuses";
    let given = problems.texts(field, &settings.openstack_port_allowed_statuses);
    if let Some(status) = given.iter().find(|text| text.contains(|c: char| c == ',' || c.is_whitespace())) {
        problems.add(field, format!("{status:?} is not one status; give each its own entry"));
    }
    let statuses: BTreeSet<String> = given.iter().map(|text| text.to_ascii_uppercase()).collect();
    match statuses {
        // Blank entries say nothing, so a list of them is no list.
        statuses if statuses.is_empty() => {
            AllowedStatuses::Only(["ACTIVE", "DOWN"].map(str::to_owned).into())
        }
        statuses if statuses.contains("*") => AllowedStatuses::All,
        statuses => AllowedStatuses::Only(statuses),
    }
}

fn read_baseline(settings: &Settings, life: &Life, problems: &mut Problems) -> Baseline {
    let field = "spec.settings.portsCreatedAfter";
    let given = problems.text(field, &settings.ports_created_after);
    let given = given.and_then(|text| {
        let time = parse_time(&text);
        if time.is_none() {
            problems.add(field, "must be a time such as 2026-01-10T00:00:00Z");
        }
        time
    });
    if problems.flag("spec.settings.includeExistingPorts", &settings.include_existing_ports) {
        return Baseline::Any;
    }
    if given.is_none() && !life.is_remembered && !problems.concern(field) {
        problems.missing(
            "metadata.creationTimestamp",
            "is needed, as without an inventory (--inventory-enabled=false) the time an object was first seen \
             is forgotten at a restart and its ports would be left out; or set settings.portsCreatedAfter, or \
             settings.includeExistingPorts: true",
        );
    }
    Baseline::Since(whole_second(given.unwrap_or(life.created)))
}

/// RFC 3339, or without a zone and then UTC, as Neutron's `created_at`; also a date alone.
fn parse_time(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let civil: civil::DateTime = text.parse().ok()?;
    civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

fn whole_second(time: Timestamp) -> Timestamp {
    let fraction = SignedDuration::from_nanos(i64::from(time.subsec_nanosecond()).rem_euclid(1_000_000_000));
    time.checked_sub(fraction).unwrap_or(time)
}

fn read_change_policy(settings: &Settings, problems: &mut Problems) -> Option<ChangePolicy> {
    problems.choice(
        "spec.settings.changePolicy",
        &settings.change_policy,
        &[],
        &[
            ("Auto", ChangePolicy::Auto),
            ("AddOnly", ChangePolicy::AddOnly),
            ("Approve", ChangePolicy::Approve),
            ("Observe", ChangePolicy::Observe),
        ],
    )
}

fn read_removal_policy(settings: &Settings, problems: &mut Problems) -> RemovalPolicy {
    let given = problems.choice(
        "spec.settings.removalPolicy",
        &settings.removal_policy,
        &[],
        &[("Retain", RemovalPolicy::Retain), ("Prune", RemovalPolicy::Prune)],
    );
    given.unwrap_or_default()
}

fn read_polling(settings: &Settings, problems: &mut Problems) -> Polling {
    let default = Polling::default();
    let mut read = |name: &str, given| problems.duration(&format!("spec.settings.{name}"), given);
    // An interval of zero would be a hot loop: it counts as not set. A window of zero is none.
    let interval = |given: Option<Duration>, default| given.filter(|d| !d.is_zero()).unwrap_or(default);
    let fast = interval(read("pollFastInterval", &settings.poll_fast_interval), default.fast);
    let slow = interval(read("pollSlowInterval", &settings.poll_slow_interval), default.slow);
    let error = interval(read("pollErrorInterval", &settings.poll_error_interval), default.error);
    let fast_window = read("pollFastWindow", &settings.poll_fast_window).unwrap_or(default.fast_window);
    let resync = read("resyncInterval", &settings.resync_interval).filter(|d| !d.is_zero());
    if resync.is_some_and(|every| every < Duration::from_secs(1)) {
        problems.add("spec.settings.resyncInterval", "must be 0s (never) or at least 1s");
    }
    Polling { fast, slow: slow.max(fast), error, fast_window, resync }
}

fn read_fast_retry_max(settings: &Settings, problems: &mut Problems) -> u32 {
    let given = &settings.down_port_fast_retry_max;
    problems.type_of("spec.settings.downPortFastRetryMax", "a whole number", given);
    match given.as_ref() {
        // Less than one would never send again: it counts as one, and the object stays usable.
        Some(max) => u32::try_from(*max).unwrap_or(1).max(1),
        None => DOWN_PORT_FAST_RETRY_MAX,
    }
}

fn read_viola_endpoint(settings: &Settings, defaults: &Defaults, problems: &mut Problems) -> String {
    let field = "spec.settings.violaEndpoint";
    let own = problems.endpoint(field, &settings.viola_endpoint);
    let endpoint = own.or_else(|| defaults.viola_endpoint.clone());
    if endpoint.is_none() && !problems.concern(field) {
        problems.missing(field, "is required, as the operator has no VIOLA_ENDPOINT either");
    }
    endpoint.unwrap_or_default()
}

/// A new generation counts although the spec may be the one before last: the status must catch up with it.
fn revision(raw: &RawObject, life: &Life, defaults: &Defaults) -> u64 {
    let mut hasher = Sha256::new();
    hasher.update(raw.digest());
    hasher.update(format!("{life:?}{defaults:?}"));
    let digest = hasher.finalize();
    digest.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests;
