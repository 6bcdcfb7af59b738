//! The root of the tree fails and is started anew while the program runs on.

use serde_json::json;

use crate::world::{STORAGE, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_root_is_started_anew_and_nothing_is_forgotten_or_sent_again() {
    let mut world = World::new();
    let spec = world.run_with(3).await;
    let before = world.delivered_state().await;
    world.viola.forget_posts();
    for _ in 0..2 {
        let inventory = world
            .operator
            .running()
            .inventory()
            .and_then(|handle| handle.actor())
            .expect("a running inventory");
        let root = inventory.try_get_supervisor().expect("the root supervises it");
        root.kill();
        let is_another = || {
            let handle = world.operator.running().inventory();
            let now = handle.and_then(|handle| handle.actor()).and_then(|actor| actor.try_get_supervisor());
            now.is_some_and(|now| now.get_id() != root.get_id())
        };
        crate::e2e_support::until("the root is another", is_another, String::new).await;
        world.operator.until_polled("a").await;
        world.operator.until_polled("a").await;
        assert_eq!(world.viola.posts(), []);
        assert_eq!(world.delivered_state().await, before);
    }
    let (status, tree) = world.operator.get("/v1/actors").await;
    assert_eq!((status, &tree["phase"]), (200, &json!("running")), "{tree:#}");
    world.port(&spec.vms[1], STORAGE);
    world.until_delivered(&spec).await;
    assert_eq!(world.sent().len(), 1, "{:?}", world.sent());
}
