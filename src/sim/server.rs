//! The listeners: loopback sockets that count, delay, fail and can be shut.
//!
//! They run on a runtime of their own, shared by all simulated clouds of the
//! process, so a test may stop or pause its runtime and call the handle from
//! anywhere. Closing a connection without an answer is done at the socket: every
//! connection has a token, and once that is cancelled its reads and writes fail.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc as std_mpsc};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::counters::Counters;
use super::faults::Faults;
use super::pipeline::{self, Backend};
use super::service::Service;

/// Locks, also when a holder panicked: the data are plain values.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The runtime of all simulated services of this process.
fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    // One at a time: a second runtime could not be dropped again where the caller is in one itself.
    let _one = lock(&STARTING);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).thread_name("sim").enable_all().build()?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// What the servers of one simulation share.
pub(crate) struct Traffic {
    pub counters: Mutex<Counters>,
    pub faults: Mutex<Faults>,
}

impl Traffic {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { counters: Mutex::default(), faults: Mutex::new(Faults::new(seed)) })
    }
}

/// How a service treats connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachability {
    /// It answers.
    Up,
    /// Nobody listens: connections are refused.
    Refused,
    /// Connections are accepted and reset at once.
    Reset,
}

type Command = (Reachability, std_mpsc::Sender<()>);

/// One running listener.
pub(crate) struct Server {
    pub addr: SocketAddr,
    commands: mpsc::UnboundedSender<Command>,
    connections: Arc<Mutex<CancellationToken>>,
    stop: CancellationToken,
}

impl Server {
    /// Binds and serves. Port 0 takes any free one.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn start(
        service: Service,
        addr: SocketAddr,
        backend: Arc<dyn Backend>,
        traffic: Arc<Traffic>,
    ) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(addr)?;
        let addr = listener.local_addr()?;
        let (commands, inbox) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let connections = Arc::new(Mutex::new(stop.child_token()));
        let task =
            Task { service, addr, backend, traffic, stop: stop.clone(), connections: connections.clone() };
        runtime()?.spawn(task.run(listener, inbox));
        Ok(Self { addr, commands, connections, stop })
    }

    /// Takes effect before it returns.
    pub fn set_reachability(&self, reachability: Reachability) {
        let (done, wait) = std_mpsc::channel();
        if self.commands.send((reachability, done)).is_ok() {
            // An error means that the server was stopped.
            let _ = wait.recv();
        }
    }

    /// Resets every open connection; new ones are welcome.
    pub fn drop_connections(&self) {
        let mut current = lock(&self.connections);
        current.cancel();
        *current = self.stop.child_token();
    }

    pub fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Task {
    service: Service,
    addr: SocketAddr,
    backend: Arc<dyn Backend>,
    traffic: Arc<Traffic>,
    stop: CancellationToken,
    connections: Arc<Mutex<CancellationToken>>,
}

impl Task {
    async fn run(self, first: std::net::TcpListener, mut inbox: mpsc::UnboundedReceiver<Command>) {
        let mut listener = Some(first);
        let mut reachability = Reachability::Up;
        let mut done: Option<std_mpsc::Sender<()>> = None;
        loop {
            let phase = self.phase(reachability, listener.take(), done.take());
            tokio::select! {
                () = self.stop.cancelled() => return,
                command = inbox.recv() => match command {
                    None => return,
                    Some((next, ack)) => (reachability, done) = (next, Some(ack)),
                },
                _ = phase => return,
            }
            let mut current = lock(&self.connections);
            current.cancel();
            *current = self.stop.child_token();
        }
    }

    /// Serves in one way until it is dropped, which frees the port for the next.
    async fn phase(
        &self,
        reachability: Reachability,
        bound: Option<std::net::TcpListener>,
        done: Option<std_mpsc::Sender<()>>,
    ) -> io::Result<()> {
        let ack = move || {
            if let Some(done) = done {
                // Nobody waits any more: fine.
                let _ = done.send(());
            }
        };
        match reachability {
            Reachability::Up => {
                let listener = self.listener(bound).await?;
                ack();
                self.serve(listener).await
            }
            Reachability::Refused => {
                // Bound and not listening: the port stays ours and the kernel refuses.
                let socket = self.placeholder().await?;
                ack();
                self.stop.cancelled().await;
                drop(socket);
                Ok(())
            }
            Reachability::Reset => {
                let listener = self.listener(bound).await?;
                ack();
                loop {
                    let (stream, _) = listener.accept().await?;
                    stream.set_zero_linger()?;
                }
            }
        }
    }

    async fn listener(&self, bound: Option<std::net::TcpListener>) -> io::Result<TcpListener> {
        let listener = match bound {
            Some(listener) => listener,
            None => retry(|| std::net::TcpListener::bind(self.addr)).await?,
        };
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    }

    async fn placeholder(&self) -> io::Result<TcpSocket> {
        retry(|| {
            let socket = if self.addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            socket.set_reuseaddr(true)?;
            socket.bind(self.addr)?;
            Ok(socket)
        })
        .await
    }

    async fn serve(&self, inner: TcpListener) -> io::Result<()> {
        let connections = self.connections.clone();
        let listener =
            CountingListener { inner, service: self.service, traffic: self.traffic.clone(), connections };
        let gate = pipeline::Gate {
            service: self.service,
            backend: self.backend.clone(),
            traffic: self.traffic.clone(),
        };
        let app = Router::new().fallback(pipeline::answer).with_state(Arc::new(gate));
        axum::serve(listener, app.into_make_service_with_connect_info::<Connection>()).await
    }
}

/// A port that was just freed may take a moment.
async fn retry<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..200 {
        if let Ok(done) = attempt() {
            return Ok(done);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    attempt()
}

/// What the pipeline knows of the connection that a request came on.
#[derive(Clone)]
pub(crate) struct Connection {
    token: CancellationToken,
    is_reset: Arc<AtomicBool>,
    served: Arc<AtomicU64>,
}

impl Connection {
    /// Ends it without an answer: RST, or FIN as a server that closes tidily.
    pub fn end(&self, is_reset: bool) {
        self.is_reset.store(is_reset, Ordering::Release);
        self.token.cancel();
    }

    /// Waits until it is over.
    pub async fn ended(&self) {
        self.token.cancelled().await;
    }

    /// Counts one request; `true` if it was not the first.
    pub fn is_reused(&self) -> bool {
        self.served.fetch_add(1, Ordering::AcqRel) > 0
    }
}

impl Connected<IncomingStream<'_, CountingListener>> for Connection {
    fn connect_info(stream: IncomingStream<'_, CountingListener>) -> Self {
        stream.io().connection.clone()
    }
}

struct CountingListener {
    inner: TcpListener,
    service: Service,
    traffic: Arc<Traffic>,
    connections: Arc<Mutex<CancellationToken>>,
}

impl Listener for CountingListener {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Stream, SocketAddr) {
        let (stream, addr) = <TcpListener as Listener>::accept(&mut self.inner).await;
        // Small answers must not wait for an ACK that comes 40 ms later.
        let _ = stream.set_nodelay(true);
        lock(&self.traffic.counters).connected(self.service);
        (Stream::new(stream, lock(&self.connections).child_token()), addr)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

/// A socket that fails once its connection was ended.
pub(crate) struct Stream {
    inner: TcpStream,
    connection: Connection,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Stream {
    fn new(inner: TcpStream, token: CancellationToken) -> Self {
        let over = Box::pin(token.clone().cancelled_owned());
        let connection = Connection { token, is_reset: Arc::default(), served: Arc::default() };
        Self { inner, connection, over }
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.over.as_mut().poll(context).is_pending() {
            return Ok(());
        }
        if self.connection.is_reset.load(Ordering::Acquire) {
            let _ = self.inner.set_zero_linger();
        }
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
