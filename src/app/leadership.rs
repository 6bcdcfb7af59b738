//! Whether, and since when, this process may reign.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::StartError;
use super::candidate::Candidate;
use super::readers::Standing;
use super::reign::{Plan, Reign};

/// This process' part.
pub(super) enum Leadership {
    /// There is no election: one reign from the start to the end.
    Alone(Box<Reign>),
    /// Reigns begin and end as the lease is won and lost.
    Elected {
        task: JoinHandle<()>,
        end: CancellationToken,
        /// Ends everything without order.
        crash: CancellationToken,
        /// Why no reign can begin here.
        problem: watch::Receiver<Option<String>>,
    },
}

impl Leadership {
    pub(super) async fn start(plan: Plan, standing: Arc<Standing>) -> Result<Self, StartError> {
        let (Some(election), Some(client)) = (plan.settings.kube.election.clone(), plan.client.clone())
        else {
            let reign = Reign::start(&plan).await?;
            standing.set_leading(true);
            return Ok(Self::Alone(Box::new(reign)));
        };
        let (end, crash) = (CancellationToken::new(), CancellationToken::new());
        let (report, problem) = watch::channel(None);
        let candidate = Candidate::new(plan, standing, client, &election, crash.clone(), report)?;
        Ok(Self::Elected { task: tokio::spawn(candidate.run(end.clone())), end, crash, problem })
    }

    /// Ends when no reign can begin.
    pub(super) async fn failed(&mut self) -> StartError {
        match self {
            Self::Elected { problem, .. } => match problem.wait_for(Option::is_some).await {
                Ok(problem) => StartError(problem.clone().unwrap_or_default()),
                Err(_) => StartError::new("the election ended"),
            },
            Self::Alone(_) => std::future::pending().await,
        }
    }

    /// Ends the reign in order and gives the lease back.
    pub(super) async fn stop(self) {
        match self {
            Self::Alone(reign) => reign.stop(CancellationToken::new()).await,
            Self::Elected { task, end, .. } => {
                end.cancel();
                if task.await.is_err() {
                    tracing::error!("the election failed while it stopped");
                }
            }
        }
    }

    /// Ends the reign without order, and leaves the lease as it is.
    pub(super) async fn crash(self) {
        match self {
            Self::Alone(reign) => {
                let at_once = CancellationToken::new();
                at_once.cancel();
                reign.stop(at_once).await;
            }
            Self::Elected { task, crash, .. } => {
                crash.cancel();
                let _ = task.await;
            }
        }
    }
}
