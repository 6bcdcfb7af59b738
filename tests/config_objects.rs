//! Objects as they stand in clusters today: what the previous operator took is taken, whatever it looks like.

// clippy's own exception covers test functions, not the helpers beside them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use multinic_actors::domain::config::{
    AllowedStatuses, Config, CredentialSource, Declared, EndpointInterface, SubnetSelector,
};
use multinic_operator::kube::raw_object::{Life, RawObject};
use multinic_operator::kube::validate::{Defaults, declare};

fn config(spec: &str) -> Arc<Config> {
    let spec: serde_json::Value = yaml_serde::from_str(spec).unwrap();
    let object =
        serde_json::json!({"metadata": {"name": "sample", "namespace": "multinic-system"}, "spec": spec});
    let raw = RawObject::from_json(&object).unwrap();
    let created = "2026-01-10T00:00:00Z".parse().unwrap();
    let life = Life { uid: "u".into(), generation: 1, created, is_remembered: true };
    let defaults = Defaults {
        viola_endpoint: Some("http://viola-api.multinic-system.svc.cluster.local:8080".into()),
        ..Defaults::default()
    };
    match declare(&raw, &life, &defaults) {
        Declared::Valid(config) => config,
        Declared::Invalid(invalid) => panic!("{}", invalid.message),
    }
}

#[test]
fn the_documented_sample_with_comments() {
    let config = config(
        r#"
        subnetIDs:
          - "8f0d5f5b-8f3f-4b2b-9c4c-8c9f7c36d1f2" # the first
          - "dae4f6ea-76ae-4e56-b3a5-87e6df94a574"
        vmNames:
          - "08186d75-754e-449c-b210-c0ea822727a7"
          - "c863944f-5cfe-4e05-805f-7522f3e9b080"
        credentials:
          openstackProviderID: "66da2e07-a09d-4797-b9c6-75a2ff91381e"
          projectID: "0d5f63c52fc94aeeb767e69790fa73c8"
          k8sProviderID: "f5861c22-b252-42b5-a0c5-cfb1d245c819"
        settings:
          contrabassEndpoint: "https://contrabass.example.com"
          violaEndpoint: "http://viola-api.other.svc.cluster.local:8080"
          openstackPortAllowedStatuses: ["ACTIVE", "DOWN"]
          pollFastInterval: "10s"
          pollSlowInterval: "2m"
        secrets:
          contrabassEncryptKeySecretRef: {name: contrabass-encrypt-key, key: CONTRABASS_ENCRYPT_KEY}
        "#,
    );
    assert_eq!(config.vms.len(), 2);
    assert_eq!(config.viola_endpoint, "http://viola-api.other.svc.cluster.local:8080");
    assert_eq!(config.polling.fast, Duration::from_secs(10));
    let CredentialSource::Contrabass { key, .. } = &config.cloud.source;
    assert_eq!(key.secret.as_ref().map(|secret| secret.name.as_str()), Some("contrabass-encrypt-key"));
}

/// What every object below has.
const CREDENTIALS: &str = "credentials: {openstackProviderID: o, k8sProviderID: k, projectID: p}\n";

fn with(rest: &str) -> Arc<Config> {
    config(&format!("{CREDENTIALS}{rest}"))
}

#[test]
fn ids_that_are_no_uuids() {
    let config = with(
        "subnetID: subnet-uuid\nsubnetName: test\nvmNames: [vm-uuid-1, vm-uuid-2]\n\
         settings: {contrabassEndpoint: https://c}\n",
    );
    assert_eq!(config.subnets, SubnetSelector::Ids(vec!["subnet-uuid".into()]));
}

#[test]
fn only_a_subnet_name() {
    let config = with("subnetName: ' test 망 '\nvmNames: [v]\nsettings: {contrabassEndpoint: https://c}\n");
    assert_eq!(config.subnets, SubnetSelector::Name("test 망".into()));
}

#[test]
fn nulls_where_nothing_is_meant() {
    let config = with(
        "subnetIDs: null\nsubnetID: s\nsubnetName: null\nvmNames: [v, null]\npaused: null\nsecrets: null\n\
         settings:\n  contrabassEndpoint: https://c\n  openstackPortAllowedStatuses: null\n  \
         downPortFastRetryMax: null\n  openstackInsecureTLS: null\n  violaEndpoint: null\n",
    );
    assert_eq!(config.vms.len(), 1);
    assert_eq!(config.down_port_fast_retry_max, 5);
}

#[test]
fn empty_strings_where_nothing_is_meant() {
    let config = with(
        "subnetIDs: ['']\nsubnetID: ''\nsubnetName: test\nvmNames: [v, '']\n\
         settings:\n  contrabassEndpoint: https://c\n  contrabassEncryptKey: ''\n  contrabassTimeout: ''\n  \
         violaEndpoint: ''\n  openstackNeutronEndpoint: ''\n  openstackNovaEndpoint: ''\n  \
         openstackEndpointInterface: ''\n  openstackEndpointRegion: ''\n  openstackNodeNameMetadataKey: ''\n  \
         pollFastInterval: ''\n  pollSlowInterval: ''\n  pollErrorInterval: ''\n  pollFastWindow: ''\n",
    );
    let cloud = &config.cloud;
    assert_eq!((&cloud.neutron_endpoint, &cloud.nova_endpoint, &cloud.region), (&None, &None, &None));
    assert_eq!((&cloud.interface, &cloud.node_name_metadata_key), (&None, &None));
    assert_eq!(config.polling, Default::default());
    assert_eq!(config.viola_endpoint, "http://viola-api.multinic-system.svc.cluster.local:8080");
}

#[test]
fn fields_of_older_and_unknown_schemas() {
    let config = with(
        "subnetID: s\nvmNames: [v]\nvlan: 7\ncomment: {a: [1]}\n\
         settings: {contrabassEndpoint: https://c, violaTimeout: 30s, violaInsecureTLS: true, other: [1]}\n\
         secrets: {other: {}}\n",
    );
    assert_eq!(config.vms.len(), 1);
}

#[test]
fn white_space_round_everything() {
    let config = with(
        "subnetIDs: [' s ']\nvmNames: [\"v\\n\"]\n\
         settings:\n  contrabassEndpoint: ' https://c/ '\n  violaEndpoint: \"http://v/\\n\"\n  \
         openstackEndpointInterface: ' public '\n  pollFastInterval: ' 5s '\n  \
         openstackNeutronEndpoint: 'http://n:9696/v2.0/ '\n",
    );
    assert_eq!(config.vms[0].as_str(), "v");
    assert_eq!(config.viola_endpoint, "http://v");
    assert_eq!(config.cloud.interface, Some(EndpointInterface::Public));
    assert_eq!(config.cloud.neutron_endpoint.as_deref(), Some("http://n:9696/v2.0"));
    assert_eq!(config.polling.fast, Duration::from_secs(5));
}

#[test]
fn the_same_vm_and_subnet_twice() {
    let config =
        with("subnetIDs: [s, t, s]\nvmNames: [v, V, v, w]\nsettings: {contrabassEndpoint: https://c}\n");
    assert_eq!(config.vms.len(), 2);
    assert_eq!(config.subnets, SubnetSelector::Ids(vec!["s".into(), "t".into()]));
}

#[test]
fn numbers_out_of_their_range() {
    let config = with(
        "subnetID: s\nvmNames: [v]\nsettings: {contrabassEndpoint: https://c, downPortFastRetryMax: 0, \
         pollFastInterval: 5m, pollSlowInterval: 1m, pollErrorInterval: 0s, openstackTimeout: '0'}\n",
    );
    assert_eq!(config.down_port_fast_retry_max, 1);
    assert_eq!(config.polling.slow, config.polling.fast);
    assert_eq!(config.polling.error, Duration::from_secs(30));
    assert_eq!(config.cloud.timeout, Duration::from_secs(30));
}

#[test]
fn statuses_in_lower_case_and_a_star_among_others() {
    let statuses = |list: &str| {
        let settings = format!("{{contrabassEndpoint: https://c, openstackPortAllowedStatuses: {list}}}");
        with(&format!("subnetID: s\nvmNames: [v]\nsettings: {settings}\n")).rules.statuses.clone()
    };
    assert_eq!(statuses("[active]"), AllowedStatuses::Only(["ACTIVE".to_owned()].into()));
    assert_eq!(statuses("[active, '*']"), AllowedStatuses::All);
}

#[test]
fn the_key_in_the_object_itself() {
    let config = with(
        "subnetID: s\nvmNames: [v]\nsettings: {contrabassEndpoint: https://c, contrabassEncryptKey: conbaEncrypt2025}\n",
    );
    let CredentialSource::Contrabass { key, .. } = &config.cloud.source;
    assert!(key.inline.is_some() && key.secret.is_none());
    assert!(!format!("{config:?}").contains("conba"), "{config:?}");
}
