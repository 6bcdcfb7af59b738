use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use multinic_actors::domain::config::Declared;
use multinic_actors::domain::inventory::{Event, Owner, Record, apply};
use multinic_actors::testing::{ConfigBuilder, config};
use serde_json::json;

use super::*;

fn owner(object: &ConfigBuilder) -> Owner {
    Owner { id: object.id(), created: Timestamp::UNIX_EPOCH }
}

fn without_owner(record: &Record) -> Arc<Record> {
    Arc::new(Record { owner: None, ..record.clone() })
}

/// The first VM of the object was delivered so often, each time with another address.
fn delivered(snapshot: &mut Snapshot, object: &ConfigBuilder, node: &str, times: u8) {
    for n in 1..=times {
        let config = json!({"nodeName": node, "instanceId": object.vm_ids()[0].as_str(), "interfaces": [{"id": 0,
            "name": "multinic0", "macAddress": "fa:16:3e:00:00:01", "address": format!("192.0.2.{n}"),
            "cidr": "192.0.2.0/24", "mtu": 1450}]});
        let nodes = vec![Arc::new(serde_json::from_value(config).unwrap())];
        let at = Timestamp::from_second(i64::from(n)).unwrap();
        apply(snapshot, &Event::Delivered { owner: owner(object), provider: "k8s".into(), nodes, at });
    }
}

fn inventory(objects: &[(&ConfigBuilder, &str, u8)]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (object, node, times) in objects {
        delivered(&mut snapshot, object, node, *times);
    }
    snapshot
}

fn address(snapshot: &Snapshot, node: &str) -> String {
    let record = snapshot.records.values().find(|record| record.node_name.as_str() == node).unwrap();
    record.config.interfaces[0].address.to_string()
}

#[test]
fn an_export_has_the_newer_of_both_for_each_config() {
    let (a, b) = (config("a").vm("vm-a"), config("b").vm("vm-b"));
    let mut file = inventory(&[(&a, "node-a", 2), (&b, "node-b", 1)]);
    merge::take_newer(&mut file, &inventory(&[(&a, "node-a", 1), (&b, "node-b", 3)]));
    assert_eq!(
        (address(&file, "node-a"), address(&file, "node-b")),
        ("192.0.2.2".into(), "192.0.2.3".into())
    );
}

#[test]
fn an_import_is_refused_by_what_is_newer_and_wins_everywhere_when_it_is_taken() {
    let (a, b) = (config("a").vm("vm-a"), config("b").vm("vm-b"));
    let mut has = inventory(&[(&a, "node-a", 3), (&b, "node-b", 1)]);
    let import = inventory(&[(&a, "node-a", 2), (&b, "node-b", 1)]);
    assert_eq!(merge::refusals(&has, &import), ["default/a: revision 3 is there, 2 in the import"]);
    let elsewhere = has.clone();
    merge::put_over(&mut has, &import);
    assert_eq!(address(&has, "node-a"), "192.0.2.2");
    let mut after = has.clone();
    merge::take_newer(&mut after, &elsewhere);
    assert_eq!(after, has, "an older copy elsewhere changes nothing");
}

#[test]
fn a_file_of_the_previous_operator_keeps_whose_node_it_is() {
    let a = config("a").vm("vm-a");
    let mut has = inventory(&[(&a, "node-a", 1)]);
    let mut import = inventory(&[(&a, "node-a", 2)]);
    import.configs.clear();
    import.records = import.records.into_iter().map(|(key, record)| (key, without_owner(&record))).collect();
    assert_eq!(merge::refusals(&import, &has), [""; 0], "the revision decides where there is one");
    assert_eq!(merge::refusals(&has, &import), [""; 0]);
    let revision = has.configs[&a.id().name].revision;
    merge::put_over(&mut has, &import);
    assert_eq!(address(&has, "node-a"), "192.0.2.2");
    assert_eq!(has.records.of_owner(&a.id().name).count(), 1);
    assert_eq!(has.configs[&a.id().name].revision, revision + 1);
    let newer = inventory(&[(&a, "node-a", 3)]);
    let refusals = merge::refusals(&newer, &import);
    assert!(refusals[0].starts_with("node node-a: delivered at 1970-01-01T00:00:03Z"), "{refusals:?}");
}

#[test]
fn only_what_nobody_lists_is_gone_and_nothing_of_an_object_that_cannot_be_read() {
    let (a, b, c) = (config("a").vm("vm-a"), config("b").vm("vm-b"), config("c").vm("vm-c"));
    let mut has = inventory(&[(&a, "node-a", 1), (&b, "node-b", 1), (&c, "node-c", 1)]);
    let mut nobodys = inventory(&[(&config("x").vm("vm-x"), "node-x", 1)]);
    for (key, mut record) in std::mem::take(&mut nobodys.records) {
        Arc::make_mut(&mut record).owner = None;
        has.records.insert(key, record);
    }
    let valid = |object: &ConfigBuilder| Declared::Valid(object.clone().build());
    // `a` is there, `b` lists another VM, `c` is gone.
    let other = config("b").vm("vm-other");
    let objects = Objects::new(&[valid(&a), valid(&other)]);
    let found: Vec<_> =
        find(&has, &objects).into_iter().map(|gone| (gone.config, gone.node, gone.why)).collect();
    let row = |config: &str, node: &str, why| (config.to_owned(), node.to_owned(), why);
    assert_eq!(
        found,
        [
            row("default/c", "", "the object is gone"),
            row("default/b", "node-b", "the object does not list the VM"),
            row("default/c", "node-c", "the object is gone"),
            row("-", "node-x", "no object lists the VM"),
        ]
    );
    let mut rest = has.clone();
    forget(&mut rest, &objects);
    let left: BTreeSet<_> = rest.records.values().map(|record| record.node_name.to_string()).collect();
    assert_eq!((left, find(&rest, &objects)), (["node-a".to_owned()].into(), Vec::new()));
    let unreadable = Declared::Invalid(multinic_actors::domain::config::InvalidConfig {
        id: b.id(),
        generation: 1,
        reason: multinic_actors::domain::reason::Reason::ConfigError,
        message: String::new(),
    });
    let objects = Objects::new(&[valid(&a), unreadable, valid(&c)]);
    assert_eq!(find(&has, &objects), []);
}

fn settings(file: &Path) -> Settings {
    let args = [format!("--inventory-db-path={}", file.display())];
    Settings::parse(args.into_iter().map(Into::into), |_| None).unwrap().1
}

const FILE: Stores = Stores { file: true, cluster: false };

#[tokio::test]
async fn what_was_exported_can_be_imported_but_not_under_a_running_operator() {
    let folder = tempfile::tempdir().unwrap();
    let (file, copy) = (folder.path().join("inventory.json"), folder.path().join("copy.json"));
    let a = config("a").vm("vm-a");
    let store = JsonFileStore::new(&file);
    store.save(Arc::new(inventory(&[(&a, "node-a", 1)]))).await.unwrap();
    let said = export(&settings(&file), FILE, Some(&copy)).await.unwrap();
    assert_eq!(said, format!("1 nodes of 1 configs: {}\n", copy.display()));
    let error = import(&settings(&file), FILE, &copy, true).await.unwrap_err();
    assert!(
        error.contains("another process uses it") && error.ends_with("stop the operator first"),
        "{error}"
    );
    store.save(Arc::new(inventory(&[(&a, "node-a", 2)]))).await.unwrap();
    drop(store);
    let error = import(&settings(&file), FILE, &copy, false).await.unwrap_err();
    assert!(
        error.contains("--force") && error.ends_with("default/a: revision 2 is there, 1 in the import"),
        "{error}"
    );
    assert_eq!(address(&store::read(&file).unwrap().snapshot, "node-a"), "192.0.2.2");
    import(&settings(&file), FILE, &copy, true).await.unwrap();
    assert_eq!(address(&store::read(&file).unwrap().snapshot, "node-a"), "192.0.2.1");
}

#[test]
fn the_store_follows_the_flag_and_can_be_chosen() {
    let parse = |args: &[&str]| Settings::parse(args.iter().map(Into::into), |_| None);
    let stores = |args: &[&str]| match parse(args).unwrap().0 {
        crate::settings::Command::Inventory { stores, .. } => (stores.file, stores.cluster),
        other => panic!("{other:?}"),
    };
    assert_eq!(stores(&["inventory", "export"]), (true, false));
    assert_eq!(stores(&["inventory", "prune", "--state-configmap"]), (true, true));
    assert_eq!(stores(&["inventory", "import", "f", "--store=cluster", "--force"]), (false, true));
    let error =
        parse(&["inventory", "export", "--store=cluster", "--config-dir=/d"]).unwrap_err().to_string();
    assert!(error.contains("with --config-dir there are no ConfigMaps"), "{error}");
}
