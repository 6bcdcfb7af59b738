//! Processes begin and end, leaders come and go, objects change hands; and what goes wrong only when two things
//! happen at the same time.

use std::time::Duration;

use multinic_actors::testing::Ending;

use crate::plan::{CONFIGS, Happening, SpecChange, ViolaTrouble};
use crate::world::{SECOND, World};

/// How long a leader that lost its lease may take to stop in order.
const STOP_IN_ORDER: Duration = Duration::from_secs(4);
/// For how long nobody leads then.
const LEASE: Duration = Duration::from_secs(15);

impl World {
    pub async fn process(&mut self, crash: bool, damaged: bool, away: Duration) {
        if !self.harness.is_running() {
            return;
        }
        self.end_life(if crash { Ending::Crash } else { Ending::Stop }, damaged).await;
        self.away_until = Some(self.now() + away);
        if away.is_zero() {
            self.start().await;
        }
    }

    async fn end_life(&mut self, ending: Ending, damaged: bool) {
        let may_lose = damaged || self.store_is_sick;
        self.harness.halt(ending).await;
        if damaged {
            self.harness.store.loses_the_last_write();
        }
        self.monitor.process_ended(&self.harness.store.content(), may_lose);
    }

    /// Each reign reads the store anew, and moves by a jitter of its own.
    pub async fn lead(&mut self, terms: &[Duration]) {
        if !self.harness.is_running() {
            return;
        }
        for term in std::iter::once(&Duration::ZERO).chain(terms) {
            self.harness.pass(*term).await;
            self.end_life(Ending::Lease(STOP_IN_ORDER), false).await;
            self.harness.pass(LEASE).await;
            self.harness.seed = self.harness.seed.wrapping_add(1);
            self.start().await;
        }
    }

    pub async fn root_dies(&mut self) {
        if !self.harness.is_running() {
            return;
        }
        self.monitor.hurt(Duration::ZERO);
        self.harness.lose_root().await;
        (0..CONFIGS).for_each(|object| self.declare(object));
        self.harness.synced();
    }

    pub fn let_go(&mut self, object: usize, time: Duration) {
        if !std::mem::replace(&mut self.objects[object].exists, false) {
            return;
        }
        // After a restart it is an object that nobody knows.
        self.lists_change(object);
        let id = self.objects[object].builder.id();
        self.monitor.removed(&id.name);
        if self.harness.is_running() {
            self.harness.let_go(id);
        }
        self.returning.push((self.now() + time, object));
    }

    /// The objects that list a machine look at it now.
    fn look_at(&mut self, machine: usize) -> Vec<usize> {
        let listing = (0..CONFIGS).filter(|object| self.objects[*object].machines.contains(&machine));
        let listing: Vec<_> = listing.collect();
        for object in &listing {
            self.spec(*object, &SpecChange::Look);
        }
        listing
    }

    fn attach(&mut self, machine: usize) -> Happening {
        self.races += 1;
        Happening::Attach { machine, subnet: self.races % 3, status: "ACTIVE", addresses: 1 }
    }

    pub fn overtaken(&mut self, machine: usize) {
        let now = self.now();
        let (first, second) = (self.attach(machine), self.attach(machine));
        self.truth.happens(&first, now);
        for object in self.look_at(machine) {
            self.hurt_viola(object, &ViolaTrouble::Slow(80 * SECOND));
            self.later
                .push((now + 90 * SECOND, Happening::Viola(object, ViolaTrouble::Slow(Duration::ZERO))));
        }
        self.later.push((now + 15 * SECOND, second));
    }

    pub fn lost_and_back(&mut self, machine: usize) {
        let now = self.now();
        let first = self.attach(machine);
        self.truth.happens(&first, now);
        for object in self.look_at(machine) {
            self.later.push((now + 30 * SECOND, Happening::Viola(object, ViolaTrouble::AnswersLost(7))));
        }
        let port = self.truth.machines[machine].last_port();
        self.later.push((now + 30 * SECOND, Happening::Status(machine, port, "ERROR")));
        self.later.push((now + 75 * SECOND, Happening::Status(machine, port, "ACTIVE")));
    }

    pub fn paused_amid(&mut self, machine: usize) {
        let now = self.now();
        let change = self.attach(machine);
        self.truth.happens(&change, now);
        for object in self.look_at(machine) {
            self.hurt_viola(object, &ViolaTrouble::Unavailable(4));
            for (after, is_paused) in [(5, true), (110, false)] {
                let change = SpecChange::Paused(is_paused);
                self.later.push((now + after * SECOND, Happening::Spec(object, change)));
            }
        }
    }
}
