//! The tree as data.

use multinic_actors::supervision::{ChildSlot, ChildSpec, Node, Tree};
use serde_json::json;

use crate::world::{ChildMsg, Failure, World, settle};

/// A slot without an actor: only its entry matters here.
fn entry(parent: &Node, kind: &'static str, name: &str) -> ChildSlot<ChildMsg> {
    ChildSlot::new(ChildSpec::new(kind, name), parent, |_| {})
}

fn names(tree: &Tree) -> Vec<String> {
    tree.snapshot().children.iter().map(|node| format!("{}/{}", node.kind, node.name)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_written_as_the_rest_api_shows_it() {
    let world = World::new().await;
    Failure::Panic.hit(&world.child().await.unwrap());
    settle().await;
    world.tree.root().set_phase("leading");
    let expected = json!({
        "kind": "outer", "name": "o", "phase": "leading", "restarts": 0, "lastError": null,
        "children": [{
            "kind": "parent", "name": "p", "phase": "running", "restarts": 0, "lastError": null,
            "children": [{
                "kind": "child", "name": "one", "phase": "restarting", "restarts": 1, "lastError": "boom",
                "children": [],
            }],
        }],
    });
    assert_eq!(serde_json::to_value(world.tree.snapshot()).unwrap(), expected);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_actor_says_its_phase_and_last_error_itself() {
    let world = World::new().await;
    let node = world.look(|state| state.nodes[0].clone()).await;
    node.set_phase("backing off");
    node.set_last_error(Some("keystone: 401".to_owned()));
    let shown = world.node("one").unwrap();
    assert_eq!((shown.phase.as_str(), shown.last_error.as_deref()), ("backing off", Some("keystone: 401")));
    node.set_last_error(None);
    assert_eq!(world.node("one").unwrap().last_error, None);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_below_a_child_goes_at_its_end_even_if_its_state_lives_on() {
    let world = World::new().await;
    let node = world.look(|state| state.nodes[0].clone()).await;
    let _kept = entry(&node, "grandchild", "g");
    assert_eq!(world.node("one").unwrap().children.len(), 1);
    Failure::Panic.hit(&world.child().await.unwrap());
    settle().await;
    assert_eq!(world.node("one").unwrap().children, []);
    let _late = entry(&node, "grandchild", "late");
    assert_eq!(world.node("one").unwrap().children, []);
    world.end().await;
}

#[tokio::test]
async fn children_are_sorted_by_kind_and_name_and_go_with_their_slot() {
    let tree = Tree::new("root", "r");
    let root = tree.root();
    let slots: Vec<_> = [("port", "b"), ("viola", "v"), ("port", "a"), ("config", "z")]
        .map(|(kind, name)| entry(&root, kind, name))
        .into();
    assert_eq!(names(&tree), ["config/z", "port/a", "port/b", "viola/v"]);
    assert_eq!(
        tree.count_by_kind().into_iter().collect::<Vec<_>>(),
        [("config", 1), ("port", 2), ("root", 1), ("viola", 1)]
    );
    drop(slots);
    assert_eq!(names(&tree), Vec::<String>::new());
    assert_eq!(tree.count_by_kind()["root"], 1);
}

#[tokio::test]
async fn two_trees_of_one_process_do_not_meet() {
    let (one, two) = (Tree::new("root", "1"), Tree::new("root", "2"));
    let _slot = entry(&one.root(), "port", "a");
    assert_eq!((names(&one).len(), names(&two).len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_and_writers_do_not_block_each_other_for_good() {
    let tree = Tree::new("root", "r");
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let root = tree.root();
            tokio::task::spawn_blocking(move || {
                for round in 0..200 {
                    let slots: Vec<_> =
                        (0..10).map(|n| entry(&root, "port", &format!("{writer}-{round}-{n}"))).collect();
                    root.set_phase(format!("{round}"));
                    drop(slots);
                }
            })
        })
        .collect();
    let reader = tree.clone();
    let reading =
        tokio::task::spawn_blocking(move || (0..500).map(|_| reader.snapshot().children.len()).max());
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(reading.await.unwrap().is_some_and(|most| most <= 40));
    assert_eq!(names(&tree), Vec::<String>::new());
}
