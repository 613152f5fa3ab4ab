//! The state that all routes share, and the options that every request may set by headers.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use flow_core::{CallOptions, Failure};
use flow_net::RequestSpawner;
use flow_net::grpc::metadata::call_options;
use flow_spec::{HttpOptions, Protocol};
use tonic::metadata::MetadataMap;

use super::request_id::HeaderId;
use crate::auth::KeysFor;
use crate::console::Operations;
use crate::gateway_limits::GatewayLimits;
use crate::origin::origin;
use crate::service::GatewayService;

/// What every route has. Each request gets a clone.
#[derive(Debug, Clone)]
pub(crate) struct HttpState(Arc<HttpParts>);

/// The parts of the state.
#[derive(Debug)]
pub(crate) struct HttpParts {
    pub(crate) service: GatewayService,
    pub(crate) limits: GatewayLimits,
    /// The options of the flow file.
    pub(crate) options: HttpOptions,
    pub(crate) serves: PortProtocols,
    /// Whether browsers get the console on this port.
    pub(crate) has_console: bool,
    /// Which requests need an API key.
    pub(crate) keys: KeysFor,
    /// What the console asks the supervisor.
    pub(crate) operations: Arc<Operations>,
    /// Compresses large replies.
    pub(crate) spawner: RequestSpawner,
}

impl HttpState {
    pub(crate) fn new(parts: HttpParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for HttpState {
    type Target = HttpParts;

    fn deref(&self) -> &HttpParts {
        &self.0
    }
}

/// The protocols that a port serves besides gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PortProtocols {
    pub(crate) grpc: bool,
    pub(crate) http: bool,
    pub(crate) websocket: bool,
}

impl PortProtocols {
    pub(crate) const ALL: Self = Self {
        grpc: true,
        http: true,
        websocket: true,
    };

    /// These protocols, and no others.
    pub(crate) fn only(protocols: &[Protocol]) -> Self {
        Self {
            grpc: protocols.contains(&Protocol::Grpc),
            http: protocols.contains(&Protocol::Http),
            websocket: protocols.contains(&Protocol::Websocket),
        }
    }
}

/// The options of a call, from the headers of its request, which have the names of gRPC's metadata, and from its route.
pub(crate) fn options(request: &Request) -> Result<CallOptions, Failure> {
    let options = call_options(&MetadataMap::from_headers(request.headers().clone()))?;
    let extensions = request.extensions();
    let operation = match extensions.get::<MatchedPath>() {
        Some(path) => format!("{} {}", request.method(), path.as_str()),
        None => request.method().to_string(),
    };
    let id = extensions.get::<HeaderId>();
    Ok(CallOptions {
        request_id: id.map(|it| it.0.as_str().into()).or(options.request_id),
        origin: origin(extensions, "http", operation),
        ..options
    })
}
