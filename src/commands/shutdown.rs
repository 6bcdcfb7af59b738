//! SIGTERM and Ctrl-C.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancelled at the first SIGTERM or SIGINT. A second one ends the process at once.
pub(super) fn token() -> CancellationToken {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return tracing::error!("signals cannot be caught: the process ends without order");
        };
        for is_first in [true, false] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            match is_first {
                true => cancelled.cancel(),
                false => std::process::exit(130),
            }
        }
    });
    token
}
