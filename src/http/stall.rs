//! A connection whose reader does not read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Fails a write that makes no progress for `limit`: else a client that stops reading would hold its answer
/// and its place among the connections for ever.
pub(super) struct StallGuard<T> {
    io: T,
    limit: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<T> StallGuard<T> {
    pub(super) fn new(io: T, limit: Duration) -> Self {
        Self { io, limit, waiting: None }
    }

    fn judge<R>(&mut self, cx: &mut Context<'_>, progress: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if progress.is_ready() {
            self.waiting = None;
            return progress;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        let is_over = waiting.as_mut().poll(cx);
        is_over.map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for StallGuard<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for StallGuard<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.io).poll_write(cx, buf);
        self.judge(cx, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.judge(cx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.io).poll_flush(cx);
        self.judge(cx, progress)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.io).poll_shutdown(cx);
        self.judge(cx, progress)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_is_let_go() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut guard = StallGuard::new(ours, LIMIT);
        let error = guard.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_is_served() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut guard = StallGuard::new(ours, LIMIT);
        let reading = tokio::spawn(async move {
            let mut total = 0;
            let mut buf = [0; 16];
            while let Ok(n @ 1..) = theirs.read(&mut buf).await {
                total += n;
                tokio::time::sleep(LIMIT - Duration::from_secs(1)).await;
            }
            total
        });
        guard.write_all(&[0; 256]).await.unwrap();
        drop(guard);
        assert_eq!(reading.await.unwrap(), 256);
    }
}
