use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, yield_now};

use super::*;
use crate::{ConnectionThreads, Listener};

/// A listener whose connections are made in memory; the first attempts fail.
struct InMemory {
    errors: VecDeque<io::Error>,
    connections: mpsc::Receiver<DuplexStream>,
}

impl Accept for InMemory {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, Option<SocketAddr>)> {
        if let Some(error) = self.errors.pop_front() {
            return Err(error);
        }
        match self.connections.recv().await {
            Some(stream) => Ok((stream, None)),
            None => std::future::pending().await,
        }
    }

    fn move_here(stream: DuplexStream) -> io::Result<DuplexStream> {
        Ok(stream)
    }
}

/// Answers "done" once a permit is there.
#[derive(Clone)]
struct Gate {
    permits: Arc<Semaphore>,
    /// Gets a message for each request.
    requests: mpsc::Sender<()>,
}

impl HttpService for Gate {
    type Body = Full<Bytes>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Self::Body>, Infallible>> + Send>>;

    fn call(&self, _: Request<Incoming>) -> Self::Future {
        let gate = self.clone();
        Box::pin(async move {
            gate.requests.send(()).await.unwrap();
            gate.permits.acquire().await.unwrap().forget();
            Ok(Response::new(Full::from("done")))
        })
    }
}

/// A running server.
struct Fixture {
    connect: mpsc::Sender<DuplexStream>,
    permits: Arc<Semaphore>,
    requests: mpsc::Receiver<()>,
    drain: Drain,
    server: JoinSet<Stopped>,
}

impl Fixture {
    fn start(errors: Vec<io::Error>, limits: ConnectionLimits, grace: Duration) -> Self {
        let (connect, connections) = mpsc::channel(8);
        let permits = Arc::new(Semaphore::new(0));
        let (asked, requests) = mpsc::channel(8);
        let gate = Gate {
            permits: permits.clone(),
            requests: asked,
        };
        let listener = InMemory {
            errors: errors.into(),
            connections,
        };
        let drain = Drain::new(grace);
        let mut server = JoinSet::new();
        let serving = drain.clone();
        server.spawn(async move {
            let server = Server::new(listener, gate).with_limits(limits);
            server.serve(&serving, std::future::ready(())).await
        });
        Self {
            connect,
            permits,
            requests,
            drain,
            server,
        }
    }

    async fn connect(&self) -> DuplexStream {
        let (client, server) = duplex(1024);
        self.connect.send(server).await.unwrap();
        client
    }

    async fn stopped(&mut self) -> Stopped {
        self.server.join_next().await.unwrap().unwrap()
    }
}

async fn send(client: &mut DuplexStream) {
    let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    client.write_all(request).await.unwrap();
}

async fn response(mut client: DuplexStream) -> String {
    let mut response = String::new();
    client.read_to_string(&mut response).await.unwrap();
    response
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn accept_errors_delay_clients_and_lose_none() {
    let errors = [
        io::ErrorKind::ConnectionAborted.into(),
        io::Error::other("too many open files"),
        io::Error::other("too many open files"),
    ];
    let fixture = Fixture::start(errors.into(), ConnectionLimits::default(), LONG);
    fixture.permits.add_permits(1);
    let mut client = fixture.connect().await;
    send(&mut client).await;
    assert!(response(client).await.ends_with("done"));
}

#[tokio::test]
async fn requests_in_progress_finish_after_the_drain_began() {
    let mut fixture = Fixture::start(Vec::new(), ConnectionLimits::default(), LONG);
    let mut client = fixture.connect().await;
    send(&mut client).await;
    fixture.requests.recv().await.unwrap();
    fixture.drain.begin();
    fixture.permits.add_permits(1);
    assert!(response(client).await.ends_with("done"));
    assert_eq!(fixture.stopped().await, Stopped::Clean);
}

#[tokio::test]
async fn a_silent_connection_does_not_delay_the_end() {
    let mut fixture = Fixture::start(Vec::new(), ConnectionLimits::default(), LONG);
    let _silent = fixture.connect().await;
    fixture.drain.begin();
    assert_eq!(fixture.stopped().await, Stopped::Clean);
}

#[tokio::test]
async fn a_connection_whose_first_request_comes_during_the_drain_gets_its_reply() {
    let mut fixture = Fixture::start(Vec::new(), ConnectionLimits::default(), LONG);
    let mut late = fixture.connect().await;
    let mut busy = fixture.connect().await;
    send(&mut busy).await;
    fixture.requests.recv().await.unwrap();
    fixture.drain.begin();
    // The listener is dropped once the connections have been asked to close.
    fixture.connect.closed().await;
    send(&mut late).await;
    fixture.requests.recv().await.unwrap();
    fixture.permits.add_permits(2);
    assert!(response(late).await.ends_with("done"));
    assert!(response(busy).await.ends_with("done"));
    assert_eq!(fixture.stopped().await, Stopped::Clean);
}

#[tokio::test]
async fn requests_that_outlast_the_grace_period_are_aborted() {
    let mut fixture = Fixture::start(Vec::new(), ConnectionLimits::default(), Duration::ZERO);
    let mut client = fixture.connect().await;
    send(&mut client).await;
    fixture.requests.recv().await.unwrap();
    fixture.drain.begin();
    assert_eq!(fixture.stopped().await, Stopped::Forced);
    assert_eq!(response(client).await, "");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_one_to_end() {
    let limits = ConnectionLimits {
        connections_max: NonZeroUsize::new(1),
        ..ConnectionLimits::default()
    };
    let mut fixture = Fixture::start(Vec::new(), limits, LONG);
    let mut first = fixture.connect().await;
    let mut second = fixture.connect().await;
    send(&mut second).await;
    send(&mut first).await;
    fixture.requests.recv().await.unwrap();
    assert!(fixture.requests.is_empty(), "the second was served as well");
    fixture.permits.add_permits(2);
    assert!(response(first).await.ends_with("done"));
    assert!(response(second).await.ends_with("done"));
}

#[tokio::test]
async fn a_connection_ends_at_its_longest_lifetime() {
    let limits = ConnectionLimits {
        lifetime_max: Some(Duration::from_millis(1)),
        ..ConnectionLimits::default()
    };
    let fixture = Fixture::start(Vec::new(), limits, LONG);
    assert_eq!(response(fixture.connect().await).await, "");
}

/// Answers with the name of the thread that it runs on, and the end of a line.
#[derive(Clone)]
struct ThreadName;

impl HttpService for ThreadName {
    type Body = Full<Bytes>;
    type Future = std::future::Ready<Result<Response<Self::Body>, Infallible>>;

    fn call(&self, _: Request<Incoming>) -> Self::Future {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        std::future::ready(Ok(Response::new(Full::from(name + "\n"))))
    }
}

/// The name of the thread that answers on this connection.
async fn thread_name(client: &mut TcpStream) -> String {
    let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    client.write_all(request).await.unwrap();
    let mut response = Vec::new();
    let ends = |response: &[u8]| response.ends_with(b"\n") && !response.ends_with(b"\r\n");
    while !ends(&response) {
        client.read_buf(&mut response).await.unwrap();
    }
    let response = String::from_utf8(response).unwrap();
    response.lines().last().unwrap().to_owned()
}

#[tokio::test]
async fn connections_are_divided_among_threads_and_stay_on_theirs() {
    let threads = ConnectionThreads::start(2).unwrap();
    let listener = Listener::bind("127.0.0.1", 0).await.unwrap();
    let address = listener.local_addr();
    let open = Gauge::default();
    let server = Server::new(listener, ThreadName)
        .with_threads(threads.spawner())
        .with_open_connections(open.clone());
    let clients = async {
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = TcpStream::connect(address).await.unwrap();
            let name = thread_name(&mut client).await;
            assert_eq!(thread_name(&mut client).await, name);
            clients.push((client, name));
        }
        let names: HashSet<_> = clients.iter().map(|(_, name)| name.clone()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(names.contains("connections-1") && names.contains("connections-2"));
        // The next one takes the place of one that is closed.
        let (client, name) = clients.remove(1);
        drop(client);
        while open.get() > 2 {
            yield_now().await;
        }
        let mut client = TcpStream::connect(address).await.unwrap();
        assert_eq!(thread_name(&mut client).await, name);
    };
    tokio::select! {
        never = server.serve_until_dropped() => match never {},
        () = clients => {}
    }
}
