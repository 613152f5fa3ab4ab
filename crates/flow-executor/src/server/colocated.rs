//! An executor in the process of the gateway, which calls it without a connection.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;

use flow_net::{Drain, Draining, LocalService, MetricsServer};
use flow_process::Facts;
use futures_util::future::BoxFuture;

use super::error::ServeError;
use super::prepare::Prepared;
use super::settings::ServerSettings;
use super::started::{StartedExecutor, serve_metrics};

/// An executor that is loaded in this process.
pub struct ColocatedExecutor {
    executor: StartedExecutor,
    facts: Facts,
    metrics_address: Option<SocketAddr>,
    metrics: BoxFuture<'static, Infallible>,
    /// What the executor's failures begin, and nothing else.
    draining: Draining,
}

impl ColocatedExecutor {
    /// What calls it.
    #[must_use]
    pub fn service(&self) -> LocalService {
        LocalService::new(self.executor.routes.clone())
    }

    /// What it reports about itself.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Where its metrics are served, if they are.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Serves its metrics, if it has any. Returns when the executor has failed, after which its process is to end.
    pub async fn failed(&mut self) {
        tokio::select! {
            () = self.draining.begun() => {}
            never = &mut self.metrics => match never {},
        }
    }

    /// Exports what waits. Returns the failure, if the executor has failed.
    pub async fn end(self) -> Option<ServeError> {
        self.executor.end().await
    }
}

impl fmt::Debug for ColocatedExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut it = f.debug_struct("ColocatedExecutor");
        it.field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// Loads an executor whose settings are checked. `drain` is what its failures begin.
pub(crate) async fn colocate(
    prepared: Prepared,
    settings: ServerSettings,
    drain: &Drain,
) -> Result<ColocatedExecutor, ServeError> {
    let mut executor = StartedExecutor::start(prepared, settings).await?;
    let server = executor.metrics_server.take();
    let metrics_address = server.as_ref().map(MetricsServer::local_addr);
    let mut metrics: BoxFuture<'_, Infallible> = Box::pin(serve_metrics(server));
    let report = tokio::select! {
        report = executor.loaded() => report?,
        never = &mut metrics => match never {},
    };
    Ok(ColocatedExecutor {
        executor,
        facts: report.facts,
        metrics_address,
        metrics,
        draining: drain.watch(),
    })
}
