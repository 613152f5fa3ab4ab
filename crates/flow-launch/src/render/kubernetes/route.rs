//! The HTTPRoute of the Gateway API: how clients outside of the cluster reach the gateways.
//!
//! One route serves gRPC and HTTP under one host name. Calls of gRPC are known by their content type and go on over HTTP/2.
//! Everything else, also WebSocket, goes on over HTTP/1.1. A GRPCRoute beside an HTTPRoute would not do: of two routes of
//! different kinds for the same host, a cluster accepts only the older one.
//!
//! These kinds are not part of the Kubernetes API, so they are defined here.

use serde::Serialize;

use super::Flow;
use super::custom_resource::CustomResource;
use super::route_ports::HostRoute;
use crate::render::parts::Workload;

/// The content types of gRPC calls that clients send.
const GRPC_TYPES: [&str; 2] = ["application/grpc", "application/grpc+proto"];
/// A stream may last for days, and the gateway has limits of its own.
const NO_LIMIT: &str = "0s";

/// The specification of a `HTTPRoute` of `gateway.networking.k8s.io/v1`, with the fields that the export uses.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HttpRoute {
    parent_refs: Vec<Parent>,
    hostnames: Vec<String>,
    rules: Vec<Rule>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Parent {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    matches: Vec<Match>,
    timeouts: Timeouts,
    backend_refs: [Backend; 1],
}

#[derive(Debug, Serialize)]
struct Match {
    headers: [Header; 1],
}

#[derive(Debug, Serialize)]
struct Header {
    name: &'static str,
    value: &'static str,
}

#[derive(Debug, Serialize)]
struct Timeouts {
    request: &'static str,
}

#[derive(Debug, Serialize)]
struct Backend {
    name: String,
    port: u16,
}

impl Flow<'_> {
    /// `None` if no option names a host.
    pub(super) fn route(&self, gateway: &Workload) -> Option<CustomResource<HttpRoute>> {
        let routes = &self.wanted.routes;
        let ports = self.route_ports?;
        let mut parents = Vec::new();
        let mut hostnames = Vec::new();
        for HostRoute { host, .. } in routes {
            if !hostnames.contains(host) {
                hostnames.push(host.clone());
            }
        }
        for parent in routes.iter().map(Parent::from) {
            if !parents.contains(&parent) {
                parents.push(parent);
            }
        }
        let rule = |matches, port| Rule {
            matches,
            timeouts: Timeouts { request: NO_LIMIT },
            backend_refs: [Backend {
                name: gateway.name.clone(),
                port,
            }],
        };
        let calls = GRPC_TYPES.map(|value| Match {
            headers: [Header {
                name: "content-type",
                value,
            }],
        });
        let grpc = ports.grpc.map(|port| rule(calls.into(), port));
        let other = ports.http.map(|port| rule(Vec::new(), port));
        Some(CustomResource {
            api_version: "gateway.networking.k8s.io/v1",
            kind: "HTTPRoute",
            metadata: self.meta(gateway, &gateway.name),
            spec: HttpRoute {
                parent_refs: parents,
                hostnames,
                rules: grpc.into_iter().chain(other).collect(),
            },
        })
    }
}

impl From<&HostRoute> for Parent {
    fn from(route: &HostRoute) -> Self {
        Self {
            name: route.gateway.clone(),
            namespace: route.namespace.clone(),
        }
    }
}
