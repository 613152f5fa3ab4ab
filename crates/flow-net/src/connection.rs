//! Open connections: serves each one in a task of its own, and closes all of them in order.
//!
//! A connection counts as active from its first byte. At the end, active connections finish the requests that
//! are in progress; a connection on which the client never sent anything has nothing to finish, and is not
//! waited for.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flow_core::Chain;
use flow_metrics::Gauge;
use http::{Request, Response, Version};
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::byte_budget::ByteBudget;
use crate::connection_handle::ConnectionHandle;
use crate::connection_threads::{ConnectionRuntimes, ConnectionSpawner};
use crate::joint_writes::joint_writes;
use crate::limits::ConnectionLimits;
use crate::listener::Accept;
use crate::open_connections::{OpenConnection, OpenConnections};
use crate::other_tasks::OtherTasks;
use crate::reply_body::{OpenRequest, ReplyBody, ReplyFuture};

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What answers the requests of a connection, over HTTP/1 and HTTP/2.
pub trait HttpService: Clone + Send + 'static {
    /// The body of a response.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static;

    /// A response that is being made.
    type Future: Future<Output = Result<Response<Self::Body>, Infallible>> + Send + 'static;

    /// Answers a request.
    fn call(&self, request: Request<Incoming>) -> Self::Future;
}

/// Makes a [`HttpService`] known to hyper, and counts its requests.
struct HyperService<S> {
    service: S,
    connection: Arc<OpenConnection>,
}

impl<S: HttpService> Service<Request<Incoming>> for HyperService<S> {
    type Response = Response<ReplyBody<S::Body>>;
    type Error = Infallible;
    type Future = ReplyFuture<S::Future>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if request.version() == Version::HTTP_2 {
            self.connection.turn.begin_stream();
        }
        let handle = ConnectionHandle::new(&self.connection);
        request.extensions_mut().insert(handle);
        let open = OpenRequest::with_head(&self.connection, &request);
        ReplyFuture::new(self.service.call(request), open)
    }
}

/// The connections of one server. Those that are open end when this is dropped.
pub(crate) struct Connections<S> {
    service: S,
    limits: ConnectionLimits,
    tasks: JoinSet<()>,
    /// The number of each task's connection in `open`, and where it is served.
    ids: HashMap<tokio::task::Id, (u64, usize)>,
    runtimes: ConnectionRuntimes,
    open: OpenConnections,
    /// How many are open, for metrics.
    count: Gauge,
    active: ActiveConnections,
    closing: CancellationToken,
}

impl<S: HttpService> Connections<S> {
    pub(crate) fn new(
        service: S,
        limits: ConnectionLimits,
        budget: Option<ByteBudget>,
        spawner: &ConnectionSpawner,
        count: Gauge,
    ) -> Self {
        Self {
            service,
            limits,
            tasks: JoinSet::new(),
            ids: HashMap::new(),
            runtimes: ConnectionRuntimes::new(spawner),
            open: OpenConnections::new(limits, budget),
            count,
            active: ActiveConnections::default(),
            closing: CancellationToken::new(),
        }
    }

    /// Whether there may be one more.
    pub(crate) fn have_room(&self) -> bool {
        self.open.have_room()
    }

    /// Closes some idle connections.
    pub(crate) fn make_room(&self) {
        self.open.make_room(Instant::now());
    }

    /// Closes the connections whose time is over.
    pub(crate) fn close_expired(&mut self) {
        self.open.close_expired(Instant::now());
    }

    /// Serves a connection, unless there are too many from its address.
    pub(crate) fn serve<L: Accept>(&mut self, stream: L::Stream, from: Option<SocketAddr>) {
        let closing = self.closing.child_token();
        let Some((id, open)) = self.open.add(from, closing, Instant::now()) else {
            return tracing::debug!(?from, "too many connections from one address");
        };
        let place = self.runtimes.least_used();
        let stream = match self.runtimes.move_to(place, stream, L::move_here) {
            Ok(stream) => stream,
            Err(error) => {
                self.open.remove(id);
                return tracing::debug!(%error, "cannot serve a connection");
            }
        };
        let activity = Activity::default();
        let released = CancellationToken::new();
        let connection = ServerConnection {
            stream: Watched {
                stream,
                connections: self.active.clone(),
                activity: activity.clone(),
                open: open.clone(),
                _released: released.clone().drop_guard(),
            },
            activity,
            released,
            open,
            lifetime_max: self.limits.lifetime_max,
        };
        let limits = match connection.open.window() {
            Some(window) => self.limits.with_window(window),
            None => self.limits,
        };
        let builder = limits.builder();
        let service = self.service.clone();
        let serving = connection.run(builder, service);
        let task = self.runtimes.spawn(place, &mut self.tasks, serving);
        self.ids.insert(task, (id, place));
        self.count.increment();
    }

    /// Waits until a connection has ended; forever if none is open.
    pub(crate) async fn ended(&mut self) {
        let task = match self.tasks.join_next_with_id().await {
            Some(Ok((task, ()))) => task,
            Some(Err(error)) => {
                note_end(&error);
                error.id()
            }
            None => return std::future::pending().await,
        };
        if let Some((id, place)) = self.ids.remove(&task) {
            self.open.remove(id);
            self.runtimes.ended(place);
            self.count.decrement();
        }
    }

    /// Lets the requests in progress finish, closes each connection after its last one, and returns when the
    /// active ones are closed.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.active.closed().await;
    }
}

fn note_end(error: &JoinError) {
    if error.is_panic() {
        tracing::error!(%error, "a connection's task panicked");
    }
}

/// One connection.
struct ServerConnection<I> {
    stream: Watched<I>,
    activity: Activity,
    /// Cancelled when the stream is dropped.
    released: CancellationToken,
    open: Arc<OpenConnection>,
    lifetime_max: Option<Duration>,
}

impl<I> ServerConnection<I>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    async fn run<S: HttpService>(self, builder: auto::Builder<TokioExecutor>, service: S) {
        let lifetime_max = self.lifetime_max;
        let cut = self.open.cut.clone();
        // After an upgrade the stream belongs to another task. That task has to end with this connection.
        let _cut = cut.clone().drop_guard();
        let released = self.released.clone();
        let serving = async {
            let served = async {
                let ended = self.serve(&builder, service).await;
                released.cancelled().await;
                ended
            };
            tokio::select! {
                ended = served => ended,
                () = cut.cancelled() => Err("the server closed it to make room".into()),
            }
        };
        let outcome = match lifetime_max {
            None => serving.await,
            Some(max) => timeout(max, serving)
                .await
                .unwrap_or_else(|elapsed| Err(elapsed.into())),
        };
        if let Err(error) = outcome {
            let error: &(dyn std::error::Error + 'static) = &*error;
            tracing::debug!(error = %Chain(error), "connection failed");
        }
    }

    /// Serves until the client closes the connection, or until the requests in progress are finished after
    /// `closing` was cancelled.
    async fn serve<S: HttpService>(
        self,
        builder: &auto::Builder<TokioExecutor>,
        service: S,
    ) -> Result<(), BoxError> {
        let (io, joint) = joint_writes(TokioIo::new(self.stream));
        let service = HyperService {
            service,
            connection: self.open.clone(),
        };
        let mut connection = pin!(builder.serve_connection_with_upgrades(io, service));
        let mut others = OtherTasks::default();
        let in_turns = std::future::poll_fn(|context| {
            // Requests in progress will have replies.
            if others.is_waiting() || self.open.requests() > 0 {
                ready!(others.poll_have_run(context));
            }
            self.open.turn.begin();
            joint.poll(connection.as_mut(), context)
        });
        tokio::select! {
            ended = in_turns => return ended,
            () = self.open.closing.cancelled() => {}
        }
        let mut has_begun_to_close = false;
        std::future::poll_fn(|context| {
            self.open.turn.begin();
            loop {
                if let Poll::Ready(ended) = joint.poll(connection.as_mut(), context) {
                    return Poll::Ready(ended);
                }
                // Before its first byte the connection's protocol is unknown, and the builder would cut
                // it off. A request may be on its way, and gets its reply.
                if has_begun_to_close || !self.activity.has_begun() {
                    return Poll::Pending;
                }
                has_begun_to_close = true;
                connection.as_mut().graceful_shutdown();
            }
        })
        .await
    }
}

/// The connections that have received something and are still open.
#[derive(Debug, Clone, Default)]
struct ActiveConnections(TaskTracker);

impl ActiveConnections {
    /// Returns once none is left.
    async fn closed(&self) {
        self.0.close();
        self.0.wait().await;
    }
}

/// Whether a connection has received anything. Clones are about the same connection.
#[derive(Debug, Clone, Default)]
struct Activity(Arc<OnceLock<TaskTrackerToken>>);

impl Activity {
    fn has_begun(&self) -> bool {
        self.0.get().is_some()
    }
}

/// A stream that counts as active from the first byte that it receives.
#[derive(Debug)]
struct Watched<I> {
    stream: I,
    connections: ActiveConnections,
    activity: Activity,
    open: Arc<OpenConnection>,
    _released: DropGuard,
}

impl<I: AsyncRead + Unpin> AsyncRead for Watched<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.open.turn.is_over() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.open.partial.poll_room(context))?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = &buffer.filled()[before..];
        self.open.received(bytes);
        if !bytes.is_empty() && !self.activity.has_begun() {
            self.activity.0.get_or_init(|| self.connections.0.token());
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Watched<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
