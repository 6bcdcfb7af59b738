//! Children by key.

use multinic_actors::domain::restart::ExitCause;
use multinic_actors::supervision::Outcome;

use crate::world::{ChildMsg, ParentMsg, SECOND, Settings, World, settle};

async fn keys(world: &World) -> Vec<String> {
    world.look(|state| state.many.keys().cloned().collect()).await
}

async fn cast(world: &World, key: &str, message: ChildMsg) -> bool {
    let key = key.to_owned();
    world.look(move |state| state.many.cast(&key, message)).await
}

#[tokio::test(start_paused = true)]
async fn one_child_of_many_fails_alone() {
    let world = World::new().await;
    world.start_many(&["a", "b"]).await;
    assert!(cast(&world, "a", ChildMsg::Panic).await);
    settle().await;
    assert_eq!((world.phase("a"), world.phase("b")), ("restarting".to_owned(), "running".to_owned()));
    assert!(!cast(&world, "a", ChildMsg::Phase("x")).await);
    assert!(cast(&world, "b", ChildMsg::Phase("x")).await);
    assert!(!cast(&world, "unknown", ChildMsg::Phase("x")).await);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(world.phase("a"), "running");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_child_leaves_with_its_end() {
    let world = World::with(Settings { post_stop_takes: SECOND, ..Settings::default() }).await;
    world.start_many(&["a", "b"]).await;
    assert!(world.look(|state| state.many.remove(&"a".to_owned())).await.is_some());
    settle().await;
    assert_eq!(
        (keys(&world).await, world.phase("a")),
        (vec!["a".to_owned(), "b".to_owned()], "stopping".into())
    );
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(keys(&world).await, ["b"]);
    assert_eq!((world.last_exit().name.as_str(), world.last_exit().outcome), ("a", Outcome::Stopped));
    assert_eq!(world.node("a"), None);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_child_that_waited_for_its_restart_leaves_at_once() {
    let world = World::new().await;
    world.start_many(&["a"]).await;
    cast(&world, "a", ChildMsg::Panic).await;
    settle().await;
    assert!(world.look(|state| state.many.remove(&"a".to_owned())).await.is_none());
    assert_eq!((keys(&world).await.len(), world.node("a")), (0, None));
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(world.node("a"), None);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_message_of_a_removed_child_does_not_touch_its_successor() {
    let world = World::new().await;
    world.start_many(&["a"]).await;
    cast(&world, "a", ChildMsg::Panic).await;
    settle().await;
    // The restart message waits behind the removal and a new child that fails as well.
    world.tell(ParentMsg::Slow(2 * SECOND));
    world.tell(ParentMsg::Look(Box::new(|state| {
        state.many.remove(&"a".to_owned());
    })));
    world.tell(ParentMsg::StartMany("a".to_owned()));
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(world.shared.log.lines(), ["stale restart of a"]);
    assert_eq!(world.look(|state| state.many.get(&"a".to_owned()).unwrap().generation()).await, 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_children_that_fail_at_once_all_come_back() {
    let world = World::new().await;
    let names: Vec<String> = (0..1000).map(|n| format!("vm-{n:04}")).collect();
    world.start_many(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for name in &names {
        assert!(cast(&world, name, ChildMsg::Panic).await);
    }
    tokio::time::sleep(2 * SECOND).await;
    let node = world.parent_node();
    assert_eq!(node.children.iter().filter(|child| child.phase == "running").count(), 1001);
    assert_eq!(world.tree.restarts_by("child", ExitCause::Panic), 1000);
    world.end().await;
}
