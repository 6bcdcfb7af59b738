use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::lock;
use crate::supervision::{Fault, FaultPlan, Hook};

/// The orders to fail that a tree's actors get. Clones are one plan.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Orders>>);

#[derive(Default)]
struct Orders {
    open: Vec<Order>,
    last_met: Option<tokio::time::Instant>,
}

struct Order {
    kind: &'static str,
    name: Option<String>,
    hook: HookPattern,
    fault: Fault,
    times: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HookPattern {
    Start,
    AnyMessage,
    Message(&'static str),
}

impl HookPattern {
    fn fits(self, hook: Hook) -> bool {
        match (self, hook) {
            (Self::Start, Hook::PreStart) | (Self::AnyMessage, Hook::Handle(_)) => true,
            (Self::Message(wanted), Hook::Handle(word)) => wanted == word,
            _ => false,
        }
    }
}

fn panic_fault() -> Fault {
    Fault::Panic("ordered by the test".to_owned())
}

impl Faults {
    fn order(&self, kind: &'static str, name: Option<&str>, hook: HookPattern, fault: Fault, times: usize) {
        let name = name.map(str::to_owned);
        lock(&self.0).open.push(Order { kind, name, hook, fault, times });
    }

    /// The next actor of this kind that handles a message panics.
    pub fn panic_next(&self, kind: &'static str) {
        self.order(kind, None, HookPattern::AnyMessage, panic_fault(), 1);
    }

    /// The next actor of this kind that handles a message returns an error.
    pub fn fail_next(&self, kind: &'static str) {
        let fault = Fault::Err("ordered by the test".to_owned());
        self.order(kind, None, HookPattern::AnyMessage, fault, 1);
    }

    /// The next actor of this kind that handles this message panics.
    pub fn panic_at(&self, kind: &'static str, message: &'static str) {
        self.order(kind, None, HookPattern::Message(message), panic_fault(), 1);
    }

    /// The next actor of this kind that handles this message returns an error.
    pub fn fail_at(&self, kind: &'static str, message: &'static str) {
        let fault = Fault::Err("ordered by the test".to_owned());
        self.order(kind, None, HookPattern::Message(message), fault, 1);
    }

    /// The next actor of this kind that gets this message needs that long for it.
    pub fn slow_at(&self, kind: &'static str, message: &'static str, time: Duration) {
        self.order(kind, None, HookPattern::Message(message), Fault::Wait(time), 1);
    }

    /// This actor panics at every message.
    pub fn always_panic(&self, kind: &'static str, name: &str) {
        self.order(kind, Some(name), HookPattern::AnyMessage, panic_fault(), usize::MAX);
    }

    /// The next `times` starts of actors of this kind are refused.
    pub fn refuse_starts(&self, kind: &'static str, times: usize) {
        let fault = Fault::Err("start refused by the test".to_owned());
        self.order(kind, None, HookPattern::Start, fault, times);
    }

    /// This actor never starts.
    pub fn refuse_starts_of(&self, kind: &'static str, name: &str) {
        let fault = Fault::Err("start refused by the test".to_owned());
        self.order(kind, Some(name), HookPattern::Start, fault, usize::MAX);
    }

    /// Nobody fails any more.
    pub fn heal(&self) {
        lock(&self.0).open.clear();
    }

    /// Orders that nobody has met yet.
    pub fn open(&self) -> usize {
        lock(&self.0).open.len()
    }

    /// When an actor met an order last.
    pub fn last_met(&self) -> Option<tokio::time::Instant> {
        lock(&self.0).last_met
    }
}

impl FaultPlan for Faults {
    fn decide(&self, kind: &str, name: &str, hook: Hook) -> Option<Fault> {
        let mut plan = lock(&self.0);
        let Orders { open: orders, last_met } = &mut *plan;
        let fits = |order: &Order| {
            order.kind == kind && order.hook.fits(hook) && order.name.as_deref().is_none_or(|n| n == name)
        };
        let found = orders.iter().position(fits)?;
        *last_met = Some(tokio::time::Instant::now());
        let order = &mut orders[found];
        let fault = order.fault.clone();
        order.times = order.times.saturating_sub(1);
        if order.times == 0 {
            orders.remove(found);
        }
        Some(fault)
    }
}

/// A way to hurt an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// It panics at its next message.
    Panic,
    /// Its next message's handler returns an error.
    Err,
    /// It is killed from outside.
    Kill,
    /// It is stopped from outside, which its parent did not ask for.
    Stop,
    /// It is killed, and its next two starts are refused.
    RefuseStart,
}
