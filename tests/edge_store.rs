//! Inventory files of the previous operator, and of this one for the previous operator.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests

use std::path::{Path, PathBuf};
use std::sync::Arc;

use multinic_actors::boundary::Store;
use multinic_actors::domain::ids::{ConfigName, NodeName};
use multinic_actors::domain::inventory::{Record, RecordKey, Snapshot};
use multinic_operator::store::{JsonFileStore, MemoryStore, decode, encode, read};
use serde_json::Value;

const PROVIDER: &str = "5d1f8a52-6a0e-4b53-9f0d-0f6f1f3f5a01";
const OTHER_PROVIDER: &str = "5d1f8a52-6a0e-4b53-9f0d-0f6f1f3f5a02";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/inventory").join(name)
}

fn key(provider: &str, node: &str) -> RecordKey {
    RecordKey { provider: provider.into(), node: NodeName::new(node).unwrap() }
}

fn record<'a>(snapshot: &'a Snapshot, provider: &str, node: &str) -> &'a Record {
    &snapshot.records[&key(provider, node)]
}

fn encoded(snapshot: &Snapshot) -> Value {
    let mut bytes = Vec::new();
    encode(snapshot, &mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn a_file_of_the_previous_operator_loads() {
    let loaded = read(&fixture("previous_operator.json")).unwrap();
    let nodes: Vec<&str> = loaded.snapshot.records.keys().map(|key| key.node.as_str()).collect();
    assert_eq!(nodes, ["infra01", "worker-1", "worker-4"]);

    let infra = record(&loaded.snapshot, PROVIDER, "infra01");
    let ids: Vec<u8> = infra.config.interfaces.iter().map(|i| i.id).collect();
    assert_eq!(ids, [0, 1], "a missing id is 0");
    assert_eq!(infra.config.interfaces[0].mac_address.to_string(), "fa:16:3e:00:00:01");
    assert_eq!(infra.last_config_hash.as_str(), "00112233aabbccdd", "its hash is taken as it is");
    assert_eq!(infra.updated_at.to_string(), "2026-01-12T02:51:32.123456789Z");
    assert_eq!(infra.owner, None);

    let worker = record(&loaded.snapshot, PROVIDER, "worker-1");
    assert_eq!(worker.instance_id.as_str(), "a3c1c0de-0000-4000-8000-000000000002");
    assert_eq!(worker.config.interfaces[0].mtu, 0, "what the previous operator sent when a look-up failed");
    assert_eq!(worker.updated_at.to_string(), "2026-01-12T02:51:32Z", "without a zone it is UTC");

    let without = record(&loaded.snapshot, OTHER_PROVIDER, "worker-4");
    assert!(without.config.interfaces.is_empty());
    assert_eq!(without.updated_at, jiff::Timestamp::UNIX_EPOCH);
}

#[test]
fn entries_that_cannot_be_used_are_written_back_as_they_are() {
    let path = fixture("previous_operator.json");
    let original: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let loaded = read(&path).unwrap();
    assert_eq!(loaded.snapshot.foreign.records.len(), 2);
    assert_eq!(loaded.warnings.len(), 1);
    for node in ["worker_2", "worker-3"] {
        assert!(loaded.warnings[0].contains(node), "{}", loaded.warnings[0]);
    }

    let written = encoded(&loaded.snapshot);
    let records = written["records"].as_array().unwrap();
    for entry in &original["records"].as_array().unwrap()[2..4] {
        assert!(records.contains(entry), "lost: {entry}");
    }
    let again = decode(written.to_string().as_bytes()).unwrap();
    assert_eq!(again.snapshot, loaded.snapshot, "and again");
}

#[test]
fn an_entry_that_cannot_be_used_goes_once_its_node_is_delivered() {
    let mut snapshot = read(&fixture("previous_operator.json")).unwrap().snapshot;
    let mut delivered = record(&snapshot, OTHER_PROVIDER, "worker-4").clone();
    delivered.node_name = NodeName::new("worker-3").unwrap();
    snapshot.records.insert(delivered.key(), Arc::new(delivered));

    let written = encoded(&snapshot);
    let records = written["records"].as_array().unwrap();
    let same: Vec<&Value> = records.iter().filter(|r| r["nodeName"] == "worker-3").collect();
    assert_eq!(same.len(), 1);
    assert!(same[0]["config"].is_object());
    assert!(records.iter().any(|r| r["nodeName"] == "worker_2"), "the other one stays");
}

#[test]
fn of_two_spellings_of_one_node_the_newer_counts() {
    let entry = |node: &str, mac: &str, at: &str| {
        serde_json::json!({
            "providerId": "p", "nodeName": node, "instanceId": "i", "updatedAt": at,
            "config": {"interfaces": [{"macAddress": mac, "address": "192.0.2.1", "cidr": "192.0.2.0/24", "mtu": 1500}]},
        })
    };
    let newer = entry("Node-1", "fa:16:3e:00:00:02", "2026-01-02T00:00:00Z");
    let older = entry("node-1", "fa:16:3e:00:00:01", "2026-01-01T00:00:00Z");
    for records in [[&newer, &older], [&older, &newer]] {
        let file = serde_json::json!({ "records": records });
        let loaded = decode(file.to_string().as_bytes()).unwrap();
        let mac = record(&loaded.snapshot, "p", "node-1").config.interfaces[0].mac_address;
        assert_eq!(mac.to_string(), "fa:16:3e:00:00:02");
    }
}

#[test]
fn configs_owners_and_allocations_come_back() {
    let file = serde_json::json!({
        "version": 1,
        "records": [{
            "providerId": "p", "nodeName": "node-1", "instanceId": "i", "updatedAt": "2026-01-01T00:00:00Z",
            "config": {"nodeName": "node-1", "instanceId": "i", "interfaces": []}, "lastConfigHash": "00",
            "owner": {"namespace": "ns", "name": "a", "uid": "u", "created": "2026-01-01T00:00:00Z"},
        }],
        "configs": [
            {"namespace": "ns", "name": "a", "uid": "u", "removalPolicy": "Prune", "firstSeen": "2026-01-01T00:00:00Z",
             "allocations": {"i": [{"index": 3, "mac": "fa:16:3e:00:00:01"}]},
             "downPortRetry": {"hash": "ab", "lastAttempt": null, "fastAttempts": 2}},
            {"namespace": "ns", "name": "b", "uid": "u", "removalPolicy": "SomethingNewer"},
        ],
    });
    let loaded = decode(file.to_string().as_bytes()).unwrap();
    assert_eq!(loaded.snapshot.configs.len(), 1);
    assert_eq!(loaded.snapshot.foreign.configs.len(), 1);
    assert_eq!(encoded(&loaded.snapshot), file, "nothing is lost and nothing is added");

    // Once the unreadable config has a state of ours, that one counts.
    let mut snapshot = loaded.snapshot;
    let mut state = snapshot.configs[&ConfigName::new("ns", "a")].as_ref().clone();
    state.name = ConfigName::new("ns", "b");
    snapshot.configs.insert(state.name.clone(), Arc::new(state));
    assert_eq!(encoded(&snapshot)["configs"].as_array().unwrap().len(), 2);
}

#[test]
fn an_empty_inventory_has_several_spellings() {
    for text in ["{}", r#"{"records":null}"#, r#"{"records":[]}"#, "\u{feff}{\"records\":[]}\n"] {
        let loaded = decode(text.as_bytes()).unwrap();
        assert_eq!(loaded.snapshot, Snapshot::default(), "{text}");
    }
}

#[tokio::test]
async fn what_is_read_and_saved_again_is_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inventory.json");
    std::fs::copy(fixture("previous_operator.json"), &path).unwrap();
    let mut files = Vec::new();
    for _ in 0..2 {
        let store = JsonFileStore::new(&path);
        let loaded = store.load().await.unwrap();
        store.save(Arc::new(loaded.snapshot)).await.unwrap();
        files.push(std::fs::read(&path).unwrap());
    }
    assert_eq!(files[0], files[1]);
}

#[tokio::test]
async fn without_an_inventory_saving_works_and_loading_finds_nothing() {
    MemoryStore.save(Arc::default()).await.unwrap();
    assert_eq!(MemoryStore.load().await.unwrap().snapshot, Snapshot::default());
}
