//! An executor that breaks every rule of the protocol: its own requests fail, the gateway and other clients go on.

use std::convert::Infallible;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flow_proto::Envelope;
use flow_tests::raw::{Connection, SINGLE, encoded, frame, gzipped, header};
use flow_tests::{said, texts};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::Target;
use super::documents::{message, nested};

/// Every request has an answer after this time, whatever the executor does.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

type Body = BoxBody<Bytes, Infallible>;

/// What the executor replies with, by the endpoint of the request.
const ATTACKS: [&str; 7] = [
    "/announce",
    "/deep",
    "/routes",
    "/gzip",
    "/garbage",
    "/text",
    "/cut",
];

/// A reply to this request: an attack, or the request itself.
fn reply(request: &[u8]) -> Body {
    let message = request.get(5..).unwrap_or_default();
    let envelope = Envelope::decode(message).unwrap_or_default();
    let header_of = envelope.header.clone().unwrap_or_default();
    let bytes = match header_of.exec_endpoint.as_deref().unwrap_or_default() {
        // Almost 4 GiB, of which nothing comes.
        "/announce" => header(u32::MAX as usize),
        "/deep" => encoded(&Envelope {
            data: Some(nested(14_000)),
            ..envelope
        }),
        "/routes" => {
            let routes = b"\x1a\x00".repeat(15_000_000);
            frame(&[message, &routes].concat())
        }
        "/gzip" => {
            let mut compressed = BytesMut::from(&frame(&gzipped(&vec![0; 256 << 20]))[..]);
            compressed[0] = 1;
            compressed.freeze()
        }
        "/garbage" => frame(&[0xff; 1000]),
        "/text" => frame(&message_of_long_failure(&envelope)),
        "/cut" => frame(message).slice(..7),
        _ => frame(message),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(bytes).with_trailers(async { Some(Ok(trailers)) });
    body.boxed()
}

/// A failure whose text has 8 MB.
fn message_of_long_failure(envelope: &Envelope) -> Vec<u8> {
    let mut failed = envelope.clone();
    let header = failed.header.get_or_insert_default();
    let status = header.status.get_or_insert_default();
    (status.code, status.description) = (1, "x".repeat(8 << 20));
    failed.encode_to_vec()
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let request = request.into_body().collect().await;
    let request = request.map(http_body_util::Collected::to_bytes);
    let is_call = path.contains("DataRequestRPC");
    let body = match (path.as_str(), request) {
        (_, Ok(request)) if is_call => reply(&request),
        // `SERVING` of the health service; for discovery, an endpoint.
        (path, _) if path.contains("Health") => done(&[(1, b"")], b"\x08\x01"),
        _ => done(&[(1, b"/default")], b""),
    };
    let response = Response::builder().header("content-type", "application/grpc");
    Ok(response.body(body).expect("the headers are valid"))
}

/// A reply with these fields, or these bytes if there are any.
fn done(fields: &[(u32, &[u8])], bytes: &[u8]) -> Body {
    let content = match bytes {
        [] => frame(&message(fields)),
        bytes => frame(bytes),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(content).with_trailers(async { Some(Ok(trailers)) });
    body.boxed()
}

/// Serves until the returned value is dropped.
async fn broken_executor() -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let server = http2::Builder::new(TokioExecutor::new());
                let connection = server.serve_connection(TokioIo::new(stream), service_fn(answer));
                drop(connection.await);
            });
        }
    });
    (port, server)
}

/// Sends a request to an endpoint, and says whether it succeeded.
async fn call(target: &Target, endpoint: &str) -> Result<(), String> {
    let connection = Connection::open(target.flow.port()).await;
    let answered = connection.call(SINGLE, encoded(&texts(endpoint, &["x"])));
    let answer = tokio::time::timeout(ANSWERED_WITHIN, answered).await;
    let answer = answer.unwrap_or_else(|_| panic!("`{endpoint}` is never answered"));
    let failure = match answer.messages.first() {
        None => Some(answer.message),
        Some(reply) => said(&Envelope::decode(reply.clone()).unwrap()).failure,
    };
    failure.map_or(Ok(()), Err)
}

#[tokio::test]
async fn a_broken_executor_fails_its_own_requests_and_nothing_else() {
    let (port, _server) = broken_executor().await;
    // Behind a join the gateway reads what the executor replied.
    let target = Target::up(
        &format!(
            "executors:
  - {{name: broken, external: true, host: 127.0.0.1, port: {port}, needs: gateway}}
  - {{name: echo, uses: echo, needs: gateway}}
  - {{name: join, uses: echo, needs: [broken, echo]}}"
        ),
        &["gateway", "echo", "join"],
    );
    for endpoint in ATTACKS {
        let failure = call(&target, endpoint).await;
        let failure = failure.expect_err(endpoint);
        assert!(failure.len() < 100_000, "{endpoint}: {}", failure.len());
        target.survived(192).await;
    }
}
