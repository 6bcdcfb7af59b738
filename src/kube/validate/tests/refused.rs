//! What is refused, and how it is told.

use multinic_actors::domain::reason::Reason;
use secrecy::ExposeSecret;

use super::*;

#[test]
fn a_missing_field_is_told_by_name() {
    for (pointer, expect) in [
        ("/spec/vmNames", "spec.vmNames: must list the UUID of at least one VM"),
        ("/spec/credentials/openstackProviderID", "spec.credentials.openstackProviderID: is required"),
        ("/spec/credentials/k8sProviderID", "spec.credentials.k8sProviderID: is required"),
        ("/spec/credentials/projectID", "spec.credentials.projectID: is required"),
        (
            "/spec/settings/contrabassEndpoint",
            "spec.settings.contrabassEndpoint: is required: the base URL of the Contrabass API",
        ),
        (
            "/spec/settings/violaEndpoint",
            "spec.settings.violaEndpoint: is required, as the operator has no VIOLA_ENDPOINT either",
        ),
    ] {
        for object in [without(pointer), with(pointer, json!(null))] {
            let found = invalid(&object);
            assert_eq!((found.reason, found.message.as_str()), (Reason::ConfigError, expect));
        }
    }
}

#[test]
fn no_subnet_alone_is_subnet_required_and_with_other_problems_a_config_error() {
    let mut object = without("/spec/subnetIDs");
    let found = invalid(&object);
    assert_eq!(found.reason, Reason::SubnetRequired);
    assert_eq!(found.message, "spec.subnetIDs: must name at least one subnet (or subnetID, or subnetName)");
    object["spec"]["vmNames"] = json!([]);
    let found = invalid(&object);
    assert_eq!(found.reason, Reason::ConfigError);
    assert!(found.message.contains("spec.vmNames: ") && found.message.contains("spec.subnetIDs: "));
}

#[test]
fn all_problems_stand_in_one_message() {
    let mut object = object();
    object["spec"]["vmNames"] = json!(["a/b", 7]);
    object["spec"]["settings"]["pollFastInterval"] = json!("soon");
    object["spec"]["settings"]["violaEndpoint"] = json!("viola");
    object["metadata"]["annotations"] = json!([]);
    let message = invalid(&object).message;
    for field in [
        "metadata.annotations: ",
        "spec.vmNames[0]: ",
        "spec.vmNames[1]: must be text, not a number (put it in quotes)",
        "spec.settings.pollFastInterval: must be a duration such as 30s",
        "spec.settings.violaEndpoint: must be a URL",
    ] {
        assert!(message.contains(field), "{field} is not in {message}");
    }
}

#[test]
fn a_long_list_of_bad_entries_is_cut() {
    let bad: Vec<String> = (0..100).map(|n| format!("a/{n}")).collect();
    let message = invalid(&with("/spec/vmNames", json!(bad))).message;
    assert!(message.ends_with("spec.vmNames: 95 more entries are wrong"), "{message}");
}

/// Each property of the schema below `at`, with its JSON pointer and type.
fn properties(at: &str, schema: &Value, all: &mut Vec<(String, String)>) {
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let pointer = format!("{at}/{name}");
        all.push((pointer.clone(), inner["type"].as_str().unwrap().to_owned()));
        properties(&pointer, inner, all);
    }
}

#[test]
fn each_field_of_the_schema_is_read_and_a_wrong_type_is_told_without_the_value() {
    let crd = serde_json::to_value(crate::kube::crd::definition()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut all = Vec::new();
    properties("/spec", spec, &mut all);
    assert!(all.len() > 40, "{all:?}");
    for (pointer, expected) in all {
        let mut object = object();
        object["spec"]["settings"]["caBundleSecretRef"] = json!({"name": "n", "key": "k"});
        object["spec"]["secrets"]["contrabassEncryptKeySecretRef"] = json!({"name": "n", "key": "k"});
        object["spec"]["delivery"] =
            json!({"mode": "Verify", "kubeconfigSecretRef": {"name": "n", "key": "k"}});
        if pointer.ends_with("/subnetID") || pointer.ends_with("/subnetName") {
            // They are not looked at while there are subnetIDs.
            object["spec"]["subnetIDs"] = json!([]);
        }
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let wrong = if expected == "string" { json!(4711) } else { json!("4711") };
        object.pointer_mut(parent).unwrap()[key] = wrong;
        let message = invalid(&object).message;
        let field = pointer.trim_start_matches('/').replace('/', ".");
        assert!(message.contains(&format!("{field}: must be ")), "{field} is not in {message}");
        assert!(!message.contains("4711"), "{message}");
    }
}

#[test]
fn bad_values_are_refused() {
    let check = |pointer: &str, values: &[Value]| {
        for value in values {
            let found = invalid(&with(pointer, value.clone()));
            let field = pointer.trim_start_matches('/').replace('/', ".");
            assert_eq!(found.reason, Reason::ConfigError, "{pointer} {value}");
            assert!(found.message.starts_with(&field), "{pointer} {value}: {}", found.message);
        }
    };
    let ids =
        [json!(["a/b"]), json!(["a?b"]), json!(["a b"]), json!(["a#b"]), json!([".."]), json!(["a\nb"])];
    check("/spec/vmNames", &ids);
    check("/spec/vmNames", &[json!([]), json!([""]), json!([null]), json!(["x".repeat(256)])]);
    check("/spec/subnetIDs", &ids);
    check("/spec/paused", &[json!("yes"), json!(1)]);
    check("/spec/credentials/openstackProviderID", &[json!(""), json!(" "), json!(".."), json!("a\nb")]);
    check("/spec/credentials/k8sProviderID", &[json!(""), json!("한국"), json!("a\r\nb")]);
    check("/spec/credentials/projectID", &[json!(""), json!("a/b"), json!("a b")]);
    let urls = [
        json!("viola"),
        json!("ftp://viola"),
        json!("http://user@viola"),
        json!("http://u:p@viola"),
        json!("http://viola?x=1"),
        json!("http://"),
    ];
    for name in ["contrabassEndpoint", "violaEndpoint", "openstackNeutronEndpoint", "openstackNovaEndpoint"] {
        check(&format!("/spec/settings/{name}"), &urls);
    }
    for name in [
        "contrabassTimeout",
        "openstackTimeout",
        "pollFastInterval",
        "pollSlowInterval",
        "pollErrorInterval",
        "pollFastWindow",
        "resyncInterval",
    ] {
        check(
            &format!("/spec/settings/{name}"),
            &[json!("10"), json!("-1s"), json!("1d"), json!("1ms"), json!("9000h"), json!("s")],
        );
    }
    check("/spec/settings/resyncInterval", &[json!("500ms")]);
    check("/spec/settings/openstackEndpointInterface", &[json!("private")]);
    check("/spec/settings/openstackEndpointRegion", &[json!("a\u{0}b")]);
    check("/spec/settings/openstackNodeNameMetadataKey", &[json!("a\tb")]);
    check(
        "/spec/settings/openstackPortAllowedStatuses",
        &[json!(["ACTIVE,DOWN"]), json!(["A B"]), json!([1])],
    );
    check("/spec/settings/downPortFastRetryMax", &[json!("5"), json!(1.5)]);
    check("/spec/settings/interfaceOrder", &[json!("Name")]);
    check("/spec/settings/changePolicy", &[json!("Never")]);
    check("/spec/settings/includeExistingPorts", &[json!("true")]);
    check("/spec/settings/portsCreatedAfter", &[json!("yesterday"), json!("2026-13-01")]);
    check("/spec/settings/portProject", &[json!("Mine")]);
    check("/spec/settings/removalPolicy", &[json!("Delete")]);
    for pointer in ["/spec/settings/caBundleSecretRef", "/spec/secrets/contrabassEncryptKeySecretRef"] {
        check(
            pointer,
            &[
                json!({}),
                json!({"name": "n"}),
                json!({"key": "k"}),
                json!({"name": " ", "key": "k"}),
                json!({"name": "../n", "key": "k"}),
                json!({"name": "N", "key": "k"}),
                json!({"name": "n", "key": "a/b"}),
            ],
        );
    }
    check("/spec", &[json!(null), json!("x"), json!([])]);
}

#[test]
fn no_message_repeats_a_password_or_a_key() {
    for (pointer, value) in [
        ("/spec/settings/contrabassEncryptKey", json!(1234567890123456_u64)),
        ("/spec/settings/contrabassEncryptKey", json!(["1234567890123456"])),
        ("/spec/settings/violaEndpoint", json!("http://u:1234567890123456@viola")),
        ("/spec/settings/violaEndpoint", json!("u:1234567890123456@viola")),
    ] {
        let found = invalid(&with(pointer, value));
        assert!(!format!("{found:?}").contains("123456789"), "{found:?}");
    }
    let config = setting("contrabassEncryptKey", json!(" conbaEncrypt2025\n"));
    assert!(!format!("{config:?}").contains("conbaEncrypt"));
    let CredentialSource::Contrabass { key, .. } = &config.cloud.source;
    assert_eq!(key.inline.as_ref().unwrap().expose_secret(), "conbaEncrypt2025");
}

#[test]
fn a_feature_of_another_version_is_refused_by_name_and_alone() {
    for (pointer, field) in UNSUPPORTED {
        let mut object = object();
        for gone in ["vmNames", "secrets"] {
            object["spec"].as_object_mut().unwrap().remove(gone);
        }
        object["spec"]["settings"] = json!({});
        object["spec"]["credentials"] = json!({});
        let (parent, key) =
            format!("/spec{pointer}").rsplit_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        object.pointer_mut(&parent).unwrap()[key.as_str()] = json!({"name": "x"});
        let found = invalid(&object);
        assert_eq!(found.reason, Reason::ConfigError);
        assert_eq!(
            found.message,
            format!("{field}: is not supported by this version of the operator; remove it")
        );
    }
    valid(&with("/spec/clusterRef", json!(null)));
}

#[test]
fn a_bad_subnet_name_is_refused_where_it_is_used() {
    let mut object = with("/spec/subnetName", json!("a\u{7}"));
    valid(&object);
    object["spec"]["subnetIDs"] = json!([]);
    assert!(invalid(&object).message.starts_with("spec.subnetName: must not contain control"));
}
