//! Many objects into one cluster: some at a time, with patience for what passes, and without insisting where
//! nobody answers.

use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use kube::Client;
use kube::core::DynamicObject;
use tokio::time::{Instant, timeout_at};

use super::MultiNicNodeConfig;
use super::apply::{ApplyError, apply};
use crate::kube::client::CallError;

/// Applies at the same time for one batch: enough to hide the way, far from what an API server minds.
const PARALLEL: usize = 16;

/// How often one object is tried while what stands in the way may pass.
const ATTEMPTS: u32 = 3;
/// Before the second attempt; three times that before the next.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// What became of a batch.
pub struct Batch {
    /// In the order of the objects; `None` for one that was not done.
    pub results: Vec<Option<Result<DynamicObject, ApplyError>>>,
    /// Why the rest was not tried, if not for the deadline.
    pub stopped: Option<ApplyError>,
}

/// Applies the objects until `deadline`.
pub async fn apply_all(client: &Client, objects: &[MultiNicNodeConfig], deadline: Instant) -> Batch {
    let mut batch = Batch { results: vec![None; objects.len()], stopped: None };
    let mut work = stream::iter(0..objects.len())
        .map(|index| one(client.clone(), index, objects[index].clone(), deadline))
        .buffer_unordered(PARALLEL);
    let mut in_vain = 0;
    while let Ok(Some((index, applied))) = timeout_at(deadline, work.next()).await {
        let problem = applied.as_ref().err().filter(|error| is_about_all(error)).cloned();
        batch.results[index] = Some(applied);
        let Some(problem) = problem else {
            in_vain = 0;
            continue;
        };
        // Where nobody answers, or nobody is let in, there is no use in asking thousands of times.
        in_vain += 1;
        if in_vain == PARALLEL {
            tracing::warn!(problem = detail(&problem), "the rest of a batch is not tried");
            batch.stopped = Some(problem);
            break;
        }
    }
    drop(work);
    batch
}

async fn one(
    client: Client,
    index: usize,
    object: MultiNicNodeConfig,
    deadline: Instant,
) -> (usize, Result<DynamicObject, ApplyError>) {
    let mut wait = FIRST_WAIT;
    for _ in 1..ATTEMPTS {
        let applied = apply(client.clone(), &object, left(deadline)).await;
        match applied {
            Err(error) if may_pass(&error) => {
                tracing::debug!(node = object.spec.node_name, problem = detail(&error), "tried again");
            }
            done => return (index, done),
        }
        tokio::time::sleep(wait.mul_f64(rand::random_range(0.5..1.0))).await;
        wait *= 3;
    }
    (index, apply(client, &object, left(deadline)).await)
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// Whether it may be over in a moment: a connection that was cut, a server that is busy or just starting.
pub fn may_pass(error: &ApplyError) -> bool {
    match error {
        ApplyError::Call(CallError::Unreachable(_)) => true,
        ApplyError::Call(error) => matches!(error.code(), Some(429 | 503 | 504)),
        ApplyError::Conflict(_) | ApplyError::Unsteady => false,
    }
}

/// Whether every other node is likely to meet the same. Not a 403: an admission webhook refuses one node with it.
pub fn is_about_all(error: &ApplyError) -> bool {
    match error {
        ApplyError::Call(CallError::TimedOut | CallError::Unreachable(_)) => true,
        // 404: the namespace or the CRD is missing.
        ApplyError::Call(error) => matches!(error.code(), Some(401 | 404)),
        ApplyError::Conflict(_) | ApplyError::Unsteady => false,
    }
}

/// Everything there is to know, for a log.
pub fn detail(error: &ApplyError) -> String {
    match error {
        ApplyError::Call(error) => error.detail(),
        error => error.to_string(),
    }
}
