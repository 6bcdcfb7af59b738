//! `spec.delivery`, and what it changes about whom the nodes belong to.

use multinic_actors::domain::config::{DeliveryMode, SecretKeyRef, WorkloadCluster};
use multinic_actors::domain::ids::ProviderId;

use super::problems::Problems;
use crate::kube::openstack_config::{Delivery, Given, KubeconfigSecret};
use crate::settings::values;

/// Where the agents look if the object does not say it: as the Viola test API's default.
const NAMESPACE: &str = "multinic-system";
/// The key of Cluster API's kubeconfig Secrets.
const KUBECONFIG_KEY: &str = "value";

/// A mode that needs a workload cluster.
type OfCluster = fn(WorkloadCluster) -> DeliveryMode;

pub(super) fn read(given: &Given<Delivery>, problems: &mut Problems) -> DeliveryMode {
    let field = "spec.delivery";
    let delivery = problems.object(field, given);
    if given.is_missing() || problems.concern(field) {
        return DeliveryMode::Viola;
    }
    let field = "spec.delivery.mode";
    let modes: [(&str, OfCluster); 2] = [("Apply", DeliveryMode::Apply), ("Verify", DeliveryMode::Verify)];
    let mode = problems.choice(field, &delivery.mode, &[], &modes);
    if mode.is_none() && !problems.concern(field) {
        problems.missing(field, "is required: Apply or Verify");
    }
    let cluster = WorkloadCluster {
        kubeconfig: read_kubeconfig(&delivery.kubeconfig_secret_ref, problems),
        namespace: read_namespace(&delivery.namespace, problems),
    };
    mode.map_or(DeliveryMode::Viola, |mode| mode(cluster))
}

fn read_kubeconfig(given: &Given<KubeconfigSecret>, problems: &mut Problems) -> SecretKeyRef {
    let field = "spec.delivery.kubeconfigSecretRef";
    let reference = problems.object(field, given);
    let name = match problems.concern(field) {
        true => String::new(),
        false => problems.secret_name(&format!("{field}.name"), &reference.name),
    };
    let key_field = format!("{field}.key");
    let key = match problems.text(&key_field, &reference.key) {
        None => KUBECONFIG_KEY.to_owned(),
        Some(_) => problems.secret_key(&key_field, &reference.key),
    };
    SecretKeyRef { name, key }
}

fn read_namespace(given: &Given<String>, problems: &mut Problems) -> String {
    let field = "spec.delivery.namespace";
    let Some(text) = problems.text(field, given) else { return NAMESPACE.to_owned() };
    match values::namespace(&text) {
        Ok(namespace) => namespace,
        Err(problem) => {
            problems.add(field, problem);
            text
        }
    }
}

/// Whose node names are unique: the `k8sProviderID`, else the workload cluster by its kubeconfig.
pub(super) fn read_provider(
    given: &Given<String>,
    delivery: &DeliveryMode,
    namespace: &str,
    problems: &mut Problems,
) -> ProviderId {
    let field = "spec.credentials.k8sProviderID";
    let is_blank = given.is_missing() || given.as_ref().is_some_and(|text| text.trim().is_empty());
    match delivery.direct().filter(|_| is_blank) {
        Some(cluster) => ProviderId::new(format!("{namespace}/{}", cluster.kubeconfig.name)),
        None => ProviderId::new(problems.required_header(field, given)),
    }
}
