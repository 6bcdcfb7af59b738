//! `--policy-file`: what a namespace may use, and that nothing is asked outside it.

use serde_json::json;

use crate::e2e_support::{GLANCE, Operator, PATIENCE};
use crate::world::{World, message, says};

/// A world whose operator has a policy of one rule, called `tests`, for the tests' namespace.
fn world(rule: &serde_json::Value) -> World {
    let mut world = World::new();
    let path = world.operator.dir().join("the-policy");
    let operator = std::mem::replace(&mut world.operator, Operator::new());
    world.operator = operator.flag(&format!("--policy-file={}", path.display()));
    write(&world, rule);
    world
}

fn write(world: &World, rule: &serde_json::Value) {
    let mut rule = rule.clone();
    rule["name"] = json!("tests");
    rule["namespaces"] = json!(["te*"]);
    world.operator.write("the-policy", &json!({"rules": [rule]}).to_string());
}

fn host(url: &str) -> String {
    let rest = url.split_once("://").unwrap().1;
    rest.split('/').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_within_the_policy_is_delivered_and_one_outside_is_told_why() {
    let mut world = world(&json!({"k8sProviderIDs": ["biz*"], "endpoints": ["127.0.0.1"]}));
    let mut outside = world.spec("outside", &world.vms(1));
    outside.k8s_provider = "else".to_owned();
    let within = world.spec("within", &[world.vm("node-w")]);
    world.operator.declare(&outside);
    world.run(&within).await;
    let config = world.operator.until_reason("outside", &["ConfigError"]).await;
    let field = "spec.credentials.k8sProviderID: \"else\" is not allowed by rule \"tests\" of the policy";
    says(&message(&config), &[field]);
    assert_eq!(world.viola.nodes("else").len(), 0);
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_from_an_answer_is_not_asked_either_until_a_new_policy_lets_it() {
    let contrabass_only =
        |world: &World| json!({"endpoints": [host(&world.cloud.contrabass_url()), host(&world.viola.url())]});
    let mut world = world(&json!({}));
    write(&world, &contrabass_only(&world));
    let spec = world.spec("a", &world.vms(1));
    world.operator.declare(&spec);
    world.operator.start().await;
    let config = world.operator.until_reason("a", &["ConfigError"]).await;
    says(
        &message(&config),
        &["keystone: log in: not asked: rule \"tests\" of the policy does not let namespace"],
    );
    let [contrabass, keystone, nova, neutron] = world.requests();
    assert!(contrabass > 0, "Contrabass names the Keystone");
    assert_eq!([keystone, nova, neutron], [0; 3]);

    // The catalog names the others.
    let mut rule = contrabass_only(&world);
    let keystone = json!(host(&world.cloud.keystone_url()));
    rule["endpoints"].as_array_mut().unwrap().push(keystone);
    write(&world, &rule);
    let is_next = |config: &serde_json::Value| message(config).contains("neutron: ");
    let config = world.operator.until_config("a", "Neutron is next", is_next).await;
    assert_eq!(config["reason"], "ConfigError");
    says(
        &message(&config),
        &["not asked: rule \"tests\" of the policy does not let namespace \"test\" reach"],
    );
    assert_eq!(world.requests()[3], 0);

    world.operator.write("the-policy", "rules: nonsense");
    let deadline = std::time::Instant::now() + PATIENCE;
    let is_reported = |checks: &serde_json::Value| {
        checks.as_array().into_iter().flatten().any(|check| check["name"] == "policy" && check["ok"] == false)
    };
    loop {
        let (status, readiness) = world.operator.readiness().await;
        assert_eq!(status, 200, "the last good one goes on: {readiness}");
        if is_reported(&readiness["checks"]) {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{readiness}");
        tokio::time::sleep(GLANCE).await;
    }
    write(&world, &json!({}));
    world.until_delivered(&spec).await;
    world.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_cannot_be_read_ends_the_start() {
    let world = World::new();
    let flag = format!("--policy-file={}", world.operator.dir().join("none").display());
    let args = [world.operator.args(), vec![flag.clone()]].concat();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = crate::process::run(&args).await;
    assert_eq!(output.status.code(), Some(1));
    let log = crate::process::stdout(&output) + &crate::process::stderr(&output);
    says(&log, &["cannot start", &flag.replace('=', " ")]);
}
