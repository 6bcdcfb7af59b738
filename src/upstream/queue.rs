use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::limits::{Permit, Resting};

/// The turn has come, or will not for a while.
pub(super) type Answer = Result<Permit, Resting>;

/// One request that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) service: &'static str,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// Who waits, config by config.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Configs with somebody waiting, in the order of their turns.
    ring: VecDeque<Arc<str>>,
    waiting: HashMap<Arc<str>, VecDeque<Waiter>>,
}

impl Queue {
    pub(super) fn push(&mut self, config: &Arc<str>, waiter: Waiter) {
        let line = self.waiting.entry(Arc::clone(config)).or_default();
        if line.is_empty() {
            self.ring.push_back(Arc::clone(config));
        }
        line.push_back(waiter);
    }

    /// The first whose service is free; its config goes to the end of the ring.
    pub(super) fn next(&mut self, is_free: impl Fn(&'static str) -> bool) -> Option<Waiter> {
        for turn in 0..self.ring.len() {
            let Some(line) = self.waiting.get_mut(&self.ring[turn]) else {
                continue;
            };
            let Some(place) = line.iter().position(|waiter| is_free(waiter.service)) else {
                continue;
            };
            let waiter = line.remove(place);
            let is_empty = line.is_empty();
            if let Some(config) = self.ring.remove(turn) {
                if is_empty {
                    self.waiting.remove(&config);
                } else {
                    self.ring.push_back(config);
                }
            }
            return waiter;
        }
        None
    }

    pub(super) fn take_all(&mut self, service: &'static str) -> Vec<Waiter> {
        let mut taken = Vec::new();
        for line in self.waiting.values_mut() {
            let (gone, stay) = line.drain(..).partition(|waiter| waiter.service == service);
            *line = stay;
            let gone: VecDeque<Waiter> = gone;
            taken.extend(gone);
        }
        self.waiting.retain(|_, line| !line.is_empty());
        let waiting = &self.waiting;
        self.ring.retain(|config| waiting.contains_key(config));
        taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}
