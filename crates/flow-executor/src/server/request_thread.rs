//! A thread for requests that take long to decode.
//!
//! One thread reads and writes all connections, answers health checks, and decodes small requests. A request that is
//! large, or compressed and so of unknown size, is decoded, and its reply encoded, on this thread instead. So no request
//! delays a health check, or the small requests of others, by more than a moment.

use std::convert::Infallible;
use std::io;
use std::thread;

use flow_net::HttpService;
use futures_util::future::{Either, FutureExt, Map};
use http::Request;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

/// Requests with fewer bytes are decoded where they arrive. That takes some milliseconds at most.
const SMALL_MAX: usize = 64 << 10;

/// The header that names the compression of a gRPC request.
const GRPC_ENCODING: &str = "grpc-encoding";

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct RequestThread {
    handle: Handle,
    _stop: oneshot::Sender<Infallible>,
}

/// Runs futures on the thread.
#[derive(Debug, Clone)]
pub(crate) struct RequestSpawner(Handle);

impl RequestThread {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        thread::Builder::new()
            .name("large-requests".to_owned())
            // An error means that the sender was dropped.
            .spawn(move || drop(runtime.block_on(stopped)))?;
        Ok(Self {
            handle,
            _stop: stop,
        })
    }

    pub(crate) fn spawner(&self) -> RequestSpawner {
        RequestSpawner(self.handle.clone())
    }
}

impl RequestSpawner {
    /// Runs the work of a request with this number of bytes: here if it is small, or else on the thread.
    pub(crate) async fn run<F>(&self, bytes: usize, work: F) -> Result<F::Output, JoinError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match bytes < SMALL_MAX {
            true => Ok(work.await),
            false => self.spawn(work).await,
        }
    }

    /// Runs a future on the thread. It is dropped with the returned handle.
    fn spawn<F>(&self, work: F) -> AbortOnDropHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        AbortOnDropHandle::new(self.0.spawn(work))
    }
}

/// A service that answers compressed requests on the thread.
#[derive(Debug, Clone)]
pub(crate) struct CompressedElsewhere<S> {
    pub(crate) service: S,
    pub(crate) spawner: RequestSpawner,
}

/// A future on the thread.
type Elsewhere<T> = Map<AbortOnDropHandle<T>, fn(Result<T, JoinError>) -> T>;

impl<S: HttpService> HttpService for CompressedElsewhere<S> {
    type Body = S::Body;
    type Future = Either<S::Future, Elsewhere<<S::Future as Future>::Output>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let is_compressed = request.headers().contains_key(GRPC_ENCODING);
        let reply = self.service.call(request);
        match is_compressed {
            false => Either::Left(reply),
            true => Either::Right(elsewhere(self.spawner.spawn(reply))),
        }
    }
}

fn elsewhere<T>(task: AbortOnDropHandle<T>) -> Elsewhere<T> {
    task.map(join as fn(Result<T, JoinError>) -> T)
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

#[cfg(test)]
mod tests;
