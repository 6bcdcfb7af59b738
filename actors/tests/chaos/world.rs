//! Carries out a plan on the real tree over boundaries in memory, and then looks whether all is well.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use multinic_actors::boundary::{CloudError, PostFailure};
use multinic_actors::domain::config::{ChangePolicy, Config, InterfaceOrder, RemovalPolicy};
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::{ConfigBuilder, Ending, Harness, START, config};

use crate::monitor::{Counts, Invariant, Monitor, Violation};
use crate::plan::{
    ActorTrouble, CONFIGS, CloudTrouble, Happening, MACHINES, Pick, Plan, SpecChange, Step, StoreTrouble,
    ViolaTrouble,
};
use crate::truth::{LABEL, Truth, subnet_id};

const SECOND: Duration = Duration::from_secs(1);
/// How long a leader that lost its lease may take to stop in order.
const STOP_IN_ORDER: Duration = Duration::from_secs(4);
/// For how long nobody leads then.
const LEASE: Duration = Duration::from_secs(15);

/// An object that people made, or took away.
pub struct Object {
    pub builder: ConfigBuilder,
    pub machines: Vec<usize>,
    pub exists: bool,
}

pub struct World {
    pub harness: Harness,
    pub monitor: Monitor,
    pub truth: Truth,
    pub objects: Vec<Object>,
    seed: u64,
    generation: i64,
    lives: u64,
    races: usize,
    /// The process is down until then.
    away_until: Option<Duration>,
    /// The store refuses or may be behind.
    store_is_sick: bool,
    /// Objects that come back: when.
    returning: Vec<(Duration, usize)>,
    /// What happens in the cloud by itself later.
    later: Vec<(Duration, Happening)>,
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub violation: Option<Violation>,
    pub effects: Vec<String>,
    pub counts: Counts,
    pub lasted: Duration,
}

impl World {
    async fn new(seed: u64) -> Self {
        let mut harness = Harness::new();
        harness.seed = seed;
        let monitor = Monitor::new(harness.clock.clone(), harness.faults.clone(), harness.store.clone());
        harness.cloud.watched_by(Arc::new(monitor.clone()));
        harness.viola.watched_by(Arc::new(monitor.clone()));
        harness.status.watched_by(Arc::new(monitor.clone()));
        let truth = Truth::new(harness.cloud.clone());
        let machines = [vec![0, 1, 2, 3], vec![3, 4], vec![5, 6]];
        let objects = ["a", "b", "c"].iter().zip(machines).enumerate().map(|(n, (name, machines))| Object {
            // Which is the older differs from which comes first.
            builder: config(name)
                .created(START + SignedDuration::from_secs(60 - n as i64))
                .subnets(&[&subnet_id(0), &subnet_id(2)]),
            machines,
            exists: true,
        });
        let objects = objects.collect();
        let mut world = Self {
            harness,
            monitor,
            truth,
            objects,
            seed,
            generation: 1,
            lives: 0,
            races: 0,
            away_until: None,
            store_is_sick: false,
            returning: Vec::new(),
            later: Vec::new(),
        };
        world.start().await;
        world
    }

    pub fn now(&self) -> Duration {
        self.harness.clock.elapsed()
    }

    async fn start(&mut self) {
        self.away_until = None;
        self.harness.start().await;
        self.monitor.process_began(self.harness.restart_counter());
        (0..CONFIGS).for_each(|object| self.declare(object));
        self.harness.synced();
    }

    /// Tells the operator and the monitor how an object looks now.
    fn declare(&mut self, object: usize) {
        let vms = self.objects[object].machines.iter().map(|machine| self.truth.machines[*machine].vm());
        let builder = self.objects[object].builder.clone().only_vms(vms.collect());
        self.objects[object].builder = builder.clone();
        if self.objects[object].exists {
            self.monitor.declared(builder.clone().build());
            if self.harness.is_running() {
                self.harness.declare(&builder);
            }
        }
    }

    /// As [`Self::declare`], with another generation.
    pub fn change(&mut self, object: usize, change: impl FnOnce(ConfigBuilder) -> ConfigBuilder) {
        self.generation += 1;
        let builder = self.objects[object].builder.clone();
        self.objects[object].builder = change(builder).generation(self.generation);
        self.declare(object);
    }

    /// Lets time pass; who was away comes back in it.
    pub async fn pass(&mut self, time: Duration) {
        let end = self.now() + time;
        loop {
            let later = self.later.iter().map(|(at, _)| *at);
            let returns = self.returning.iter().map(|(at, _)| *at).chain(self.away_until).chain(later).min();
            let Some(next) = returns.filter(|at| *at <= end) else { break };
            self.harness.pass(next.saturating_sub(self.now())).await;
            if self.away_until.is_some_and(|at| at <= next) {
                self.start().await;
            }
            for (at, what) in self.later.extract_if(.., |(at, _)| *at <= next).collect::<Vec<_>>() {
                match &what {
                    Happening::Viola(object, trouble) => self.hurt_viola(*object, trouble),
                    _ => {
                        self.truth.happens(&what, at);
                    }
                }
            }
            let back: Vec<_> = self.returning.extract_if(.., |(at, _)| *at <= next).collect();
            for (_, object) in back {
                self.objects[object].exists = true;
                self.declare(object);
            }
        }
        self.harness.pass(end.saturating_sub(self.now())).await;
    }

    async fn step(&mut self, step: &Step) {
        self.pass(step.wait).await;
        if let Some(what) = &step.what {
            self.happens(what).await;
        }
        self.monitor.note_store(&self.harness.store.content());
        if self.harness.is_running() {
            self.monitor.check_kept(&self.harness.inventory().applied());
            self.check_tree();
        }
    }

    fn check_tree(&self) {
        if self.monitor.is_calm() {
            let orphans = self.harness.orphans();
            if !orphans.is_empty() {
                self.monitor
                    .violates(Invariant::NoActorLeftOrOrphaned, format!("without a parent: {orphans:?}"));
            }
        }
        // Nodes and VMs are few; what grows beyond them grows with time.
        let bound = |what: &str| match what {
            "outbox" => 80,
            "ledger" => 60,
            "claims" | "records" => 40,
            "config states" => CONFIGS,
            _ => 200,
        };
        for (what, size) in self.harness.sizes() {
            if size > bound(what) {
                self.monitor.violates(Invariant::MemoryBounded, format!("{what}: {size}"));
            }
        }
    }

    async fn happens(&mut self, what: &Happening) {
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
            Happening::Jump(seconds) => self.harness.clock.jump(SignedDuration::from_secs(*seconds)),
            Happening::Heal => self.heal(),
            _ => {}
        }
    }

    fn name(&self, object: usize) -> String {
        self.objects[object].builder.id().name.name.to_string()
    }

    /// Under `Prune` records of VMs that are not listed any more may go.
    fn lists_change(&self, object: usize) {
        if self.objects[object].builder.clone().build().removal_policy == RemovalPolicy::Prune {
            self.monitor.may_be_pruned();
        }
    }

    fn spec(&mut self, object: usize, change: &SpecChange) {
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

    fn remove(&mut self, object: usize) {
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

    fn recreate(&mut self, object: usize, gap: Duration) {
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

    fn hurt_cloud(&self, object: usize, trouble: &CloudTrouble) {
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

    fn hurt_viola(&self, object: usize, trouble: &ViolaTrouble) {
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

    fn hurt_store(&mut self, trouble: StoreTrouble) {
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

    async fn process(&mut self, crash: bool, damaged: bool, away: Duration) {
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
    async fn lead(&mut self, terms: &[Duration]) {
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

    async fn root_dies(&mut self) {
        if !self.harness.is_running() {
            return;
        }
        self.monitor.hurt(Duration::ZERO);
        self.harness.lose_root().await;
        (0..CONFIGS).for_each(|object| self.declare(object));
        self.harness.synced();
    }

    fn let_go(&mut self, object: usize, time: Duration) {
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

    fn overtaken(&mut self, machine: usize) {
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

    fn lost_and_back(&mut self, machine: usize) {
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

    pub fn heal(&mut self) {
        for object in 0..CONFIGS {
            let name = self.name(object);
            self.harness.cloud.of(&name).heals();
            self.harness.viola.of(&name).heals();
        }
        self.harness.viola.takes_all();
        self.harness.store.heals();
        self.harness.faults.heal();
        self.monitor.store_may_refuse(self.now() + 400 * SECOND);
        // What the store was behind with is written within its longest pause.
        self.store_is_sick = self.harness.is_running() && self.harness.inventory().health().unpersisted > 0;
    }

    /// Objects that are on their way back are there.
    pub fn bring_all_back(&mut self) {
        for (_, object) in std::mem::take(&mut self.returning) {
            self.objects[object].exists = true;
            self.declare(object);
        }
    }

    /// The objects that exist, as they are declared.
    pub fn existing(&self) -> Vec<(usize, Arc<Config>)> {
        let existing = self.objects.iter().enumerate().filter(|(_, object)| object.exists);
        existing.map(|(number, object)| (number, object.builder.clone().build())).collect()
    }

    /// One object without any of what makes it hard to foretell.
    pub fn make_plain(&mut self, object: Pick) {
        self.change(object, |config| {
            config
                .paused(false)
                .policy(ChangePolicy::Auto)
                .order(InterfaceOrder::Sticky)
                .fast_retries(5)
                .polling(|polling| {
                    polling.fast = 20 * SECOND;
                    polling.slow = 120 * SECOND;
                })
        });
    }
}

/// Lives through a plan to the end, or to the first violation.
pub async fn live(plan: &Plan) -> Outcome {
    let mut world = World::new(plan.seed).await;
    for step in &plan.steps {
        world.step(step).await;
        if world.monitor.violation().is_some() {
            break;
        }
    }
    if world.monitor.violation().is_none() {
        world.quiet().await;
    }
    let is_over = world.harness.is_running();
    if is_over {
        world.harness.halt(Ending::Stop).await;
    }
    let _ = world.seed;
    Outcome {
        violation: world.monitor.violation(),
        effects: world.monitor.effects(),
        counts: world.monitor.counts(),
        lasted: world.now(),
    }
}
