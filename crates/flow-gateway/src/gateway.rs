//! The gateway's process: binds its ports, serves, reports its health, drains.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use flow_metrics::{Gauge, Registry};
use flow_net::{
    ByteBudget, ConnectionThreads, Drain, Health, Listener, MetricsServer, RequestThread, Stopped,
};
use flow_otlp::Exporting;
use flow_spec::{Console, Placement};
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use crate::background;
use crate::config::{Config, GatewayBindError};
use crate::console::{History, Operations};
use crate::gateway_limits::GatewayLimits;
use crate::grpc::SERVICES;
use crate::heavy::HeavyWork;
use crate::metrics::{GatewayMetrics, RUNTIME};
use crate::pools::{PlacementError, PlacementIndependent};
use crate::ports::{PortServices, PortShares};
use crate::protection::Protection;
use crate::request_log::RequestLog;
use crate::service::GatewayService;
use crate::snapshot_store::{Placed, SnapshotStore};
use crate::state_metrics::GatewayState;
use crate::traffic::TrafficReader;

/// A gateway that listens.
#[derive(Debug)]
pub struct Gateway {
    /// The listeners, the first one first.
    listeners: Vec<Listener>,
    protection: Protection,
    limits: GatewayLimits,
    shares: PortShares,
    /// Decompresses requests.
    thread: RequestThread,
    threads: ConnectionThreads,
    snapshots: Arc<SnapshotStore>,
    metrics: Option<MetricsServer>,
    /// The export of telemetry, until the gateway ends.
    exporting: Option<Exporting>,
}

/// Changes the placement of a running gateway.
#[derive(Debug, Clone)]
pub struct Placements(Arc<SnapshotStore>);

impl Gateway {
    /// Binds the ports and prepares the nodes. Connections to the nodes are made later.
    ///
    /// # Errors
    ///
    /// If a port is taken, or a node's address or metadata cannot be used.
    pub async fn bind(config: &Config, placement: Placement) -> Result<Self, GatewayBindError> {
        let is_measured = config.monitoring.is_some() || config.export.metrics.is_some();
        let registry = is_measured.then(Registry::new);
        let exporting = Exporting::start(&config.export, registry.as_ref())?;
        let gateway_metrics = registry.as_ref().map(GatewayMetrics::new);
        let has_console = placement.plan.gateway.http.console != Console::Off;
        let history = has_console.then(|| History::new(SystemTime::now()));
        let shared = PlacementIndependent {
            limits: config.limits.messages,
            metrics: gateway_metrics.clone(),
            log: Arc::new(RequestLog::new(history)),
            requests: config.limits.requests,
            heavy: HeavyWork::default(),
            tracer: exporting.as_ref().and_then(|it| it.tracer().cloned()),
            colocated: Arc::new(config.colocated.clone()),
        };
        let snapshots = Arc::new(SnapshotStore::new(placement, shared)?);
        let protection = Protection::load(config, gateway_metrics.as_ref())?;
        let budget = config.limits.memory_max.map(ByteBudget::of_memory);
        let connections = Gauge::default();
        if let Some(registry) = &registry {
            registry.collect_process(RUNTIME, env!("CARGO_PKG_VERSION"));
            let state = GatewayState {
                snapshots: Arc::downgrade(&snapshots),
                budget: budget.clone(),
                connections: connections.clone(),
            };
            state.register(registry);
        }
        let mut listeners = vec![Listener::bind(&config.host, config.port).await?];
        for port in &config.more_ports {
            listeners.push(Listener::bind(&config.host, *port).await?);
        }
        let metrics = match config.monitoring.zip(registry) {
            Some((port, registry)) => {
                Some(MetricsServer::bind(&config.host, port, registry).await?)
            }
            None => None,
        };
        let operations = Operations::new(config, &listeners);
        let thread = RequestThread::start().map_err(GatewayBindError::Thread)?;
        let more_threads = config.threads.get() - 1;
        let threads = ConnectionThreads::start(more_threads).map_err(GatewayBindError::Thread)?;
        Ok(Self {
            listeners,
            protection,
            limits: config.limits,
            shares: PortShares {
                budget,
                connections,
                spawner: thread.spawner(),
                connection_spawner: threads.spawner(),
                operations: Arc::new(operations),
            },
            thread,
            threads,
            snapshots,
            metrics,
            exporting,
        })
    }

    /// The address, with the port that was taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listeners[0].local_addr()
    }

    /// The addresses of the further ports.
    #[must_use]
    pub fn more_addrs(&self) -> Vec<SocketAddr> {
        let more = self.listeners.iter().skip(1);
        more.map(Listener::local_addr).collect()
    }

    /// The address of its metrics, if it is monitored.
    #[must_use]
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsServer::local_addr)
    }

    /// Changes the placement while the gateway runs.
    #[must_use]
    pub fn placements(&self) -> Placements {
        Placements(self.snapshots.clone())
    }

    /// Reads what the gateway counts while it runs.
    #[must_use]
    pub fn traffic(&self) -> TrafficReader {
        TrafficReader(self.snapshots.clone())
    }

    /// Asks the executors once, for at most a second, whether they are ready and what they offer. A gateway whose executors
    /// run is then healthy, and knows its models, from the first request on.
    pub async fn ask_executors(&self) {
        background::ask_once(&self.snapshots.newest()).await;
    }

    /// Serves until `drain` begins, and then finishes the requests in progress. The gateway is healthy once each
    /// node of the newest placement has had a replica that serves.
    ///
    /// The future is boxed, so that the server's code is compiled in this crate and not in each program that uses it.
    pub fn serve(self, drain: &Drain) -> BoxFuture<'_, Stopped> {
        Box::pin(async move {
            // It runs until the gateway ends. A field that this block does not name would be dropped before it begins.
            let _threads = (self.thread, self.threads);
            let (health, health_service) = Health::new(SERVICES).await;
            let service = GatewayService::new(self.snapshots.clone(), drain.watch());
            health.set_serving(service.is_ready()).await;
            let log = self.snapshots.newest().shared.log.clone();
            let gateway = self.snapshots.newest().plan.gateway.clone();
            let ports = PortServices::new(service, gateway, self.limits, |routes| {
                routes.add_service(health_service)
            });
            let serving = ports.serve(
                (self.listeners, self.shares),
                &self.protection,
                drain,
                &health,
            );

            let draining = drain.watch();
            let background = async {
                tokio::select! {
                    () = background::run(self.snapshots.watch(), &health) => {}
                    // From then on the server decides what health says.
                    () = draining.begun() => {}
                }
                std::future::pending().await
            };
            let serving = async {
                let stopped = tokio::select! {
                    stopped = serving => stopped,
                    stopped = background => stopped,
                };
                finish_floating(&self.snapshots, drain, stopped).await
            };
            let stopped = tokio::select! {
                stopped = serving => stopped,
                never = serve_metrics(self.metrics) => match never {},
                never = self.protection.clone().follow_files() => match never {},
                never = log.report() => match never {},
            };
            log.flush();
            end_export(self.exporting).await;
            stopped
        })
    }
}

impl Placements {
    /// Requests that begin from now on use this placement. Those in progress keep theirs.
    ///
    /// # Errors
    ///
    /// If a node's address or metadata cannot be used. Then nothing changes.
    pub fn place(&self, placement: Placement) -> Result<Placed, PlacementError> {
        self.0.place(placement)
    }
}

/// Serves the metrics of a gateway that is monitored.
async fn serve_metrics(server: Option<MetricsServer>) -> Infallible {
    match server {
        Some(server) => server.serve().await,
        None => std::future::pending().await,
    }
}

/// Exports what waits.
async fn end_export(exporting: Option<Exporting>) {
    if let Some(exporting) = exporting {
        let ended = tokio::task::spawn_blocking(move || drop(exporting));
        drop(ended.await);
    }
}

/// Waits for the floating nodes of requests that have been answered.
async fn finish_floating(snapshots: &SnapshotStore, drain: &Drain, stopped: Stopped) -> Stopped {
    let floating = snapshots.newest().floating.clone();
    floating.tasks.close();
    match timeout(drain.grace(), floating.tasks.wait()).await {
        Ok(()) => stopped,
        Err(_elapsed) => Stopped::Forced,
    }
}
