//! Serves one executor: loads it, answers requests, reports its health, and shuts down gracefully.

mod discovery;
mod error;
mod error_trailer;
mod grpc;
mod incoming;
mod parameter_check;
mod prepare;
mod request_thread;
mod routes;
mod settings;

use std::convert::Infallible;

use flow_metrics::Registry;
use flow_net::{
    Accept, ByteBudget, Drain, GrpcService, Health, HttpService, Listener, MetricsServer,
    MetricsServerError, Server, Stopped,
};
use flow_process::Facts;
use flow_trace::{Exporting, register_dropped};
use tokio::sync::oneshot::error::RecvError;

use self::grpc::{JinaService, ServiceParts};
use self::request_thread::{CompressedElsewhere, RequestThread};
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
pub use settings::{Addresses, Monitoring, Settings};

/// Serves `E` until `drain` begins. `ready` is called once, when the executor is loaded and answers.
///
/// # Errors
///
/// See [`ServeError`].
pub async fn serve<E: Executor>(
    mut settings: Settings,
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
    settings: Settings,
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
    let listener = Listener::bind(&settings.host, settings.port).await?;
    let exporting = settings.tracing.as_ref().map(Exporting::start);
    let exporting = exporting.transpose()?;
    let mut monitored = Monitored::of(&settings, (&class, &endpoints), exporting.as_ref()).await?;
    let addresses = Addresses {
        serving: listener.local_addr(),
        metrics: monitored.as_ref().map(|it| it.server.local_addr()),
    };

    let monitor = monitored.as_ref().map(|it| it.monitor.clone());
    let context = LoadContext {
        monitor: monitor.unwrap_or_default(),
        ..settings.context
    };
    let metrics = monitored.as_ref().map(|it| it.metrics.clone());
    let workers = start(context, metrics.clone()).map_err(ServeError::Thread)?;
    let StartedWorkers { admission, loaded } = workers;
    if let Some(monitored) = &monitored {
        monitored.add_queue(admission.usage());
    }
    let (health, health_service) = Health::new(routes::SERVICES).await;
    let thread = RequestThread::start().map_err(ServeError::Thread)?;
    let service = JinaService::new(ServiceParts {
        name: name.clone(),
        endpoints,
        admission,
        metrics,
        limits: settings.request_limits,
        spawner: thread.spawner(),
        tracer: exporting.as_ref().map(|it| it.tracer().clone()),
    });
    let described_service = service.clone();
    let limits = settings.limits;
    let all = routes(&service, limits, limits.message_len_max).add_service(health_service);
    let compressed = routes(&service, limits, limits.decompressed_len_max);

    let service = CompressedElsewhere {
        service: GrpcService::new(all).with_compressed(compressed),
        spawner: thread.spawner(),
    };
    let server = with_budget(Server::new(listener, service), settings.request_memory_max);
    let mut serving = std::pin::pin!(server.serve(drain, health.set_serving(false)));
    let metrics_server = monitored.take().map(|it| it.server);
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
    // Exports the spans that wait.
    let ended = tokio::task::spawn_blocking(move || drop(exporting));
    drop(ended.await);
    failure_at_exit(name, &exit).map_or(Ok(stopped), Err)
}

/// The server, with a limit on the bytes of requests.
fn with_budget<L: Accept, S: HttpService>(
    server: Server<L, S>,
    max: Option<usize>,
) -> Server<L, S> {
    match max {
        Some(max) => server.with_budget(ByteBudget::new(max)),
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
struct Monitored {
    metrics: ExecutorMetrics,
    /// For the executor's own metrics.
    monitor: Monitor,
    registry: Registry,
    runtime_name: String,
    server: MetricsServer,
}

impl Monitored {
    /// Binds the port for metrics; `None` if the executor is not monitored.
    async fn of(
        settings: &Settings,
        executor: (&str, &EndpointTable),
        exporting: Option<&Exporting>,
    ) -> Result<Option<Self>, MetricsServerError> {
        let Some(monitoring) = &settings.monitoring else {
            return Ok(None);
        };
        let registry = Registry::new();
        if let Some(exporting) = exporting {
            register_dropped(&registry, &monitoring.runtime_name, exporting.dropped());
        }
        let started = Self::start((&settings.host, registry), monitoring, executor).await?;
        Ok(Some(started))
    }

    async fn start(
        (host, registry): (&str, Registry),
        monitoring: &Monitoring,
        (class, endpoints): (&str, &EndpointTable),
    ) -> Result<Self, MetricsServerError> {
        let labels = MetricLabels {
            runtime: &monitoring.runtime_name,
            executor: class,
        };
        registry.collect_process(labels.runtime, env!("CARGO_PKG_VERSION"));
        Ok(Self {
            metrics: ExecutorMetrics::new(&registry, labels, endpoints),
            monitor: Monitor::new(&registry, labels.runtime),
            runtime_name: monitoring.runtime_name.clone(),
            registry: registry.clone(),
            server: MetricsServer::bind(host, monitoring.port, registry).await?,
        })
    }

    /// Shows the queue as well, now that there is one.
    fn add_queue(&self, usage: QueueUsage) {
        ExecutorMetrics::register_queue(&self.registry, &self.runtime_name, usage);
    }
}

async fn serve_metrics(server: Option<MetricsServer>) -> Infallible {
    match server {
        Some(server) => server.serve().await,
        None => std::future::pending().await,
    }
}
