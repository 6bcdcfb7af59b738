//! Carries out a plan on the real tree over boundaries in memory, and then looks whether all is well.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use multinic_actors::domain::config::{ChangePolicy, Config, InterfaceOrder};
use multinic_actors::testing::{ConfigBuilder, Ending, Harness, START, config};

use crate::monitor::{Counts, Invariant, Monitor, Violation};
use crate::plan::{CONFIGS, Happening, Pick, Plan, Step};
use crate::truth::{Truth, subnet_id};

pub const SECOND: Duration = Duration::from_secs(1);
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
    pub seed: u64,
    pub generation: i64,
    pub lives: u64,
    pub races: usize,
    /// The process is down until then.
    pub away_until: Option<Duration>,
    /// The store refuses or may be behind.
    pub store_is_sick: bool,
    /// Objects that come back: when.
    pub returning: Vec<(Duration, usize)>,
    /// What happens in the cloud by itself later.
    pub later: Vec<(Duration, Happening)>,
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

    pub async fn start(&mut self) {
        self.away_until = None;
        self.harness.start().await;
        self.monitor.process_began(self.harness.restart_counter());
        (0..CONFIGS).for_each(|object| self.declare(object));
        self.harness.synced();
    }

    /// Tells the operator and the monitor how an object looks now.
    pub fn declare(&mut self, object: usize) {
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
                    Happening::Spec(object, change) => self.spec(*object, change),
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

    pub fn name(&self, object: usize) -> String {
        self.objects[object].builder.id().name.name.to_string()
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
