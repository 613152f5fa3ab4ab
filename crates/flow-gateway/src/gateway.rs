//! The gateway's process: binds, answers, tells its health, drains.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use flow_core::NodeName;
use flow_metrics::Metrics;
use flow_net::{Bound, Drain, ExposeError, Exposed, Health, Limits, ServeError, Stopped};
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
    /// There is no port for its metrics.
    #[error(transparent)]
    Expose(#[from] ExposeError),
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
    bound: Bound,
    current: Arc<Current>,
    exposed: Option<Exposed>,
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
        let bound = Bound::listen(&config.host, config.port).await?;
        let exposed = match metrics {
            Some((port, metrics)) => Some(Exposed::bind(&config.host, port, metrics).await?),
            None => None,
        };
        Ok(Self {
            bound,
            current,
            exposed,
        })
    }

    /// The address with the port that was really taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.bound.local_addr()
    }

    /// Where it shows what it has counted, if it does.
    #[must_use]
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.exposed.as_ref().map(Exposed::local_addr)
    }

    /// The way to other placements while the gateway runs.
    #[must_use]
    pub fn placements(&self) -> Placements {
        Placements(self.current.clone())
    }

    /// Answers until `drain` begins, and then finishes what is under way. Health says "serving" once
    /// every node of the newest placement has once had a replica that does.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    pub async fn serve(self, drain: &Drain) -> Result<Stopped, ServeError> {
        let (health, health_service) = Health::new(SERVICES).await;
        let wire = Wire {
            current: self.current.clone(),
            draining: drain.watch(),
        };
        let Lasting {
            limits, failures, ..
        } = self.current.core().lasting.clone();
        let routes = wire.routes(limits).add_service(health_service);

        let goodbye = health.say(false);
        let serving = flow_net::serve(self.bound, routes, drain, goodbye);
        let draining = drain.watch();
        let attending = async {
            tokio::select! {
                () = attend(self.current.watch(), &health) => {}
                // What health says then is the goodbye's.
                () = draining.begun() => {}
            }
            std::future::pending().await
        };
        let serving = async {
            let stopped = tokio::select! {
                stopped = serving => stopped?,
                stopped = attending => stopped,
            };
            Ok(finish_floating(&self.current, drain, stopped).await)
        };
        let stopped = tokio::select! {
            stopped = serving => stopped,
            never = answer(self.exposed) => match never {},
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

/// Shows what was counted, where somebody wants to know.
async fn answer(exposed: Option<Exposed>) -> Infallible {
    match exposed {
        Some(exposed) => exposed.answer().await,
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
