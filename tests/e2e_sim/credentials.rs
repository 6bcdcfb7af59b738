//! Keys, passwords, projects and providers that are wrong: said in words, tried a handful of times, noticed
//! when they are right.

use std::time::Duration;

use multinic_operator::sim::Service;
use serde_json::{Value, json};

use crate::e2e_support::{PROVIDER, Spec};
use crate::world::{PASSWORD, World, message, says};

const OTHER_KEY: &str = "other-encryptkey";

fn key_secret(name: &str, key: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\n  namespace: test\nstringData:\n  \
         CONTRABASS_ENCRYPT_KEY: \"{key}\"\n"
    )
}

/// Starts one config that cannot log in; its message.
async fn refused(world: &mut World, spec: &Spec, reason: &str) -> String {
    world.operator.declare(spec);
    world.operator.start().await;
    let config = world.operator.until_reason(&spec.name, &["Synced", "NoChange", reason]).await;
    assert_eq!((&config["reason"], &config["ready"]), (&json!(reason), &json!(false)), "{config:#}");
    assert_eq!(config["degraded"], "Error");
    assert_eq!(config["lastError"], config["message"]);
    message(&config)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_is_told_and_no_garbage_reaches_keystone() {
    let mut world = World::new();
    let spec = Spec { encrypt_key: OTHER_KEY.to_owned(), ..world.spec("a", &world.vms(1)) };
    let message = refused(&mut world, &spec, "ContrabassError").await;
    says(&message, &["contrabass", "adminPw", "encrypt key"]);
    assert!(!message.contains(OTHER_KEY), "{message}");
    assert_eq!(world.logins(), 0);
    world.operator.declare(&world.spec("a", &spec.vms));
    world.until_delivered(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_an_impossible_length_is_told() {
    let mut world = World::new();
    let spec = Spec { encrypt_key: "short".to_owned(), ..world.spec("a", &world.vms(1)) };
    let message = refused(&mut world, &spec, "ConfigError").await;
    says(&message, &["5 bytes", "16, 24 or 32"]);
    assert_eq!(world.logins(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_ciphertext_is_told() {
    for (sealed, words) in [("%%%", "base64"), ("AAAA", "3 bytes")] {
        let mut world = World::new();
        world.cloud.set_provider_attribute(PROVIDER, "adminPw", Some(json!(sealed)));
        let spec = world.spec("a", &world.vms(1));
        let message = refused(&mut world, &spec, "ContrabassError").await;
        says(&message, &["adminPw", words]);
        assert_eq!(world.logins(), 0);
        world.cloud.set_provider_password(PROVIDER, PASSWORD);
        world.until_delivered(&spec).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_key_all_three_places_are_named() {
    let mut world = World::new();
    let spec = Spec { encrypt_key: String::new(), ..world.spec("a", &world.vms(1)) };
    let message = refused(&mut world, &spec, "ConfigError").await;
    says(
        &message,
        &["contrabassEncryptKeySecretRef", "contrabass-encrypt-key", "settings.contrabassEncryptKey"],
    );
    assert_eq!(world.requests(), [0; 4]);
    world.operator.write("key.yaml", &key_secret("contrabass-encrypt-key", crate::e2e_support::KEY));
    world.until_delivered(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_secret_must_be_there_and_a_mended_one_is_noticed() {
    let mut world = World::new();
    let reference =
        ["secrets:", "  contrabassEncryptKeySecretRef: {name: my-key, key: CONTRABASS_ENCRYPT_KEY}"];
    let spec = Spec { spec: reference.map(str::to_owned).to_vec(), ..world.spec("a", &world.vms(1)) };
    let message = refused(&mut world, &spec, "ConfigError").await;
    says(&message, &["my-key"]);
    world.operator.write("key.yaml", &key_secret("my-key", OTHER_KEY));
    world.operator.until_reason("a", &["ContrabassError"]).await;
    world.operator.write("key.yaml", &key_secret("my-key", crate::e2e_support::KEY));
    world.until_delivered(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_provider_is_told() {
    let mut world = World::new();
    let spec = Spec { provider: "no-such-provider".to_owned(), ..world.spec("a", &world.vms(1)) };
    let message = refused(&mut world, &spec, "ContrabassError").await;
    says(&message, &["contrabass: look up provider", "404", "no-such-provider"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contrabass_that_is_away_is_told_and_harms_nobody_who_is_logged_in() {
    let mut world = World::new();
    let spec = world.run_with(1).await;
    world.cloud.set_reachability(Service::Contrabass, multinic_operator::sim::Reachability::Refused);
    world.cloud.drop_connections(Service::Contrabass);
    world.operator.until_polled("a").await;
    let later = Spec { project: world.cloud.add_project("second"), ..world.spec("b", &spec.vms) };
    world.operator.declare(&later);
    let config = world.operator.until_reason("b", &["ContrabassError"]).await;
    says(&message(&config), &["contrabass: look up provider"]);
    assert_eq!(world.operator.until_polled("a").await["ready"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_costs_a_handful_of_logins_however_many_configs_share_it() {
    let mut world = World::new();
    world.cloud.set_provider_password(PROVIDER, "not-the-password");
    let vms = world.vms(10);
    let projects: Vec<_> = (0..4).map(|n| world.cloud.add_project(&format!("p{n}"))).collect();
    projects.iter().for_each(|project| world.cloud.grant(&world.user, project, "admin"));
    let specs: Vec<_> = vms
        .iter()
        .enumerate()
        .map(|(n, vm)| Spec {
            k8s_provider: format!("biz-{n}"),
            project: projects[n % projects.len()].clone(),
            ..world.spec(&format!("c{n}"), std::slice::from_ref(vm))
        })
        .collect();
    specs.iter().for_each(|spec| world.operator.declare(spec));
    world.operator.start().await;
    for spec in &specs {
        let config = world.operator.until_reason(&spec.name, &["KeystoneError"]).await;
        says(&message(&config), &["keystone: log in: 401"]);
        assert!(!config.to_string().contains("not-the-password"), "{config}");
    }
    for _ in 0..3 {
        world.operator.until_tried("c9").await;
    }
    assert!((1..=5).contains(&world.logins()), "{} logins", world.logins());
    let config = world.operator.config("c9").await;
    says(&message(&config), &["\"admin\"", "no further attempt"]);

    world.cloud.set_provider_password(PROVIDER, PASSWORD);
    for spec in &specs {
        world.operator.until_reason(&spec.name, &["Synced", "NoChange"]).await;
    }
    assert!(world.logins() <= 5 + 4, "{} logins: one for each project", world.logins());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_project_is_told() {
    let mut world = World::new();
    let spec =
        Spec { project: "0123456789abcdef0123456789abcdef".to_owned(), ..world.spec("a", &world.vms(1)) };
    let message = refused(&mut world, &spec, "KeystoneError").await;
    says(&message, &["keystone: log in", "401"]);
    for _ in 0..6 {
        world.operator.until_tried("a").await;
    }
    assert!(world.logins() <= 5, "{} logins", world.logins());
    let good = world.spec("b", &spec.vms);
    world.operator.declare(&good);
    world.until_delivered(&good).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_renewed_before_they_end() {
    let mut world = World::new();
    world.cloud.set_token_ttl(Duration::from_secs(3));
    world.operator.declare(&world.spec("a", &world.vms(1)));
    world.operator.start().await;
    while world.logins() < 4 {
        let config = world.operator.until_tried("a").await;
        assert_eq!(config["lastError"], Value::Null, "{config:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_whose_clock_is_a_day_off_is_no_reason_to_log_in_again() {
    for hours in [-24, 24] {
        let mut world = World::new();
        world.cloud.set_clock_offset(jiff::SignedDuration::from_hours(hours));
        world.operator.declare(&world.spec("a", &world.vms(1)));
        world.operator.start().await;
        for _ in 0..4 {
            world.operator.until_polled("a").await;
        }
        assert_eq!(world.logins(), 1, "{hours} hours");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_is_looked_up_at_the_next_login() {
    let mut world = World::new();
    let spec = world.run_with(1).await;
    // The old password is dead and so are its tokens; Contrabass knows.
    world.cloud.set_password(&world.user, "the-new-password");
    world.cloud.set_provider_password(PROVIDER, "the-new-password");
    world.port(&spec.vms[0], 1);
    world.until_delivered(&spec).await;
    assert_eq!(world.logins(), 2);
}
