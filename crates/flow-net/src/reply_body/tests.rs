use std::future::ready;
use std::net::SocketAddr;
use std::time::Duration;

use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::*;
use crate::{ByteBudget, Drain, HttpService, Listener, Server};

const REPLY_LEN: usize = 300;

/// Answers with so many bytes, and trailers as gRPC has them.
#[derive(Clone)]
struct Large;

type LargeBody = http_body_util::combinators::BoxBody<Bytes, Infallible>;

impl HttpService for Large {
    type Body = LargeBody;
    type Future = std::future::Ready<Result<Response<LargeBody>, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let body = Full::new(Bytes::from(vec![0; REPLY_LEN]));
        let body = match request.version() {
            http::Version::HTTP_2 => body
                .with_trailers(ready(Some(Ok(HeaderMap::new()))))
                .boxed(),
            _ => body.boxed(),
        };
        ready(Ok(Response::new(body)))
    }
}

struct Fixture {
    address: SocketAddr,
    budget: ByteBudget,
    tasks: JoinSet<()>,
}

impl Fixture {
    async fn start() -> Self {
        let listener = Listener::bind("127.0.0.1", 0).await.unwrap();
        let address = listener.local_addr();
        let budget = ByteBudget::new(100 << 20);
        let server = Server::new(listener, Large).with_budget(budget.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            server.serve(&Drain::new(Duration::ZERO), ready(())).await;
        });
        Self {
            address,
            budget,
            tasks,
        }
    }

    /// A client that has room for one byte of each reply.
    async fn client(&mut self) -> SendRequest<Bytes> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(1);
        let (client, connection) = builder.handshake(stream).await.unwrap();
        self.tasks.spawn(async { drop(connection.await) });
        client
    }
}

async fn request(client: &SendRequest<Bytes>) -> ResponseFuture {
    let mut client = client.clone().ready().await.unwrap();
    let request = Request::get("http://localhost/").body(()).unwrap();
    client.send_request(request, true).unwrap().0
}

#[tokio::test]
async fn a_reply_counts_until_its_client_has_room_for_all_of_it() {
    let mut fixture = Fixture::start().await;
    let client = fixture.client().await;
    let mut bodies = Vec::new();
    for count in 1..=3 {
        let mut body = request(&client).await.await.unwrap().into_body();
        // Once the first byte is there, hyper has given h2 all of them.
        assert_eq!(body.data().await.unwrap().unwrap().len(), 1);
        assert_eq!(fixture.budget.held(), count * REPLY_LEN);
        bodies.push(body);
    }
    for body in &mut bodies {
        let mut window = body.flow_control().clone();
        window.release_capacity(1).unwrap();
        while let Some(part) = body.data().await {
            window.release_capacity(part.unwrap().len()).unwrap();
        }
        body.trailers().await.unwrap();
    }
    assert_eq!(fixture.budget.held(), 0);
}

#[tokio::test]
async fn a_reply_counts_no_more_when_its_stream_or_its_connection_ends() {
    let mut fixture = Fixture::start().await;
    let client = fixture.client().await;
    let mut first = request(&client).await.await.unwrap().into_body();
    let mut second = request(&client).await.await.unwrap().into_body();
    for body in [&mut first, &mut second] {
        assert_eq!(body.data().await.unwrap().unwrap().len(), 1);
    }
    assert_eq!(fixture.budget.held(), 2 * REPLY_LEN);
    drop(first);
    // The reset is sent before the request.
    let mut third = request(&client).await.await.unwrap().into_body();
    assert_eq!(third.data().await.unwrap().unwrap().len(), 1);
    assert_eq!(fixture.budget.held(), 2 * REPLY_LEN);
    fixture.tasks.abort_all();
    while fixture.tasks.join_next().await.is_some() {}
    drop((client, second, third));
    assert_eq!(fixture.budget.held(), 0);
}

#[tokio::test]
async fn a_reply_over_http_1_counts_until_it_is_written() {
    let fixture = Fixture::start().await;
    let mut stream = TcpStream::connect(fixture.address).await.unwrap();
    let head = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await.unwrap();
    assert!(reply.len() > REPLY_LEN);
    assert_eq!(fixture.budget.held(), 0);
}

#[tokio::test]
async fn the_head_of_a_request_counts_until_its_reply_is_given_away() {
    let budget = ByteBudget::new(1 << 20);
    let connection = crate::open_connections::OpenConnection::with_budget(budget.clone());
    let head = Request::get("http://localhost/path")
        .header("x-long", "x".repeat(1000))
        .body(())
        .unwrap();
    let request = OpenRequest::with_head(&Arc::new(connection), &head);
    assert_eq!(budget.held(), REQUEST_COST + 5 + 6 + 1000 + HEADER_COST);
    drop(request);
    assert_eq!(budget.held(), 0);
}
