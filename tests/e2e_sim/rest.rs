//! What the API answers while the operator works.

use serde_json::{Value, json};

use crate::e2e_support::Spec;
use crate::world::{BIZ, STORAGE, World, text};

#[tokio::test(flavor = "multi_thread")]
async fn the_interfaces_routes_show_what_viola_got() {
    let mut world = World::new();
    let spec = world.run_with(3).await;
    world.port(&spec.vms[1], STORAGE);
    world.until_delivered(&spec).await;

    let (_, records) = world.delivered_state().await;
    let records = records.as_array().unwrap();
    assert_eq!(records.len(), 3);
    for record in records {
        let node = text(&record["nodeName"]);
        assert_eq!(Some(&record["config"]), world.viola.node(BIZ, &node).as_ref(), "{node}");
        assert_eq!(record["providerId"], BIZ);
        assert_eq!(record["owner"]["name"], "a");
    }
    let names: Vec<_> = records.iter().map(|record| text(&record["nodeName"])).collect();
    assert_eq!(names, ["node-0", "node-1", "node-2"], "sorted");

    let (status, providers) = world.operator.get("/v1/interfaces/providers").await;
    assert_eq!(status, 200);
    let provider = &providers["providers"][0];
    assert_eq!((&provider["providerId"], &provider["nodeCount"]), (&json!(BIZ), &json!(3)));
    assert_eq!(provider["nodes"][1]["interfaceCount"], 2);

    let path = format!("/v1/interfaces/node-configs/by-instance/{}", spec.vms[1].to_uppercase());
    let (status, found) = world.operator.get(&path).await;
    assert_eq!((status, &found[0]), (200, &records[1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_without_an_answer_get_the_previous_operators_codes() {
    let mut world = World::new();
    world.run_with(1).await;
    for (path, status) in [
        ("/v1/interfaces/node-configs", 400),
        ("/v1/interfaces/node-configs?providerId=nobody", 200),
        ("/v1/interfaces/node-configs/by-instance/nobody", 404),
        ("/v1/interfaces/node-configs/by-instance/", 400),
        ("/v1/nothing", 404),
        ("/v1/configs/test/nobody", 404),
        ("/healthz", 200),
    ] {
        let (got, body) = world.operator.get(path).await;
        assert_eq!(got, status, "{path}: {body}");
        let has_error = body["error"]["message"].is_string() && body["error"]["code"].is_string();
        assert!(status == 200 || has_error, "{path}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_configs_has_all_of_them_in_order() {
    let mut world = World::new();
    let vms = world.vms(2);
    world.operator.declare(&Spec { k8s_provider: "b".to_owned(), ..world.spec("b", &vms[1..]) });
    world.run(&world.spec("a", &vms[..1])).await;
    world.operator.until_reason("b", &["Synced", "NoChange"]).await;
    let (status, list) = world.operator.get("/v1/configs").await;
    assert_eq!(status, 200);
    let names: Vec<_> = list["configs"].as_array().unwrap().iter().map(|c| text(&c["name"])).collect();
    assert_eq!(names, ["a", "b"]);
    for key in ["ready", "reason", "message", "nodes", "lastSyncedAt", "nextPollAt"] {
        assert!(list["configs"][0].get(key).is_some(), "{key} in {list:#}");
    }
}

fn children<'a>(node: &'a Value, kind: &str) -> Vec<&'a Value> {
    node["children"].as_array().into_iter().flatten().filter(|child| child["kind"] == kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_actors_are_shown_as_the_tree_they_are() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    let (status, tree) = world.operator.get("/v1/actors").await;
    assert_eq!((status, &tree["kind"], &tree["phase"]), (200, &json!("root"), &json!("running")));
    assert_eq!(children(&tree, "inventory").len(), 1);
    let configs = children(&tree, "config");
    assert_eq!((configs.len(), &configs[0]["name"]), (1, &json!("test/a")));
    assert_eq!((children(configs[0], "token").len(), children(configs[0], "viola").len()), (1, 1));
    let mut ports: Vec<_> = children(configs[0], "port").iter().map(|port| text(&port["name"])).collect();
    let mut vms = spec.vms.clone();
    ports.sort();
    vms.sort();
    assert_eq!(ports, vms);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_served_and_name_no_vm_port_mac_or_address() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    world.operator.until_polled("a").await;
    let url = format!("http://{}/metrics", world.operator.running().metrics.unwrap());
    let (status, text) = world.operator.get_text(&url).await;
    assert_eq!(status, 200);
    for series in [
        "multinic_config_ready{",
        "multinic_config_nodes{",
        "multinic_build_info{",
        "multinic_upstream_requests_total{",
        "multinic_inventory_records",
        "process_resident_memory_bytes",
    ] {
        assert!(text.contains(series), "{series} in\n{text}");
    }
    let node = world.viola.node(BIZ, "node-0").unwrap();
    let interface = &node["interfaces"][0];
    for secret in
        [&spec.vms[0], interface["macAddress"].as_str().unwrap(), interface["address"].as_str().unwrap()]
    {
        assert!(!text.contains(secret), "{secret} in the metrics");
    }
}
