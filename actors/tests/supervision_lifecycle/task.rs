//! Tasks whose result comes back as a message.

use std::time::Duration;

use multinic_actors::supervision::{TaskPanicked, TaskSlot, Ticket, TimerSlot};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;

use crate::world::{SECOND, settle};

/// Hands on what it gets.
struct Collector;

enum Collected {
    Result(Ticket, Result<u32, TaskPanicked>),
    Timer(Ticket),
}

impl Actor for Collector {
    type Msg = Collected;
    type State = mpsc::UnboundedSender<Collected>;
    type Arguments = mpsc::UnboundedSender<Collected>;

    async fn pre_start(
        &self,
        _me: ActorRef<Collected>,
        out: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(out)
    }

    async fn handle(
        &self,
        _me: ActorRef<Collected>,
        message: Collected,
        out: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let _ = out.send(message);
        Ok(())
    }
}

struct World {
    actor: ActorRef<Collected>,
    collected: mpsc::UnboundedReceiver<Collected>,
}

impl World {
    async fn new() -> Self {
        let (tx, collected) = mpsc::unbounded_channel();
        let (actor, _) = Collector::spawn(None, Collector, tx).await.unwrap();
        Self { actor, collected }
    }

    fn start(&self, slot: &mut TaskSlot, takes: Duration, answer: u32) -> Ticket {
        let work = async move {
            tokio::time::sleep(takes).await;
            answer
        };
        slot.start(&self.actor, work, Collected::Result)
    }

    fn results(&mut self) -> Vec<(Ticket, Result<u32, TaskPanicked>)> {
        let mut results = Vec::new();
        while let Ok(Collected::Result(ticket, result)) = self.collected.try_recv() {
            results.push((ticket, result));
        }
        results
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_comes_back_once_and_frees_the_slot() {
    let (mut world, mut slot) = (World::new().await, TaskSlot::new());
    let ticket = world.start(&mut slot, SECOND, 7);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(world.results(), [(ticket, Ok(7))]);
    assert!(slot.accept(ticket));
    assert!(!slot.accept(ticket), "the slot is free again");
    world.actor.stop(None);
}

#[tokio::test(start_paused = true)]
async fn a_new_task_aborts_the_earlier_one() {
    let (mut world, mut slot) = (World::new().await, TaskSlot::new());
    world.start(&mut slot, SECOND, 1);
    let second = world.start(&mut slot, SECOND, 2);
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(world.results(), [(second, Ok(2))]);
    world.actor.stop(None);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_had_left_before_the_next_task_is_refused() {
    let (mut world, mut slot) = (World::new().await, TaskSlot::new());
    let first = world.start(&mut slot, SECOND, 1);
    tokio::time::sleep(2 * SECOND).await;
    let second = world.start(&mut slot, SECOND, 2);
    assert_eq!(world.results().len(), 1);
    assert!(!slot.accept(first) && slot.accept(second));
    world.actor.stop(None);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_or_dropped_task_sends_nothing() {
    let (mut world, mut cancelled, mut dropped) = (World::new().await, TaskSlot::new(), TaskSlot::new());
    world.start(&mut cancelled, SECOND, 1);
    world.start(&mut dropped, SECOND, 2);
    cancelled.cancel();
    drop(dropped);
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(world.results(), []);
    world.actor.stop(None);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_reports_it() {
    let (mut world, mut slot) = (World::new().await, TaskSlot::new());
    let work = async { if slot_is_cursed() { panic!("cursed") } else { 1 } };
    let ticket = slot.start(&world.actor, work, Collected::Result);
    settle().await;
    assert_eq!(world.results(), [(ticket, Err(TaskPanicked("cursed".to_owned())))]);
    world.actor.stop(None);
}

fn slot_is_cursed() -> bool {
    true
}

#[tokio::test(start_paused = true)]
async fn a_timer_sends_its_message_to_the_actor() {
    let (mut world, mut timer) = (World::new().await, TimerSlot::new());
    timer.arm(SECOND, &world.actor, Collected::Timer);
    tokio::time::sleep(2 * SECOND).await;
    let Ok(Collected::Timer(ticket)) = world.collected.try_recv() else { panic!("no message of the timer") };
    assert!(timer.accept(ticket));
    world.actor.stop(None);
}
