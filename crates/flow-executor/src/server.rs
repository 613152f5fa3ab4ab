//! Serves one executor: loads it, answers requests, reports its health, and shuts down gracefully.

mod colocated;
mod discovery;
mod error;
mod error_trailer;
mod grpc;
mod incoming;
mod parameter_check;
mod prepare;
mod routes;
mod settings;
mod started;

use flow_net::{
    Accept, AnyListener, ByteBudget, CompressedElsewhere, Drain, GrpcService, HttpService,
    Listener, LocalListener, MetricsServer, Server, Stopped,
};
use flow_process::{Facts, ListenAddress, listen_at};

use self::routes::routes;
use self::started::{StartedExecutor, serve_metrics};
use crate::definition::Definition;
use crate::sdk::Executor;
use crate::worker::ExecutorReport;

pub use colocated::ColocatedExecutor;
pub(crate) use colocated::colocate;
pub use error::ServeError;
pub(crate) use parameter_check::check_parameters;
pub(crate) use prepare::{Prepare, Prepared, prepare};
pub use settings::{Addresses, Monitoring, ServerSettings};
pub use started::ExecutorStatus;

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
    let (listener, serving) = listen(&settings).await?;
    let (limits, memory) = (settings.limits, settings.request_memory_max);
    let mut executor = StartedExecutor::start(prepared, settings).await?;
    let metrics_server = executor.metrics_server.take();
    let addresses = Addresses {
        serving,
        metrics: metrics_server.as_ref().map(MetricsServer::local_addr),
    };
    let compressed = routes(&executor.service, limits, limits.decompressed_len_max);
    let service = GrpcService::new(executor.routes.clone()).with_compressed(compressed);
    let service = CompressedElsewhere::new(service, executor.thread.spawner());
    let server = with_budget(Server::new(listener, service), memory);
    let health = executor.health.clone();
    let mut serving = std::pin::pin!(server.serve(drain, health.set_serving(false)));
    let mut serving_metrics = std::pin::pin!(serve_metrics(metrics_server));
    tokio::select! {
        stopped = &mut serving => return Ok(stopped),
        never = &mut serving_metrics => match never {},
        report = executor.loaded() => ready(&addresses, &report?),
    }
    let stopped = tokio::select! {
        stopped = serving => stopped,
        never = serving_metrics => match never {},
    };
    executor.end().await.map_or(Ok(stopped), Err)
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
