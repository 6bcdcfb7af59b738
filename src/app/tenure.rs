//! The last look at the clock before a POST.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use multinic_actors::boundary::{BoxFuture, Delivery, PostAnswer, PostError, PostFailure};
use multinic_actors::domain::config::Config;
use multinic_actors::domain::node::NodeConfig;

/// Until when this process may post. Without an election: for ever.
#[derive(Clone, Default)]
pub(super) struct Tenure(Arc<Mutex<Option<Instant>>>);

impl Tenure {
    pub(super) fn lasts_until(&self, end: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    fn is_over(&self) -> bool {
        let end = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        end.is_some_and(|end| end <= Instant::now())
    }
}

/// Posts nothing after the end of the tenure. A process that stood still finds its timers due all at once, and
/// this one may be the first.
pub(super) struct WithinTenure<D> {
    pub(super) inner: D,
    pub(super) tenure: Tenure,
}

impl<D: Delivery> Delivery for WithinTenure<D> {
    fn post(
        &self,
        config: Arc<Config>,
        nodes: Vec<Arc<NodeConfig>>,
    ) -> BoxFuture<'_, Result<PostAnswer, PostError>> {
        Box::pin(async move {
            match self.tenure.is_over() {
                false => self.inner.post(config, nodes).await,
                true => Err(PostError {
                    failure: PostFailure::Unavailable,
                    message: "viola: not asked: this replica leads no longer".to_owned(),
                    retry_after: None,
                }),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use multinic_actors::testing::{FakeDelivery, TestClock, config};

    use super::*;

    #[tokio::test]
    async fn nothing_is_posted_after_the_end() {
        let viola = FakeDelivery::new(TestClock::new());
        let tenure = Tenure::default();
        let delivery = WithinTenure { inner: viola.clone(), tenure: tenure.clone() };
        let post = || delivery.post(config("a").build(), Vec::new());
        assert!(post().await.is_ok(), "without an election");
        tenure.lasts_until(Instant::now() + Duration::from_secs(3600));
        assert!(post().await.is_ok());
        tenure.lasts_until(Instant::now());
        assert_eq!(post().await.unwrap_err().failure, PostFailure::Unavailable);
        assert_eq!(viola.posts().len(), 2);
    }
}
