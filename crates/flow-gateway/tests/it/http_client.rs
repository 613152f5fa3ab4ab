//! HTTP/1 as plain text, one connection for each request.

use std::net::SocketAddr;

use flow_core::Deadline;
use flow_net::Client;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use crate::test_gateway::{TestGateway, request as envelope};

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A header; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut lines = self.headers.lines().filter_map(|it| it.split_once(": "));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// One of the ports of a gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Port(SocketAddr);

impl TestGateway {
    /// The n-th port beside the first.
    pub(crate) fn at(&self, number: usize) -> Port {
        Port(self.more[number])
    }

    pub(crate) fn first_port(&self) -> Port {
        Port(self.address)
    }
}

impl Port {
    pub(crate) async fn get(self, path: &str) -> Answer {
        self.request("GET", path, &[], b"").await
    }

    /// How a gRPC call fails; `None` if it does not.
    pub(crate) async fn grpc_status(self) -> Option<Code> {
        let client = Client::connect(&format!("grpc://{}", self.0))
            .await
            .unwrap();
        let reply = client
            .single(envelope("/any", &["a"]), Deadline::NEVER)
            .await;
        let failure = reply.err()?;
        Some(flow_net::status::from_failure(&failure).code())
    }

    pub(crate) async fn request(
        self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut stream = TcpStream::connect(self.0).await.unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head += "host: a\r\n";
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        // A request that is refused early is not read to its end.
        drop(stream.write_all(body).await);
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all).await);
        answer(&all)
    }
}

fn answer(all: &[u8]) -> Answer {
    let end = all.windows(4).position(|it| it == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(all)));
    let headers = String::from_utf8(all[..end].to_vec()).unwrap();
    let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
    let body = &all[end + 4..];
    let mut answer = Answer {
        status,
        headers,
        body: body.to_vec(),
    };
    if answer.header("transfer-encoding") == "chunked" {
        answer.body = dechunked(body);
    }
    answer
}

fn dechunked(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = body.windows(2).position(|it| it == b"\r\n") {
        let length = std::str::from_utf8(&body[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            break;
        }
        out.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 4 + length..];
    }
    out
}

pub(crate) async fn request(
    gateway: &TestGateway,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let port = gateway.first_port();
    port.request(method, path, headers, body).await
}

pub(crate) async fn get(gateway: &TestGateway, path: &str) -> Answer {
    request(gateway, "GET", path, &[], b"").await
}

pub(crate) async fn delete(gateway: &TestGateway, path: &str) -> Answer {
    request(gateway, "DELETE", path, &[], b"").await
}

pub(crate) async fn post(gateway: &TestGateway, path: &str, body: &Value) -> Answer {
    let headers = [("content-type", "application/json")];
    request(gateway, "POST", path, &headers, body.to_string().as_bytes()).await
}
