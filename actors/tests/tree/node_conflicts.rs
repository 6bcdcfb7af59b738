//! Two that want one node: never a fight, and always the same answer.

use std::time::Duration;

use jiff::SignedDuration;
use multinic_actors::domain::port::TargetSubnet;
use multinic_actors::testing::{ConfigBuilder, Ending, Harness, START, config};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn two_vms_of_one_name_are_both_left_out_and_nobody_overwrites_anybody() {
    let a = config("a").vms(3);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.cloud.vm("a-2").is_named("Node-A-1");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("the third is sent", |world| world.viola.node("node-a-3").is_some()).await;
    world.pass(1200 * SECOND).await;
    assert_eq!(world.viola.times_sent("node-a-1"), 0);
    for vm in ["a-1", "a-2"] {
        assert_eq!(world.skip_of("a", vm).as_deref(), Some("NodeConflict"));
    }
    world.cloud.vm("a-2").is_named("node-a-2");
    world.until_delivered(&a).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn of_two_vms_of_one_name_the_delivered_one_keeps_the_node() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.cloud.vm("a-2").is_named("node-a-1");
    world.until("the second is left out", |world| world.skip_of("a", "a-2").is_some()).await;
    world.pass(1200 * SECOND).await;
    assert_eq!(world.viola.posts().len(), 1, "{}", world.describe());
    assert_eq!(world.skip_of("a", "a-1"), None);
    world.end().await;
}

fn rivals() -> (ConfigBuilder, ConfigBuilder) {
    let old = config("old").vm("o-1").created("2026-01-01T00:00:00Z".parse().unwrap());
    let young = config("young").vm("y-1").created("2026-01-02T00:00:00Z".parse().unwrap());
    (old, young)
}

fn node_of_both(world: &Harness, (old, young): (&ConfigBuilder, &ConfigBuilder)) {
    world.cloud.has(old, 1).has(young, 1);
    world.cloud.vm("o-1").is_named("node");
    world.cloud.vm("y-1").is_named("node");
}

#[tokio::test(start_paused = true)]
async fn two_configs_over_one_node_do_not_fight_whoever_comes_first() {
    for young_first in [false, true] {
        let (old, young) = rivals();
        let mut world = Harness::new();
        node_of_both(&world, (&old, &young));
        world.start().await;
        world.synced();
        let order = if young_first { [&young, &old] } else { [&old, &young] };
        for config in order {
            world.declare(config);
            world.pass(60 * SECOND).await;
        }
        world.until_delivered(&old).await;
        world.pass(3600 * SECOND).await;
        assert_eq!(world.viola.times_sent("node"), 1 + usize::from(young_first), "{}", world.describe());
        assert_eq!(world.skip_of("young", "y-1").as_deref(), Some("NodeConflict"));
        assert_eq!(world.skip_of("old", "o-1"), None);
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_reverse_who_owns_a_node() {
    let (old, young) = rivals();
    let mut world = Harness::new();
    node_of_both(&world, (&old, &young));
    world.start().await;
    world.synced();
    world.declare(&old);
    world.until_delivered(&old).await;
    for ending in [Ending::Stop, Ending::Crash] {
        world.restart(ending).await;
        world.declare(&young);
        world.pass(300 * SECOND).await;
        world.declare(&old);
        world.synced();
        world.pass(600 * SECOND).await;
        assert_eq!(world.viola.times_sent("node"), 1, "{}", world.describe());
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_the_owner_frees_its_node_for_the_other() {
    let (old, young) = rivals();
    let mut world = Harness::new();
    node_of_both(&world, (&old, &young));
    world.start().await;
    world.synced();
    world.declare(&old);
    world.declare(&young);
    world.until_delivered(&old).await;
    world.remove(old.id());
    world.until_delivered(&young).await;
    assert_eq!(world.record("node").unwrap().owner.as_ref().unwrap().id, young.id());
    assert_eq!(world.skip_of("young", "y-1"), None);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_deleted_while_nobody_looked_frees_its_node_once_all_objects_are_known() {
    let (old, young) = rivals();
    let mut world = Harness::new();
    node_of_both(&world, (&old, &young));
    world.start().await;
    world.synced();
    world.declare(&old);
    world.until_delivered(&old).await;
    world.restart(Ending::Stop).await;
    world.declare(&young);
    world.pass(300 * SECOND).await;
    assert_eq!(world.skip_of("young", "y-1").as_deref(), Some("NodeConflict"), "old may still be told of");
    world.synced();
    world.until_delivered(&young).await;
    world.end().await;
}

/// Found by chaos, seed 366: what an earlier life had claimed kept its age.
#[tokio::test(start_paused = true)]
async fn a_recreated_object_is_as_old_as_its_new_life() {
    let later = |seconds| START + SignedDuration::from_secs(seconds);
    let old = config("old").vm("shared");
    let young = config("young").vm("shared").created(later(60));
    let world = Harness::with(&old, 1).await;
    world.until_delivered(&old).await;
    world.declare(&young);
    world.until("the older has it", |world| world.skip_of("young", "shared").is_some()).await;
    // Its VM is listed still, but has nothing to send.
    world.cloud.put_subnet(TargetSubnet {
        id: "elsewhere".into(),
        network: "elsewhere".into(),
        cidr: "192.0.2.0/24".parse().unwrap(),
        mtu: 1500,
    });
    world.declare(&old.clone().recreated("again", later(120)).subnets(&["elsewhere"]).generation(2));
    world.until("the other one has it", |world| world.skip_of("young", "shared").is_none()).await;
    world.until_delivered(&young).await;
    world.end().await;
}
