use multinic_actors::domain::reason::Reason;

use super::super::convert::tests::state;
use super::*;
use crate::kube::observed::Observed;

/// A queue, the objects that exist, and a clock.
struct World {
    queue: Queue,
    observed: ObservedStatuses,
    start: Instant,
    now: Duration,
}

fn id(name: &str) -> ConfigId {
    ConfigId::new("n", name, "1")
}

impl World {
    fn new(objects: &[&str]) -> Self {
        let observed = ObservedStatuses::default();
        for name in objects {
            observed.note(&id(name), Observed { status: None, slow: Some(Duration::from_secs(600)) });
        }
        Self { queue: Queue::new(1), observed, start: Instant::now(), now: Duration::ZERO }
    }

    fn publish(&mut self, name: &str, state: ConfigStatus) {
        self.queue.publish(&id(name), Arc::new(state), self.start + self.now);
    }

    fn synced(&mut self, name: &str, second: i64) {
        let mut state = state(Reason::NoChange);
        state.last_synced_at = Some(Timestamp::from_second(second).unwrap());
        self.publish(name, state);
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// The object and reason of the next write, or in how many seconds there may be one.
    fn next(&mut self) -> Result<Task, Option<u64>> {
        match self.queue.next(self.start + self.now, &self.observed, Timestamp::UNIX_EPOCH) {
            Due::Now(task) => Ok(*task),
            Due::At(at) => Err(Some((at - self.start - self.now).as_secs())),
            Due::Never => Err(None),
        }
    }

    fn done(&mut self, task: &Task, outcome: Outcome) {
        self.queue.done(&task.id, outcome, self.start + self.now);
    }

    fn write(&mut self) -> OpenstackConfigStatus {
        let task = self.next().unwrap();
        self.done(&task, Outcome::Written(Box::new(task.status.clone())));
        task.status
    }
}

fn reason(status: &OpenstackConfigStatus) -> &str {
    &status.conditions[0].reason
}

#[test]
fn the_newest_state_of_an_object_is_written_and_only_once() {
    let mut world = World::new(&["a"]);
    world.publish("a", state(Reason::Pending));
    world.publish("a", state(Reason::Synced));
    assert_eq!(reason(&world.write()), "Synced");
    world.publish("a", state(Reason::Synced));
    assert_eq!(world.next().unwrap_err(), None);
}

#[test]
fn one_write_at_a_time_for_one_object_and_others_do_not_wait() {
    let mut world = World::new(&["a", "b"]);
    world.publish("a", state(Reason::Synced));
    let first = world.next().unwrap();
    world.publish("a", state(Reason::NovaError));
    assert_eq!(world.next().unwrap_err(), None);
    world.publish("b", state(Reason::Synced));
    assert_eq!(world.next().unwrap().id, id("b"));
    world.done(&first, Outcome::Written(Box::new(first.status.clone())));
    assert_eq!(reason(&world.write()), "NovaError");
}

#[test]
fn the_time_of_the_last_success_alone_is_written_once_per_slow_interval() {
    let mut world = World::new(&["a"]);
    world.synced("a", 1);
    world.write();
    for second in [20, 40, 60] {
        world.pass(20);
        world.synced("a", second);
        assert!(world.next().unwrap_err().is_some());
    }
    assert_eq!(world.next().unwrap_err(), Some(540));
    world.pass(540);
    assert_eq!(world.write().last_synced_at.unwrap().0.as_second(), 60);
    assert_eq!(world.next().unwrap_err(), None);
}

#[test]
fn after_a_restart_nothing_is_written_that_stands_there() {
    let mut world = World::new(&["a"]);
    world.synced("a", 1);
    let status = Some(world.write());
    let mut after = World::new(&[]);
    after.observed.note(&id("a"), Observed { status, slow: None });
    after.publish("a", state(Reason::Pending));
    assert_eq!(after.next().unwrap_err(), None);
    after.synced("a", 2);
    assert_eq!(after.next().unwrap_err(), Some(120));
}

#[test]
fn a_write_that_failed_is_tried_again_later_with_the_newest_state() {
    let mut world = World::new(&["a"]);
    world.publish("a", state(Reason::Synced));
    let mut pauses = Vec::new();
    for _ in 0..10 {
        let task = world.next().unwrap();
        world.done(&task, Outcome::Failed { problem: "away".to_owned(), detail: "away: 1".to_owned() });
        world.publish("a", state(Reason::NovaError));
        let pause = world.next().unwrap_err().unwrap();
        pauses.push(pause);
        world.pass(pause + 1);
    }
    assert!(pauses[0] <= 1 && pauses[9] >= 20 && pauses[9] <= 30, "{pauses:?}");
    assert_eq!(reason(&world.write()), "NovaError");
}

#[test]
fn the_status_of_an_object_that_is_gone_is_dropped() {
    let mut world = World::new(&["a", "b"]);
    world.publish("gone", state(Reason::Synced));
    assert_eq!(world.next().unwrap_err(), None);
    world.publish("a", state(Reason::Synced));
    let task = world.next().unwrap();
    world.done(&task, Outcome::Gone);
    world.publish("b", state(Reason::Synced));
    world.queue.forget(&id("b"));
    assert_eq!(world.next().unwrap_err(), None);
    assert!(world.queue.slots.is_empty());
}

#[test]
fn a_write_that_vanished_is_done_again() {
    let mut world = World::new(&["a"]);
    world.publish("a", state(Reason::Synced));
    world.next().unwrap();
    world.queue.lost(world.start);
    world.pass(2);
    assert_eq!(reason(&world.write()), "Synced");
}
