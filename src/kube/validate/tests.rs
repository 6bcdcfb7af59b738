use serde_json::{Value, json};

use super::*;
mod refused;

const VM: &str = "08186d75-754e-449c-b210-c0ea822727a7";
const SUBNET: &str = "8f0d5f5b-8f3f-4b2b-9c4c-8c9f7c36d1f2";

/// A small object that can be worked on.
fn object() -> Value {
    json!({
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": 2,
                     "creationTimestamp": "2026-01-10T00:00:00Z"},
        "spec": {
            "subnetIDs": [SUBNET],
            "vmNames": [VM],
            "credentials": {"openstackProviderID": "o", "k8sProviderID": "k", "projectID": "p"},
            "settings": {"contrabassEndpoint": "https://contrabass", "violaEndpoint": "http://viola"},
            "secrets": {},
        },
    })
}

/// The object with `value` at `pointer`, whose parents exist.
fn with(pointer: &str, value: Value) -> Value {
    let mut object = object();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[key] = value;
    object
}

fn without(pointer: &str) -> Value {
    let mut object = object();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
    object
}

fn declare_with(object: &Value, defaults: &Defaults) -> Declared {
    let raw = RawObject::from_json(object).unwrap();
    let life = raw.life().unwrap();
    declare(&raw, &life, defaults)
}

fn valid(object: &Value) -> Arc<Config> {
    match declare_with(object, &Defaults::default()) {
        Declared::Valid(config) => config,
        Declared::Invalid(invalid) => panic!("{}: {object}", invalid.message),
    }
}

fn invalid(object: &Value) -> InvalidConfig {
    match declare_with(object, &Defaults::default()) {
        Declared::Invalid(invalid) => invalid,
        Declared::Valid(_) => panic!("is valid: {object}"),
    }
}

fn setting(name: &str, value: Value) -> Arc<Config> {
    valid(&with(&format!("/spec/settings/{name}"), value))
}

#[test]
fn what_is_not_said_has_its_default() {
    let config = valid(&object());
    assert_eq!(config.id.to_string(), "n/a/u");
    assert_eq!(config.generation, 2);
    assert!(!config.paused);
    assert_eq!(config.vms, [VmId::new(VM)]);
    assert_eq!(config.subnets, SubnetSelector::Ids(vec![SubnetId::from(SUBNET)]));
    assert_eq!(config.provider.as_str(), "k");
    assert_eq!(config.polling, Polling::default());
    assert_eq!(config.down_port_fast_retry_max, 5);
    assert_eq!(config.viola_endpoint, "http://viola");
    assert_eq!(config.change_policy, ChangePolicy::Auto);
    assert_eq!(config.removal_policy, RemovalPolicy::Retain);
    let rules = &config.rules;
    assert_eq!(rules.statuses, AllowedStatuses::Only(["ACTIVE", "DOWN"].map(str::to_owned).into()));
    assert_eq!(rules.baseline, Baseline::Since("2026-01-10T00:00:00Z".parse().unwrap()));
    assert_eq!(rules.project, None);
    assert_eq!(rules.order, InterfaceOrder::Sticky);
    assert_eq!(rules.rewiring_grace, Duration::from_secs(180));
    let cloud = &config.cloud;
    assert_eq!((cloud.timeout, cloud.insecure_tls), (TIMEOUT, false));
    assert_eq!((cloud.interface, &cloud.region, &cloud.ca_bundle), (None, &None, &None));
    let CredentialSource::Contrabass { endpoint, provider_id, key, timeout, insecure_tls } = &cloud.source;
    assert_eq!((endpoint.as_str(), provider_id.as_str()), ("https://contrabass", "o"));
    assert_eq!((*timeout, *insecure_tls, &key.secret), (TIMEOUT, false, &None));
    assert!(key.inline.is_none());
}

#[test]
fn subnets_are_taken_in_the_documented_order() {
    let mut object = object();
    object["spec"]["subnetID"] = json!(" one ");
    object["spec"]["subnetName"] = json!(" name ");
    assert_eq!(valid(&object).subnets, SubnetSelector::Ids(vec![SUBNET.into()]));
    for empty in [json!([]), json!(null), json!(["", null, " "])] {
        object["spec"]["subnetIDs"] = empty;
        assert_eq!(valid(&object).subnets, SubnetSelector::Ids(vec!["one".into()]));
    }
    object["spec"]["subnetID"] = json!("");
    assert_eq!(valid(&object).subnets, SubnetSelector::Name("name".into()));
}

#[test]
fn doubles_are_removed_and_the_order_is_kept() {
    let vms = json!(["B", " a ", "b", "a", "", null, "c"]);
    let config = valid(&with("/spec/vmNames", vms));
    assert_eq!(config.vms, ["b", "a", "c"].map(VmId::from));
    let upper = SUBNET.to_uppercase();
    let config = valid(&with("/spec/subnetIDs", json!(["X", upper, SUBNET, "x"])));
    let expect = ["X", SUBNET, "x"].map(SubnetId::from).to_vec();
    assert_eq!(config.subnets, SubnetSelector::Ids(expect));
}

#[test]
fn what_an_object_says_goes_before_the_operators_defaults() {
    let defaults = Defaults {
        viola_endpoint: Some("http://default".into()),
        interface_order: InterfaceOrder::Mac,
        change_policy: ChangePolicy::Approve,
    };
    let read = |object: &Value| match declare_with(object, &defaults) {
        Declared::Valid(config) => config,
        Declared::Invalid(invalid) => panic!("{}", invalid.message),
    };
    let config = read(&without("/spec/settings/violaEndpoint"));
    assert_eq!(config.viola_endpoint, "http://default");
    assert_eq!((config.rules.order, config.change_policy), (InterfaceOrder::Mac, ChangePolicy::Approve));
    let mut own = object();
    own["spec"]["settings"]["interfaceOrder"] = json!("Subnet");
    own["spec"]["settings"]["changePolicy"] = json!("addonly");
    let config = read(&own);
    assert_eq!(config.viola_endpoint, "http://viola");
    assert_eq!((config.rules.order, config.change_policy), (InterfaceOrder::Subnet, ChangePolicy::AddOnly));
}

#[test]
fn zero_means_not_set_for_intervals_and_deadlines() {
    for zero in ["0", "0s", "", " "] {
        for name in ["pollFastInterval", "pollSlowInterval", "pollErrorInterval", "resyncInterval"] {
            assert_eq!(setting(name, json!(zero)).polling, Polling::default(), "{name} {zero:?}");
        }
        assert_eq!(setting("openstackTimeout", json!(zero)).cloud.timeout, TIMEOUT);
    }
    let config = setting("pollFastWindow", json!("0s"));
    assert_eq!((config.polling.fast_window, config.rules.rewiring_grace), Default::default());
}

#[test]
fn intervals_are_read_and_slow_is_never_below_fast() {
    let mut object = object();
    let settings = &mut object["spec"]["settings"];
    settings["pollFastInterval"] = json!("1m30s");
    settings["pollSlowInterval"] = json!("10s");
    settings["pollErrorInterval"] = json!("500ms");
    settings["pollFastWindow"] = json!("5m");
    settings["resyncInterval"] = json!("1h");
    let expect = Polling {
        fast: Duration::from_secs(90),
        slow: Duration::from_secs(90),
        error: Duration::from_millis(500),
        fast_window: Duration::from_secs(300),
        resync: Some(Duration::from_secs(3600)),
    };
    assert_eq!(valid(&object).polling, expect);
}

#[test]
fn statuses_are_compared_without_case_and_a_star_is_all() {
    let check = |given: Value, expect: Option<&[&str]>| {
        let expect = match expect {
            None => AllowedStatuses::All,
            Some(words) => AllowedStatuses::Only(words.iter().map(|&word| word.to_owned()).collect()),
        };
        assert_eq!(setting("openstackPortAllowedStatuses", given.clone()).rules.statuses, expect, "{given}");
    };
    check(json!(["active", " Down ", "ACTIVE"]), Some(&["ACTIVE", "DOWN"]));
    check(json!(["N/A", null, ""]), Some(&["N/A"]));
    check(json!(["ACTIVE", "*"]), None);
    check(json!([]), Some(&["ACTIVE", "DOWN"]));
    check(json!(null), Some(&["ACTIVE", "DOWN"]));
    check(json!(["", " "]), Some(&["ACTIVE", "DOWN"]));
}

#[test]
fn less_than_one_fast_retry_is_one() {
    for (given, expect) in [(7, 7), (1, 1), (0, 1), (-3, 1)] {
        assert_eq!(setting("downPortFastRetryMax", json!(given)).down_port_fast_retry_max, expect);
    }
}

#[test]
fn the_baseline_is_a_whole_second() {
    let check = |given: &str, expect: &str| {
        let baseline = setting("portsCreatedAfter", json!(given)).rules.baseline;
        assert_eq!(baseline, Baseline::Since(expect.parse().unwrap()), "{given}");
    };
    check("2026-01-10T09:00:00.9+09:00", "2026-01-10T00:00:00Z");
    check("2026-01-10T00:00:00Z", "2026-01-10T00:00:00Z");
    check("2026-01-10T00:00:01.5", "2026-01-10T00:00:01Z");
    check("2026-01-10", "2026-01-10T00:00:00Z");
    check("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z");
    let mut object = with("/spec/settings/portsCreatedAfter", json!("2026-01-10T00:00:00Z"));
    object["spec"]["settings"]["includeExistingPorts"] = json!(true);
    assert_eq!(valid(&object).rules.baseline, Baseline::Any);
}

#[test]
fn words_are_taken_in_any_case() {
    let interface = |word: &str| setting("openstackEndpointInterface", json!(word)).cloud.interface;
    assert_eq!(interface(" Internal "), Some(EndpointInterface::Internal));
    assert_eq!(interface("adminURL"), Some(EndpointInterface::Admin));
    assert_eq!(interface(""), None);
    assert_eq!(setting("interfaceOrder", json!("mac")).rules.order, InterfaceOrder::Mac);
    assert_eq!(setting("removalPolicy", json!("Prune")).removal_policy, RemovalPolicy::Prune);
    assert_eq!(setting("portProject", json!("Own")).rules.project, Some("p".into()));
    assert_eq!(setting("portProject", json!("Any")).rules.project, None);
}

#[test]
fn references_and_annotations_are_taken_over() {
    let mut object = with(
        "/spec/secrets/contrabassEncryptKeySecretRef",
        json!({"name": " contrabass-encrypt-key ", "key": "CONTRABASS_ENCRYPT_KEY"}),
    );
    object["spec"]["settings"]["caBundleSecretRef"] = json!({"name": "ca", "key": "ca.crt"});
    object["metadata"]["annotations"] = json!({
        "multinic.example.com/force-reconcile": "1", "multinic.example.com/approve": "x, y",
    });
    let config = valid(&object);
    let CredentialSource::Contrabass { key, .. } = &config.cloud.source;
    let (name, secret_key) = multinic_actors::domain::config::DEFAULT_KEY_SECRET;
    let expect = SecretKeyRef { name: name.into(), key: secret_key.into() };
    assert_eq!(key.secret, Some(expect));
    assert_eq!(config.cloud.ca_bundle, Some(SecretKeyRef { name: "ca".into(), key: "ca.crt".into() }));
    assert_eq!(config.force_reconcile.as_deref(), Some("1"));
    assert_eq!(Vec::from_iter(&config.approvals), ["x", "y"]);
}

#[test]
fn the_revision_changes_with_all_that_matters_and_only_with_that() {
    let base = valid(&object()).revision;
    assert_eq!(base, valid(&object()).revision);
    assert_eq!(base, valid(&with("/metadata/labels", json!({"a": "b"}))).revision);
    assert_eq!(base, valid(&with("/metadata/resourceVersion", json!("7"))).revision);
    assert_eq!(base, valid(&with("/status", json!({"lastError": "x"}))).revision);
    for (pointer, value) in [
        ("/spec/paused", json!(true)),
        ("/metadata/generation", json!(3)),
        ("/metadata/uid", json!("v")),
        ("/metadata/creationTimestamp", json!("2026-01-10T00:00:01Z")),
        ("/metadata/annotations", json!({"multinic.example.com/force-reconcile": "2"})),
        ("/metadata/annotations", json!({"multinic.example.com/approve": "2"})),
    ] {
        assert_ne!(base, valid(&with(pointer, value)).revision, "{pointer}");
    }
    let defaults = Defaults { change_policy: ChangePolicy::Observe, ..Defaults::default() };
    let Declared::Valid(other) = declare_with(&object(), &defaults) else { panic!("invalid") };
    assert_ne!(base, other.revision);
}

#[test]
fn problems_are_told_in_the_order_of_the_fields() {
    let object = json!({
        "metadata": {"name": "a", "uid": "u", "generation": 1, "creationTimestamp": "2026-01-10T00:00:00Z"},
        "spec": {
            "secrets": {"contrabassEncryptKeySecretRef": {"name": "UPPER", "key": "k"}},
            "settings": {"resyncInterval": "1ms", "pollFastInterval": "soon", "contrabassEndpoint": "no"},
            "credentials": {"projectID": "a b", "k8sProviderID": "k"},
            "paused": "yes",
            "vmNames": [],
        },
    });
    let message = invalid(&object).message;
    let fields: Vec<_> = message.split("; ").map(|part| part.split(':').next().unwrap()).collect();
    let expect = [
        "spec.subnetIDs",
        "spec.vmNames",
        "spec.paused",
        "spec.credentials.openstackProviderID",
        "spec.credentials.projectID",
        "spec.settings.contrabassEndpoint",
        "spec.settings.violaEndpoint",
        "spec.settings.pollFastInterval",
        "spec.settings.resyncInterval",
        "spec.secrets.contrabassEncryptKeySecretRef.name",
    ];
    assert_eq!(fields, expect, "{message}");
}
