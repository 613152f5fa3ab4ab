//! The addresses of replicas and gateways.

use http::Uri;
use http::uri::PathAndQuery;
use tonic::transport::Endpoint;

use super::connector::socket_path;
use crate::limits::{CONNECTION_WINDOW, FRAME_LEN_MAX, STREAM_WINDOW, TCP_KEEPALIVE};

/// What requests name as their server when they go to a Unix socket, as with other clients of gRPC.
const SOCKET_ORIGIN: &str = "http://localhost";

/// The text is not the address of a replica.
#[derive(Debug, thiserror::Error)]
#[error("`{uri}` is not an address: write `grpc://host:port` or `unix:/path`")]
pub struct BadUri {
    uri: String,
    source: tonic::transport::Error,
}

impl BadUri {
    /// Returns why the text is not an address.
    pub(crate) fn into_cause(self) -> tonic::transport::Error {
        self.source
    }
}

/// Where a connection leads.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// What is connected to.
    uri: Uri,
    /// What requests name as their server.
    server: Uri,
}

impl Target {
    /// The same server at the other end of the connection and in requests.
    pub(super) fn new(uri: &str) -> Result<Self, BadUri> {
        let uri = endpoint(uri)?.uri().clone();
        Ok(Self {
            server: uri.clone(),
            uri,
        })
    }

    /// The same connection for requests that name another server.
    pub(super) fn naming(self, named: Self) -> Self {
        Self {
            server: named.server,
            ..self
        }
    }

    /// What is connected to.
    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The URI of a request, with the server.
    pub(super) fn addressed(&self, uri: &Uri) -> Result<Uri, http::Error> {
        let path = uri.path_and_query().cloned();
        let mut parts = self.server.clone().into_parts();
        parts.path_and_query = Some(path.unwrap_or(PathAndQuery::from_static("/")));
        Ok(Uri::from_parts(parts)?)
    }
}

/// The endpoint of a client's connection to this address. Connections to replicas use only its URI.
pub(crate) fn endpoint(uri: &str) -> Result<Endpoint, BadUri> {
    let of_requests = socket_path(uri).map_or(uri, |_| SOCKET_ORIGIN);
    let endpoint = Endpoint::from_shared(of_requests.to_owned()).map_err(|source| BadUri {
        uri: uri.to_owned(),
        source,
    })?;
    Ok(endpoint
        .tcp_nodelay(true)
        // No HTTP/2 pings: stock servers close a connection on which more than one in five minutes arrives.
        .tcp_keepalive(Some(TCP_KEEPALIVE))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_LEN_MAX))
}
