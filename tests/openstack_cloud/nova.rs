use std::time::Duration;

use multinic_actors::domain::ids::VmId;
use multinic_actors::domain::port::{Observation, Server};
use multinic_actors::domain::reason::Reason;
use multinic_operator::openstack::OpenstackSettings;
use serde_json::json;

use super::bench::Bench;
use super::fake::Fault;

fn of<'a>(observation: &'a Observation, vm: &str) -> &'a Server {
    &observation.servers[&VmId::new(vm)]
}

fn name<'a>(observation: &'a Observation, vm: &str) -> &'a str {
    match of(observation, vm) {
        Server::Found { name, .. } => name,
        other => panic!("{other:?}"),
    }
}

/// Names are read anew at every poll.
async fn without_cache() -> Bench {
    Bench::with(OpenstackSettings { cache_ttl: Duration::ZERO, ..Default::default() }).await
}

#[tokio::test]
async fn one_server_is_asked_for_by_id_and_many_by_the_list() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(5);
    let one = bench.poll(&bench.config("one", &vms[..1])).await.unwrap();
    assert_eq!(name(&one, &vms[0]), "vm-0");
    assert_eq!((bench.fake.count("get server"), bench.fake.count("list servers")), (1, 0));
    let all = bench.poll(&bench.config("all", &vms)).await.unwrap();
    assert_eq!(name(&all, &vms[4]), "vm-4");
    assert_eq!((bench.fake.count("get server"), bench.fake.count("list servers")), (1, 1));
    let Server::Found { metadata, .. } = of(&all, &vms[4]) else { panic!() };
    assert_eq!(metadata["node"], "meta-vm-4");
}

#[tokio::test]
async fn what_the_list_lacks_is_asked_for_by_id_before_it_counts_as_gone() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(4);
    {
        let mut world = bench.fake.world();
        world.servers.get_mut(&vms[1]).unwrap()["hidden"] = json!(true);
        world.servers.remove(&vms[2]);
    }
    let seen = bench.poll(&bench.config("c", &vms)).await.unwrap();
    assert_eq!(name(&seen, &vms[1]), "vm-1");
    assert_eq!(of(&seen, &vms[2]), &Server::NotFound);
    assert_eq!((bench.fake.count("get server"), bench.fake.count("list servers")), (2, 1));
}

#[tokio::test]
async fn the_list_is_read_no_further_than_needed() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(30);
    bench.fake.world().page = 10;
    // All three are on the first page.
    bench.poll(&bench.config("c", &vms[..3])).await.unwrap();
    assert_eq!((bench.fake.count("get server"), bench.fake.count("list servers")), (0, 1));
    // Two on the last: after one page, asking for them is as cheap as reading on.
    let bench = Bench::start().await;
    let vms = bench.fake.vms(100);
    bench.fake.world().page = 10;
    let seen = bench.poll(&bench.config("c", &vms[98..])).await.unwrap();
    assert_eq!(name(&seen, &vms[99]), "vm-99");
    assert_eq!((bench.fake.count("get server"), bench.fake.count("list servers")), (2, 2));
}

#[tokio::test]
async fn a_failing_nova_keeps_the_known_names() {
    let bench = without_cache().await;
    let vms = bench.fake.vms(3);
    let config = bench.config("c", &vms);
    bench.poll(&config).await.unwrap();
    bench.fake.break_down("list servers", Fault::Status(500, r#"{"computeFault": {"message": "broken"}}"#));
    bench.fake.world().servers.get_mut(&vms[0]).unwrap()["name"] = json!("renamed");
    let seen = bench.poll(&config).await.unwrap();
    assert_eq!((name(&seen, &vms[0]), name(&seen, &vms[2])), ("vm-0", "vm-2"));
    // And is left alone for a while where nothing is missing.
    bench.fake.clear_log();
    bench.poll(&config).await.unwrap();
    assert_eq!(bench.fake.count("list servers"), 0);
    bench.fake.world().broken.clear();
    assert_eq!(name(&bench.poll_anew(&config).await.unwrap(), &vms[0]), "renamed");
}

#[tokio::test]
async fn a_server_without_a_known_name_is_unknown_with_the_cause() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(2);
    bench.fake.break_down("list servers", Fault::Status(503, ""));
    let seen = bench.poll(&bench.config("c", &vms)).await.unwrap();
    for vm in &vms {
        assert_eq!(of(&seen, vm), &Server::Unknown("nova: list servers: 503 Service Unavailable".to_owned()));
    }
    assert_eq!(seen.ports.len(), 2);
}

#[tokio::test]
async fn one_broken_server_does_not_hide_the_others() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(3);
    for vm in &vms {
        bench.fake.world().servers.get_mut(vm).unwrap()["hidden"] = json!(true);
    }
    bench.fake.fault("get server", [Fault::Status(500, "{}")]);
    let seen = bench.poll(&bench.config("c", &vms)).await.unwrap();
    let unknown = vms.iter().filter(|vm| matches!(of(&seen, vm), Server::Unknown(_))).count();
    assert_eq!(unknown, 1);
}

#[tokio::test]
async fn a_front_ends_404_does_not_mean_that_the_server_is_gone() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(1);
    bench.fake.break_down("get server", Fault::Status(404, "<html><title>404 Not Found</title></html>"));
    let seen = bench.poll(&bench.config("c", &vms)).await.unwrap();
    assert!(matches!(of(&seen, &vms[0]), Server::Unknown(_)));
}

#[tokio::test]
async fn a_hanging_nova_costs_one_deadline_not_one_per_server() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(20);
    bench.fake.break_down("list servers", Fault::Hang);
    let mut config = bench.config("c", &vms);
    config.cloud.timeout = Duration::from_secs(1);
    let seen = bench.poll(&config).await.unwrap();
    assert!(matches!(of(&seen, &vms[7]), Server::Unknown(_)));
    assert_eq!((bench.fake.count("list servers"), bench.fake.count("get server")), (1, 0));
}

#[tokio::test]
async fn without_a_compute_service_there_are_no_names_to_ask_for() {
    let bench = Bench::start().await;
    let vms = bench.fake.vms(1);
    bench.fake.world().catalog.as_array_mut().unwrap().pop();
    let seen = bench.poll(&bench.config("c", &vms)).await.unwrap();
    assert_eq!(of(&seen, &vms[0]), &Server::NoComputeService);
}

#[tokio::test]
async fn a_compute_service_without_a_usable_endpoint_is_an_error() {
    let bench = Bench::start().await;
    bench.fake.world().catalog[1]["endpoints"] = json!([]);
    let error = bench.poll(&bench.config("c", &bench.fake.vms(1))).await.unwrap_err();
    assert_eq!(error.reason, Reason::NovaError);
    assert_eq!(error.message, "nova: the catalog has no compute endpoint; it has none");
}
