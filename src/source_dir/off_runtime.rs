//! File systems may hang: what touches them runs on a thread that nobody waits for longer than the deadline.

use std::time::Duration;

use tokio::sync::oneshot;

/// A call may take so long. One that hangs (a network share that is away) goes on by itself.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);

/// Runs `work` on a thread of its own: off the runtime's threads, and off its pool, for which a stop would wait.
///
/// # Errors
/// When it does not start or panics, with the reason.
pub(super) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (tell, told) = oneshot::channel();
    let run = move || drop(tell.send(work()));
    let started = std::thread::Builder::new().name("config-folder".to_owned()).spawn(run);
    started.map_err(|error| format!("could not be looked at: {error}"))?;
    told.await.map_err(|_| "could not be looked at, the reader failed".to_owned())
}
