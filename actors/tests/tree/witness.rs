//! What is told to metrics and to the audit log.

use std::time::Duration;

use multinic_actors::boundary::{CloudError, PostFailure};
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::{Harness, config, nic};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn every_round_is_told_once_with_what_it_came_to() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.cloud.vm("a-1").gets(nic(9).down());
    world.until_delivered(&a).await;
    world.pass(30 * SECOND).await;
    world.cloud.of("a").next_looks_fail(1, CloudError::new(Reason::NeutronPortError, "no"));
    world.until_reason("a", Reason::NeutronPortError).await;
    let rounds = world.witness.rounds();
    assert_eq!(rounds.len(), world.cloud.looks().len(), "{rounds:#?}");
    let reasons: Vec<_> = rounds.iter().map(|round| (round.reason, round.down_ports)).collect();
    assert_eq!(reasons[..2], [(Reason::Synced, Some(0)), (Reason::Synced, Some(1))], "{reasons:?}");
    assert_eq!(reasons[2], (Reason::NoChange, Some(1)), "{reasons:?}");
    assert_eq!(reasons.last(), Some(&(Reason::NeutronPortError, None)));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_round_takes_as_long_as_its_look() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.cloud.of("a").looks_take(3 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    let took = world.witness.rounds()[0].took;
    assert!((3 * SECOND..4 * SECOND).contains(&took), "{took:?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_with_what_was_before_and_how_long_its_ports_waited() {
    let a = config("a").vms(2);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.pass(SECOND).await;
    world.viola.of("a").next_fail(1, PostFailure::Unavailable);
    world.cloud.vm("a-1").gets(nic(9));
    world.until_delivered(&a).await;
    world.pass(600 * SECOND).await;
    let told = world.witness.deliveries();
    assert_eq!(told.len(), 2, "no re-send and no failure is a change: {told:#?}");
    assert!(told[0].nodes.iter().all(|node| node.before.is_none()));
    assert_eq!(told[0].waits.len(), 2);
    let [node] = told[1].nodes.as_slice() else { unreachable!("{told:#?}") };
    let before = node.before.as_ref().unwrap();
    assert_eq!((before.interfaces.len(), node.after.interfaces.len()), (1, 2));
    let [wait] = told[1].waits[..] else { unreachable!("{told:#?}") };
    assert!(wait >= SECOND && wait <= 10 * SECOND, "it waited for the second POST: {wait:?}");
    world.end().await;
}
