//! The server under load, and one request to it.

use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

const GRPC_STATUS: &str = "grpc-status";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Framed messages over one connection of HTTP/2.
    Grpc,
    /// JSON over HTTP/1.1, with a connection for each request in progress.
    Http,
}

impl FromStr for Protocol {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> anyhow::Result<Self> {
        match name {
            "grpc" => Ok(Self::Grpc),
            "http" => Ok(Self::Http),
            _ => bail!("PROTOCOL is `grpc` or `http`"),
        }
    }
}

/// Connections stay open.
pub(crate) struct Target {
    client: Client<HttpConnector, Full<Bytes>>,
    protocol: Protocol,
    url: Uri,
}

impl Target {
    pub(crate) fn new(protocol: Protocol, url: &str) -> anyhow::Result<Self> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .http2_only(protocol == Protocol::Grpc)
            .build(connector);
        let url = url
            .parse()
            .with_context(|| format!("`{url}` is not a URL"))?;
        Ok(Self {
            client,
            protocol,
            url,
        })
    }

    /// Sends one body and returns the body of a good reply.
    pub(crate) async fn send(&self, body: Bytes) -> anyhow::Result<Bytes> {
        let request = Request::post(self.url.clone());
        let request = match self.protocol {
            Protocol::Grpc => request
                .header(CONTENT_TYPE, "application/grpc")
                .header(TE, "trailers"),
            Protocol::Http => request.header(CONTENT_TYPE, "application/json"),
        };
        let response = self.client.request(request.body(Full::new(body))?).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        let bytes = body.to_bytes();
        ensure!(
            head.status == StatusCode::OK,
            "the server answered {}: {}",
            head.status,
            String::from_utf8_lossy(&bytes)
        );
        if self.protocol == Protocol::Grpc {
            check_grpc(&head.headers, &trailers)?;
        }
        Ok(bytes)
    }
}

/// A reply without a message has its status in the headers.
fn check_grpc(headers: &HeaderMap, trailers: &HeaderMap) -> anyhow::Result<()> {
    let status = trailers.get(GRPC_STATUS).or(headers.get(GRPC_STATUS));
    let status = status.context("the reply has no `grpc-status`")?;
    ensure!(status == "0", "the call failed: {headers:?} {trailers:?}");
    Ok(())
}
