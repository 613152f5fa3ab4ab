//! The gateway's process: binds, answers, tells its health, drains.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use flow_core::NodeName;
use flow_metrics::Metrics;
use flow_net::{
    Drain, GrpcService, Health, Limits, Listener, MetricsServer, MetricsServerError, Server,
    Stopped,
};
use flow_spec::Placement;
use tokio::time::timeout;

use crate::attend::attend;
use crate::core::Lasting;
use crate::current::{Current, Placed};
use crate::grpc::{SERVICES, Wire};
use crate::meter::Meter;

/// Where a gateway listens and what it accepts.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen at.
    pub host: String,
    /// Port to listen at; 0 for any that is free.
    pub port: u16,
    /// What a connection accepts.
    pub limits: Limits,
    /// Port at which it shows what it has counted, 0 for any that is free; none: it counts nothing.
    pub monitoring: Option<u16>,
}

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address could not be listened on.
    #[error(transparent)]
    Listen(#[from] flow_net::BindError),
    /// The port for its metrics could not be bound.
    #[error(transparent)]
    Metrics(#[from] MetricsServerError),
    /// A node cannot be called as the flow says.
    #[error("executor `{node}`: {reason}")]
    Node {
        /// Which one.
        node: NodeName,
        /// Why not.
        reason: String,
    },
}

/// A gateway that listens.
#[derive(Debug)]
pub struct Gateway {
    listener: Listener,
    current: Arc<Current>,
    metrics: Option<MetricsServer>,
}

/// Gives a gateway that runs other placements.
#[derive(Debug, Clone)]
pub struct Placements(Arc<Current>);

impl Gateway {
    /// Listens, and makes ready to call the nodes; no connection is made yet.
    ///
    /// # Errors
    ///
    /// If a port is taken, or a node's address or metadata cannot be used.
    pub async fn bind(config: &Config, placement: Placement) -> Result<Self, BindError> {
        let metrics = config.monitoring.map(|port| (port, Metrics::new()));
        let lasting = Lasting {
            limits: config.limits,
            meter: metrics.as_ref().map(|(_, metrics)| Meter::new(metrics)),
            failures: Arc::default(),
        };
        let current = Arc::new(Current::new(placement, lasting)?);
        let listener = Listener::bind(&config.host, config.port).await?;
        let metrics = match metrics {
            Some((port, metrics)) => Some(MetricsServer::bind(&config.host, port, metrics).await?),
            None => None,
        };
        Ok(Self {
            listener,
            current,
            metrics,
        })
    }

    /// The address with the port that was really taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Where it shows what it has counted, if it does.
    #[must_use]
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::local_addr)
    }

    /// The way to other placements while the gateway runs.
    #[must_use]
    pub fn placements(&self) -> Placements {
        Placements(self.current.clone())
    }

    /// Answers until `drain` begins, and then finishes what is under way. Health says "serving" once
    /// every node of the newest placement has once had a replica that does.
    pub async fn serve(self, drain: &Drain) -> Stopped {
        let (health, health_service) = Health::new(SERVICES).await;
        let wire = Wire {
            current: self.current.clone(),
            draining: drain.watch(),
        };
        let Lasting {
            limits, failures, ..
        } = self.current.core().lasting.clone();
        let routes = wire.routes(limits).add_service(health_service);

        let server = Server::new(self.listener, GrpcService::new(routes));
        let serving = server.serve(drain, health.say(false));
        let draining = drain.watch();
        let attending = async {
            tokio::select! {
                () = attend(self.current.watch(), &health) => {}
                // From then on the server decides what health says.
                () = draining.begun() => {}
            }
            std::future::pending().await
        };
        let serving = async {
            let stopped = tokio::select! {
                stopped = serving => stopped,
                stopped = attending => stopped,
            };
            finish_floating(&self.current, drain, stopped).await
        };
        let stopped = tokio::select! {
            stopped = serving => stopped,
            never = serve_metrics(self.metrics) => match never {},
            never = failures.report() => match never {},
        };
        failures.flush();
        stopped
    }
}

impl Placements {
    /// Requests that begin from now on follow this placement; those under way go on as they began.
    ///
    /// # Errors
    ///
    /// If a node's address or metadata cannot be used. Then nothing changes.
    pub fn place(&self, placement: Placement) -> Result<Placed, BindError> {
        self.0.place(placement)
    }
}

/// Serves the metrics, if the flow wants them.
async fn serve_metrics(server: Option<MetricsServer>) -> Infallible {
    match server {
        Some(server) => server.serve().await,
        None => std::future::pending().await,
    }
}

/// Requests that were answered may still be in floating nodes.
async fn finish_floating(current: &Current, drain: &Drain, stopped: Stopped) -> Stopped {
    let floating = current.core().floating.clone();
    floating.tasks.close();
    match timeout(drain.grace(), floating.tasks.wait()).await {
        Ok(()) => stopped,
        Err(_elapsed) => Stopped::Forced,
    }
}
