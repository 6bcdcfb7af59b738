//! From what happened to what people are told: the state of a config, derived anew at every change.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::config::{Config, InvalidConfig};
use super::ids::{ConfigId, NodeName, VmId};
use super::port::Verdict;
use super::readback::Reach;
use super::reason::{Reason, SkipReason};
use super::status::{
    ConfigStatus, Degraded, DownPortRetry, MAX_LISTED, MAX_MESSAGE, NodeCounts, PendingChange, SkippedVm,
    VmReport,
};

mod told;

/// How the last round ended, as far as people are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundReport {
    /// Which round.
    pub round: u64,
    /// Whether it wants something else than the one before.
    pub is_changed: bool,
    /// VMs with at least one selected port.
    pub desired: u32,
    /// Selected ports that are DOWN.
    pub down_ports: u32,
    /// Who is left out, and why.
    pub skipped: BTreeMap<VmId, (SkipReason, String)>,
    /// What the change policy holds back.
    pub pending: Vec<PendingChange>,
    /// VM by VM.
    pub vms: Vec<VmReport>,
}

/// Where the deliveries stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryReport {
    /// Nodes that have what the cloud says, recorded as such.
    pub delivered: u32,
    /// Nodes that do not have yet what is wanted for them.
    pub outstanding: u32,
    /// Why, if a POST failed.
    pub failure: Option<String>,
    /// Nodes whose content was refused, with the receiver's words.
    pub refused: Vec<(NodeName, VmId, String)>,
    /// The DOWN-port retry.
    pub down_port_retry: Option<DownPortRetry>,
    /// Deliveries that changed a node, counted since the actor started.
    pub changes: u64,
    /// Why the inventory is not kept, if so.
    pub store_problem: Option<String>,
    /// What stands in the workload cluster, where it is looked at.
    pub workload: Option<WorkloadReport>,
}

/// A config's nodes in the workload cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadReport {
    /// Whether the cluster can be looked at.
    pub reach: Reach,
    /// Nodes that have what was delivered, configured.
    pub configured: u32,
    /// Nodes whose agent is at it.
    pub in_progress: u32,
    /// Nodes whose agent failed, with its words.
    pub failed: Vec<(NodeName, String)>,
    /// Nodes whose object has not been what was delivered for some time.
    pub drifted: Vec<NodeName>,
    /// Nodes whose content another applier stands against, with the API server's words.
    pub conflicts: Vec<(NodeName, String)>,
}

/// A round that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundFailure {
    /// The condition's reason.
    pub reason: Reason,
    /// Stable text.
    pub message: String,
    /// With request id and the next try.
    pub detail: String,
}

/// Everything a config's state is derived from. Kept by the config's actor.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Why the last round failed, if it did.
    pub failure: Option<RoundFailure>,
    /// The last round that succeeded.
    pub round: Option<RoundReport>,
    /// Where the deliveries stand.
    pub delivery: DeliveryReport,
    /// Deliveries counted when the last round began: more now means that it led to changes.
    pub changes_before_round: u64,
    /// The generation whose spec the last ended round used.
    pub observed_generation: i64,
    /// When everything was in order last.
    pub last_synced_at: Option<Timestamp>,
    /// The last error, until the next success.
    pub last_error: Option<String>,
    /// The round that was in order last, and how many changes were delivered by then.
    success: Option<(u64, u64)>,
    /// The verdict on `Ready` that was published last, for the time in which a change is under way.
    pub verdict: Option<(Reason, String)>,
    /// When the next poll is due.
    pub next_poll_at: Option<Timestamp>,
    /// When the last one began.
    pub last_poll_at: Option<Timestamp>,
    /// When the session's token ends.
    pub token_expires_at: Option<Timestamp>,
}

impl Progress {
    /// Derives the state, and notes a success at `now`.
    pub fn status(&mut self, config: &Config, now: Timestamp) -> ConfigStatus {
        let skipped = self.all_skipped();
        let (reason, message) = self.verdict(config, &skipped);
        if reason.ready() == Some(true) && !self.is_settling() {
            self.note_success(now);
        }
        if reason.ready() == Some(false) {
            self.last_error = Some(cut(&message));
        }
        self.verdict = Some((reason, message.clone()));
        let round = self.round.as_ref();
        let workload = told::workload(config, &self.delivery);
        ConfigStatus {
            id: config.id.clone(),
            observed_generation: self.observed_generation,
            ready: reason.ready(),
            reason,
            message: cut(&message),
            degraded: degraded(reason, !skipped.is_empty()),
            paused: config.paused,
            last_synced_at: self.last_synced_at,
            last_error: self.last_error.clone().or_else(|| told::problem(workload.as_ref())),
            down_port_retry: self.delivery.down_port_retry.clone(),
            nodes: NodeCounts {
                desired: round.map_or(0, |round| round.desired),
                delivered: self.delivery.delivered,
                skipped: skipped.len() as u32,
                ..told::counts(self.delivery.workload.as_ref())
            },
            skipped: listed(&skipped),
            pending_changes: round.map_or_else(Vec::new, |round| listed_changes(&round.pending)),
            ports: round.map_or_else(BTreeMap::new, |round| count_verdicts(&round.vms)),
            vms: round.map_or_else(Vec::new, |round| with_skips(&round.vms, &skipped)),
            next_poll_at: self.next_poll_at,
            last_poll_at: self.last_poll_at,
            last_error_detail: self.failure.as_ref().map(|failure| failure.detail.clone()),
            token_expires_at: self.token_expires_at,
            failed: told::failed(self.delivery.workload.as_ref()),
            workload,
        }
    }

    /// What the round that just ended came to. One with changes counts as `Synced`: they are on their way.
    pub fn round_reason(&self, config: &Config) -> Reason {
        let Some(round) = self.round.as_ref().filter(|_| self.failure.is_none()) else {
            return self.failure.as_ref().map_or(Reason::Pending, |failure| failure.reason);
        };
        match none_left(config, &self.all_skipped()) {
            _ if self.delivery.failure.is_some() => Reason::ViolaPostError,
            Some((reason, _)) => reason,
            None if round.is_changed => Reason::Synced,
            None => Reason::NoChange,
        }
    }

    /// Only what is new is a success: being asked again is none.
    fn note_success(&mut self, now: Timestamp) {
        let success = self.round.as_ref().map(|round| (round.round, self.delivery.changes));
        if self.success != success || self.last_synced_at.is_none() {
            self.success = success;
            self.last_synced_at = Some(now);
        }
        self.last_error = None;
    }

    /// Those the round left out, and those the receiver refused.
    fn all_skipped(&self) -> BTreeMap<VmId, (SkipReason, String)> {
        let mut skipped = self.round.as_ref().map_or_else(BTreeMap::new, |round| round.skipped.clone());
        for (node, vm, words) in &self.delivery.refused {
            let message = format!("node {node} was refused: {words}");
            skipped.insert(vm.clone(), (SkipReason::NodeRejected, message));
        }
        skipped
    }

    /// Changes are on their way, and nothing is wrong so far.
    fn is_settling(&self) -> bool {
        self.delivery.outstanding > 0
    }

    fn verdict(&self, config: &Config, skipped: &BTreeMap<VmId, (SkipReason, String)>) -> (Reason, String) {
        if let Some(failure) = &self.failure {
            return (failure.reason, failure.message.clone());
        }
        let Some(round) = &self.round else {
            return self
                .verdict
                .clone()
                .unwrap_or((Reason::Pending, "the first look is under way".to_owned()));
        };
        let undelivered = undelivered(config);
        if let Some(failure) = &self.delivery.failure {
            return (undelivered, failure.clone());
        }
        if let Some(verdict) = none_left(config, skipped) {
            return verdict;
        }
        if self.is_settling() {
            // What was wrong with the cloud is over, this round succeeded; what was wrong with the POST is
            // over when it is delivered.
            let holds = |reason: Reason| reason.ready() != Some(false) || reason == undelivered;
            let last = self.verdict.clone().filter(|(reason, _)| holds(*reason));
            return last.unwrap_or((Reason::Pending, "the delivery is under way".to_owned()));
        }
        let reason = match round.is_changed || self.delivery.changes > self.changes_before_round {
            true => Reason::Synced,
            false => Reason::NoChange,
        };
        let (delivered, desired) = (self.delivery.delivered, round.desired);
        let mut message = format!("{delivered} of {desired} nodes are delivered");
        if let Some(problem) = &self.delivery.store_problem {
            message = format!("{message}; the inventory is kept in memory only: {problem}");
        }
        (reason, message)
    }
}

/// Why a wanted change is undelivered, by the way that it takes.
fn undelivered(config: &Config) -> Reason {
    match config.delivery.direct() {
        Some(_) => Reason::DeliveryError,
        None => Reason::ViolaPostError,
    }
}

/// Every VM is skipped, and none of them because a policy or a removal keeps it where it is.
fn none_left(config: &Config, skipped: &BTreeMap<VmId, (SkipReason, String)>) -> Option<(Reason, String)> {
    let is_kept = |reason: &SkipReason| matches!(reason, SkipReason::ChangeHeld | SkipReason::StaleNode);
    let listed: Vec<_> = config.vms.iter().map_while(|vm| skipped.get(vm)).collect();
    if listed.is_empty()
        || listed.len() < config.vms.len()
        || listed.iter().any(|(reason, _)| is_kept(reason))
    {
        return None;
    }
    let mut counts: BTreeMap<SkipReason, (usize, &str)> = BTreeMap::new();
    for (reason, message) in listed {
        counts.entry(*reason).or_insert((0, message)).0 += 1;
    }
    // Of equally common reasons the first in their order: stable text.
    let (reason, (count, message)) =
        counts.iter().max_by_key(|(reason, (n, _))| (*n, std::cmp::Reverse(**reason)))?;
    let all_for = |wanted| counts.len() == 1 && *reason == wanted;
    let ready = match () {
        () if all_for(SkipReason::NodeNameUnknown) => Reason::NovaError,
        () if all_for(SkipReason::NotDecided) => Reason::InternalError,
        () => Reason::AllSkipped,
    };
    Some((ready, format!("all VMs are skipped, {count} of {} as {reason}: {message}", config.vms.len())))
}

fn degraded(reason: Reason, has_skipped: bool) -> Degraded {
    match reason.ready() {
        Some(false) => Degraded::Error,
        _ if has_skipped => Degraded::PartiallySynced,
        _ => Degraded::Healthy,
    }
}

fn listed(skipped: &BTreeMap<VmId, (SkipReason, String)>) -> Vec<SkippedVm> {
    let skipped = skipped.iter().take(MAX_LISTED);
    skipped
        .map(|(vm, (reason, message))| SkippedVm { vm: vm.clone(), reason: *reason, message: cut(message) })
        .collect()
}

fn listed_changes(pending: &[PendingChange]) -> Vec<PendingChange> {
    let with_cut = |change: &PendingChange| PendingChange { what: cut(&change.what), ..change.clone() };
    pending.iter().take(MAX_LISTED).map(with_cut).collect()
}

fn count_verdicts(vms: &[VmReport]) -> BTreeMap<Verdict, u32> {
    let mut counts = BTreeMap::new();
    for port in vms.iter().flat_map(|vm| &vm.ports) {
        *counts.entry(port.verdict).or_default() += 1;
    }
    counts
}

fn with_skips(vms: &[VmReport], skipped: &BTreeMap<VmId, (SkipReason, String)>) -> Vec<VmReport> {
    let with_skip =
        |vm: &VmReport| VmReport { skipped: skipped.get(&vm.vm).map(|(reason, _)| *reason), ..vm.clone() };
    vms.iter().map(with_skip).collect()
}

/// At most [`MAX_MESSAGE`] bytes, cut at a character.
pub fn cut(message: &str) -> String {
    if message.len() <= MAX_MESSAGE {
        return message.to_owned();
    }
    let mut end = MAX_MESSAGE - '…'.len_utf8();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &message[..end])
}

/// The state of an object that cannot be used as it is.
pub fn invalid(invalid: &InvalidConfig) -> ConfigStatus {
    at_rest(invalid.id.clone(), invalid.generation, invalid.reason, &invalid.message)
}

/// The state of a config whose actors gave up for now.
pub fn gave_up(id: ConfigId, generation: i64, error: &str) -> ConfigStatus {
    let message = format!("the config's actors failed too often and are started again later: {error}");
    at_rest(id, generation, Reason::InternalError, &message)
}

fn at_rest(id: ConfigId, generation: i64, reason: Reason, message: &str) -> ConfigStatus {
    ConfigStatus {
        id,
        observed_generation: generation,
        ready: reason.ready(),
        reason,
        message: cut(message),
        degraded: degraded(reason, false),
        paused: false,
        last_synced_at: None,
        last_error: Some(cut(message)),
        down_port_retry: None,
        nodes: NodeCounts::default(),
        skipped: Vec::new(),
        pending_changes: Vec::new(),
        ports: BTreeMap::new(),
        vms: Vec::new(),
        next_poll_at: None,
        last_poll_at: None,
        last_error_detail: None,
        token_expires_at: None,
        failed: Vec::new(),
        workload: None,
    }
}

#[cfg(test)]
mod tests;
