//! An executor whose threads run, with all that serves it except connections.

use std::convert::Infallible;
use std::path::Path;

use flow_metrics::Registry;
use flow_net::{GrpcRoutes, Health, MetricsServer, MetricsServerError, RequestThread};
use flow_otlp::Exporting;
use flow_process::serve_status;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::RecvError;

use super::error::ServeError;
use super::grpc::{JinaService, ServiceParts};
use super::prepare::Prepared;
use super::routes::{self, routes};
use super::settings::ServerSettings;
use crate::endpoint_table::EndpointTable;
use crate::metrics::{ExecutorMetrics, MetricLabels};
use crate::queue::QueueUsage;
use crate::sdk::{LoadContext, LoadError, Monitor};
use crate::worker::{ExecutorReport, ExitPolicy, ExitReason, StartedWorkers};

/// An executor whose threads run. It may still be loading.
pub(crate) struct StartedExecutor {
    name: String,
    exit: ExitPolicy,
    pub(crate) service: JinaService,
    /// All services, with the one for health.
    pub(crate) routes: GrpcRoutes,
    pub(crate) health: Health,
    /// Decodes large requests.
    pub(crate) thread: RequestThread,
    /// `None` if the metrics are only exported, or not measured, or if it was taken.
    pub(crate) metrics_server: Option<MetricsServer>,
    exporting: Option<Exporting>,
    loading: Receiver<Result<ExecutorReport, LoadError>>,
}

impl StartedExecutor {
    /// Starts the threads of an executor, which load it.
    pub(crate) async fn start(
        prepared: Prepared,
        settings: ServerSettings,
    ) -> Result<Self, ServeError> {
        let Prepared {
            endpoints,
            exit,
            class,
            start,
        } = prepared;
        let name = settings.context.name.clone();
        let mut measured = MeasuredProcess::of(&settings, (&class, &endpoints)).await?;
        let registry = measured.as_ref().map(|it| &it.registry);
        let exporting = Exporting::start(&settings.export, registry)?;
        let metrics_server = measured.as_mut().and_then(|it| it.server.take());

        let context = with_monitor(settings.context, measured.as_ref());
        let metrics = measured.as_ref().map(|it| it.metrics.clone());
        let tracer = exporting.as_ref().and_then(|it| it.tracer().cloned());
        let workers =
            start(context, metrics.clone(), tracer.clone()).map_err(ServeError::Thread)?;
        let StartedWorkers { admission, loaded } = workers;
        let socket = settings.status_socket.as_deref();
        show_queue(&admission.usage(), measured.as_ref(), socket);
        let (health, health_service) = Health::new(routes::SERVICES).await;
        let thread = RequestThread::start().map_err(ServeError::Thread)?;
        let service = JinaService::new(ServiceParts {
            name: name.clone(),
            endpoints,
            admission,
            metrics,
            limits: settings.request_limits,
            spawner: thread.spawner(),
            tracer,
        });
        let routes = routes(&service, settings.limits, settings.limits.message_len_max);
        Ok(Self {
            name,
            exit,
            service,
            routes: routes.add_service(health_service),
            health,
            thread,
            metrics_server,
            exporting,
            loading: loaded,
        })
    }

    /// Waits until the executor is loaded. From then on it answers, and is healthy.
    pub(crate) async fn loaded(&mut self) -> Result<ExecutorReport, ServeError> {
        let loaded = (&mut self.loading).await;
        let mut report = executor_report(&self.name, loaded)?;
        self.service.set_models(std::mem::take(&mut report.models));
        self.health.set_serving(true).await;
        Ok(report)
    }

    /// Exports what waits. Returns the failure that ended the executor, if one did.
    pub(crate) async fn end(self) -> Option<ServeError> {
        let exporting = self.exporting;
        // On a thread that may block.
        let ended = tokio::task::spawn_blocking(move || drop(exporting));
        drop(ended.await);
        failure_at_exit(self.name, &self.exit)
    }
}

/// What the executor can use while it loads, with its metrics if they are measured.
fn with_monitor(context: LoadContext, measured: Option<&MeasuredProcess>) -> LoadContext {
    let monitor = measured.map(|it| it.monitor.clone());
    LoadContext {
        monitor: monitor.unwrap_or_default(),
        ..context
    }
}

/// Shows what waits and runs, in the metrics and at the status socket.
fn show_queue(usage: &QueueUsage, measured: Option<&MeasuredProcess>, socket: Option<&Path>) {
    if let Some(measured) = measured {
        measured.add_queue(usage.clone());
    }
    if let Some(socket) = socket {
        say_status(socket, usage.clone());
    }
}

/// What a loaded executor reports about itself, or why it is not loaded.
fn executor_report(
    name: &str,
    loaded: Result<Result<ExecutorReport, LoadError>, RecvError>,
) -> Result<ExecutorReport, ServeError> {
    let report = loaded.unwrap_or_else(|_| Err(LoadError::new("its thread ended")));
    report.map_err(|error| ServeError::Load {
        name: name.to_owned(),
        reason: error.to_string(),
    })
}

/// The failure that ended the process, if one did.
fn failure_at_exit(name: String, exit: &ExitPolicy) -> Option<ServeError> {
    Some(match exit.reason()?.clone() {
        ExitReason::Listed(exception) => ServeError::Exception { name, exception },
        ExitReason::Final(reason) => ServeError::Last { name, reason },
    })
}

/// The metrics of a process, and the server for them.
struct MeasuredProcess {
    metrics: ExecutorMetrics,
    /// For the executor's own metrics.
    monitor: Monitor,
    registry: Registry,
    runtime_name: String,
    /// `None` if the metrics are only exported.
    server: Option<MetricsServer>,
}

impl MeasuredProcess {
    /// Binds the port for metrics, if they are served; `None` if nothing is measured.
    async fn of(
        settings: &ServerSettings,
        (class, endpoints): (&str, &EndpointTable),
    ) -> Result<Option<Self>, MetricsServerError> {
        let Some(runtime) = settings.measured_name() else {
            return Ok(None);
        };
        let registry = Registry::new();
        let labels = MetricLabels {
            runtime,
            executor: class,
        };
        registry.collect_process(labels.runtime, env!("CARGO_PKG_VERSION"));
        let server = match &settings.monitoring {
            Some(it) => Some(MetricsServer::bind(&settings.host, it.port, registry.clone()).await?),
            None => None,
        };
        Ok(Some(Self {
            metrics: ExecutorMetrics::new(&registry, labels, endpoints),
            monitor: Monitor::new(&registry, labels.runtime),
            runtime_name: runtime.to_owned(),
            registry,
            server,
        }))
    }

    /// Shows the queue as well, now that there is one.
    fn add_queue(&self, usage: QueueUsage) {
        ExecutorMetrics::register_queue(&self.registry, &self.runtime_name, usage);
    }
}

/// What an executor reports at its status socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutorStatus {
    /// Requests that wait for a worker.
    pub waiting: usize,
    /// Bytes of requests that wait or run.
    pub bytes: usize,
}

/// An executor works without the socket, of which only `flow top` makes use.
fn say_status(socket: &Path, usage: QueueUsage) {
    let status = move || {
        let status = ExecutorStatus {
            waiting: usage.requests(),
            bytes: usage.bytes(),
        };
        serde_json::to_string(&status).unwrap_or_default()
    };
    if let Err(error) = serve_status(socket, status) {
        tracing::info!(%error, "cannot create the status socket: `flow top` does not show the queue");
    }
}

/// Serves metrics, if they are served.
pub(crate) async fn serve_metrics(server: Option<MetricsServer>) -> Infallible {
    match server {
        Some(server) => server.serve().await,
        None => std::future::pending().await,
    }
}
