//! Open connections: serves each one in a task of its own, and closes all of them in order.
//!
//! A connection counts as active from its first byte. At the end, active connections finish the requests that
//! are in progress; a connection on which the client never sent anything has nothing to finish, and is not
//! waited for.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use flow_core::Chain;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::ConnectionLimits;

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

/// Makes a [`HttpService`] known to hyper.
struct HyperService<S>(S);

impl<S: HttpService> Service<Request<Incoming>> for HyperService<S> {
    type Response = Response<S::Body>;
    type Error = Infallible;
    type Future = S::Future;

    fn call(&self, request: Request<Incoming>) -> S::Future {
        self.0.call(request)
    }
}

/// The connections of one server. Those that are open end when this is dropped.
pub(crate) struct Connections<S> {
    service: S,
    builder: Arc<auto::Builder<TokioExecutor>>,
    limits: ConnectionLimits,
    tasks: JoinSet<()>,
    active: ActiveConnections,
    closing: CancellationToken,
}

impl<S: HttpService> Connections<S> {
    pub(crate) fn new(service: S, limits: ConnectionLimits) -> Self {
        Self {
            service,
            builder: Arc::new(limits.builder()),
            limits,
            tasks: JoinSet::new(),
            active: ActiveConnections::default(),
            closing: CancellationToken::new(),
        }
    }

    /// Whether there may be one more.
    pub(crate) fn have_room(&self) -> bool {
        let max = self.limits.connections_max;
        max.is_none_or(|max| self.tasks.len() < max.get())
    }

    /// Serves a connection.
    pub(crate) fn serve<I>(&mut self, stream: I)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Activity::default();
        let connection = Connection {
            stream: self.active.watched(stream, activity.clone()),
            activity,
            closing: self.closing.child_token(),
            lifetime_max: self.limits.lifetime_max,
        };
        let (builder, service) = (self.builder.clone(), self.service.clone());
        self.tasks.spawn(connection.run(builder, service));
    }

    /// Waits until a connection has ended; for ever if none is open.
    pub(crate) async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(ended) => note_end(ended),
            None => std::future::pending().await,
        }
    }

    /// Lets the requests in progress finish, closes each connection after its last one, and returns when the
    /// active ones are closed.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.active.closed().await;
    }
}

fn note_end(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection's task panicked");
    }
}

/// One connection.
struct Connection<I> {
    stream: Watched<I>,
    activity: Activity,
    closing: CancellationToken,
    lifetime_max: Option<Duration>,
}

impl<I> Connection<I>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    async fn run<S: HttpService>(self, builder: Arc<auto::Builder<TokioExecutor>>, service: S) {
        let lifetime_max = self.lifetime_max;
        let serving = self.serve(&builder, service);
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
        let io = TokioIo::new(self.stream);
        let mut connection = pin!(builder.serve_connection(io, HyperService(service)));
        tokio::select! {
            ended = &mut connection => return ended,
            () = self.closing.cancelled() => {}
        }
        let mut has_begun_to_close = false;
        std::future::poll_fn(|context| {
            loop {
                if let Poll::Ready(ended) = connection.as_mut().poll(context) {
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
    /// The stream, which notes its first byte in `activity`.
    fn watched<I>(&self, stream: I, activity: Activity) -> Watched<I> {
        Watched {
            stream,
            connections: self.clone(),
            activity,
        }
    }

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
}

impl<I: AsyncRead + Unpin> AsyncRead for Watched<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before && !self.activity.has_begun() {
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
