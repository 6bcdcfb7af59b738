//! Runs seeds, several at a time; shortens what fails.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use multinic_actors::planted::{Bug, plant};
use tokio::runtime::{Builder, Runtime};

use crate::monitor::{Counts, Invariant, Violation};
use crate::plan::Plan;
use crate::world::{Outcome, live};

/// How many runs shortening a plan may take.
const SHRINK_RUNS: usize = 400;

/// A seed that fails, with as few steps as it takes.
#[derive(Clone, Debug)]
pub struct Failure {
    pub plan: Plan,
    pub violation: Violation,
}

/// What was run.
#[derive(Default)]
pub struct Report {
    pub seeds: u64,
    pub counts: Counts,
    pub lasted: Duration,
    pub took: Duration,
    pub failures: BTreeMap<u64, Failure>,
}

/// Panics that a test ordered, and those that are caught and reported, are not printed.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_worker = std::thread::current().name() == Some(WORKER);
            if !is_worker {
                print(info);
            }
        }));
    });
}

const WORKER: &str = "chaos";

/// A runtime whose time is paused.
pub fn paused() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// Lives through a plan in a runtime of its own, in virtual time.
pub fn run(plan: &Plan) -> Outcome {
    let whole = AssertUnwindSafe(live(plan)).catch_unwind();
    let outcome = paused().block_on(whole);
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let text = text.unwrap_or_default();
        let violation = Violation { invariant: Invariant::NothingBreaks, at: Duration::ZERO, text };
        Outcome {
            violation: Some(violation),
            effects: Vec::new(),
            counts: Counts::default(),
            lasted: Duration::ZERO,
        }
    })
}

/// As [`run`], in a thread whose panics are not printed.
pub fn run_apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    hush();
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name(WORKER.to_owned()).spawn_scoped(scope, work);
        worker.unwrap().join().unwrap()
    })
}

/// Leaves out as many steps as can be with the same invariant still broken.
pub fn shrink(plan: &Plan, violation: Violation) -> Failure {
    let mut best = Failure { plan: plan.clone(), violation };
    let mut runs = 0;
    let mut size = best.plan.numbers().len().div_ceil(2);
    while size > 0 && runs < SHRINK_RUNS {
        let mut is_shorter = false;
        let numbers = best.plan.numbers();
        for left_out in numbers.chunks(size) {
            runs += 1;
            let kept: Vec<_> = best.plan.numbers().into_iter().filter(|n| !left_out.contains(n)).collect();
            let shorter = best.plan.keeping(&kept);
            let found = run(&shorter).violation.filter(|v| v.invariant == best.violation.invariant);
            if let Some(violation) = found {
                best = Failure { plan: shorter, violation };
                is_shorter = true;
            }
            if runs >= SHRINK_RUNS {
                break;
            }
        }
        size = if size == 1 && is_shorter { 1 } else { size / 2 };
    }
    best
}

/// Runs these seeds on as many threads as there are processors, until `most` have failed.
pub fn run_seeds(seeds: std::ops::Range<u64>, most: usize, shrinks: bool) -> Report {
    run_seeds_with(seeds, most, shrinks, None)
}

/// As [`run_seeds`], with a bug in the product.
pub fn run_seeds_with(seeds: std::ops::Range<u64>, most: usize, shrinks: bool, bug: Option<Bug>) -> Report {
    hush();
    let began = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let report = Mutex::new(Report::default());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        // The thread ends with its work, and the bug with it.
        plant(bug);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || report.lock().unwrap().failures.len() >= most {
                break;
            }
            let plan = Plan::of(seed);
            let outcome = run(&plan);
            let violation = outcome.violation.filter(|_| bug.is_none() || is_clean_without(bug, &plan));
            let failure = violation.map(|violation| match shrinks {
                true => shrink(&plan, violation),
                false => Failure { plan, violation },
            });
            let mut report = report.lock().unwrap();
            report.seeds += 1;
            report.counts.add(outcome.counts);
            report.lasted += outcome.lasted;
            if let Some(failure) = failure {
                if shrinks {
                    println!("{}", failure.describe());
                }
                report.failures.insert(seed, failure);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            std::thread::Builder::new().name(WORKER.to_owned()).spawn_scoped(scope, work).unwrap();
        }
    });
    let mut report = report.into_inner().unwrap();
    report.took = began.elapsed();
    report
}

/// Whether a bug that is planted in this thread is what breaks the plan.
fn is_clean_without(bug: Option<Bug>, plan: &Plan) -> bool {
    plant(None);
    let is_clean = run(plan).violation.is_none();
    plant(bug);
    is_clean
}

impl Failure {
    /// What a person needs to see it again.
    pub fn describe(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        let Violation { invariant, at, text: what } = &self.violation;
        let numbers: Vec<_> = self.plan.numbers().iter().map(usize::to_string).collect();
        let seed = self.plan.seed;
        let _ = writeln!(text, "seed {seed} breaks {invariant:?} after {at:.1?} of virtual time: {what}");
        let mut waited = Duration::ZERO;
        for step in &self.plan.steps {
            waited += step.wait;
            if let Some(what) = &step.what {
                let _ = writeln!(text, "  {:>4} at about {waited:.1?}: {what:?}", step.number);
            }
        }
        let _ = writeln!(text, "replay: make chaos SEED={seed} KEEP={}", numbers.join(","));
        text
    }
}

impl Report {
    /// One paragraph of figures.
    pub fn describe(&self) -> String {
        let Counts { looks, logins, posts, nodes_sent, restarts, calm_posts } = self.counts;
        let days = self.lasted.as_secs_f64() / 86_400.0;
        let (seeds, failed, took) = (self.seeds, self.failures.len(), self.took);
        format!(
            "{seeds} seeds, {failed} failed; {days:.0} virtual days in {took:.1?}: {looks} looks, {logins} \
             logins, {posts} POSTs ({calm_posts} while nobody was hurt) with {nodes_sent} nodes, {restarts} actors restarted"
        )
    }
}
