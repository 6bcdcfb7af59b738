//! Subnets, regions, interfaces and endpoints that an object names and the cloud does not have.

use multinic_operator::sim::{Fault, Operation, Service};
use serde_json::json;

use crate::e2e_support::{Spec, delivered, until};
use crate::process::Process;
use crate::world::{BIZ, DATA, World, message, says};

/// Starts one config; its message once it is not ready for this reason.
async fn refused(world: &mut World, spec: &Spec, reason: &str) -> String {
    world.operator.declare(spec);
    world.operator.start().await;
    let config = world.operator.until_reason(&spec.name, &["Synced", "NoChange", reason]).await;
    assert_eq!((&config["reason"], &config["ready"]), (&json!(reason), &json!(false)), "{config:#}");
    assert_eq!(world.viola.posts(), [], "nothing is sent");
    message(&config)
}

fn by_name(world: &World, name: &str) -> Spec {
    Spec { subnets: Vec::new(), spec: vec![format!("subnetName: {name}")], ..world.spec("a", &world.vms(1)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_subnet_is_named() {
    let mut world = World::new();
    let subnet = "deadbeef-0000-4000-8000-000000000000".to_owned();
    let spec =
        Spec { subnets: vec![world.subnets[DATA].clone(), subnet.clone()], ..world.spec("a", &world.vms(1)) };
    let message = refused(&mut world, &spec, "SubnetNotFound").await;
    says(&message, &[&subnet]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subnet_that_vanishes_takes_nothing_away() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    let before = world.delivered_state().await;
    world.viola.forget_posts();
    world.cloud.delete_subnet(&spec.subnets[DATA]);
    world.operator.declare(&spec.clone().annotation("force-reconcile", "look again"));
    world.operator.until_reason("a", &["SubnetNotFound"]).await;
    assert_eq!(world.delivered_state().await, before);
    assert_eq!(world.viola.posts(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subnet_name_that_fits_none_is_told() {
    let mut world = World::new();
    let spec = by_name(&world, "backbone");
    let message = refused(&mut world, &spec, "SubnetNotFound").await;
    says(&message, &["\"backbone\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subnet_name_that_fits_two_is_told() {
    let mut world = World::new();
    world.cloud.add_subnet(&world.networks[DATA], "data", "172.16.0.0/24");
    let spec = by_name(&world, "data");
    let message = refused(&mut world, &spec, "SubnetNotUnique").await;
    says(&message, &["2 subnets", "\"data\"", "by its id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subnet_name_is_looked_for_in_the_own_project_first() {
    let mut world = World::new();
    let other = world.cloud.add_project("other");
    let network = world.cloud.add_network(&other, "shared", 1500);
    world.cloud.set_shared(&network, true);
    world.cloud.add_subnet(&network, "data", "172.16.0.0/24");
    let spec = by_name(&world, "data");
    world.operator.declare(&spec);
    world.operator.start().await;
    until("the node is there", || world.viola.nodes("biz").len() == 1, String::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_region_that_the_catalog_lacks_is_told_with_those_it_has() {
    let mut world = World::new();
    let spec = world.spec("a", &world.vms(1)).setting("openstackEndpointRegion: Mars");
    let message = refused(&mut world, &spec, "NeutronEndpointError").await;
    says(&message, &["region Mars", "public in RegionOne", "internal in RegionOne"]);
    assert_eq!(world.requests()[3], 0, "Neutron is not asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interface_that_the_catalog_lacks_is_told_with_those_it_has() {
    let mut world = World::new();
    let catalog = world.cloud.catalog().retain("network", |endpoint| endpoint.interface == "public");
    world.cloud.set_catalog(catalog);
    let spec = world.spec("a", &world.vms(1)).setting("openstackEndpointInterface: internal");
    let message = refused(&mut world, &spec, "NeutronEndpointError").await;
    says(&message, &["interface internal", "public in RegionOne"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_without_neutron_is_told_with_the_services_it_has() {
    let mut world = World::new();
    let catalog = world.cloud.catalog();
    world.cloud.set_catalog(catalog.without("network"));
    let spec = world.spec("a", &world.vms(1));
    let message = refused(&mut world, &spec, "NeutronEndpointError").await;
    says(&message, &["no network service", "compute", "identity"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_compute_service_the_vm_id_is_the_node() {
    let mut world = World::new();
    let catalog = world.cloud.catalog();
    world.cloud.set_catalog(catalog.without("compute"));
    let spec = world.spec("a", &world.vms(1));
    world.operator.declare(&spec);
    world.operator.start().await;
    world.operator.until_reason("a", &["Synced", "NoChange"]).await;
    until("the node is there", || world.nic_count(&spec.vms[0]) == 1, String::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compute_service_without_a_usable_endpoint_is_an_error_and_no_name_is_guessed() {
    let mut world = World::new();
    let catalog = world.cloud.catalog();
    world.cloud.set_catalog(catalog.without_endpoints("compute"));
    let spec = world.spec("a", &world.vms(1));
    refused(&mut world, &spec, "NovaError").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_in_the_object_override_the_catalog() {
    let mut world = World::new();
    let catalog = world.cloud.catalog();
    world.cloud.set_catalog(
        catalog
            .map_urls("network", |_| "http://127.0.0.1:1".to_owned())
            .map_urls("compute", |_| "http://127.0.0.1:1/v2.1".to_owned()),
    );
    let spec = world
        .spec("a", &world.vms(1))
        .setting(&format!("openstackNeutronEndpoint: {}/v2.0/", world.cloud.url(Service::Neutron)))
        .setting(&format!("openstackNovaEndpoint: {}", world.cloud.url(Service::Nova)));
    world.run(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_fields_are_told_all_at_once() {
    let mut world = World::new();
    let spec = Spec {
        contrabass: String::new(),
        viola: String::new(),
        k8s_provider: String::new(),
        ..world.spec("a", &world.vms(1))
    };
    let message = refused(&mut world, &spec, "ConfigError").await;
    says(&message, &["spec.settings.contrabassEndpoint", "spec.settings.violaEndpoint", "k8sProviderID"]);
    assert_eq!(world.requests(), [0; 4]);
    let mended = world.spec("a", &spec.vms);
    world.operator.declare(&mended);
    world.until_delivered(&mended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_subnet_one_is_asked_for() {
    let mut world = World::new();
    let spec = Spec { subnets: Vec::new(), ..world.spec("a", &world.vms(1)) };
    let message = refused(&mut world, &spec, "SubnetRequired").await;
    says(&message, &["subnetIDs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_viola_endpoint_serves_objects_that_name_none() {
    let mut world = World::new();
    let flag = format!("--viola-endpoint={}", world.viola.url());
    world.operator = crate::e2e_support::Operator::new().flag(&flag);
    let spec = Spec { viola: String::new(), ..world.spec("a", &world.vms(1)) };
    world.run(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nova_outage_is_logged_once_and_its_end_too() {
    let world = World::new();
    let spec = world.quiet_spec("a", &world.vms(2));
    world.operator.declare(&spec);
    let process = Process::start(&world.operator, &[]).await;
    let looks = || world.requests()[2];
    let lines = |words: &str| process.log_text().matches(words).count();
    let state = || process.log_end();
    until("delivered", || delivered(&world.viola, BIZ) == world.expected(&spec), state).await;
    for operation in [Operation::ListServers, Operation::ShowServer] {
        world.fault(operation, Fault::Status(503));
    }
    for value in ["1", "2"] {
        let before = looks();
        world.operator.declare(&spec.clone().annotation("force-reconcile", value));
        until("nova was asked", || looks() > before, state).await;
        until("it was told", || lines("the server names that are known stay in use") > 0, state).await;
    }
    assert_eq!(lines("server names are read again"), 0);
    world.cloud.clear_faults();
    world.operator.declare(&spec.clone().annotation("force-reconcile", "3"));
    until("its end was told", || lines("server names are read again") > 0, state).await;
    assert_eq!(lines("the server names that are known stay in use"), 1, "{}", process.log_text());
    assert_eq!(world.sent().values().sum::<usize>(), 2, "{:?}", world.sent());
}
