//! How a child ended: reading ractor's events and errors.

use std::fmt;
use std::time::Duration;

use ractor::{ActorProcessingErr, SpawnErr, SupervisionEvent};

use crate::domain::restart::ExitCause;

/// The reason that ractor gives for a kill.
const KILLED: &str = "killed";

/// A child ended, or did not start, and what its slot has done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildExit {
    /// What it is: `config`, `port`, …
    pub kind: &'static str,
    /// Which one of its kind.
    pub name: String,
    /// Which start of it this was.
    pub generation: u64,
    /// Why it ended.
    pub cause: ExitCause,
    /// The panic's, error's or stop's text.
    pub error: String,
    /// What happens next.
    pub outcome: Outcome,
}

/// What happens to a child that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was told to stop, and stays stopped.
    Stopped,
    /// The slot sends its restart message after this long.
    RestartIn(Duration),
    /// It failed too often. The parent decides: try again later ([`super::ChildSlot::retry_after`]), leave
    /// it, or end itself with an error, which takes the failure one level up.
    GaveUp,
}

impl fmt::Display for ChildExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, cause, error, .. } = self;
        write!(f, "{kind} {name}: {cause}: {error}")?;
        match self.outcome {
            Outcome::Stopped => Ok(()),
            Outcome::RestartIn(delay) => write!(f, ", restarting in {delay:?}"),
            Outcome::GaveUp => f.write_str(", gave up"),
        }
    }
}

impl std::error::Error for ChildExit {}

/// The error of a handler whose actor's state is suspect: restart it. Typed, because ractor hands a panic
/// over as a bare text, and a bare text as an error cannot be told from one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Suspect(String);

impl Suspect {
    /// Says what makes the state suspect.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Cause and text of an end, or `None` if the event is none.
pub(super) fn read_event(event: &SupervisionEvent) -> Option<(ExitCause, String)> {
    match event {
        SupervisionEvent::ActorFailed(_, error) => Some((cause_of(error), error.to_string())),
        SupervisionEvent::ActorTerminated(_, state, reason) => {
            // Killed in a hook or cancelled, there is no state; killed in the message loop, only this text.
            let is_killed = state.is_none() || reason.as_deref() == Some(KILLED);
            let cause = if is_killed { ExitCause::Killed } else { ExitCause::Stopped };
            Some((cause, reason.clone().unwrap_or_else(|| cause.to_string())))
        }
        SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => None,
    }
}

/// A panic arrives as the standard library's error for a bare text, whose `Debug` is the quoted text.
fn cause_of(error: &ActorProcessingErr) -> ExitCause {
    let is_bare_text = format!("{error:?}") == format!("{:?}", error.to_string());
    if is_bare_text { ExitCause::Panic } else { ExitCause::Error }
}

/// Whether the actor ended because one of its own children failed too often.
pub(super) fn is_over_a_child(event: &SupervisionEvent) -> bool {
    let SupervisionEvent::ActorFailed(_, error) = event else { return false };
    error.downcast_ref::<ChildExit>().is_some_and(|exit| exit.outcome == Outcome::GaveUp)
}

pub(super) fn read_refusal(error: &SpawnErr) -> String {
    match error {
        SpawnErr::StartupFailed(error) => error.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_text_counts_as_a_panic_and_a_typed_error_as_an_error() {
        assert_eq!(cause_of(&ActorProcessingErr::from("boom \"x\"")), ExitCause::Panic);
        assert_eq!(cause_of(&ActorProcessingErr::from(Suspect::new("boom"))), ExitCause::Error);
        assert_eq!(cause_of(&ActorProcessingErr::from(std::fmt::Error)), ExitCause::Error);
    }

    #[test]
    fn an_exit_reads_as_a_log_line() {
        let exit = ChildExit {
            kind: "port",
            name: "vm-1".to_owned(),
            generation: 1,
            cause: ExitCause::Panic,
            error: "index out of bounds".to_owned(),
            outcome: Outcome::RestartIn(Duration::from_millis(100)),
        };
        assert_eq!(exit.to_string(), "port vm-1: panic: index out of bounds, restarting in 100ms");
    }
}
