//! Places where a test may make an actor fail. Without the feature `test-util` they compile to nothing.

/// Where in its life an actor asks for a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// In `pre_start`.
    PreStart,
    /// At the begin of `handle`; the text names the message.
    Handle(&'static str),
    /// In `post_stop`.
    PostStop,
}

/// What a fault plan does to an actor at a hook.
#[cfg(feature = "test-util")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Panics with this text.
    Panic(String),
    /// Returns an error with this text.
    Err(String),
    /// Never goes on: only a kill ends it.
    Hang,
    /// Goes on later: what arrives meanwhile waits.
    Wait(std::time::Duration),
}

/// Decides about faults. Given to one tree ([`super::Tree::with_faults`]), so that tests do not meet.
#[cfg(feature = "test-util")]
pub trait FaultPlan: Send + Sync + 'static {
    /// What happens to the actor `kind`/`name` at `hook`; nothing by default.
    fn decide(&self, kind: &str, name: &str, hook: Hook) -> Option<Fault>;
}

#[cfg(feature = "test-util")]
impl<F> FaultPlan for F
where
    F: Fn(&str, &str, Hook) -> Option<Fault> + Send + Sync + 'static,
{
    fn decide(&self, kind: &str, name: &str, hook: Hook) -> Option<Fault> {
        self(kind, name, hook)
    }
}

#[cfg(feature = "test-util")]
#[expect(clippy::panic, reason = "that is what the plan orders")]
pub(super) async fn suffer(fault: Fault) -> Result<(), super::Suspect> {
    match fault {
        Fault::Panic(text) => std::panic::panic_any(text),
        Fault::Err(text) => Err(super::Suspect::new(text)),
        Fault::Hang => std::future::pending().await,
        Fault::Wait(time) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
    }
}
