//! Requests over HTTP with JSON, on connections that are kept.

use std::collections::VecDeque;
use std::sync::Mutex;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::account::{REPLY_MAX, Ticket};
use crate::load;

/// A client.
#[derive(Debug)]
pub(crate) struct Http {
    port: u16,
    /// Connections that wait for a request; the one that has waited longest is next.
    idle: Mutex<VecDeque<SendRequest<Full<Bytes>>>>,
    idle_max: usize,
}

/// The body of a request.
pub(crate) fn body(id: &str, target: &str, texts: &[&str]) -> Value {
    let data: Vec<Value> = texts.iter().map(|text| json!({ "text": text })).collect();
    json!({
        "header": {"requestId": id},
        "execEndpoint": "/slow",
        "targetExecutor": target,
        "data": data,
    })
}

impl Http {
    /// Makes connections. There are never fewer, so that how many the gateway has says something about the gateway.
    pub(crate) async fn connect(port: u16, connections: usize) -> Self {
        let mut idle = VecDeque::new();
        for _ in 0..connections {
            idle.push_back(one_more(port).await.unwrap());
        }
        Self {
            port,
            idle: Mutex::new(idle),
            idle_max: connections,
        }
    }

    /// Sends the request of a ticket, and checks the reply.
    pub(crate) async fn post(&self, ticket: &Ticket, others: usize) -> Result<(), String> {
        let id = ticket.text();
        let texts = load::texts(&id, others);
        let request = body(&id, ticket.target(), &texts).to_string();
        let exchange = tokio::time::timeout(REPLY_MAX, self.exchange(request));
        let reply = exchange
            .await
            .map_err(|_| "no reply in time".to_owned())??;
        let status = &reply["header"]["status"];
        if status["code"].as_i64().is_some_and(|code| code != 0) {
            return Err(status["description"].to_string());
        }
        let documents = reply["data"].as_array().into_iter().flatten();
        let came: Vec<&str> = documents.filter_map(|it| it["text"].as_str()).collect();
        let is_fine = came == texts && reply["header"]["requestId"] == id.as_str();
        match is_fine {
            true => Ok(()),
            false => Err(format!("wrong reply: {reply}")),
        }
    }

    async fn exchange(&self, body: String) -> Result<Value, String> {
        let idle = self.idle.lock().unwrap().pop_front();
        let mut sender = match idle.filter(SendRequest::is_ready) {
            Some(sender) => sender,
            None => one_more(self.port).await?,
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri("/post")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let reply = sender.send_request(request).await;
        let body = reply.map_err(|error| error.to_string())?.into_body();
        let body = body.collect().await.map_err(|error| error.to_string())?;
        let mut idle = self.idle.lock().unwrap();
        if idle.len() < self.idle_max {
            idle.push_back(sender);
        }
        let body = body.to_bytes();
        serde_json::from_slice(&body)
            .map_err(|_| format!("no JSON: {}", String::from_utf8_lossy(&body)))
    }
}

async fn one_more(port: u16) -> Result<SendRequest<Full<Bytes>>, String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await;
    let stream = stream.map_err(|error| format!("cannot connect: {error}"))?;
    let (sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    #[allow(clippy::disallowed_methods, reason = "it ends with its connection")]
    tokio::spawn(async { drop(connection.await) });
    Ok(sender)
}
