//! A thread for requests that take long to decode.
//!
//! One thread reads and writes all connections, answers health checks, and decodes small requests. A request that is
//! large, or compressed and so of unknown size, is decoded, and its reply encoded, on this thread instead. A gateway compresses
//! large HTTP replies here. So no request delays a health check, or the small requests of others, by more than a moment.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::{Either, FutureExt, Map};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use crate::connection::{BoxError, HttpService};
use crate::grpc::GRPC_ENCODING;
use crate::runtime_thread::RuntimeThread;

/// Requests with fewer bytes are decoded where they arrive. That takes some milliseconds at most.
const SMALL_MAX: usize = 64 << 10;

/// Frames of a reply that are made on the thread before the connection takes them.
const FRAMES_MAX: usize = 1;

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub struct RequestThread {
    thread: RuntimeThread,
}

/// Runs futures on the thread.
#[derive(Debug, Clone)]
pub struct RequestSpawner(Handle);

impl RequestThread {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread.
    pub fn start() -> io::Result<Self> {
        RuntimeThread::start("large-requests", || {}).map(|thread| Self { thread })
    }

    /// What runs futures on it.
    #[must_use]
    pub fn spawner(&self) -> RequestSpawner {
        RequestSpawner(self.thread.handle().clone())
    }
}

impl RequestSpawner {
    /// Whether a request with this number of bytes is decoded on the thread.
    #[must_use]
    pub fn is_for(&self, bytes: usize) -> bool {
        bytes >= SMALL_MAX
    }

    /// Runs a future on the thread. It is dropped with the returned handle.
    pub fn spawn<F>(&self, work: F) -> AbortOnDropHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        AbortOnDropHandle::new(self.0.spawn(work))
    }

    /// The same body, made on the thread.
    pub fn make<B>(&self, body: B) -> HereOrThere<B>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        MadeElsewhere::new(body, self)
    }
}

/// A service that answers compressed requests on the thread: it decompresses their messages there, those of streams, too.
#[derive(Debug, Clone)]
pub struct CompressedElsewhere<S> {
    service: S,
    spawner: RequestSpawner,
}

impl<S> CompressedElsewhere<S> {
    /// A service that answers as `service` does.
    pub fn new(service: S, spawner: RequestSpawner) -> Self {
        Self { service, spawner }
    }
}

/// The body of a reply, which is made here or on the thread.
pub type HereOrThere<B> = http_body_util::Either<B, MadeElsewhere>;

type Output<B> = Result<Response<HereOrThere<B>>, Infallible>;
type Here<F, B> = Map<F, fn(Result<Response<B>, Infallible>) -> Output<B>>;
type Elsewhere<B> =
    Map<AbortOnDropHandle<Output<B>>, fn(Result<Output<B>, JoinError>) -> Output<B>>;

impl<S: HttpService> HttpService for CompressedElsewhere<S>
where
    S::Body: Unpin,
{
    type Body = HereOrThere<S::Body>;
    type Future = Either<Here<S::Future, S::Body>, Elsewhere<S::Body>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let is_compressed = is_compressed(request.headers());
        let reply = self.service.call(request);
        if !is_compressed {
            let here = here as fn(Result<Response<S::Body>, Infallible>) -> Output<S::Body>;
            return Either::Left(reply.map(here));
        }
        let spawner = self.spawner.clone();
        let task = self.spawner.spawn(async move {
            let reply = reply.await?;
            Ok(reply.map(|body| MadeElsewhere::new(body, &spawner)))
        });
        Either::Right(task.map(join as fn(Result<Output<S::Body>, JoinError>) -> Output<S::Body>))
    }
}

/// Whether the messages of a gRPC call, or the body of another request, are compressed.
fn is_compressed(headers: &HeaderMap) -> bool {
    let encodings = [GRPC_ENCODING, CONTENT_ENCODING];
    let mut values = encodings.into_iter().filter_map(|name| headers.get(name));
    values.any(|value| value != "identity")
}

fn here<B>(reply: Result<Response<B>, Infallible>) -> Output<B> {
    reply.map(|reply| reply.map(http_body_util::Either::Left))
}

/// The output of a task. A panic continues in the connection's task, which logs it and ends the request.
fn join<T>(joined: Result<T, JoinError>) -> T {
    match joined {
        Ok(output) => output,
        Err(error) => std::panic::resume_unwind(match error.try_into_panic() {
            Ok(panic) => panic,
            Err(cancelled) => Box::new(cancelled.to_string()),
        }),
    }
}

type NextFrame = Option<Result<Frame<Bytes>, BoxError>>;

/// A body that is made on the thread. A stream reads its requests while its replies are made, so that is where these are
/// decompressed.
#[derive(Debug)]
pub struct MadeElsewhere {
    frames: mpsc::Receiver<NextFrame>,
    size: SizeHint,
    _task: AbortOnDropHandle<()>,
}

impl MadeElsewhere {
    /// The same body, made on the thread. One that has ended already stays as it is: the response then ends with its head.
    fn new<B>(body: B, spawner: &RequestSpawner) -> HereOrThere<B>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        if body.is_end_stream() {
            return http_body_util::Either::Left(body);
        }
        let size = body.size_hint();
        let (out, frames) = mpsc::channel(FRAMES_MAX);
        http_body_util::Either::Right(Self {
            frames,
            size,
            _task: spawner.spawn(make(body, out)),
        })
    }
}

/// Makes the frames of a body, as long as they are taken.
async fn make<B>(mut body: B, out: mpsc::Sender<NextFrame>)
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    loop {
        let next = body.frame().await.map(|frame| frame.map_err(Into::into));
        let is_last = next.as_ref().is_none_or(Result::is_err);
        if out.send(next).await.is_err() || is_last {
            return;
        }
    }
}

impl Body for MadeElsewhere {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let next = ready!(self.frames.poll_recv(context));
        // Without an end the body would seem to be complete.
        Poll::Ready(next.unwrap_or_else(|| Some(Err("the work on the reply panicked".into()))))
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

#[cfg(test)]
mod tests;
