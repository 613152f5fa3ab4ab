//! Serves one executor: loads it, answers requests, reports its health, and shuts down gracefully.

mod discovery;
mod error;
mod error_trailer;
mod grpc;
mod incoming;
mod parameter_check;
mod prepare;
mod routes;
mod settings;

use std::convert::Infallible;
use std::path::Path;

use flow_metrics::Registry;
use flow_net::{
    Accept, AnyListener, ByteBudget, CompressedElsewhere, Drain, GrpcService, Health, HttpService,
    Listener, LocalListener, MetricsServer, MetricsServerError, RequestThread, Server, Stopped,
};
use flow_otlp::Exporting;
use flow_process::{Facts, ListenAddress, listen_at, serve_status};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot::error::RecvError;

use self::grpc::{JinaService, ServiceParts};
use self::routes::routes;
use crate::definition::Definition;
use crate::endpoint_table::EndpointTable;
use crate::metrics::{ExecutorMetrics, MetricLabels};
use crate::queue::QueueUsage;
use crate::sdk::{Executor, LoadContext, LoadError, Monitor};
use crate::worker::{ExecutorReport, ExitPolicy, ExitReason, StartedWorkers};

pub use error::ServeError;
pub(crate) use parameter_check::check_parameters;
pub(crate) use prepare::{Prepare, Prepared, prepare};
pub use settings::{Addresses, Monitoring, ServerSettings};

/// Serves `E` until `drain` begins. `ready` is called once, when the executor is loaded and answers.
///
/// # Errors
///
/// See [`ServeError`].
pub async fn serve<E: Executor>(
    mut settings: ServerSettings,
    drain: &Drain,
    ready: impl FnOnce(&Addresses, &Facts),
) -> Result<Stopped, ServeError> {
    let prepared = prepare(Definition::<E>::of(), &mut settings, drain)?;
    let on_ready = |addresses: &Addresses, report: &ExecutorReport| ready(addresses, &report.facts);
    serve_prepared(prepared, settings, drain, Box::new(on_ready)).await
}

/// Called once, when the executor is loaded and answers.
pub(crate) type OnReady<'r> = dyn FnOnce(&Addresses, &ExecutorReport) + 'r;

/// Serves an executor whose settings are checked.
pub(crate) async fn serve_prepared(
    prepared: Prepared,
    settings: ServerSettings,
    drain: &Drain,
    ready: Box<OnReady<'_>>,
) -> Result<Stopped, ServeError> {
    let Prepared {
        endpoints,
        exit,
        class,
        start,
    } = prepared;
    let name = settings.context.name.clone();
    let (listener, serving) = listen(&settings).await?;
    let mut measured = MeasuredProcess::of(&settings, (&class, &endpoints)).await?;
    let registry = measured.as_ref().map(|it| &it.registry);
    let exporting = Exporting::start(&settings.export, registry)?;
    let metrics_server = measured.as_mut().and_then(|it| it.server.take());
    let addresses = Addresses {
        serving,
        metrics: metrics_server.as_ref().map(MetricsServer::local_addr),
    };

    let context = with_monitor(settings.context, measured.as_ref());
    let metrics = measured.as_ref().map(|it| it.metrics.clone());
    let tracer = exporting.as_ref().and_then(|it| it.tracer().cloned());
    let workers = start(context, metrics.clone(), tracer.clone()).map_err(ServeError::Thread)?;
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
    let described_service = service.clone();
    let limits = settings.limits;
    let all = routes(&service, limits, limits.message_len_max).add_service(health_service);
    let compressed = routes(&service, limits, limits.decompressed_len_max);

    let service = GrpcService::new(all).with_compressed(compressed);
    let service = CompressedElsewhere::new(service, thread.spawner());
    let server = with_budget(Server::new(listener, service), settings.request_memory_max);
    let mut serving = std::pin::pin!(server.serve(drain, health.set_serving(false)));
    let mut serving_metrics = std::pin::pin!(serve_metrics(metrics_server));
    tokio::select! {
        stopped = &mut serving => return Ok(stopped),
        never = &mut serving_metrics => match never {},
        loaded = loaded => {
            let mut report = executor_report(&name, loaded)?;
            described_service.set_models(std::mem::take(&mut report.models));
            health.set_serving(true).await;
            ready(&addresses, &report);
        }
    }
    let stopped = tokio::select! {
        stopped = serving => stopped,
        never = serving_metrics => match never {},
    };
    end_export(exporting).await;
    failure_at_exit(name, &exit).map_or(Ok(stopped), Err)
}

/// Listens at the Unix socket, if there is one, or else at the port.
async fn listen(settings: &ServerSettings) -> Result<(AnyListener, ListenAddress), ServeError> {
    let Some(path) = &settings.socket else {
        let listener = Listener::bind(&settings.host, settings.port).await?;
        let address = listener.local_addr().into();
        return Ok((AnyListener::Left(listener), address));
    };
    let listener = listen_at(path).and_then(LocalListener::new);
    let listener = listener.map_err(|source| ServeError::Socket {
        path: path.clone(),
        source,
    })?;
    Ok((
        AnyListener::Right(listener),
        ListenAddress::Unix(path.clone()),
    ))
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

/// Exports what waits, on a thread that may block.
async fn end_export(exporting: Option<Exporting>) {
    let ended = tokio::task::spawn_blocking(move || drop(exporting));
    drop(ended.await);
}

/// The server, with a limit on the bytes of requests from the first one to the reply: half of the memory for them. The other
/// half is for what [`Admission`](crate::queue::Admission) lets in, which is decoded.
fn with_budget<L: Accept, S: HttpService>(
    server: Server<L, S>,
    max: Option<usize>,
) -> Server<L, S> {
    match max {
        Some(max) => server.with_budget(ByteBudget::for_gateways(max / 2)),
        None => server,
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

async fn serve_metrics(server: Option<MetricsServer>) -> Infallible {
    match server {
        Some(server) => server.serve().await,
        None => std::future::pending().await,
    }
}
