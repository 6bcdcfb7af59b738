//! Takes part in the election: carries out what [`Elector`] decides. A reign begins when the lease is won and has
//! ended, POSTs under way included, before anybody else can win it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use kube::Client;
use multinic_actors::domain::backoff::Jitter;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::StartError;
use super::readers::Standing;
use super::reign::{Plan, Reign};
use crate::kube::client::CallError;
use crate::kube::event::{Happening, emit};
use crate::kube::lease::election::{Effect, Elector, Input, Timing};
use crate::kube::lease::{LeaderLabel, LeaseApi, Watchdog, pod_of};
use crate::settings::ElectionSettings;

/// How long before the end of the lease a process ends itself that has not stopped by then.
const LAST_MOMENT: Duration = Duration::from_millis(500);
/// How much longer or shorter than usual a pause may be: replicas must not come in step.
const JITTER: f64 = 0.2;

type Asking = Pin<Box<dyn Future<Output = (Input, Option<CallError>)> + Send>>;

/// One replica in the election.
pub(super) struct Candidate {
    plan: Plan,
    standing: Arc<Standing>,
    client: Client,
    lease: LeaseApi,
    label: Option<LeaderLabel>,
    elector: Elector,
    timing: Timing,
    watchdog: Watchdog,
    jitter: Jitter,
    crash: CancellationToken,
    problem: watch::Sender<Option<String>>,
    asking: Option<Asking>,
    due: Option<Instant>,
    rule: Rule,
    /// The holder that was seen last, and the one before.
    leader: Option<String>,
    former: Option<String>,
    is_over: bool,
}

/// What this process does.
enum Rule {
    /// It stands by.
    None,
    /// It reigns.
    On(Box<Reign>),
    /// Its reign ends.
    Ending {
        task: JoinHandle<()>,
        /// From then on without order.
        at_once: CancellationToken,
        /// When it is cancelled.
        kill_at: Option<Instant>,
    },
}

impl Candidate {
    pub(super) fn new(
        plan: Plan,
        standing: Arc<Standing>,
        client: Client,
        election: &ElectionSettings,
        crash: CancellationToken,
        problem: watch::Sender<Option<String>>,
    ) -> Result<Self, StartError> {
        let timing = Timing::CLIENT_GO;
        let namespace = election.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let pod = election.pod.clone();
        // Unique among all lives of all replicas: a record of an earlier life is not ours.
        let name = pod.as_deref().or(election.host.as_deref()).unwrap_or("multinic-operator");
        let me = format!("{name}_{:032x}", rand::random::<u128>());
        let watchdog = Watchdog::start(|| {
            tracing::error!(
                "the reign did not end before the lease can be another's: the process ends itself"
            );
            std::process::exit(1);
        });
        tracing::info!("standing for election by the Lease {namespace}/{} as {me}", election.id);
        Ok(Self {
            lease: LeaseApi::new(client.clone(), &namespace, &election.id, timing),
            label: pod.map(|pod| LeaderLabel::start(client.clone(), &namespace, pod, rand::random())),
            elector: Elector::new(me, timing),
            watchdog: watchdog.map_err(StartError::new)?,
            jitter: Jitter::new(rand::random()),
            plan,
            standing,
            client,
            timing,
            crash,
            problem,
            asking: None,
            due: Some(Instant::now()),
            rule: Rule::None,
            leader: None,
            former: None,
            is_over: false,
        })
    }

    pub(super) async fn run(mut self, end: CancellationToken) {
        let mut is_ending = false;
        while !self.is_over {
            let (input, error) = tokio::select! {
                biased;
                () = self.crash.clone().cancelled_owned() => return self.die().await,
                () = sleep_until(self.elector.deadline()) => (Input::Tick, None),
                () = self.rule.over() => (Input::ReignOver, None),
                () = end.cancelled(), if !is_ending => {
                    is_ending = true;
                    (Input::End, None)
                }
                answer = answered(&mut self.asking) => answer,
                () = sleep_until(self.due), if self.asking.is_none() => {
                    self.due = None;
                    (Input::Due, None)
                }
            };
            self.note(&input, error);
            let effects = self.elector.step(input, Instant::now());
            self.watch_over();
            self.tell();
            for effect in effects {
                self.carry_out(effect).await;
            }
        }
    }

    fn note(&mut self, input: &Input, error: Option<CallError>) {
        if matches!(input, Input::ReignOver) {
            self.rule = Rule::None;
            self.watchdog.over_by(None);
        }
        if let Some(error) = error {
            let problem = format!("the Lease cannot be read or written: {error}");
            if self.standing.set_problem(Some(problem)) {
                tracing::warn!("the Lease cannot be read or written: {}; trying again", error.detail());
            }
        } else if matches!(input, Input::Read(_) | Input::Written { .. }) && self.standing.set_problem(None) {
            tracing::info!("the Lease can be read and written");
        }
    }

    /// A deadline stays until the reign is over.
    fn watch_over(&self) {
        let last_moment = self.elector.safe_until().and_then(|until| until.checked_sub(LAST_MOMENT));
        if let Some(last_moment) = last_moment {
            self.plan.tenure.lasts_until(last_moment);
            self.watchdog.over_by(Some(last_moment));
        }
    }

    async fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Wait => {
                let pause = self.jitter.spread(self.timing.retry, JITTER);
                self.due = Some(Instant::now() + pause);
            }
            Effect::Start => self.begin().await,
            Effect::Stop { within } => self.stop(within),
            Effect::Finish => self.is_over = true,
            request @ (Effect::Read | Effect::Create(_) | Effect::Update(..)) => {
                self.asking = Some(self.lease.clone().perform(request).boxed());
            }
        }
    }

    async fn begin(&mut self) {
        tracing::info!("this replica leads from now on");
        match Reign::start(&self.plan).await {
            Ok(reign) => {
                self.rule = Rule::On(Box::new(reign));
                self.standing.set_leading(true);
                self.set_label(true);
                self.announce("LeaderElected", "leads from now on");
            }
            Err(error) => {
                tracing::error!("the reign cannot begin: {error}");
                self.rule = Rule::Ending {
                    task: tokio::spawn(async {}),
                    at_once: CancellationToken::new(),
                    kill_at: None,
                };
                self.problem.send_replace(Some(error.to_string()));
            }
        }
    }

    fn stop(&mut self, within: Option<Duration>) {
        let kill_at = within.map(|within| Instant::now() + within);
        if let Some(within) = within {
            // Nobody waits for an answer about the lease any more.
            self.asking = None;
            tracing::error!("this replica leads no longer: the lease was lost; stopping within {within:.1?}");
            self.announce("LeaderLost", "lost the lease and stops");
        }
        self.standing.set_leading(false);
        self.set_label(false);
        self.rule = match std::mem::replace(&mut self.rule, Rule::None) {
            Rule::On(reign) => {
                let at_once = CancellationToken::new();
                let task = tokio::spawn(reign.stop(at_once.clone()));
                Rule::Ending { task, at_once, kill_at }
            }
            Rule::Ending { task, at_once, kill_at: before } => {
                Rule::Ending { task, at_once, kill_at: kill_at.or(before) }
            }
            Rule::None => Rule::None,
        };
    }

    fn set_label(&self, is_leader: bool) {
        if let Some(label) = &self.label {
            label.set(is_leader, self.former.as_deref().map(pod_of));
        }
    }

    /// Shows and logs who leads, when that is another one now.
    fn tell(&mut self) {
        let holder = self.elector.holder();
        if self.leader.as_deref() == holder {
            return;
        }
        if let Some(before) = std::mem::replace(&mut self.leader, holder.map(str::to_owned)) {
            self.former = Some(before);
        }
        let leader = self.leader.as_deref().map(pod_of);
        self.standing.set_leader(leader);
        match leader {
            Some(leader) => tracing::info!("the leader is {leader}"),
            None => tracing::info!("the lease was given back: there is no leader"),
        }
    }

    /// An Event about the lease.
    fn announce(&self, reason: &str, what: &str) {
        let note = format!("{} {what}", pod_of(self.elector.me()));
        let happening = Happening { reason: reason.to_owned(), is_normal: reason != "LeaderLost", note };
        let (client, lease) = (self.client.clone(), self.lease.reference());
        tokio::spawn(async move { emit(client, lease, "Elect", happening).await });
    }

    async fn die(self) {
        let at_once = CancellationToken::new();
        at_once.cancel();
        match self.rule {
            Rule::None => {}
            Rule::On(reign) => reign.stop(at_once).await,
            Rule::Ending { task, at_once, .. } => {
                at_once.cancel();
                let _ = task.await;
            }
        }
        self.watchdog.over_by(None);
    }
}

impl Rule {
    /// Ends when a reign that was told to end has ended; kills it when its time is over.
    async fn over(&mut self) {
        let Self::Ending { task, at_once, kill_at } = self else {
            return std::future::pending().await;
        };
        loop {
            tokio::select! {
                biased;
                ended = &mut *task => {
                    if ended.is_err() {
                        tracing::error!("the reign failed while it stopped");
                    }
                    return;
                }
                () = sleep_until(*kill_at) => {
                    *kill_at = None;
                    at_once.cancel();
                }
            }
        }
    }
}

async fn answered(asking: &mut Option<Asking>) -> (Input, Option<CallError>) {
    match asking {
        Some(request) => {
            let answer = request.await;
            *asking = None;
            answer
        }
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
