//! The ports of a gateway, and the protocols that each serves.

use std::num::NonZeroUsize;
use std::sync::Arc;

use flow_metrics::Gauge;
use flow_net::{
    ByteBudget, CompressedElsewhere, ConnectionLimits, ConnectionSpawner, Drain, GrpcRoutes,
    GrpcService, Health, Listener, RequestSpawner, Server, Stopped,
};
use flow_spec::{Console, GatewayPort};
use futures_util::future::join_all;

use crate::auth::KeysFor;
use crate::console::Operations;
use crate::gateway_limits::GatewayLimits;
use crate::grpc::{InferenceService, JinaService, RequestKind, routes};
use crate::http::{self, HttpParts, HttpState, PortProtocols};
use crate::protection::Protection;
use crate::service::GatewayService;

/// What the ports of a gateway share.
#[derive(Debug)]
pub(crate) struct PortShares {
    /// The memory of requests and replies; `None` without a limit.
    pub(crate) budget: Option<ByteBudget>,
    /// Open connections.
    pub(crate) connections: Gauge,
    /// Runs compressed requests, and compresses large replies.
    pub(crate) spawner: RequestSpawner,
    /// The threads that serve connections.
    pub(crate) connection_spawner: ConnectionSpawner,
    /// What the console asks the supervisor.
    pub(crate) operations: Arc<Operations>,
}

/// Makes the service of each port of a gateway.
pub(crate) struct PortServices {
    service: GatewayService,
    gateway: flow_spec::Gateway,
    limits: GatewayLimits,
    grpc: GrpcRoutes,
    compressed: GrpcRoutes,
}

impl PortServices {
    pub(crate) fn new(
        service: GatewayService,
        gateway: flow_spec::Gateway,
        limits: GatewayLimits,
        add_health: impl FnOnce(GrpcRoutes) -> GrpcRoutes,
    ) -> Self {
        let jina = JinaService(service.clone());
        let inference = InferenceService(service.clone());
        let services = (&jina, &inference);
        let all = routes(services, limits.messages, RequestKind::AsTheyAre);
        let compressed = routes(services, limits.messages, RequestKind::Compressed);
        Self {
            service,
            gateway,
            limits,
            grpc: add_health(all),
            compressed,
        }
    }

    /// Serves on all listeners.
    pub(crate) async fn serve(
        self,
        (listeners, shares): (Vec<Listener>, PortShares),
        protection: &Protection,
        drain: &Drain,
        health: &Health,
    ) -> Stopped {
        let limits = share(self.limits.connections, listeners.len());
        let ports = listeners.into_iter().zip(self.gateway.ports()).enumerate();
        let serving = ports.map(|(place, (listener, port))| {
            let state = self.state((place, &port), &shares, protection.keys_for());
            let has_console = state.has_console;
            let service = protection.guard(self.of_port(state), has_console);
            let service = CompressedElsewhere::new(service, shares.spawner.clone());
            let listener = protection.listener(listener);
            let mut server = Server::new(listener, service)
                .with_limits(limits)
                .with_open_connections(shares.connections.clone())
                .with_threads(shares.connection_spawner.clone());
            if let Some(budget) = shares.budget.clone() {
                server = server.with_budget(budget);
            }
            server.serve(drain, health.set_serving(false))
        });
        let stopped = join_all(serving).await;
        let forced = stopped.into_iter().find(|it| *it == Stopped::Forced);
        forced.unwrap_or(Stopped::Clean)
    }

    /// What the routes of the port at this place among all have.
    fn state(
        &self,
        (place, port): (usize, &GatewayPort),
        shares: &PortShares,
        keys: KeysFor,
    ) -> HttpState {
        let serves = match self.gateway.only_protocols {
            true => PortProtocols::only(&port.protocols),
            false => PortProtocols::ALL,
        };
        let http = &self.gateway.http;
        let may_have_console = http.console_port.is_none_or(|it| it == place);
        HttpState::new(HttpParts {
            service: self.service.clone(),
            limits: self.limits,
            options: http.clone(),
            serves,
            has_console: serves.http && http.console != Console::Off && may_have_console,
            keys,
            operations: shares.operations.clone(),
            spawner: shares.spawner.clone(),
        })
    }

    /// The service of a port.
    fn of_port(&self, state: HttpState) -> GrpcService {
        let serves = state.serves;
        let grpc = GrpcService::new(self.grpc.clone()).with_compressed(self.compressed.clone());
        let grpc = match http::routes(state, self.grpc.clone()) {
            Some(routes) => grpc.with_http(routes),
            None => grpc,
        };
        if serves.grpc {
            grpc
        } else {
            grpc.without_grpc()
        }
    }
}

/// The part of the limits that each of several ports has.
fn share(limits: ConnectionLimits, ports: usize) -> ConnectionLimits {
    let part = |max: NonZeroUsize| {
        NonZeroUsize::new(max.get() / ports.max(1)).unwrap_or(NonZeroUsize::MIN)
    };
    ConnectionLimits {
        connections_max: limits.connections_max.map(part),
        ..limits
    }
}
