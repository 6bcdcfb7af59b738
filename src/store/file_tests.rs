use std::path::Path;
use std::sync::Arc;

use multinic_actors::boundary::{Loaded, Store};
use multinic_actors::domain::inventory::{Record, Snapshot};
use serde_json::json;
use tempfile::TempDir;

use super::super::disk::{Disk, Fault, Step};
use super::*;

/// An inventory of `n` nodes whose newest delivery was in second `at`.
fn inventory(n: usize, at: i64) -> Arc<Snapshot> {
    let mut snapshot = Snapshot::default();
    for i in 0..n {
        let vm = format!("a3c1c0de-0000-4000-8000-{i:012}");
        let interface = json!({
            "id": 0, "name": "multinic0", "macAddress": format!("fa:16:3e:00:{:02x}:{:02x}", i / 256, i % 256),
            "address": "192.0.2.10", "cidr": "192.0.2.0/24", "mtu": 1450,
        });
        let record: Record = serde_json::from_value(json!({
            "providerId": "provider-a", "nodeName": format!("node-{i}"), "instanceId": vm,
            "config": {"nodeName": format!("node-{i}"), "instanceId": vm, "interfaces": [interface]},
            "lastConfigHash": "00112233aabbccdd",
            "updatedAt": jiff::Timestamp::from_second(at).unwrap(),
        }))
        .unwrap();
        snapshot.records.insert(record.key(), Arc::new(record));
    }
    Arc::new(snapshot)
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("inventory.json")
    }

    fn store(&self) -> JsonFileStore {
        JsonFileStore::new(self.file())
    }

    fn store_failing_at(&self, step: Step, fault: Fault) -> JsonFileStore {
        JsonFileStore::on(Disk::new(&self.file()).failing_at(step, fault))
    }

    async fn load(&self) -> Loaded {
        self.store().load().await.unwrap()
    }

    /// Names in the folder that start with `prefix`, sorted.
    fn names(&self, prefix: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn a_crash_at_any_step_leaves_the_old_or_the_new_inventory() {
    let old = inventory(3, 1_000);
    let new = inventory(4, 2_000);
    for step in Step::ALL {
        let folder = Folder::new();
        // Twice, so that there is a previous generation too.
        for snapshot in [inventory(1, 1), Arc::clone(&old)] {
            folder.store().save(snapshot).await.unwrap();
        }
        let crashed = folder.store_failing_at(step, Fault::Crash).save(Arc::clone(&new)).await;
        assert!(crashed.is_err(), "{step:?}");

        let loaded = folder.load().await;
        let expected = if step == Step::SyncFolder { &new } else { &old };
        assert_eq!(&loaded.snapshot, expected.as_ref(), "after a crash at {step:?}");
        assert_eq!(loaded.warnings, Vec::<String>::new(), "after a crash at {step:?}");
        assert_eq!(folder.names(".inventory"), Vec::<String>::new(), "{step:?}");

        // And the next save works, with both generations whole.
        folder.store().save(Arc::clone(&new)).await.unwrap();
        assert_eq!(folder.load().await.snapshot, *new);
        assert!(read(&folder.0.path().join("inventory.json.prev")).is_ok(), "{step:?}");
        assert_eq!(folder.names(".inventory"), Vec::<String>::new(), "{step:?}");
    }
}

#[tokio::test]
async fn a_crash_between_the_two_renames_of_a_folder_without_links_loses_nothing() {
    let folder = Folder::new();
    let old = inventory(3, 1_000);
    folder.store().save(Arc::clone(&old)).await.unwrap();
    fs::rename(folder.file(), folder.0.path().join("inventory.json.prev")).unwrap();

    let loaded = folder.load().await;
    assert_eq!(loaded.snapshot, *old);
    assert!(loaded.warnings[0].ends_with("the previous generation is used"), "{:?}", loaded.warnings);
}

#[tokio::test]
async fn a_step_that_is_refused_is_an_error_and_the_old_inventory_stays() {
    let old = inventory(2, 1_000);
    for step in Step::ALL {
        let folder = Folder::new();
        folder.store().save(Arc::clone(&old)).await.unwrap();
        let store = folder.store_failing_at(step, Fault::Refused);
        let error = store.save(inventory(3, 2_000)).await.unwrap_err();
        assert!(error.0.contains("inventory.json: "), "{error}");
        assert_eq!(folder.names(".inventory"), Vec::<String>::new(), "left behind at {step:?}");
        if step != Step::SyncFolder {
            assert_eq!(read(&folder.file()).unwrap().snapshot, *old, "{step:?}");
        }
    }
}

#[tokio::test]
async fn damaged_files_are_set_aside_and_the_previous_generation_is_used() {
    let whole = {
        let mut bytes = Vec::new();
        format::encode(&inventory(2, 5), &mut bytes).unwrap();
        bytes
    };
    let cases: [(&str, Vec<u8>); 7] = [
        ("empty", Vec::new()),
        ("blank", b" \n".to_vec()),
        ("torn", whole[..whole.len() / 2].to_vec()),
        ("zeros", vec![0; 512]),
        ("foreign object", br#"{"items":[]}"#.to_vec()),
        ("foreign list", b"[]".to_vec()),
        ("records of another kind", br#"{"records":{"a":1}}"#.to_vec()),
    ];
    for (case, bytes) in cases {
        let folder = Folder::new();
        let old = inventory(2, 1_000);
        for snapshot in [Arc::clone(&old), inventory(3, 2_000)] {
            folder.store().save(snapshot).await.unwrap();
        }
        fs::write(folder.file(), &bytes).unwrap();

        let loaded = folder.load().await;
        assert_eq!(loaded.snapshot, *old, "{case}");
        assert!(loaded.warnings[0].contains("is damaged"), "{case}: {:?}", loaded.warnings);
        let aside = folder.names("inventory.json.damaged-");
        assert_eq!(aside.len(), 1, "{case}");
        assert_eq!(fs::read(folder.0.path().join(&aside[0])).unwrap(), bytes, "{case}");

        // The damaged file never becomes the previous generation.
        folder.store().save(inventory(4, 3_000)).await.unwrap();
        let previous = read(&folder.0.path().join("inventory.json.prev")).unwrap();
        assert_eq!(previous.snapshot, *old, "{case}");
    }
}

#[tokio::test]
async fn with_both_generations_damaged_it_starts_empty_and_keeps_them() {
    let folder = Folder::new();
    fs::write(folder.file(), "{").unwrap();
    fs::write(folder.0.path().join("inventory.json.prev"), "[").unwrap();
    let loaded = folder.load().await;
    assert_eq!(loaded.snapshot, Snapshot::default());
    assert_eq!(folder.names("inventory.json.damaged-").len(), 2);
    assert!(loaded.warnings.last().unwrap().ends_with("it starts empty"));
}

#[tokio::test]
async fn damaged_files_do_not_pile_up() {
    let folder = Folder::new();
    for n in 0..12 {
        fs::write(folder.file(), format!("damage {n}")).unwrap();
        folder.load().await;
    }
    assert_eq!(folder.names("inventory.json.damaged-").len(), 5);
}

#[tokio::test]
async fn a_missing_folder_is_made_and_starts_empty_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let store = JsonFileStore::new(folder.path().join("a/b/inventory.json"));
    let loaded = store.load().await.unwrap();
    assert_eq!((loaded.snapshot, loaded.warnings), (Snapshot::default(), Vec::new()));
    store.save(inventory(1, 1)).await.unwrap();
    assert_eq!(read(store.path()).unwrap().snapshot, *inventory(1, 1));
}

#[tokio::test]
async fn two_stores_never_use_one_file() {
    let folder = Folder::new();
    let first = folder.store();
    first.load().await.unwrap();
    let second = folder.store();
    for error in [second.load().await.map(drop).unwrap_err(), second.save(inventory(1, 1)).await.unwrap_err()]
    {
        let me = format!("another process uses it (process {} on ", std::process::id());
        assert!(error.0.contains(&me), "{error}");
    }
    drop(first);
    second.load().await.unwrap();
}

#[tokio::test]
async fn what_a_dead_process_left_is_removed_at_the_next_load() {
    let folder = Folder::new();
    fs::write(folder.0.path().join(".inventory.json.tmp-1-0"), "half").unwrap();
    fs::write(folder.0.path().join(".other.json.tmp-1-0"), "not ours").unwrap();
    folder.load().await;
    assert_eq!(folder.names("."), [".other.json.tmp-1-0"]);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_not_overwritten() {
    let folder = Folder::new();
    // A folder in its place: unreadable for root too, whom permissions do not stop.
    fs::create_dir(folder.file()).unwrap();
    let store = folder.store();
    let error = store.load().await.unwrap_err();
    assert!(error.0.contains("cannot be read"), "to start with nothing could rename interfaces: {error}");
    let error = store.save(inventory(1, 1)).await.unwrap_err();
    assert!(error.0.contains("is not overwritten"), "{error}");

    fs::remove_dir(folder.file()).unwrap();
    store.load().await.unwrap();
    store.save(inventory(1, 1)).await.unwrap();
}

/// A pipe stands for all that has a name and is no file, such as a device.
#[tokio::test]
async fn what_is_no_regular_file_is_neither_waited_for_nor_set_aside() {
    let folder = Folder::new();
    // Not by a child process: until it has begun, it holds the locks of the tests beside this one.
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.file(), rustix::fs::Mode::RUSR).unwrap();
    let store = folder.store();
    let error = store.load().await.unwrap_err();
    assert!(error.0.contains("it is not a regular file"), "{error}");
    store.save(inventory(1, 1)).await.unwrap_err();
    assert_eq!(folder.names("inventory.json"), ["inventory.json", "inventory.json.lock"]);
    assert!(!folder.file().is_file(), "it is what it was");
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_waited_for_and_left_as_it_is() {
    let folder = Folder::new();
    let newer = r#"{"version":7,"records":[],"configs":[]}"#;
    fs::write(folder.file(), newer).unwrap();
    let error = folder.store().load().await.unwrap_err();
    assert!(error.0.contains("format version 7"), "{error}");
    assert_eq!(fs::read_to_string(folder.file()).unwrap(), newer);
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_lets_the_process_start_and_refuses_saves() {
    let folder = tempfile::tempdir().unwrap();
    // Below a file there is no folder, whoever asks.
    fs::write(folder.path().join("file"), "").unwrap();
    let store = JsonFileStore::new(folder.path().join("file/inventory.json"));
    let loaded = store.load().await.unwrap();
    assert_eq!(loaded.snapshot, Snapshot::default());
    assert!(loaded.warnings.iter().any(|w| w.contains("the folder cannot be created")));
    assert!(store.save(inventory(1, 1)).await.is_err());
}

#[tokio::test]
async fn an_older_save_that_comes_late_does_not_undo_a_newer_one() {
    let folder = Folder::new();
    let store = folder.store();
    store.load().await.unwrap();
    let older = store.save(inventory(1, 1_000));
    store.save(inventory(2, 2_000)).await.unwrap();
    older.await.unwrap();
    assert_eq!(read(&folder.file()).unwrap().snapshot, *inventory(2, 2_000));
}

#[tokio::test]
async fn a_symbolic_link_stays_one() {
    let folder = Folder::new();
    let real = folder.0.path().join("real.json");
    fs::write(&real, r#"{"records":[]}"#).unwrap();
    std::os::unix::fs::symlink(&real, folder.file()).unwrap();
    folder.store().save(inventory(1, 1)).await.unwrap();
    assert!(folder.file().is_symlink());
    assert_eq!(read(&real).unwrap().snapshot, *inventory(1, 1));
}

#[tokio::test]
async fn five_thousand_nodes_come_back_as_they_were() {
    let folder = Folder::new();
    let large = inventory(5_000, 1_000);
    folder.store().save(Arc::clone(&large)).await.unwrap();
    assert_eq!(folder.load().await.snapshot, *large);
    assert!(Path::new(&folder.file()).metadata().unwrap().len() > 1_000_000);
}
