use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::*;
use crate::byte_budget::ByteBudget;
use crate::{Drain, Health, Listener, Server};

/// A server with a health service and a call that is never answered, `/never.Answered/call`.
async fn start() -> (SocketAddr, JoinSet<()>) {
    start_with(ByteBudget::new(1 << 30)).await
}

/// The same with a limit on its memory.
async fn start_with(budget: ByteBudget) -> (SocketAddr, JoinSet<()>) {
    let (health, service) = Health::new(&[]).await;
    health.set_serving(true).await;
    let routes = GrpcRoutes::new(service).add_service(NeverAnswered);
    let listener = Listener::bind("127.0.0.1", 0).await.unwrap();
    let address = listener.local_addr();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let server = Server::new(listener, GrpcService::new(routes)).with_budget(budget);
        server
            .serve(&Drain::new(Duration::ZERO), std::future::ready(()))
            .await;
    });
    (address, tasks)
}

#[derive(Clone)]
struct NeverAnswered;

impl tonic::server::NamedService for NeverAnswered {
    const NAME: &'static str = "never.Answered";
}

impl Service<Request<Body>> for NeverAnswered {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = GrpcReply;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_request_over_http_1_is_answered_with_how_to_use_a_grpc_client() {
    let (address, _server) = start().await;
    for request in ["GET / HTTP/1.1", "POST /jina.JinaRPC/Call HTTP/1.1"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("{request}\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert!(
            response.starts_with("HTTP/1.1 400 Bad Request\r\n"),
            "{response}"
        );
        assert!(
            response.contains("\r\ncontent-type: text/plain; charset=utf-8\r\n"),
            "{response}"
        );
        let expected = format!(
            "\r\n\r\nthis port speaks gRPC over HTTP/2, and this request came over HTTP/1; use a gRPC client, \
             such as `flow post grpc://{address} --on /encode --text hello`\n"
        );
        assert!(response.ends_with(&expected), "{response}");
    }
}

#[tokio::test]
async fn a_grpc_call_is_answered_on_the_same_port() {
    let (address, _server) = start().await;
    let client = crate::Client::connect(&format!("grpc://{address}")).await;
    let is_serving = client.unwrap().is_serving(flow_core::Deadline::NEVER).await;
    assert!(is_serving.unwrap());
}

#[tokio::test]
async fn a_call_ends_at_the_time_that_its_caller_names() {
    let (address, _server) = start().await;
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
            .await
            .unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let request = Request::post(format!("http://{address}/never.Answered/call"))
        .header("content-type", "application/grpc")
        .header("grpc-timeout", "5m")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "4");
    let message = "the%20deadline%20passed%20before%20there%20was%20a%20reply";
    assert_eq!(response.headers()["grpc-message"], message);
}

#[tokio::test]
async fn without_memory_calls_are_refused_and_health_is_answered() {
    let budget = ByteBudget::new(1 << 20);
    let (address, _server) = start_with(budget.clone()).await;
    let _held = budget.hold(2 << 20);
    let client = crate::Client::connect(&format!("grpc://{address}")).await;
    let is_serving = client.unwrap().is_serving(flow_core::Deadline::NEVER).await;
    assert!(is_serving.unwrap());
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
            .await
            .unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let request = Request::post(format!("http://{address}/never.Answered/call"))
        .header("content-type", "application/grpc")
        .body(Full::new(Bytes::from_static(&[0; 5])))
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "8");
}
