//! A client for HTTP services outside of the flow, such as collectors of OpenTelemetry.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioExecutor;

use crate::connection::BoxError;
use crate::replica::{Connector, PeerSpoke};
use crate::tls::ClientTls;

/// Largest body of a response that is read: what services say about failures is shorter.
const BODY_LEN_MAX: usize = 64 << 10;

/// The longest time that connecting may take, also if the request that needed the connection was given up.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Sends requests to one service, over one connection at a time. Clones share the connection.
#[derive(Debug, Clone)]
pub struct HttpClient(Client<Connector, Full<Bytes>>);

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without asking the server whether it knows it.
    Http2,
}

/// The response to a request.
#[derive(Debug)]
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers and, with HTTP/2, the trailers, which replace headers of the same name.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// The service did not respond.
#[derive(Debug, thiserror::Error)]
pub enum HttpClientError {
    /// The request could not be sent, or its response did not begin.
    #[error("the service cannot be reached")]
    Request(#[source] BoxError),
    /// The response broke off, or is too large.
    #[error("the response cannot be read")]
    Response(#[source] BoxError),
}

impl HttpClient {
    /// A client that connects with its first request; with TLS if the service has it.
    #[must_use]
    pub fn new(version: HttpVersion, tls: Option<ClientTls>) -> Self {
        let is_http2 = version == HttpVersion::Http2;
        let tls = match is_http2 {
            true => tls,
            false => tls.map(|tls| tls.for_protocol(b"http/1.1")),
        };
        let connector = Connector::new(tls, PeerSpoke::default()).within(CONNECT_MAX);
        let client = Client::builder(TokioExecutor::new())
            .http2_only(is_http2)
            .pool_max_idle_per_host(1)
            .build(connector);
        Self(client)
    }

    /// Sends a request with an absolute URI.
    ///
    /// The future is boxed, so that the code of the client is compiled in this crate only.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or its response cannot be read.
    pub fn send(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<HttpResponse, HttpClientError>> {
        let responding = self.0.request(request.map(Full::new));
        Box::pin(async move {
            let response = responding.await;
            let response = response.map_err(|error| HttpClientError::Request(error.into()))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, BODY_LEN_MAX).collect().await;
            let body = body.map_err(HttpClientError::Response)?;
            let mut headers = head.headers;
            if let Some(trailers) = body.trailers() {
                headers.extend(trailers.clone());
            }
            Ok(HttpResponse {
                status: head.status,
                headers,
                body: body.to_bytes(),
            })
        })
    }
}

impl Connection for crate::replica::ReplicaConnection {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
