//! The connection to a replica: made at the first call, and again after it broke.
//!
//! It does what a [`tonic::transport::Channel`] does, without a queue and tasks in front of the connection, and it writes
//! the requests of several tasks together.

use std::error::Error;
use std::fmt;
use std::future::{poll_fn, ready};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use h2::client::{Builder, SendRequest};
use http::{Request, Response};
use hyper::rt::Executor;
use hyper_util::rt::{TokioExecutor, TokioIo};
use thread_local::ThreadLocal;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::ConnectError;
use tonic::body::Body;
use tower_service::Service;

use super::connector::Connector;
use super::http2_call::Http2Call;
use super::target::Target;
use crate::BoxError;
use crate::connection_threads::is_connection_thread;
use crate::joint_writes::joint_writes;
use crate::limits::{CONNECTION_WINDOW, FRAME_LEN_MAX, STREAM_WINDOW};

/// Streams that are opened before the replica has said how many it takes.
const STREAMS_FIRST: usize = 100;

/// Bytes of a stream that wait in h2 to be sent.
const SEND_BUFFER_LEN: usize = 1 << 20;

/// Time that calls wait for a connection if another replica has one. An address that is gone may not even refuse connections. The
/// connection goes on being made, so that later calls can use an address that is far away.
const BRIEF_WAIT: Duration = Duration::from_millis(250);

/// Bytes of the headers or trailers of a reply.
const HEADERS_LEN_MAX: u32 = 16 << 10;

/// A connection to a replica. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Connection(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connector: Connector,
    target: Target,
    /// The slot of all threads that have none of their own.
    shared: Slot,
    /// The slots of connection threads.
    own: ThreadLocal<Slot>,
}

/// Where a thread has its connection.
#[derive(Debug, Default)]
struct Slot {
    state: Mutex<State>,
    /// Each open connection has a clone: a new one may be made while calls of the one before end.
    open: Arc<()>,
    waits_briefly: AtomicBool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Connecting(Shared<oneshot::Receiver<Connected>>),
    Open(SendRequest<Bytes>),
}

/// The outcome of an attempt to connect.
type Connected = Result<SendRequest<Bytes>, SharedError>;

/// An error of all calls that waited for a connection.
#[derive(Debug, Clone)]
struct SharedError(Arc<BoxError>);

/// The reply to a call.
pub(super) type ReplyFuture = BoxFuture<'static, Result<Response<Body>, BoxError>>;

impl Connection {
    pub(super) fn new(connector: Connector, target: Target) -> Self {
        Self(Arc::new(Inner {
            connector,
            target,
            shared: Slot::default(),
            own: ThreadLocal::new(),
        }))
    }

    /// Whether a connection of this thread is open. It may be about to close.
    pub(super) fn is_open(&self) -> bool {
        Arc::strong_count(&self.0.slot().open) > 1
    }

    /// Sets whether the calls of this thread that follow wait for a connection for [`BRIEF_WAIT`] at most.
    pub(super) fn wait_briefly(&self, briefly: bool) {
        self.0
            .slot()
            .waits_briefly
            .store(briefly, Ordering::Relaxed);
    }

    /// Sends a request, once there is a connection.
    pub(super) fn call(&self, mut request: Request<Body>) -> ReplyFuture {
        *request.uri_mut() = match self.0.target.addressed(request.uri()) {
            Ok(uri) => uri,
            Err(error) => return Box::pin(ready(Err(ConnectError(error.into()).into()))),
        };
        let connecting = {
            let mut state = self.0.state();
            if let State::Open(sender) = &*state
                && let Some(mut sender) = still_open(sender)
            {
                drop(state);
                return match Http2Call::begin(&mut sender, request) {
                    Ok(call) => Box::pin(call),
                    Err(error) => Box::pin(ready(Err(error.into()))),
                };
            }
            match &*state {
                State::Connecting(connecting) => connecting.clone(),
                State::Idle | State::Open(_) => self.begin(&mut state),
            }
        };
        let this = self.clone();
        let wait = match self.0.slot().waits_briefly.load(Ordering::Relaxed) {
            true => BRIEF_WAIT,
            // Connecting ends by itself.
            false => Duration::MAX,
        };
        Box::pin(async move {
            let Ok(connected) = timeout(wait, connecting.clone()).await else {
                let text =
                    format!("no connection within {BRIEF_WAIT:?}, and another replica has one");
                return Err(ConnectError(text.into()).into());
            };
            match connected {
                Ok(Ok(mut sender)) => Http2Call::begin(&mut sender, request)?.await,
                Ok(Err(error)) => Err(ConnectError(error.into()).into()),
                // The task that connects panicked.
                Err(ended) => {
                    this.0.end(&connecting);
                    Err(ConnectError(ended.into()).into())
                }
            }
        })
    }

    /// Begins to connect. A task does so, because the call that is first may be given up.
    fn begin(&self, state: &mut State) -> Shared<oneshot::Receiver<Connected>> {
        let (sender, receiver) = oneshot::channel();
        let connecting = receiver.shared();
        *state = State::Connecting(connecting.clone());
        let this = self.clone();
        TokioExecutor::new().execute(async move {
            let connected = this.0.connect().await;
            let connected = connected.map_err(|error| SharedError(Arc::new(error)));
            *this.0.state() = match &connected {
                Ok(sender) => State::Open(sender.clone()),
                Err(_) => State::Idle,
            };
            // The receiver is gone if all waiting calls were dropped.
            drop(sender.send(connected));
        });
        connecting
    }
}

/// A sender of requests, if the connection takes more. It does not if it broke, or if the replica is about to close it.
fn still_open(sender: &SendRequest<Bytes>) -> Option<SendRequest<Bytes>> {
    let mut sender = sender.clone();
    let ready = sender.poll_ready(&mut Context::from_waker(Waker::noop()));
    (!matches!(ready, Poll::Ready(Err(_)))).then_some(sender)
}

impl Inner {
    /// The slot of this thread.
    fn slot(&self) -> &Slot {
        match is_connection_thread() {
            true => self.own.get_or_default(),
            false => &self.shared,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is changed.
        self.slot()
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the next call connect, if this attempt is still the current one.
    fn end(&self, attempt: &Shared<oneshot::Receiver<Connected>>) {
        let mut state = self.state();
        if matches!(&*state, State::Connecting(current) if current.ptr_eq(attempt)) {
            *state = State::Idle;
        }
    }

    async fn connect(&self) -> Result<SendRequest<Bytes>, BoxError> {
        let mut connector = self.connector.clone();
        poll_fn(|context| connector.poll_ready(context)).await?;
        let (stream, joint) = joint_writes(connector.call(self.target.uri().clone()).await?);
        let (sender, connection) = Builder::new()
            .initial_max_send_streams(STREAMS_FIRST)
            .max_send_buffer_size(SEND_BUFFER_LEN)
            .max_header_list_size(HEADERS_LEN_MAX)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME_LEN_MAX)
            .enable_push(false)
            .handshake(TokioIo::new(stream))
            .await?;
        let open = self.slot().open.clone();
        // It ends when the sender and all calls are dropped.
        TokioExecutor::new().execute(async move {
            let _open = open;
            let mut connection = pin!(connection);
            let mut has_yielded = false;
            let in_turns = poll_fn(|context| {
                // The tasks that are ready have their turn first, so that their requests are written together.
                has_yielded = !has_yielded;
                if has_yielded {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                joint.poll(connection.as_mut(), context)
            });
            if let Err(error) = in_turns.await {
                tracing::debug!(%error, "the connection to a replica failed");
            }
        });
        Ok(sender)
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Error for SharedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&**self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::{BodyExt, Full};
    use hyper::body::Incoming;
    use hyper::server::conn::http2;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpListener;
    use tokio::task::{JoinSet, yield_now};

    use super::*;
    use crate::ConnectionThreads;
    use crate::replica::connector::PeerSpoke;

    fn connection(to: &str) -> Connection {
        let connector = Connector::new(None, PeerSpoke::default());
        Connection::new(connector, Target::new(to).unwrap())
    }

    fn request() -> Request<Body> {
        Request::new(Body::empty())
    }

    /// Serves one connection, and answers with the URI of each request. Returns after this many requests.
    async fn serve_one(listener: &TcpListener, requests: usize) {
        let (stream, _) = listener.accept().await.unwrap();
        let left = AtomicUsize::new(requests);
        let service = service_fn(|request: Request<Incoming>| {
            left.fetch_sub(1, Ordering::Relaxed);
            let body = Full::<bytes::Bytes>::from(request.uri().to_string());
            async { Ok::<_, Infallible>(Response::new(body)) }
        });
        let serving = http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service);
        let mut serving = std::pin::pin!(serving);
        std::future::poll_fn(|context| {
            if left.load(Ordering::Relaxed) == 0 {
                serving.as_mut().graceful_shutdown();
            }
            serving.as_mut().poll(context).map(|_| ())
        })
        .await;
    }

    fn is_closed(connection: &Connection) -> bool {
        match &*connection.0.state() {
            State::Open(sender) => still_open(sender).is_none(),
            state => panic!("{state:?}"),
        }
    }

    async fn text(reply: Response<Body>) -> String {
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn the_first_calls_share_a_connection_and_a_broken_one_is_made_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let connection = connection(&address);
        for round in 0..2 {
            let calls = async {
                let mut calls = JoinSet::new();
                (0..5).for_each(|_| {
                    calls.spawn(connection.call(request()));
                });
                for reply in calls.join_all().await {
                    assert_eq!(text(reply.unwrap()).await, format!("{address}/"), "{round}");
                }
            };
            tokio::join!(calls, serve_one(&listener, 5));
            while !is_closed(&connection) {
                yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_connection_goes_on_being_made_when_the_first_call_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connection = connection(&format!("http://{}", listener.local_addr().unwrap()));
        drop(connection.call(request()));
        let call = connection.call(request());
        let (reply, ()) = tokio::join!(call, serve_one(&listener, 1));
        assert!(reply.is_ok());
    }

    #[tokio::test]
    async fn a_connection_is_open_from_its_first_call_until_it_breaks() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connection = connection(&format!("http://{}", listener.local_addr().unwrap()));
        assert!(!connection.is_open());
        let calls = async {
            text(connection.call(request()).await.unwrap()).await;
            assert!(connection.is_open());
            text(connection.call(request()).await.unwrap()).await;
        };
        tokio::join!(calls, serve_one(&listener, 2));
        while connection.is_open() {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_connection_is_closed_when_it_is_no_longer_used() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connection = connection(&format!("http://{}", listener.local_addr().unwrap()));
        let call = async {
            text(connection.call(request()).await.unwrap()).await;
            drop(connection);
        };
        // It would serve one more request.
        tokio::join!(call, serve_one(&listener, 2));
    }

    #[tokio::test]
    async fn each_connection_thread_has_a_connection_of_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connection = connection(&format!("http://{}", listener.local_addr().unwrap()));
        let threads = ConnectionThreads::start(2).unwrap();
        let threads = threads.spawner();
        let calls = async {
            for is_open in [false, true] {
                text(connection.call(request()).await.unwrap()).await;
                for thread in threads.threads() {
                    let connection = connection.clone();
                    let call = async move {
                        assert_eq!(connection.is_open(), is_open);
                        text(connection.call(request()).await.unwrap()).await
                    };
                    thread.spawn(call).await.unwrap();
                }
            }
        };
        let serve_three = async {
            let serve = || serve_one(&listener, 2);
            tokio::join!(serve(), serve(), serve());
        };
        tokio::join!(calls, serve_three);
    }

    #[tokio::test]
    async fn all_calls_that_wait_learn_why_there_is_no_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let connection = connection(&format!("http://{address}"));
        let (first, second) = tokio::join!(connection.call(request()), connection.call(request()));
        for outcome in [first, second] {
            let error = outcome.unwrap_err();
            assert!(error.is::<ConnectError>(), "{error:?}");
            let causes = flow_core::Chain(&*error).to_string();
            assert!(causes.contains("refused"), "{causes}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_call_waits_briefly_for_a_connection_if_another_replica_has_one() {
        use crate::replica::silent_address::SilentAddress;

        let silent = SilentAddress::new().await;
        let connection = connection(&format!("http://{}", silent.address));
        connection.wait_briefly(true);
        let error = connection.call(request()).await.unwrap_err();
        assert!(error.is::<ConnectError>(), "{error:?}");
        let causes = flow_core::Chain(&*error).to_string();
        assert!(causes.contains("no connection within 250ms"), "{causes}");
        assert!(matches!(&*connection.0.state(), State::Connecting(_)));
        connection.wait_briefly(false);
        let call = timeout(2 * BRIEF_WAIT, connection.call(request()));
        assert!(call.await.is_err(), "it waits on");
    }

    #[tokio::test]
    async fn an_address_without_a_host_is_an_error_of_the_call() {
        let connection = connection("name");
        let error = connection.call(request()).await.unwrap_err();
        assert!(error.is::<ConnectError>(), "{error:?}");
    }
}
