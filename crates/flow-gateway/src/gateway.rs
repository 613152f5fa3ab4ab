//! The gateway's process: binds, answers, tells its health, drains.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow_core::{Deadline, NodeName};
use flow_net::{Bound, Drain, Health, Limits, Pool, ServeError, Stopped};
use flow_spec::Placement;
use tokio::time::timeout;

use crate::core::Core;
use crate::grpc::{SERVICES, Wire};

/// Wait between two looks at a node that is not ready, and how long one look may take.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
const LOOK_MAX: Duration = Duration::from_secs(2);

/// Where a gateway listens and what it accepts.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen at.
    pub host: String,
    /// Port to listen at; 0 for any that is free.
    pub port: u16,
    /// What a connection accepts.
    pub limits: Limits,
}

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address could not be listened on.
    #[error(transparent)]
    Listen(#[from] flow_net::BindError),
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
    core: Arc<Core>,
    limits: Limits,
}

impl Gateway {
    /// Listens, and makes ready to call the nodes; no connection is made yet.
    ///
    /// # Errors
    ///
    /// If the port is taken, or a node's address or metadata cannot be used.
    pub async fn bind(config: &Config, placement: Placement) -> Result<Self, BindError> {
        let core = Arc::new(Core::new(placement, config.limits)?);
        let bound = Bound::listen(&config.host, config.port).await?;
        Ok(Self {
            bound,
            core,
            limits: config.limits,
        })
    }

    /// The address with the port that was really taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.bound.local_addr()
    }

    /// Answers until `drain` begins, and then finishes what is under way. Health says "serving" once
    /// every node has a replica that does.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    pub async fn serve(self, drain: &Drain) -> Result<Stopped, ServeError> {
        let (health, health_service) = Health::new(SERVICES).await;
        let wire = Wire {
            core: self.core.clone(),
            draining: drain.watch(),
        };
        let routes = wire.routes(self.limits).add_service(health_service);

        let goodbye = health.say(false);
        let serving = flow_net::serve(self.bound, routes, drain, goodbye);
        let ready = async {
            wait_until_ready(&self.core).await;
            health.say(true).await;
            std::future::pending().await
        };
        let stopped = tokio::select! {
            stopped = serving => stopped?,
            stopped = ready => stopped,
        };
        Ok(finish_floating(&self.core, drain, stopped).await)
    }
}

/// Requests that were answered may still be in floating nodes.
async fn finish_floating(core: &Core, drain: &Drain, stopped: Stopped) -> Stopped {
    core.floating.close();
    match timeout(drain.grace(), core.floating.wait()).await {
        Ok(()) => stopped,
        Err(_elapsed) => Stopped::Forced,
    }
}

async fn wait_until_ready(core: &Core) {
    for (node, pool) in core.pools() {
        let mut told = false;
        while !has_ready_replica(pool).await {
            if !told {
                tracing::info!(executor = %node.name, "waiting for executor");
                told = true;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

async fn has_ready_replica(pool: &Pool) -> bool {
    for replica in pool.replicas() {
        let deadline = Deadline::after(Instant::now(), Some(LOOK_MAX));
        let serving = replica.is_serving(deadline).await;
        // One without a health service answered all the same.
        let answered = serving
            .as_ref()
            .is_err_and(|failure| failure.code() == flow_core::Code::Unimplemented);
        if answered || serving.is_ok_and(|serving| serving) {
            return true;
        }
    }
    false
}
