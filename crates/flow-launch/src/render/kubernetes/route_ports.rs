//! The hosts that lead to a flow, and the ports of the gateway's Service that serve them. Pure.

use flow_spec::{Gateway, Protocol};

use crate::render::export::ExportError;
use crate::render::parts::Workload;

/// The first port that is tried for plain HTTP.
const HTTP_PORT: u16 = 80;

/// A host name that leads to the flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRoute {
    /// The host name; may begin with `*.`.
    pub host: String,
    /// The Gateway of the cluster that has a listener for the host.
    pub gateway: String,
    /// The namespace of that Gateway; `None` for the flow's own.
    pub namespace: Option<String>,
}

/// The ports of the gateway's Service that a route leads to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RoutePorts {
    /// For gRPC.
    pub(super) grpc: Option<u16>,
    /// For HTTP and WebSocket.
    pub(super) http: Option<u16>,
    /// A further port of the Service for plain HTTP, whose target is the first port of the gateway.
    pub(super) extra: Option<u16>,
}

impl RoutePorts {
    /// The ports of a gateway that serve these protocols.
    ///
    /// # Errors
    /// If the gateway has a certificate: the cluster's Gateway ends TLS, and connects without.
    pub(super) fn of(gateway: &Gateway, unit: &Workload) -> Result<Self, ExportError> {
        if gateway.tls.is_some() {
            return Err(ExportError::RouteWithTls);
        }
        let used: Vec<u16> = ports(unit).collect();
        let serving = |wanted: &[Protocol]| {
            let mut all = gateway.ports().zip(&used);
            let serves = |protocols: &[Protocol]| protocols.iter().any(|it| wanted.contains(it));
            let found = all.find(|(port, _)| !gateway.only_protocols || serves(&port.protocols));
            found.map(|(_, number)| *number)
        };
        let grpc = serving(&[Protocol::Grpc]);
        let http = serving(&[Protocol::Http, Protocol::Websocket]);
        // The protocol of a port of a Service is either HTTP/1.1 or HTTP/2 without TLS.
        let is_shared = grpc.is_some() && grpc == http;
        let is_free = |port: &u16| !used.contains(port);
        let extra = is_shared.then(|| (HTTP_PORT..).find(is_free)).flatten();
        Ok(Self {
            grpc,
            http: extra.or(http),
            extra,
        })
    }
}

fn ports(unit: &Workload) -> impl Iterator<Item = u16> {
    let more = unit.more_ports.iter().map(|(_, port)| *port);
    let metrics = unit.metrics.iter().map(|it| it.port);
    std::iter::once(unit.port).chain(more).chain(metrics)
}
