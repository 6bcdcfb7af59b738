//! The inventory file: of the previous operator, damaged, from the future, unwritable.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::e2e_support::{Spec, until};
use crate::world::{BIZ, DATA, STORAGE, World, says, text};

/// A world whose one config was delivered; the operator is stopped.
async fn stopped() -> (World, Spec) {
    let mut world = World::new();
    let spec = world.run_with(3).await;
    world.operator.stop().await;
    world.viola.forget_posts();
    (world, spec)
}

fn file(world: &World) -> Value {
    serde_json::from_str(&std::fs::read_to_string(world.operator.inventory_file()).unwrap()).unwrap()
}

fn companions(world: &World) -> Vec<String> {
    let folder = world.operator.inventory_file().parent().unwrap().to_owned();
    let names = std::fs::read_dir(folder).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

async fn inventory_check(world: &World) -> (u16, Value) {
    let (status, health) = world.operator.readiness().await;
    let checks = health["checks"].as_array().unwrap();
    (status, checks.iter().find(|check| check["name"] == "inventory").unwrap().clone())
}

/// The records as the previous operator wrote them: no owner, no `id` for the first, its own hash.
fn as_previous_operator(ours: &Value) -> Value {
    let mut records = ours["records"].clone();
    for record in records.as_array_mut().unwrap() {
        let record = record.as_object_mut().unwrap();
        record.remove("owner");
        record.insert("lastConfigHash".to_owned(), json!("00112233aabbccdd"));
        for interface in record["config"]["interfaces"].as_array_mut().unwrap() {
            let interface = interface.as_object_mut().unwrap();
            if interface["id"] == 0 {
                interface.remove("id");
            }
            let mac = text(&interface["macAddress"]).to_uppercase();
            interface.insert("macAddress".to_owned(), json!(mac));
        }
    }
    json!({ "records": records })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_the_previous_operator_counts_as_delivered() {
    let (mut world, spec) = stopped().await;
    let theirs = as_previous_operator(&file(&world));
    std::fs::write(world.operator.inventory_file(), theirs.to_string()).unwrap();
    world.operator.start().await;
    world.operator.until_polled("a").await;
    let config = world.operator.until_polled("a").await;
    assert_eq!(config["nodes"], json!({"desired": 3, "delivered": 3, "skipped": 0}));
    assert_eq!(world.viola.posts(), []);
    let (status, providers) = world.operator.get("/v1/interfaces/providers").await;
    assert_eq!((status, &providers["providers"][0]["nodeCount"]), (200, &json!(3)));
    world.port(&spec.vms[0], 1);
    world.until_delivered(&spec).await;
    assert_eq!(world.sent().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn indices_that_the_previous_operator_gave_are_taken_over() {
    let mut world = World::new();
    let vm = world.bare_vm("node-0");
    for mac in ["fa:16:3e:00:00:01", "fa:16:3e:00:00:02"] {
        world.cloud.add_port(world.port_spec(&vm, 0).mac(mac));
    }
    let spec = world.spec("a", &[vm]);
    world.run(&spec).await;
    world.operator.stop().await;
    world.viola.forget_posts();
    // Theirs had the second before the first.
    let mut theirs = as_previous_operator(&file(&world));
    let interfaces = theirs["records"][0]["config"]["interfaces"].as_array_mut().unwrap();
    interfaces.reverse();
    interfaces[0]["name"] = json!("multinic0");
    interfaces[0].as_object_mut().unwrap().remove("id");
    interfaces[1]["name"] = json!("multinic1");
    interfaces[1]["id"] = json!(1);
    std::fs::write(world.operator.inventory_file(), theirs.to_string()).unwrap();
    world.operator.start().await;
    world.operator.until_polled("a").await;
    assert_eq!(world.viola.posts(), [], "nothing is renamed");
    world.cloud.add_port(world.port_spec(&spec.vms[0], 0).mac("fa:16:3e:00:00:00"));
    let has_three = || world.nic_count("node-0") == 3;
    crate::e2e_support::until("the third is there", has_three, String::new).await;
    let names = world.node_names("node-0");
    let of = |mac: &str| names.get(mac).map(String::as_str);
    assert_eq!(of("fa:16:3e:00:00:02"), Some("multinic0"));
    assert_eq!(of("fa:16:3e:00:00:01"), Some("multinic1"));
    assert_eq!(of("fa:16:3e:00:00:00"), Some("multinic2"));
}

/// Puts `text` in place of the inventory; the operator starts, says so, and keeps what stood there.
async fn damaged(text_of: impl Fn(&str) -> String, words: &[&str]) -> World {
    let (mut world, spec) = stopped().await;
    let whole = std::fs::read_to_string(world.operator.inventory_file()).unwrap();
    std::fs::write(world.operator.inventory_file(), text_of(&whole)).unwrap();
    world.operator.start().await;
    world.until_delivered(&spec).await;
    let (status, check) = inventory_check(&world).await;
    assert_eq!(status, 200, "{check}");
    says(&text(&check["message"]), &[&["inventory.json", "damaged", "kept as"], words].concat());
    let aside: Vec<_> = companions(&world).into_iter().filter(|name| name.contains(".damaged-")).collect();
    assert_eq!(aside.len(), 1, "{:?}", companions(&world));
    let kept: PathBuf = world.operator.inventory_file().with_file_name(&aside[0]);
    assert_eq!(std::fs::read_to_string(kept).unwrap(), text_of(&whole));
    assert_eq!(file(&world)["records"].as_array().map(Vec::len), Some(3), "and a whole one is there again");
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_file_is_set_aside_and_the_previous_generation_used() {
    damaged(|whole| whole[..whole.len() / 2].to_owned(), &["not whole JSON", "previous generation"]).await;
}

/// An object without a creation time has the first sight of it as its baseline, and that must not move.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_file_does_not_move_the_first_sight_of_an_object() {
    let mut world = World::new();
    let spec = world.spec("a", &[world.bare_vm("node-0")]);
    let undated = spec.yaml().replace(&format!("  creationTimestamp: \"{}\"\n", spec.created), "");
    assert_ne!(undated, spec.yaml());
    world.operator.write("a.yaml", &undated);
    world.operator.start().await;
    world.operator.until_polled("a").await;
    // Each is a generation of the file of its own.
    for subnet in [DATA, STORAGE] {
        world.port(&spec.vms[0], subnet);
        world.until_delivered(&spec).await;
    }
    world.operator.stop().await;
    world.viola.forget_posts();
    let first_seen = file(&world)["configs"][0]["firstSeen"].clone();
    assert!(first_seen.is_string(), "{:#}", file(&world));
    let whole = std::fs::read_to_string(world.operator.inventory_file()).unwrap();
    // The first sight is remembered to the second: now it would be another one.
    let second = std::time::SystemTime::now() + std::time::Duration::from_millis(1100);
    until("the second is over", || std::time::SystemTime::now() > second, String::new).await;
    std::fs::write(world.operator.inventory_file(), &whole[..whole.len() / 2]).unwrap();
    world.operator.start().await;
    world.until_delivered(&spec).await;
    world.port(&spec.vms[0], DATA);
    world.until_delivered(&spec).await;
    assert_eq!(file(&world)["configs"][0]["firstSeen"], first_seen);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_an_object_was_first_seen_survives_a_torn_file() {
    let mut world = World::new();
    let vm = world.bare_vm("node-0");
    let spec = world.spec("a", std::slice::from_ref(&vm));
    let created = format!("  creationTimestamp: \"{}\"\n", spec.created);
    assert!(spec.yaml().contains(&created));
    let yaml = spec.yaml().replace(&created, "");
    world.operator.write("a.yaml", &yaml);
    world.operator.start().await;
    world.operator.until_polled("a").await;
    world.operator.stop().await;
    let first_seen = text(&file(&world)["configs"][0]["firstSeen"]);
    // Something else to remember, so that the previous generation knows the object too.
    world.operator.write("a.yaml", &yaml.replace("settings:\n", "settings:\n    removalPolicy: Prune\n"));
    world.operator.start().await;
    world.operator.until_polled("a").await;
    world.operator.stop().await;
    let whole = std::fs::read_to_string(world.operator.inventory_file()).unwrap();
    std::fs::write(world.operator.inventory_file(), &whole[..whole.len() / 2]).unwrap();
    // A port from then: seen first now, the object would leave it out.
    world.cloud.add_port(world.port_spec(&vm, 0).created_at(&first_seen));
    let second = first_seen.parse::<jiff::Timestamp>().unwrap().as_second();
    let is_later = || jiff::Timestamp::now().as_second() > second;
    crate::e2e_support::until("a second has passed", is_later, String::new).await;
    world.operator.start().await;
    world.until_delivered(&spec).await;
    assert_eq!(world.nic_count("node-0"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_file_is_set_aside() {
    damaged(|_| String::new(), &["it is empty"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_file_is_set_aside() {
    damaged(|_| "{\"kind\": \"Deployment\"}".to_owned(), &["no inventory"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_newer_version_is_left_alone_and_nothing_is_sent() {
    let (mut world, _) = stopped().await;
    let whole = std::fs::read_to_string(world.operator.inventory_file()).unwrap();
    let newer = whole.replacen("\"version\":1", "\"version\":7", 1);
    assert_ne!(newer, whole);
    std::fs::write(world.operator.inventory_file(), &newer).unwrap();
    world.operator.start().await;
    let deadline = std::time::Instant::now() + crate::e2e_support::PATIENCE;
    let (status, check) = loop {
        let (status, check) = inventory_check(&world).await;
        if text(&check["message"]).contains("version 7") {
            break (status, check);
        }
        assert!(std::time::Instant::now() < deadline, "{check}");
    };
    assert_eq!((status, &check["ok"]), (503, &json!(false)), "{check}");
    let (status, _) = world.operator.get("/v1/interfaces/providers").await;
    assert_eq!(status, 503);
    assert_eq!(world.viola.posts(), []);
    world.operator.stop().await;
    assert_eq!(std::fs::read_to_string(world.operator.inventory_file()).unwrap(), newer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_written_stops_no_delivery() {
    let mut world = World::new();
    // A file where the folder should be: also root cannot write below it.
    std::fs::write(world.operator.dir().join("inventory"), "in the way").unwrap();
    let spec = world.spec("a", &world.vms(2));
    world.operator.declare(&spec);
    world.operator.start().await;
    world.until_delivered(&spec).await;
    let (status, check) = inventory_check(&world).await;
    assert_eq!((status, &check["ok"]), (200, &json!(false)), "{check}");
    says(&text(&check["message"]), &["inventory"]);
    let config = world.operator.config("a").await;
    says(&text(&config["message"]), &["memory only"]);
    world.viola.forget_posts();
    world.operator.until_polled("a").await;
    assert_eq!(world.viola.posts(), [], "deliveries are remembered");
    std::fs::remove_file(world.operator.dir().join("inventory")).unwrap();
    let deadline = std::time::Instant::now() + crate::e2e_support::PATIENCE;
    while inventory_check(&world).await.1["ok"] == false {
        assert!(std::time::Instant::now() < deadline, "it was not written once it could be");
        world.operator.until_polled("a").await;
    }
    assert_eq!(file(&world)["records"].as_array().map(Vec::len), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_inventory_leaves_no_file_and_no_rest() {
    let mut world = World::new();
    world.operator = crate::e2e_support::Operator::new().flag("--inventory-enabled=false");
    let spec = world.spec("a", &world.vms(1));
    world.run(&spec).await;
    let (status, body) = world.operator.get("/v1/interfaces/providers").await;
    assert_eq!(status, 503);
    says(&text(&body["error"]["message"]), &["inventory"]);
    assert!(!world.operator.inventory_file().exists());
    world.operator.until_polled("a").await;
    assert_eq!(world.sent().get("node-0"), Some(&1), "deliveries are remembered until the restart");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_of_the_tree_nothing_delivered_is_forgotten() {
    let mut world = World::new();
    let spec = world.run_with(5).await;
    let before = world.delivered_state().await;
    world.viola.forget_posts();
    world.operator.crash().await;
    world.operator.start().await;
    world.operator.until_polled("a").await;
    world.operator.until_polled("a").await;
    assert_eq!(world.viola.posts(), []);
    assert_eq!(world.delivered_state().await, before);
    assert_eq!(world.viola.nodes(BIZ).len(), spec.vms.len());
}
