use multinic_actors::domain::config::{DeliveryMode, SecretKeyRef, WorkloadCluster};

use super::*;

fn delivery(mode: &str) -> Value {
    json!({"mode": mode, "kubeconfigSecretRef": {"name": "biz-kubeconfig"}})
}

fn cluster(key: &str, namespace: &str) -> WorkloadCluster {
    let kubeconfig = SecretKeyRef { name: "biz-kubeconfig".to_owned(), key: key.to_owned() };
    WorkloadCluster { kubeconfig, namespace: namespace.to_owned() }
}

#[test]
fn the_workload_cluster_is_read_with_its_defaults() {
    assert_eq!(valid(&object()).delivery, DeliveryMode::Viola);
    assert_eq!(valid(&with("/spec/delivery", json!(null))).delivery, DeliveryMode::Viola);
    let config = valid(&with("/spec/delivery", delivery("Apply")));
    assert_eq!(config.delivery, DeliveryMode::Apply(cluster("value", "multinic-system")));
    let mut given = delivery("verify");
    given["kubeconfigSecretRef"]["key"] = json!("kubeconfig.yaml");
    given["namespace"] = json!(" agents ");
    let config = valid(&with("/spec/delivery", given));
    assert_eq!(config.delivery, DeliveryMode::Verify(cluster("kubeconfig.yaml", "agents")));
    assert_eq!(config.provider.as_str(), "k");
}

#[test]
fn straight_into_the_cluster_nothing_of_viola_is_needed() {
    let mut direct = with("/spec/delivery", delivery("Apply"));
    direct["spec"]["settings"].as_object_mut().unwrap().remove("violaEndpoint");
    direct["spec"]["credentials"].as_object_mut().unwrap().remove("k8sProviderID");
    let config = valid(&direct);
    assert_eq!(config.provider.as_str(), "n/biz-kubeconfig");
    assert_eq!(config.viola_endpoint, "");
    direct["spec"]["delivery"] = delivery("Verify");
    let message = invalid(&direct).message;
    for field in ["spec.credentials.k8sProviderID: is required", "spec.settings.violaEndpoint: is required"] {
        assert!(message.contains(field), "{message}");
    }
}

#[test]
fn what_is_wrong_with_it_is_told() {
    let check = |delivery: Value, expect: &str| {
        let message = invalid(&with("/spec/delivery", delivery)).message;
        assert!(message.starts_with(expect), "{message}");
    };
    check(json!("Apply"), "spec.delivery: must be an object");
    check(json!({}), "spec.delivery.mode: is required: Apply or Verify");
    check(delivery("Push"), "spec.delivery.mode: must be one of Apply, Verify");
    check(json!({"mode": "Apply"}), "spec.delivery.kubeconfigSecretRef.name: is required");
    let bad = json!({"mode": "Apply", "kubeconfigSecretRef": "x"});
    check(bad, "spec.delivery.kubeconfigSecretRef: must be an object");
    let bad = json!({"mode": "Apply", "kubeconfigSecretRef": {"name": "a b"}});
    check(bad, "spec.delivery.kubeconfigSecretRef.name: is not the name of a Secret");
    let bad = json!({"mode": "Apply", "kubeconfigSecretRef": {"name": "a", "key": "a/b"}});
    check(bad, "spec.delivery.kubeconfigSecretRef.key: is not a key of a Secret");
    let bad = json!({"mode": "Apply", "kubeconfigSecretRef": {"name": "a"}, "namespace": "A_b"});
    check(bad, "spec.delivery.namespace: ");
}
