//! How an engine or a cluster asks a gateway for its health. Pure.

use flow_spec::{ClientCertificates, Gateway, Protocol};

/// The best that a health check without a key or a certificate of its own can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GatewayHealth {
    /// The gRPC health service, without TLS.
    Grpc,
    /// `/v2/health/live` and `/v2/health/ready` over HTTP.
    Http {
        /// Whether the connection is encrypted.
        has_tls: bool,
    },
    /// Whether the port accepts connections.
    Listening,
}

impl GatewayHealth {
    /// The health check for the first port of a gateway.
    pub(crate) fn of(gateway: &Gateway) -> Self {
        let serves = |protocol| !gateway.only_protocols || gateway.protocols.contains(&protocol);
        let has_tls = gateway.tls.is_some();
        let clients = gateway.tls.as_ref().and_then(|tls| tls.clients.as_ref());
        let needs_certificate = clients.is_some_and(|it| it.wanted == ClientCertificates::Required);
        let needs_key = gateway.api_keys.as_ref().is_some_and(|it| it.for_health)
            || gateway.jwt.as_ref().is_some_and(|it| it.for_health);
        if needs_certificate || needs_key {
            Self::Listening
        } else if serves(Protocol::Grpc) && !has_tls {
            Self::Grpc
        } else if serves(Protocol::Http) {
            Self::Http { has_tls }
        } else {
            Self::Listening
        }
    }
}

#[cfg(test)]
mod tests {
    use flow_spec::{Plan, TextFile, Variables};

    use super::*;

    #[test]
    fn health_is_asked_for_in_the_best_way_that_needs_no_key_and_no_certificate() {
        let check = |options: &str, expected: GatewayHealth| {
            let text = format!("jtype: Flow\nwith: {{{options}}}\nexecutors: [{{uses: echo}}]");
            let file = TextFile {
                path: "test.yml".as_ref(),
                text: &text,
            };
            let checked = flow_spec::load(file, &Variables::default());
            let plan = Plan::from(checked.unwrap().flow);
            assert_eq!(GatewayHealth::of(&plan.gateway), expected, "{options}");
        };
        let http = |has_tls| GatewayHealth::Http { has_tls };
        let tls = "ssl_certfile: c, ssl_keyfile: k";
        let clients = format!("{tls}, ssl_ca_certs: a, ssl_client_certs");
        check("port: 1", GatewayHealth::Grpc);
        check("protocol: http", GatewayHealth::Grpc);
        check("protocol: http, only_protocols: true", http(false));
        let websocket = "protocol: websocket, only_protocols: true";
        check(websocket, GatewayHealth::Listening);
        check(tls, http(true));
        check(&format!("{clients}: optional"), http(true));
        check(&format!("{clients}: required"), GatewayHealth::Listening);
        check("api_keys: k", GatewayHealth::Grpc);
        for keys in ["api_keys: k", "jwt_keys: k"] {
            let keys = format!("{keys}, api_keys_health: true");
            check(&keys, GatewayHealth::Listening);
        }
        let grpc = format!("{tls}, only_protocols: true");
        check(&grpc, GatewayHealth::Listening);
    }
}
