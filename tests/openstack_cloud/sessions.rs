use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use multinic_actors::boundary::Cloud;
use multinic_actors::domain::config::{Config, CredentialSource, EndpointInterface, SecretKeyRef};
use multinic_actors::domain::ids::ProjectId;
use multinic_actors::domain::reason::Reason;
use multinic_operator::openstack::{OpenstackCloud, OpenstackSettings};
use serde_json::json;

use super::bench::{Bench, config, with_inline_key};
use super::fake::{Fake, Fault, KEY, PASSWORD, PROJECT};

fn in_project(mut config: Config, project: &str) -> Config {
    config.cloud.project = ProjectId::from(project);
    config
}

#[tokio::test]
async fn many_configs_of_one_source_cost_one_look_up_and_one_login() {
    let bench = Bench::start().await;
    let configs: Vec<Config> = (0..20).map(|i| bench.config(&format!("c{i}"), &[])).collect();
    for session in join_all(configs.iter().map(|config| bench.session(config))).await {
        session.unwrap();
    }
    assert_eq!((bench.fake.count("look up provider"), bench.fake.count("log in")), (1, 1));
    bench.session(&configs[0]).await.unwrap();
    assert_eq!(bench.fake.clear_log(), 2);
}

#[tokio::test]
async fn sources_that_lead_to_one_account_and_project_share_the_login() {
    let bench = Bench::start().await;
    let one = bench.config("one", &[]);
    let mut two = bench.config("two", &[]);
    let CredentialSource::Contrabass { provider_id, .. } = &mut two.cloud.source;
    *provider_id = "provider-2".to_owned();
    bench.session(&one).await.unwrap();
    bench.session(&two).await.unwrap();
    assert_eq!((bench.fake.count("look up provider"), bench.fake.count("log in")), (2, 1));
}

#[tokio::test]
async fn two_projects_of_one_provider_share_the_look_up_only() {
    let bench = Bench::start().await;
    bench.session(&bench.config("one", &[])).await.unwrap();
    bench.session(&in_project(bench.config("two", &[]), "p2")).await.unwrap();
    assert_eq!((bench.fake.count("look up provider"), bench.fake.count("log in")), (1, 2));
}

#[tokio::test]
async fn a_session_past_half_of_its_life_is_renewed_with_a_new_look_up() {
    let bench = Bench::start().await;
    bench.fake.world().token_life_seconds = 1;
    let config = Arc::new(bench.config("c", &[]));
    let session = bench.cloud.session(Arc::clone(&config), true).await.unwrap();
    tokio::time::sleep_until(session.renew_at.into()).await;
    let renewed = bench.cloud.session(config, true).await.unwrap();
    assert!(renewed.renew_at > session.renew_at);
    assert_eq!((bench.fake.count("look up provider"), bench.fake.count("log in")), (2, 2));
}

#[tokio::test]
async fn a_tokens_life_does_not_depend_on_our_clock() {
    // The fake's tokens are from 2001.
    let bench = Bench::start().await;
    let session = bench.session(&bench.config("c", &[])).await.unwrap();
    let half = session.renew_at.duration_since(std::time::Instant::now());
    assert!(half > Duration::from_secs(1700) && half <= Duration::from_secs(1800), "{half:?}");
}

#[tokio::test]
async fn keystone_is_found_with_and_without_version_or_slash() {
    for end in ["", "/", "/v3", "/v3/"] {
        let bench = Bench::start().await;
        let url = format!("http://{}/identity{end}", bench.fake.addr);
        bench.fake.world().keystone_url = url;
        bench.session(&bench.config("c", &[])).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_no_keystone_is_told_with_its_address() {
    let bench = Bench::start().await;
    let url = format!("http://{}/dashboard", bench.fake.addr);
    bench.fake.world().keystone_url = url.clone();
    let error = bench.session(&bench.config("c", &[])).await.unwrap_err();
    assert_eq!(error.reason, Reason::KeystoneError);
    assert_eq!(error.message, format!("keystone: log in: 404 Not Found: there is no Keystone v3 at {url}"));
}

#[tokio::test]
async fn a_wrong_password_costs_a_handful_of_logins_however_many_configs_there_are() {
    let bench = Bench::start().await;
    bench.fake.world().password = "changed!".to_owned();
    let configs: Vec<Config> =
        (0..12).map(|i| in_project(bench.config(&format!("c{i}"), &[]), &format!("p{}", i % 6))).collect();
    for _ in 0..3 {
        for session in join_all(configs.iter().map(|config| bench.session(config))).await {
            let error = session.unwrap_err();
            assert_eq!(error.reason, Reason::KeystoneError);
            assert!(error.message.starts_with("keystone: log in: 401 Unauthorized"), "{error}");
            assert!(!error.message.contains(PASSWORD), "{error}");
        }
    }
    assert_eq!(bench.fake.count("log in"), 4);
    // Contrabass learns of the change: the look-up before the next try finds it.
    bench.fake.world().contrabass_password = "changed!".to_owned();
    for session in join_all(configs.iter().map(|config| bench.session(config))).await {
        session.unwrap();
    }
}

#[tokio::test]
async fn a_wrong_encrypt_key_never_reaches_keystone() {
    let bench = Bench::start().await;
    let error =
        bench.session(&with_inline_key(bench.config("c", &[]), "anotherEncrypt25")).await.unwrap_err();
    assert_eq!(error.reason, Reason::ContrabassError);
    assert!(error.message.contains("encrypt key"), "{error}");
    let error = bench.session(&with_inline_key(bench.config("d", &[]), "short")).await.unwrap_err();
    assert_eq!(error.reason, Reason::ConfigError);
    assert_eq!(bench.fake.count("log in"), 0);
}

#[tokio::test]
async fn a_corrected_secret_is_read_at_the_next_try() {
    let bench = Bench::start().await;
    let mut config = bench.config("c", &[]);
    let CredentialSource::Contrabass { key, .. } = &mut config.cloud.source;
    key.secret = Some(SecretKeyRef { name: "key".to_owned(), key: "k".to_owned() });
    let error = bench.session(&config).await.unwrap_err();
    assert_eq!(error.reason, Reason::ConfigError);
    bench.secrets.set("ns", "key", "k", "anotherEncrypt25");
    assert_eq!(bench.session(&config).await.unwrap_err().reason, Reason::ContrabassError);
    bench.secrets.set("ns", "key", "k", &format!(" {KEY}\n"));
    bench.session(&config).await.unwrap();
}

#[tokio::test]
async fn a_bundle_without_a_certificate_is_a_config_error() {
    let bench = Bench::start().await;
    let mut config = bench.config("c", &[]);
    config.cloud.ca_bundle = Some(SecretKeyRef { name: "ca".to_owned(), key: "ca.crt".to_owned() });
    bench.secrets.set("ns", "ca", "ca.crt", "nonsense");
    let error = bench.session(&config).await.unwrap_err();
    assert_eq!(error.reason, Reason::ConfigError);
    assert!(error.message.starts_with("settings.caBundleSecretRef: "), "{error}");
}

#[tokio::test]
async fn a_provider_that_does_not_exist_is_told() {
    let bench = Bench::start().await;
    bench.fake.fault("look up provider", [Fault::Status(404, r#"{"message": "not found"}"#)]);
    let error = bench.session(&bench.config("c", &[])).await.unwrap_err();
    assert_eq!(error.reason, Reason::ContrabassError);
    assert_eq!(
        error.message,
        r#"contrabass: look up provider: 404 Not Found "not found": is there a provider "provider-1"?"#
    );
}

#[tokio::test]
async fn a_token_for_no_or_another_project_is_an_error() {
    for project in [json!(null), json!({"id": "another"})] {
        let bench = Bench::start().await;
        bench.fake.world().token_extra = json!({"project": project});
        let error = bench.session(&bench.config("c", &[])).await.unwrap_err();
        assert_eq!(error.reason, Reason::KeystoneError);
        assert!(error.message.contains(PROJECT), "{error}");
    }
}

#[tokio::test]
async fn a_401_in_the_middle_renews_once_and_repeats_the_call() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(40);
    let configs: Vec<Config> = (0..5).map(|i| bench.config(&format!("c{i}"), &vms)).collect();
    bench.poll(&configs[0]).await.unwrap();
    bench.fake.clear_log();
    bench.fake.revoke();
    for observation in join_all(configs.iter().map(|config| bench.poll(config))).await {
        assert_eq!(observation.unwrap().ports.len(), 40);
    }
    assert_eq!((bench.fake.count("log in"), bench.fake.count("look up provider")), (1, 1));
}

#[tokio::test]
async fn a_401_for_the_very_first_token_is_repeated_too() {
    let bench = Bench::start().await;
    let config = bench.config("c", &bench.fake.vms(1));
    let session = bench.session(&config).await.unwrap();
    bench.fake.revoke();
    bench.look(session, &config, false).await.unwrap();
    assert_eq!(bench.fake.count("log in"), 2);
}

#[tokio::test]
async fn a_service_that_refuses_every_token_does_not_cost_a_login_at_every_poll() {
    let bench = Bench::start().await;
    let config = bench.config("c", &bench.fake.vms(1));
    bench.poll(&config).await.unwrap();
    bench.fake.world().refusing.insert("neutron");
    for _ in 0..5 {
        let error = bench.poll(&config).await.unwrap_err();
        assert_eq!(error.reason, Reason::NeutronPortError);
        assert_eq!(
            error.message,
            r#"neutron: list ports: 401 Unauthorized "The request you have made requires authentication.""#
        );
        assert_eq!(error.request_id.as_deref(), Some("req-fake"));
    }
    assert_eq!(bench.fake.count("log in"), 2);
    bench.fake.world().refusing.clear();
    bench.poll(&config).await.unwrap();
    assert_eq!(bench.fake.count("log in"), 2);
}

#[tokio::test]
async fn a_changed_password_is_picked_up_behind_the_handle() {
    let bench = Bench::start().await;
    let config = bench.config("c", &bench.fake.vms(1));
    let session = bench.session(&config).await.unwrap();
    bench.look(session.clone(), &config, false).await.unwrap();
    {
        let mut world = bench.fake.world();
        world.password = "changed!".to_owned();
        world.contrabass_password = "changed!".to_owned();
    }
    bench.fake.revoke();
    bench.fake.clear_log();
    bench.look(session.clone(), &config, false).await.unwrap();
    assert_eq!(bench.fake.count("log in"), 1);
    // What was read before is still known.
    assert_eq!(bench.fake.count("get subnet") + bench.fake.count("get server"), 0);
    bench.look(session, &config, false).await.unwrap();
    assert_eq!(bench.fake.count("log in"), 1);
}

#[tokio::test]
async fn an_endpoint_is_chosen_as_the_config_says() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(1);
    let mut config = bench.config("c", &vms);
    config.cloud.region = Some("RegionTwo".to_owned());
    let error = bench.poll(&config).await.unwrap_err();
    assert_eq!(error.reason, Reason::NeutronEndpointError);
    assert_eq!(
        error.message,
        "neutron: the catalog has no network endpoint in region RegionTwo; it has public in RegionOne"
    );
    config.cloud.neutron_endpoint = Some(format!("http://{}/network/v2.0/", bench.fake.addr));
    assert_eq!(bench.poll(&config).await.unwrap_err().reason, Reason::NovaError);
    config.cloud.nova_endpoint = Some(format!("http://{}/compute/", bench.fake.addr));
    bench.poll(&config).await.unwrap();
    config.cloud.interface = Some(EndpointInterface::Internal);
    bench.poll(&config).await.unwrap();
}

#[tokio::test]
async fn a_long_retry_after_is_reported_and_honoured() {
    let bench = Bench::start().await;
    let (one, two) = (bench.config("one", &bench.fake.vms(1)), bench.config("two", &[]));
    bench.poll(&one).await.unwrap();
    bench.fake.fault("list ports", [Fault::RetryAfter(429, 120)]);
    let error = bench.poll(&one).await.unwrap_err();
    assert_eq!(error.message, r#"neutron: list ports: 429 Too Many Requests "later""#);
    assert_eq!(error.retry_after, Some(Duration::from_secs(120)));
    bench.fake.clear_log();
    let mut two = two;
    two.vms = one.vms.clone();
    let error = bench.poll(&two).await.unwrap_err();
    assert_eq!(error.reason, Reason::NeutronPortError);
    assert!(error.retry_after.unwrap() > Duration::from_secs(60));
    assert_eq!(bench.fake.count("list ports"), 0);
}

#[tokio::test]
async fn a_hanging_cloud_does_not_hold_up_another() {
    let bench = Bench::with(OpenstackSettings {
        limits: multinic_operator::upstream::CloudLimits { max_in_flight: 1, ..Default::default() },
        ..Default::default()
    })
    .await;
    let other = Fake::start().await;
    let hanging = bench.config("hanging", &bench.fake.vms(1));
    let fine = config(&other, "fine", &other.vms(1));
    bench.fake.break_down("list ports", Fault::Hang);
    let polls = join_all((0..5).map(|_| bench.poll(&hanging)));
    tokio::select! {
        _ = polls => panic!("it should hang"),
        observation = bench.poll(&fine) => assert_eq!(observation.unwrap().ports.len(), 1),
    }
}

#[tokio::test]
async fn a_keystone_that_hangs_costs_all_its_configs_one_deadline() {
    let bench = Bench::start().await;
    bench.fake.break_down("log in", Fault::Hang);
    let configs = (0..20).map(|i| {
        let mut config = bench.config(&format!("c{i}"), &[]);
        config.cloud.timeout = Duration::from_millis(300);
        config
    });
    let configs: Vec<Config> = configs.collect();
    for session in join_all(configs.iter().map(|config| bench.session(config))).await {
        assert_eq!(session.unwrap_err().message, "keystone: log in: no answer within 300ms");
    }
    assert_eq!(bench.fake.count("log in"), 1);
}

#[test]
fn an_operator_wide_bundle_without_a_certificate_is_refused() {
    let settings = OpenstackSettings { ca_bundle: Some("nonsense".to_owned()), ..Default::default() };
    assert!(OpenstackCloud::new(settings, Arc::new(super::bench::Secrets::default())).is_err());
}
