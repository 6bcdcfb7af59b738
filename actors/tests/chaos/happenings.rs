//! Carries out what happens: to objects, to the boundaries, to actors.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use multinic_actors::boundary::{CloudError, PostFailure};
use multinic_actors::domain::config::RemovalPolicy;
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::START;

use crate::plan::{
    ActorTrouble, CONFIGS, CloudTrouble, Happening, MACHINES, SpecChange, StoreTrouble, ViolaTrouble,
};
use crate::truth::{LABEL, subnet_id};
use crate::world::{SECOND, World};

impl World {
    pub async fn happens(&mut self, what: &Happening) {
        let now = self.now();
        if let Happening::Flicker(machine, port, _, after) = what {
            self.later.push((now + *after, Happening::Status(*machine, *port, "ACTIVE")));
        }
        if self.truth.happens(what, now) {
            if let Happening::Rebuild(machine) = what {
                let machine = machine % MACHINES;
                for object in 0..CONFIGS {
                    if self.objects[object].machines.contains(&machine) {
                        self.lists_change(object);
                        self.change(object, |builder| builder);
                    }
                }
            }
            return;
        }
        match what {
            Happening::Spec(object, change) => self.spec(object % CONFIGS, change),
            Happening::Remove(object) => self.remove(object % CONFIGS),
            Happening::Recreate(object, gap) => self.recreate(object % CONFIGS, *gap),
            Happening::Cloud(object, trouble) => self.hurt_cloud(object % CONFIGS, trouble),
            Happening::Viola(object, trouble) => self.hurt_viola(object % CONFIGS, trouble),
            Happening::Store(trouble) => self.hurt_store(*trouble),
            Happening::Actor { kind, message, trouble } => {
                let faults = &self.harness.faults;
                match trouble {
                    ActorTrouble::Panic => faults.panic_at(kind, message),
                    ActorTrouble::Err => faults.fail_at(kind, message),
                    ActorTrouble::Slow(time) => faults.slow_at(kind, message, *time),
                    ActorTrouble::RefusedStarts(times) => faults.refuse_starts(kind, *times),
                }
            }
            Happening::Strike { kind, which, kill } if self.harness.is_running() => {
                let actors = self.harness.actors(kind);
                if let Some(victim) = actors.get(which % actors.len().max(1)) {
                    self.monitor.hurt(Duration::ZERO);
                    if *kill { victim.actor.kill() } else { victim.actor.stop(None) }
                }
            }
            Happening::Process { crash, damaged, away } => self.process(*crash, *damaged, *away).await,
            Happening::Lead(terms) => self.lead(terms).await,
            Happening::RootDies => self.root_dies().await,
            Happening::LetGo(object, time) => self.let_go(object % CONFIGS, *time),
            Happening::Overtaken(machine) => self.overtaken(machine % MACHINES),
            Happening::LostAndBack(machine) => self.lost_and_back(machine % MACHINES),
            Happening::PausedAmid(machine) => self.paused_amid(machine % MACHINES),
            Happening::Jump(seconds) => self.harness.clock.jump(SignedDuration::from_secs(*seconds)),
            Happening::Heal => self.heal(),
            _ => {}
        }
    }

    /// Under `Prune` records of VMs that are not listed any more may go.
    pub fn lists_change(&self, object: usize) {
        if self.objects[object].builder.clone().build().removal_policy == RemovalPolicy::Prune {
            self.monitor.may_be_pruned();
        }
    }

    pub fn spec(&mut self, object: usize, change: &SpecChange) {
        match change {
            SpecChange::Paused(paused) => self.change(object, |config| config.paused(*paused)),
            SpecChange::Subnets(subnets) => {
                let ids: Vec<_> = subnets.iter().map(|subnet| subnet_id(*subnet)).collect();
                let ids: Vec<_> = ids.iter().map(String::as_str).collect();
                self.change(object, |config| config.subnets(&ids));
            }
            SpecChange::Machine(machine) => {
                let machine = machine % MACHINES;
                let machines = &mut self.objects[object].machines;
                match machines.iter().position(|listed| *listed == machine) {
                    Some(place) if machines.len() > 1 => drop(machines.remove(place)),
                    Some(_) => {}
                    None => machines.push(machine),
                }
                self.lists_change(object);
                self.change(object, |config| config);
            }
            SpecChange::Policy(policy) => self.change(object, |config| config.policy(*policy)),
            SpecChange::Approve => {
                let status = self.harness.status.of_life(&self.objects[object].builder.id());
                let ids: BTreeSet<_> = status
                    .iter()
                    .flat_map(|status| &status.pending_changes)
                    .map(|change| change.change_id.clone())
                    .collect();
                self.change(object, |config| config.approves_only(ids));
            }
            SpecChange::Order(order) => self.change(object, |config| config.order(*order)),
            SpecChange::Removal(policy) => {
                self.change(object, |config| config.removal(*policy));
                self.lists_change(object);
            }
            SpecChange::Intervals { fast, slow } => self.change(object, |config| {
                config.polling(|polling| {
                    polling.fast = Duration::from_secs(*fast);
                    polling.slow = Duration::from_secs(*slow);
                })
            }),
            SpecChange::FastRetries(max) => self.change(object, |config| config.fast_retries(*max)),
            SpecChange::Provider(other) => {
                self.lists_change(object);
                self.change(object, |config| config.provider(if *other { "other" } else { "biz" }));
            }
            SpecChange::Endpoint(other) => {
                let endpoint = if *other { "http://other" } else { "http://viola" };
                self.change(object, |config| config.viola(endpoint));
            }
            SpecChange::MetadataKey(has) => {
                self.change(object, |config| config.node_name_key(has.then_some(LABEL)));
            }
            SpecChange::Look => {
                let value = format!("{}", self.generation);
                self.change(object, |config| config.force_reconcile(&value));
            }
        }
    }

    pub fn remove(&mut self, object: usize) {
        if !std::mem::replace(&mut self.objects[object].exists, false) {
            return;
        }
        self.lists_change(object);
        let id = self.objects[object].builder.id();
        self.monitor.removed(&id.name);
        if self.harness.is_running() {
            self.harness.remove(id);
        }
    }

    pub fn recreate(&mut self, object: usize, gap: Duration) {
        self.lists_change(object);
        self.lives += 1;
        let uid = format!("uid-{}", self.lives);
        let created = START + SignedDuration::try_from(self.now() + gap).unwrap_or_default();
        self.generation += 1;
        let builder = self.objects[object].builder.clone();
        if gap > Duration::ZERO || self.lives.is_multiple_of(2) {
            self.remove(object);
        }
        self.objects[object].builder = builder.recreated(&uid, created).generation(self.generation);
        self.returning.push((self.now() + gap, object));
        if gap.is_zero() {
            self.returning.retain(|(_, other)| *other != object);
            self.objects[object].exists = true;
            self.declare(object);
        }
    }

    pub fn hurt_cloud(&self, object: usize, trouble: &CloudTrouble) {
        let cloud = self.harness.cloud.of(&self.name(object));
        let fails = |reason: Reason| CloudError::new(reason, format!("the cloud says {reason}"));
        match trouble {
            CloudTrouble::LooksFail(reason, times) => cloud.next_looks_fail(*times, fails(*reason)),
            CloudTrouble::LoginsFail(reason, times) => cloud.next_logins_fail(*times, fails(*reason)),
            CloudTrouble::AllLooksFail(reason) => cloud.looks_fail(fails(*reason)),
            CloudTrouble::WrongPassword => cloud.logins_fail(fails(Reason::KeystoneError)),
            CloudTrouble::LookHangs => cloud.next_look_hangs(),
            CloudTrouble::LookPanics => cloud.next_look_panics(),
            CloudTrouble::LoginHangs => cloud.next_login_hangs(),
            CloudTrouble::LoginPanics => cloud.next_login_panics(),
            CloudTrouble::Slow(look, login) => {
                cloud.looks_take(*look);
                cloud.logins_take(*login);
            }
            CloudTrouble::Lies(lie, times) => cloud.next_looks_lie(*times, *lie),
            CloudTrouble::AsksToWait(pause) => {
                let error = CloudError { retry_after: Some(*pause), ..fails(Reason::NeutronPortError) };
                cloud.next_looks_fail(1, error);
            }
        }
    }

    pub fn hurt_viola(&self, object: usize, trouble: &ViolaTrouble) {
        let delivery = &self.harness.viola;
        let viola = delivery.of(&self.name(object));
        let node = format!("node-{object}");
        match trouble {
            ViolaTrouble::Unavailable(times) => viola.next_fail(*times, PostFailure::Unavailable),
            ViolaTrouble::Refused(times) => viola.next_fail(*times, PostFailure::Refused),
            ViolaTrouble::ServerError(times) => viola.next_fail(*times, PostFailure::ServerError),
            ViolaTrouble::Rejected(times) => viola.next_fail(*times, PostFailure::Rejected),
            ViolaTrouble::AlwaysUnavailable => viola.fails(PostFailure::Unavailable),
            ViolaTrouble::AnswersLost(times) => viola.next_answers_are_lost(*times),
            ViolaTrouble::TakenAndHangs => viola.next_is_taken_and_hangs(),
            ViolaTrouble::Hangs => viola.next_hangs(),
            ViolaTrouble::Panics => viola.next_panics(),
            ViolaTrouble::Slow(time) => viola.takes(*time),
            ViolaTrouble::AsksToWait(pause) => viola.next_asks_to_wait(*pause),
            ViolaTrouble::RefusesNode => delivery.refuses(&node, "not this one"),
            ViolaTrouble::ChokesOn400 => delivery.chokes_on(&node, PostFailure::Refused),
            ViolaTrouble::ChokesOn500 => delivery.chokes_on(&node, PostFailure::ServerError),
            ViolaTrouble::TakesAll => delivery.takes_all(),
        }
    }

    pub fn hurt_store(&mut self, trouble: StoreTrouble) {
        let store = &self.harness.store;
        match trouble {
            StoreTrouble::Full => store.saves_fail("disk full"),
            StoreTrouble::FailsOnce(times) => store.next_saves_fail(times, "disk full"),
            StoreTrouble::Slow(time) | StoreTrouble::Hangs(time) => store.saves_take(time),
            StoreTrouble::Panics => store.next_save_panics(),
            StoreTrouble::Unreadable(times) => store.next_loads_fail(times, "input/output error"),
            StoreTrouble::InPart => return store.saves_in_part("the API server cannot be reached"),
            StoreTrouble::Heals => store.heals(),
        }
        self.store_is_sick = true;
        if !matches!(trouble, StoreTrouble::Slow(_) | StoreTrouble::Heals) {
            self.monitor.store_may_refuse(Duration::MAX);
        }
        self.monitor.store_is_sick(self.now() + 4 * 3600 * SECOND);
    }
}
