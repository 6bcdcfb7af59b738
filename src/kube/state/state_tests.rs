use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use multinic_actors::boundary::{Saved, Store as _, SystemClock};
use multinic_actors::claim_table::ClaimTable;
use multinic_actors::domain::claims::Claimed;
use multinic_actors::domain::config::{Declared, RemovalPolicy};
use multinic_actors::domain::ids::{ConfigName, VmId};
use multinic_actors::domain::inventory::{ConfigState, Event, Held, Owner, Snapshot};
use multinic_actors::inventory::{Inventory, InventoryArgs, InventoryHandle, InventoryRef};
use multinic_actors::supervision::Tree;
use multinic_actors::testing::{ConfigBuilder, FakeStore, config};
use ractor::Actor;
use serde_json::json;

use super::fake_api::{FakeApi, Trouble};
use super::layout::Sizes;
use super::{GateParts, StateMaps, StoreWithStates, gate};
use crate::source::{SourceEvent, SourceEvents, SourceSender, channel};

const SECOND: Duration = Duration::from_secs(1);
/// So small that the state of one config needs several parts.
const TINY: Sizes = Sizes { plain: 100, part: 120 };

/// A release: its inventory, its gate, and what it is told.
struct World {
    api: FakeApi,
    file: FakeStore,
    inventory: InventoryHandle,
    claims: ClaimTable,
    actor: InventoryRef,
    told: SourceSender,
    passed: SourceEvents,
}

impl World {
    async fn new(api: &FakeApi) -> Self {
        Self::start(api, FakeStore::default(), "", Sizes::default()).await
    }

    async fn start(api: &FakeApi, file: FakeStore, holder: &str, sizes: Sizes) -> Self {
        let maps = Arc::new(StateMaps::start_with(api.client(), holder.to_owned(), sizes, 7));
        let (inventory, claims) = (InventoryHandle::default(), ClaimTable::default());
        let tree = Tree::new("root", "root");
        let store = Arc::new(StoreWithStates { store: file.clone(), maps: Arc::clone(&maps) });
        let actor = Inventory { store, handle: inventory.clone(), clock: Arc::new(SystemClock), seed: 7 };
        let args = InventoryArgs { node: tree.root(), on_loaded: Arc::new(|| {}) };
        let (actor, _) = Actor::spawn(None, actor, args).await.unwrap();
        let (told, events) = channel();
        let parts = GateParts { maps, inventory: inventory.clone(), claims: claims.clone(), tree, seed: 7 };
        let passed = gate(events, parts);
        Self { api: api.clone(), file, inventory, claims, actor, told, passed }
    }

    async fn with(self, objects: &[&ConfigBuilder]) -> Self {
        for object in objects {
            self.told.send(SourceEvent::Apply(Declared::Valid((*object).clone().build())));
            self.api.set_object(&object.id().name.name, true);
        }
        self.told.send(SourceEvent::Synced);
        self
    }

    async fn next(&mut self) -> String {
        match tokio::time::timeout(60 * SECOND, self.passed.recv()).await {
            Ok(Some(SourceEvent::Apply(Declared::Valid(config)))) => format!("{}", config.id.name.name),
            Ok(Some(SourceEvent::Apply(Declared::Invalid(invalid)))) => {
                format!("{} {}: {}", invalid.id.name.name, invalid.reason, invalid.message)
            }
            Ok(Some(other)) => format!("{other:?}"),
            Ok(None) => "the end".to_owned(),
            Err(_) => "nothing".to_owned(),
        }
    }

    async fn let_through(mut self, objects: &[&ConfigBuilder]) -> Self {
        self = self.with(objects).await;
        for object in objects {
            assert_eq!(self.next().await, *object.id().name.name);
        }
        assert_eq!(self.next().await, "Synced");
        self
    }

    async fn record(&self, event: Event) -> multinic_actors::inventory::Kept {
        let (done, kept) = tokio::sync::oneshot::channel();
        assert!(self.inventory.record(event, Box::new(move |kept| drop(done.send(kept)))));
        kept.await.unwrap()
    }

    /// The port of this number gets index 0 of the config's VM.
    async fn allocate(&self, object: &ConfigBuilder, number: u8) {
        self.record(allocated(object, number)).await;
    }

    fn head(&self, object: &ConfigBuilder) -> String {
        super::head_name(&object.id().name)
    }

    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        for _ in 0..1_000 {
            if condition(self) {
                return;
            }
            tokio::time::sleep(SECOND / 10).await;
        }
        panic!("never came: {what}; there are {:?}", self.api.names());
    }

    async fn end(self) {
        self.actor.stop_and_wait(None, None).await.unwrap();
    }
}

fn owner(object: &ConfigBuilder) -> Owner {
    Owner { id: object.id(), created: Timestamp::UNIX_EPOCH }
}

fn allocated(object: &ConfigBuilder, number: u8) -> Event {
    let mac = format!("fa:16:3e:00:00:{number:02x}").parse().unwrap();
    let held = Held { index: 0, port: Some(format!("port-{number}").into()), mac };
    let allocations = object.vm_ids().into_iter().map(|vm| (vm, vec![held.clone()])).collect();
    Event::Allocated {
        owner: owner(object),
        removal_policy: RemovalPolicy::Retain,
        allocations,
        provider: "k8s".into(),
        nodes: Vec::new(),
    }
}

fn delivered(object: &ConfigBuilder, node: &str) -> Event {
    let vm = object.vm_ids().remove(0);
    let node = json!({"nodeName": node, "instanceId": vm.as_str(), "interfaces": [{"id": 0, "name": "multinic0",
        "macAddress": "fa:16:3e:00:00:01", "address": "192.0.2.1", "cidr": "192.0.2.0/24", "mtu": 1450}]});
    let nodes = vec![Arc::new(serde_json::from_value(node).unwrap())];
    Event::Delivered { owner: owner(object), provider: "k8s".into(), nodes, at: Timestamp::UNIX_EPOCH }
}

fn state(inventory: &InventoryHandle, name: &ConfigName) -> ConfigState {
    ConfigState::clone(&inventory.config_state(name).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_replaced_pod_with_an_empty_folder_knows_all_and_writes_nothing() {
    let (api, a, b) = (FakeApi::default(), config("a").vms(2), config("b").vms(1));
    let world = World::new(&api).await.let_through(&[&a, &b]).await;
    world.record(allocated(&a, 1)).await;
    world.record(delivered(&a, "worker-1")).await;
    world.allocate(&b, 2).await;
    assert_eq!(api.names(), ["multinic-state-a", "multinic-state-b"]);
    assert_eq!(api.map("multinic-state-a").unwrap()["metadata"]["ownerReferences"], json!(null));
    let before = (world.file.content(), api.writes());
    world.end().await;

    let world = World::new(&api).await.let_through(&[&a, &b]).await;
    assert_eq!(*world.inventory.applied(), before.0);
    let key = before.0.records.keys().next().unwrap();
    let younger = Owner { created: Timestamp::MAX, ..owner(&b) };
    assert_eq!(world.claims.claim(key, &younger, &VmId::new("x")), Claimed::Refused(a.id().name));
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(api.writes(), 0);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn only_configs_that_changed_are_written() {
    let (api, a, b) = (FakeApi::default(), config("a").vms(1), config("b").vms(1));
    let world = World::new(&api).await.let_through(&[&a, &b]).await;
    world.allocate(&a, 1).await;
    world.allocate(&b, 2).await;
    api.writes();
    world.allocate(&b, 2).await;
    assert_eq!(api.writes(), 0, "nothing new");
    world.allocate(&b, 3).await;
    assert_eq!(api.writes(), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_newer_of_file_and_state_counts_and_is_then_in_both() {
    let (api, a) = (FakeApi::default(), config("a").vms(1));
    let world = World::new(&api).await.let_through(&[&a]).await;
    world.allocate(&a, 1).await;
    let old = (world.file.content(), api.map("multinic-state-a").unwrap());
    world.allocate(&a, 2).await;
    let new = (world.file.content(), api.map("multinic-state-a").unwrap());
    world.end().await;
    for (file, stored) in [(&old.0, &new.1), (&new.0, &old.1)] {
        api.edit("multinic-state-a", |map| *map = stored.clone());
        let store = FakeStore::default();
        store.holds(file.clone());
        let world = World::start(&api, store, "", Sizes::default()).await.let_through(&[&a]).await;
        assert_eq!(state(&world.inventory, &a.id().name), *new.0.configs[&a.id().name]);
        world.record(Event::FirstSeen { owner: owner(&a) }).await;
        let now = state(&world.inventory, &a.id().name).revision.to_string();
        world.until("both have it", |world| world.api.data("multinic-state-a", "revision") == now).await;
        assert_eq!(world.file.content().configs[&a.id().name].revision.to_string(), now);
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_holds_back_neither_the_file_nor_an_answer() {
    for trouble in [Trouble::Hangs, Trouble::Refuses(StatusCode::SERVICE_UNAVAILABLE)] {
        let (api, a) = (FakeApi::default(), config("a").vms(1));
        let world = World::new(&api).await.let_through(&[&a]).await;
        world.allocate(&a, 1).await;
        api.trouble(Some(trouble));
        let start = tokio::time::Instant::now();
        world.allocate(&a, 2).await;
        assert!(start.elapsed() <= 6 * SECOND, "{:?}", start.elapsed());
        tokio::time::sleep(20 * SECOND).await;
        let start = tokio::time::Instant::now();
        for number in 3..50 {
            let kept = world.record(allocated(&a, number)).await;
            let said = format!("{kept:?}");
            assert!(said.contains("InMemory") && said.contains("state ConfigMaps"), "{said}");
            assert_eq!(world.file.content(), *world.inventory.applied());
        }
        assert!(start.elapsed() < SECOND, "only the first waits: {:?}", start.elapsed());
        assert!(world.inventory.health().problem.unwrap().starts_with("state ConfigMaps"));
        api.trouble(None);
        world.until("all is well again", |world| world.inventory.health().problem.is_none()).await;
        let now = state(&world.inventory, &a.id().name).revision.to_string();
        assert_eq!(api.data("multinic-state-a", "revision"), now);
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_state_lies_in_parts_and_old_parts_go() {
    let (api, a) = (FakeApi::default(), config("a").vms(9));
    let world = World::start(&api, FakeStore::default(), "", TINY).await.let_through(&[&a]).await;
    let mut before = BTreeSet::new();
    for number in 1..4 {
        world.allocate(&a, number).await;
        let parts: BTreeSet<_> =
            api.data("multinic-state-a", "parts").split(' ').map(str::to_owned).collect();
        assert!(parts.len() > 1 && parts.is_disjoint(&before), "{parts:?}");
        let there: BTreeSet<_> = api.names().into_iter().collect();
        let named: BTreeSet<_> = parts.iter().cloned().chain(["multinic-state-a".to_owned()]).collect();
        assert_eq!(there, named);
        before = parts;
    }
    let known = Snapshot::clone(&world.inventory.applied());
    world.end().await;
    let world = World::start(&api, FakeStore::default(), "", TINY).await.let_through(&[&a]).await;
    assert_eq!(*world.inventory.applied(), known);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_objects_go_on_together_and_one_that_waits_is_not_taken_for_gone() {
    let (api, a, b) = (FakeApi::default(), config("a").vms(1), config("b").vms(1));
    let world = World::new(&api).await.let_through(&[&a, &b]).await;
    world.allocate(&a, 1).await;
    world.allocate(&b, 2).await;
    world.end().await;
    api.edit("multinic-state-a", |map| map["data"]["digest"] = json!("00"));
    let mut world = World::new(&api).await.with(&[&a, &b]).await;
    assert_eq!(world.next().await, "b");
    let waits = world.next().await;
    assert!(
        waits.starts_with(
            "a Pending: waits for what was delivered: configmap multinic-state-a: it is damaged"
        )
    );
    assert_eq!(world.next().await, "Synced");
    assert_eq!(world.next().await, "nothing", "it is told once");
    api.delete("multinic-state-a");
    assert_eq!(world.next().await, "a");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_goes_from_one_release_to_another_only_when_it_was_let_go() {
    let (api, a) = (FakeApi::default(), config("a").vms(1));
    let one =
        World::start(&api, FakeStore::default(), "ns/one", Sizes::default()).await.let_through(&[&a]).await;
    one.allocate(&a, 1).await;
    assert_eq!(api.data("multinic-state-a", "holder"), "ns/one");
    let mut two =
        World::start(&api, FakeStore::default(), "ns/two", Sizes::default()).await.with(&[&a]).await;
    let waits = two.next().await;
    assert!(waits.starts_with("a Pending: waits until release ns/one lets it go"), "{waits}");
    assert!(waits.contains("kubectl -n default patch configmap multinic-state-a"), "{waits}");
    assert_eq!(two.next().await, "Synced");
    assert_eq!(two.next().await, "nothing");
    one.allocate(&a, 2).await;
    one.told.send(SourceEvent::Delete(a.id()));
    assert_eq!(two.next().await, "a");
    assert_eq!(api.data("multinic-state-a", "holder"), "ns/two");
    assert_eq!(two.inventory.applied().configs, one.inventory.applied().configs, "with all that was done");
    one.end().await;
    two.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_finds_another_holder_stops() {
    let (api, a) = (FakeApi::default(), config("a").vms(1));
    let mut world =
        World::start(&api, FakeStore::default(), "ns/one", Sizes::default()).await.let_through(&[&a]).await;
    world.allocate(&a, 1).await;
    api.edit("multinic-state-a", |map| map["data"]["holder"] = json!("ns/two"));
    world.allocate(&a, 2).await;
    assert!(world.next().await.starts_with("a Pending: waits until release ns/two lets it go"));
    let port = |world: &World| world.api.data("multinic-state-a", "state.json").contains("port-2");
    assert!(!port(&world), "what the other one keeps is not touched");
    api.edit("multinic-state-a", |map| drop(map["data"].as_object_mut().unwrap().remove("holder")));
    assert_eq!(world.next().await, "a", "freed by hand");
    world.allocate(&a, 3).await;
    assert_eq!(world.head(&a), "multinic-state-a");
    world.until("it is ours again", |world| world.api.data("multinic-state-a", "holder") == "ns/one").await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_wrote_is_written_over_and_what_they_deleted_is_made_anew() {
    let (api, a) = (FakeApi::default(), config("a").vms(1));
    let world = World::new(&api).await.let_through(&[&a]).await;
    world.allocate(&a, 1).await;
    api.edit("multinic-state-a", |map| map["data"]["state.json"] = json!("{}"));
    world.allocate(&a, 2).await;
    assert!(api.data("multinic-state-a", "state.json").contains("port-2"));
    api.delete("multinic-state-a");
    world.allocate(&a, 3).await;
    assert!(api.data("multinic-state-a", "state.json").contains("port-3"));
    assert_eq!(world.inventory.health().problem, None);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pruned_object_takes_its_state_along_unless_it_only_went_elsewhere() {
    for is_there in [false, true] {
        let (api, a) = (FakeApi::default(), config("a").vms(9));
        let world = World::start(&api, FakeStore::default(), "", TINY).await.let_through(&[&a]).await;
        world.allocate(&a, 1).await;
        api.set_object("a", is_there);
        world.told.send(SourceEvent::Delete(a.id()));
        let before = api.names();
        assert_eq!(world.record(pruned(&a)).await, multinic_actors::inventory::Kept::Persisted);
        assert_eq!(api.names(), if is_there { before } else { Vec::new() });
        world.end().await;
    }
}

fn pruned(object: &ConfigBuilder) -> Event {
    Event::Pruned { name: object.id().name, keep: BTreeSet::new() }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_told_whatever_the_states_do() {
    let api = FakeApi::default();
    let file = FakeStore::default();
    let maps = Arc::new(StateMaps::start_with(api.client(), String::new(), Sizes::default(), 7));
    let store = StoreWithStates { store: file.clone(), maps };
    assert_eq!(store.save(Arc::default()).await, Ok(Saved::Everywhere));
    file.saves_fail("no space left on device");
    assert!(store.save(Arc::default()).await.unwrap_err().to_string().contains("no space"));
}
