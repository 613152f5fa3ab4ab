use std::future::{Ready, ready};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use tokio::sync::oneshot;

use super::*;
use crate::{Listener, Server};

#[tokio::test]
async fn large_requests_leave_the_thread_on_which_small_ones_stay() {
    let thread = RequestThread::start().unwrap();
    let spawner = thread.spawner();
    assert!(!spawner.is_for(SMALL_MAX - 1));
    assert!(spawner.is_for(SMALL_MAX));
    let large = spawner.spawn(async { thread::current().id() });
    assert_ne!(large.await.unwrap(), thread::current().id());
}

#[tokio::test]
async fn a_request_whose_caller_has_gone_is_dropped_on_the_thread() {
    let thread = RequestThread::start().unwrap();
    let (guard, dropped) = oneshot::channel::<()>();
    let work = async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    };
    drop(thread.spawner().spawn(work));
    assert!(dropped.await.is_err());
}

/// Blocks the thread on which it answers a compressed request.
#[derive(Clone)]
struct Blocks {
    begun: SyncSender<()>,
    barrier: Arc<Barrier>,
}

impl HttpService for Blocks {
    type Body = Full<Bytes>;
    type Future = Either<Ready<Answer>, Pin<Box<dyn Future<Output = Answer> + Send>>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let response = Ok(Response::new(Full::new(Bytes::from_static(b"answer"))));
        if !request.headers().contains_key(GRPC_ENCODING) {
            return Either::Left(ready(response));
        }
        let this = self.clone();
        Either::Right(Box::pin(async move {
            this.begun.send(()).unwrap();
            this.barrier.wait();
            response
        }))
    }
}

type Answer = Result<Response<Full<Bytes>>, Infallible>;

fn send(address: SocketAddr, header: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n"
    )
    .unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Sends a request that blocks and another one, and returns the answers to both.
fn ask(address: SocketAddr, begun: &Receiver<()>, barrier: &Barrier) -> [String; 2] {
    let blocked = send(address, "grpc-encoding: gzip\r\n");
    begun.recv().unwrap();
    let other = answer(send(address, ""));
    barrier.wait();
    [other, answer(blocked)]
}

#[tokio::test]
async fn a_compressed_request_that_takes_long_delays_no_other() {
    let thread = RequestThread::start().unwrap();
    let (begin, begun) = sync_channel(1);
    let barrier = Arc::new(Barrier::new(2));
    let service = Blocks {
        begun: begin,
        barrier: barrier.clone(),
    };
    let service = CompressedElsewhere::new(service, thread.spawner());
    let listener = Listener::bind("127.0.0.1", 0).await.unwrap();
    let address = listener.local_addr();
    let asked = tokio::task::spawn_blocking(move || ask(address, &begun, &barrier));
    let answers = tokio::select! {
        answers = asked => answers.unwrap(),
        never = Server::new(listener, service).serve_until_dropped() => match never {},
    };
    assert!(
        answers.iter().all(|it| it.ends_with("answer")),
        "{answers:?}"
    );
}

#[tokio::test]
async fn the_body_of_a_compressed_request_is_made_on_the_thread() {
    let thread = RequestThread::start().unwrap();
    let here = thread::current().id();
    let body = futures_util::stream::once(async move {
        assert_ne!(thread::current().id(), here);
        Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"made")))
    });
    let body = http_body_util::StreamBody::new(Box::pin(body));
    let body = MadeElsewhere::new(body, &thread.spawner());
    assert_eq!(body.collect().await.unwrap().to_bytes(), "made");
}

#[tokio::test]
async fn a_body_whose_work_panics_does_not_seem_complete() {
    let thread = RequestThread::start().unwrap();
    let frames =
        futures_util::stream::poll_fn(|_| -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            panic!("no")
        });
    let body = http_body_util::StreamBody::new(frames);
    let body = MadeElsewhere::new(body, &thread.spawner());
    assert!(body.collect().await.is_err());
}

#[test]
fn a_request_is_compressed_if_its_messages_or_its_body_are() {
    let headers = |name: &'static str, value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(name, http::HeaderValue::from_static(value));
        headers
    };
    assert!(is_compressed(&headers("grpc-encoding", "gzip")));
    assert!(is_compressed(&headers("content-encoding", "deflate")));
    assert!(!is_compressed(&headers("grpc-encoding", "identity")));
    assert!(!is_compressed(&HeaderMap::new()));
}
