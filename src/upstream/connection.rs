//! Notices whether a request had to open a connection: one that did, and found it closed, met a server
//! that does not want the request; one that did not may have met the end of an idle connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

tokio::task_local! {
    static OPENED: Arc<AtomicBool>;
}

/// Runs `sending` and says whether it started to open a connection.
pub(super) async fn observed<F: Future>(sending: F) -> (F::Output, bool) {
    let opened = Arc::new(AtomicBool::new(false));
    let output = OPENED.scope(Arc::clone(&opened), sending).await;
    (output, opened.load(Ordering::Relaxed))
}

/// Wraps the connector of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoticeLayer;

impl<S> Layer<S> for NoticeLayer {
    type Service = Notice<S>;

    fn layer(&self, connector: S) -> Notice<S> {
        Notice(connector)
    }
}

/// A connector that tells the running request that it was used.
#[derive(Clone, Debug)]
pub(super) struct Notice<S>(S);

impl<S: Service<R>, R> Service<R> for Notice<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, target: R) -> S::Future {
        // Outside a request (a connection that the pool finishes in the background) nobody asks.
        let _ = OPENED.try_with(|opened| opened.store(true, Ordering::Relaxed));
        self.0.call(target)
    }
}
