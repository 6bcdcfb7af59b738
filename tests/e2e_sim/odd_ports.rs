//! Ports as clouds really have them: without addresses, dates, or sense.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::e2e_support::{Spec, until};
use crate::world::{BIZ, DATA, STORAGE, World, message, says, skips, text, verdicts};

/// A world with one VM.
fn one_vm() -> (World, String) {
    let world = World::new();
    let vm = world.bare_vm("node-0");
    (world, vm)
}

/// Starts a config of one VM and waits for its first round; its state.
async fn first_round(world: &mut World, vm: &str) -> Value {
    world.operator.declare(&world.spec("a", &[vm.to_owned()]));
    world.operator.start().await;
    world.operator.until_config("a", "the first round ended", |config| config["vms"][0]["vm"] == vm).await
}

fn expect(pairs: &[(&String, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(port, verdict)| ((*port).clone(), (*verdict).to_owned())).collect()
}

/// What Viola has for the node: name → (MAC, address).
fn interfaces(world: &World) -> BTreeMap<String, (String, String)> {
    let node = world.viola.node(BIZ, "node-0").unwrap_or_default();
    let list = node["interfaces"].as_array().cloned().unwrap_or_default();
    list.iter().map(|i| (text(&i["name"]), (text(&i["macAddress"]), text(&i["address"])))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_without_a_target_address_are_left_out_with_a_verdict() {
    let (mut world, vm) = one_vm();
    let v6 = world.cloud.add_subnet(&world.networks[DATA], "v6", "fd00:10::/64");
    let other = world.cloud.add_subnet(&world.networks[DATA], "other", "172.16.0.0/24");
    let add = |spec| world.cloud.add_port(spec);
    let naked = add(world.naked_port_spec(&vm, DATA));
    let only_v6 = add(world.naked_port_spec(&vm, DATA).subnet(&v6));
    let elsewhere = add(world.naked_port_spec(&vm, DATA).subnet(&other));
    let both = add(world.naked_port_spec(&vm, DATA).subnet(&v6).subnet(&world.subnets[DATA]));
    let dhcp = add(world.port_spec(&vm, DATA).device_owner("network:dhcp"));
    let building = add(world.port_spec(&vm, DATA).status("BUILD"));
    first_round(&mut world, &vm).await;
    let config = world.operator.until_reason("a", &["Synced", "NoChange"]).await;
    let expected = expect(&[
        (&naked, "NoIPv4"),
        (&only_v6, "NoIPv4"),
        (&elsewhere, "NoTargetSubnet"),
        (&both, "Selected"),
        (&dhcp, "OwnerNotCompute"),
        (&building, "StatusNotAllowed"),
    ]);
    assert_eq!(verdicts(&config), expected);
    until("the one is sent", || world.nic_count("node-0") == 1, String::new).await;
    assert_eq!(config["ports"]["NoIPv4"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn macs_in_any_spelling_are_sent_in_one() {
    let (mut world, vm) = one_vm();
    for mac in ["FA-16-3E-00-00-0B", "fa163e00000c", "FA:16:3E:00:00:0A"] {
        world.cloud.add_port(world.port_spec(&vm, DATA).mac(mac));
    }
    first_round(&mut world, &vm).await;
    until("all three are sent", || world.nic_count("node-0") == 3, String::new).await;
    let macs: Vec<_> = interfaces(&world).into_values().map(|(mac, _)| mac).collect();
    assert_eq!(macs, ["fa:16:3e:00:00:0a", "fa:16:3e:00:00:0b", "fa:16:3e:00:00:0c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_without_a_readable_date_are_left_out_unless_existing_ports_are_wanted() {
    let (mut world, vm) = one_vm();
    let add = |spec| world.cloud.add_port(spec);
    let null = add(world.port_spec(&vm, DATA).null_created_at());
    let missing = add(world.port_spec(&vm, DATA).without_created_at());
    let nonsense = add(world.port_spec(&vm, DATA).created_at("yesterday"));
    let early = add(world.port_spec(&vm, DATA).created_at("2019-12-31T23:59:59Z"));
    let good = add(world.port_spec(&vm, DATA).created_at("2020-01-01T00:00:00"));
    first_round(&mut world, &vm).await;
    let config = world.operator.until_reason("a", &["Synced", "NoChange"]).await;
    let expected = expect(&[
        (&null, "NoCreationTime"),
        (&missing, "NoCreationTime"),
        (&nonsense, "NoCreationTime"),
        (&early, "BeforeBaseline"),
        (&good, "Selected"),
    ]);
    assert_eq!(verdicts(&config), expected);
    world.operator.declare(&world.spec("a", &[vm]).setting("includeExistingPorts: true"));
    until("all five are there", || world.nic_count("node-0") == 5, String::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_port_that_loses_its_date_stays() {
    let (mut world, vm) = one_vm();
    let port = world.port(&vm, DATA);
    let spec = world.spec("a", &[vm]);
    world.run(&spec).await;
    world.viola.forget_posts();
    world.cloud.edit_port(&port, |port| port.created_at = multinic_operator::sim::CreatedAt::Null);
    world.operator.until_polled("a").await;
    world.operator.until_polled("a").await;
    assert_eq!((world.nic_count("node-0"), world.viola.posts().len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn null_fields_do_no_harm() {
    let (mut world, vm) = one_vm();
    let nulls = ["name", "description", "binding:profile", "security_groups", "trunk_details"];
    let spec = nulls.iter().fold(world.port_spec(&vm, DATA), |spec, name| spec.field(*name, Value::Null));
    let odd = world.cloud.add_port(spec.without_status().field("project_id", Value::Null));
    let empty = world.cloud.add_port(world.port_spec(&vm, DATA).field("fixed_ips", Value::Null));
    first_round(&mut world, &vm).await;
    let config = world.operator.until_reason("a", &["Synced", "NoChange"]).await;
    assert_eq!(verdicts(&config), expect(&[(&odd, "Selected"), (&empty, "NoIPv4")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_cannot_be_read_leaves_its_vm_as_it_is_and_the_others_go_on() {
    let mut world = World::new();
    let vms = vec![world.vm("node-0"), world.vm("node-1")];
    let port = world.port(&vms[0], DATA);
    let spec = world.spec("a", &vms);
    world.run(&spec).await;
    let before = world.viola.node(BIZ, "node-0");
    world.viola.forget_posts();
    let raw = json!({"id": port, "device_id": vms[0], "device_owner": "compute:nova", "mac_address": 17});
    world.cloud.set_raw_port(&port, Some(raw));
    let is_skipped = |config: &Value| skips(config).contains_key(&vms[0]);
    let config = world.operator.until_config("a", "the VM is skipped", is_skipped).await;
    assert_eq!(skips(&config)[&vms[0]], "InvalidPort");
    says(&text(&config["skipped"][0]["message"]), &[&port, "mac_address"]);
    assert_eq!(verdicts(&config)[&port], "Unreadable");
    world.port(&vms[1], DATA);
    until("the other VM goes on", || world.nic_count("node-1") == 2, String::new).await;
    assert_eq!(world.viola.node(BIZ, "node-0"), before);
    assert_eq!(world.sent(), BTreeMap::from([("node-1".to_owned(), 1)]));
    world.cloud.set_raw_port(&port, None);
    world.until_delivered(&spec).await;
    assert_eq!(world.sent().get("node-0"), None, "nothing had to be sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_port_of_nobody_knows_whom_fails_the_round() {
    let (mut world, vm) = one_vm();
    let port = world.port(&vm, DATA);
    let spec = world.spec("a", &[vm]);
    world.run(&spec).await;
    let before = world.delivered_state().await;
    for raw in [json!({"id": port}), json!("no object at all"), json!(null)] {
        world.cloud.set_raw_port(&port, Some(raw.clone()));
        let config = world.operator.until_reason("a", &["NeutronPortError"]).await;
        says(&message(&config), &["neutron: list ports"]);
        assert_eq!(world.delivered_state().await, before, "{raw}");
        world.cloud.set_raw_port(&port, None);
        world.operator.until_reason("a", &["NoChange"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_ports_with_one_mac_nothing_is_guessed() {
    let (mut world, vm) = one_vm();
    world.cloud.add_port(world.port_spec(&vm, DATA).mac("fa:16:3e:00:00:01"));
    let double = world.cloud.add_port(world.port_spec(&vm, STORAGE).mac("FA:16:3E:00:00:01"));
    first_round(&mut world, &vm).await;
    let config = world.operator.until_reason("a", &["AllSkipped"]).await;
    assert_eq!(skips(&config)[&vm], "InvalidPort");
    says(&message(&config), &["fa:16:3e:00:00:01"]);
    assert_eq!(world.viola.posts(), []);
    world.cloud.delete_port(&double);
    until("the other is sent", || world.nic_count("node-0") == 1, String::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mtu_that_the_agent_would_take_as_an_order_to_tear_down_is_never_sent() {
    for mtu in [0, 67, 9001] {
        let (mut world, vm) = one_vm();
        world.port(&vm, DATA);
        world.port(&vm, STORAGE);
        world.cloud.set_mtu(&world.networks[STORAGE], mtu);
        first_round(&mut world, &vm).await;
        let config = world.operator.until_reason("a", &["AllSkipped"]).await;
        assert_eq!(skips(&config)[&vm], "InvalidPort");
        says(&message(&config), &[&format!("MTU {mtu}"), &world.networks[STORAGE]]);
        assert_eq!(world.viola.posts(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smallest_and_the_largest_mtu_are_sent() {
    let (mut world, vm) = one_vm();
    world.port(&vm, DATA);
    world.port(&vm, STORAGE);
    world.cloud.set_mtu(&world.networks[DATA], 68);
    world.cloud.set_mtu(&world.networks[STORAGE], 9000);
    let spec = world.spec("a", &[vm]);
    world.run(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eleventh_port_with_the_lowest_mac_evicts_and_renames_nobody() {
    let (mut world, vm) = one_vm();
    for n in 0..10 {
        world.cloud.add_port(world.port_spec(&vm, DATA).mac(format!("fa:16:3e:00:01:{n:02x}")));
    }
    let spec = world.spec("a", std::slice::from_ref(&vm));
    world.run(&spec).await;
    let before = interfaces(&world);
    assert_eq!(before.len(), 10);
    world.viola.forget_posts();
    let eleventh = world.cloud.add_port(world.port_spec(&vm, DATA).mac("00:00:00:00:00:01"));
    let is_over = |config: &Value| verdicts(config).get(&eleventh).map(String::as_str) == Some("OverLimit");
    world.operator.until_config("a", "the eleventh is over the limit", is_over).await;
    world.operator.until_polled("a").await;
    assert_eq!(interfaces(&world), before);
    assert_eq!(world.viola.posts(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_that_is_made_anew_takes_no_delivered_nic_away() {
    let mut world = World::new();
    let spec = world.run_with(3).await;
    let before = world.delivered_state().await.0;
    world.viola.forget_posts();
    world.operator.remove("a");
    world.operator.until_config("a", "it is gone", Value::is_null).await;
    // All ports are older than the new object.
    let anew = Spec { created: jiff::Timestamp::now().to_string(), ..spec };
    world.operator.declare(&anew);
    world.operator.until_polled("a").await;
    world.operator.until_polled("a").await;
    assert_eq!(world.viola.nodes(BIZ), before);
    assert_eq!(world.viola.posts(), []);
    // A port from before the object that no node ever had does not come in.
    let vm = &anew.vms[0];
    let late = world.cloud.add_port(world.port_spec(vm, DATA).created_at("2021-01-01T00:00:00Z"));
    let is_early = |config: &Value| verdicts(config).get(&late).map(String::as_str) == Some("BeforeBaseline");
    world.operator.until_config("a", "the older port stays out", is_early).await;
    assert_eq!(world.viola.posts(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_port_that_passes_through_build_keeps_its_place() {
    let (mut world, vm) = one_vm();
    let ports = [world.port(&vm, DATA), world.port(&vm, DATA)];
    let spec = world.spec("a", &[vm]);
    world.run(&spec).await;
    let before = interfaces(&world);
    world.viola.forget_posts();
    world.cloud.set_port_status(&ports[0], "BUILD");
    world.operator.until_polled("a").await;
    world.operator.until_polled("a").await;
    assert_eq!(interfaces(&world), before);
    world.cloud.set_port_status(&ports[0], "ACTIVE");
    world.operator.until_polled("a").await;
    assert_eq!(world.viola.posts(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_moves_to_another_vm_is_followed() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    let port = world.port(&spec.vms[0], STORAGE);
    world.until_delivered(&spec).await;
    world.cloud.move_port(&port, &spec.vms[1]);
    world.until_delivered(&spec).await;
    assert_eq!((world.nic_count("node-0"), world.nic_count("node-1")), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_address_is_sent_under_the_same_name() {
    let (mut world, vm) = one_vm();
    let port = world.port(&vm, DATA);
    let spec = world.spec("a", &[vm]);
    world.run(&spec).await;
    let before = world.node_names("node-0");
    world.cloud.set_fixed_ips(&port, &[(&world.subnets[DATA], "192.168.200.200")]);
    world.until_delivered(&spec).await;
    assert_eq!(world.node_names("node-0"), before);
}
