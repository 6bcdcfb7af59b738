//! Counts the nodes that were posted.

use std::sync::Arc;

use multinic_actors::boundary::{BoxFuture, Delivery};
use multinic_actors::domain::config::Config;
use multinic_actors::domain::node::NodeConfig;
use multinic_actors::domain::post::{PostAnswer, PostError, PostFailure};

use super::configs::{ConfigMetrics, Posted};

/// Any delivery, with a count of nodes by result.
#[derive(Clone, Debug)]
pub struct MeteredDelivery<D> {
    inner: D,
    metrics: Arc<ConfigMetrics>,
}

impl<D> MeteredDelivery<D> {
    /// What `inner` posts is counted in `metrics`.
    pub fn new(inner: D, metrics: Arc<ConfigMetrics>) -> Self {
        Self { inner, metrics }
    }
}

impl<D: Delivery> Delivery for MeteredDelivery<D> {
    fn post(
        &self,
        config: Arc<Config>,
        nodes: Vec<Arc<NodeConfig>>,
    ) -> BoxFuture<'_, Result<PostAnswer, PostError>> {
        Box::pin(async move {
            let sent = nodes.len() as u64;
            let outcome = self.inner.post(Arc::clone(&config), nodes).await;
            self.metrics.posted(&config.id, count(sent, &outcome));
            outcome
        })
    }
}

fn count(sent: u64, outcome: &Result<PostAnswer, PostError>) -> Posted {
    let (accepted, rejected, failed) = match outcome {
        Ok(PostAnswer::AllAccepted) => (sent, 0, 0),
        Ok(PostAnswer::PerNode(results)) => {
            let accepted = (results.iter().filter(|node| node.result.is_ok()).count() as u64).min(sent);
            (accepted, sent - accepted, 0)
        }
        Err(error) if error.failure == PostFailure::Refused => match sent {
            1 => (0, 1, 0),
            // One of them is refused; which one is found out by sending parts, and those are counted.
            _ => (0, 0, 0),
        },
        Err(_) => (0, 0, sent),
    };
    Posted { accepted, rejected, failed }
}

#[cfg(test)]
mod tests {
    use multinic_actors::domain::ids::NodeName;
    use multinic_actors::domain::post::NodeResult;

    use super::*;

    fn check(sent: u64, outcome: Result<PostAnswer, PostError>, expected: [u64; 3]) {
        let Posted { accepted, rejected, failed } = count(sent, &outcome);
        assert_eq!([accepted, rejected, failed], expected, "{sent} sent, {outcome:?}");
    }

    fn error(failure: PostFailure) -> Result<PostAnswer, PostError> {
        Err(PostError { failure, message: String::new(), retry_after: None })
    }

    #[test]
    fn a_node_is_accepted_rejected_or_failed_and_never_counted_twice() {
        let node = |name: &str, result| NodeResult {
            node: NodeName::new(name).unwrap(),
            result,
            is_conflict: false,
        };
        check(3, Ok(PostAnswer::AllAccepted), [3, 0, 0]);
        let some = vec![node("a", Ok(())), node("b", Err("no".to_owned()))];
        check(3, Ok(PostAnswer::PerNode(some)), [1, 2, 0]);
        check(1, error(PostFailure::Refused), [0, 1, 0]);
        check(4, error(PostFailure::Refused), [0, 0, 0]);
        check(4, error(PostFailure::UnknownOutcome), [0, 0, 4]);
    }
}
