//! HTTP as `curl` speaks it: one connection for each request.

use bytes::Bytes;
use flow_tests::TestFlow;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// A reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// A header as a number.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.headers[name].to_str().unwrap().parse().unwrap()
    }
}

/// Sends a request with these headers.
pub(crate) async fn send(
    flow: &TestFlow,
    (method, path): (Method, &str),
    headers: &[(&str, String)],
    body: impl Into<Bytes>,
) -> Reply {
    let stream = TcpStream::connect(("127.0.0.1", flow.port()))
        .await
        .unwrap();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    let mut driver = JoinSet::new();
    driver.spawn(async { drop(connection.await) });
    let request = Request::builder().method(method).uri(path);
    let request = request.header("host", "localhost");
    let with = |request: http::request::Builder, (name, value): &(&str, String)| {
        request.header(*name, value)
    };
    let request = headers.iter().fold(request, with);
    let request = request.body(Full::new(body.into())).unwrap();
    let (head, body) = sender.send_request(request).await.unwrap().into_parts();
    Reply {
        status: head.status.as_u16(),
        headers: head.headers,
        body: body.collect().await.unwrap().to_bytes(),
    }
}

pub(crate) async fn get(flow: &TestFlow, path: &str) -> Reply {
    send(flow, (Method::GET, path), &[], Bytes::new()).await
}

pub(crate) async fn post(flow: &TestFlow, path: &str, body: &Value) -> Reply {
    let json = ("content-type", "application/json".to_owned());
    send(flow, (Method::POST, path), &[json], body.to_string()).await
}
