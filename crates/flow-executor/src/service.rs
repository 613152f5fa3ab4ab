//! Serves one executor: loads it, answers requests, tells its health, and ends in order.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use flow_metrics::Registry;
use flow_net::grpc::jina_data_request_rpc_server::JinaDataRequestRpcServer;
use flow_net::grpc::jina_discover_endpoints_rpc_server::JinaDiscoverEndpointsRpcServer;
use flow_net::grpc::jina_info_rpc_server::JinaInfoRpcServer;
use flow_net::grpc::jina_rpc_server::JinaRpcServer;
use flow_net::grpc::jina_single_data_request_rpc_server::JinaSingleDataRequestRpcServer;
use flow_net::grpc::jina_single_document_request_rpc_server::JinaSingleDocumentRequestRpcServer;
use flow_net::{
    BindError, Drain, GrpcService, Health, Limits, Listener, MetricsServer, MetricsServerError,
    Server, Stopped,
};
use serde_json::{Map, Value};
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;

use crate::directory::{Directory, Overrides};
use crate::exit::{Ending, ExitOn};
use crate::grpc::Wire;
use crate::meter::{Meter, Whose};
use crate::options::{self, BadOptions};
use crate::rules::Written;
use crate::trailer::ErrorTrailer;
use crate::worker::{self, Plan, Worker};
use crate::{Addresses, Endpoints, Executor, Facts, LoadContext, LoadError, Monitor, Workers};

/// How one executor process is to serve.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Address to listen at.
    pub host: String,
    /// Port to listen at; 0 for any that is free.
    pub port: u16,
    /// What the executor is built with.
    pub with: Map<String, Value>,
    /// Endpoint → method, where it differs from the executor's own binding.
    pub requests: BTreeMap<String, String>,
    /// Endpoint or method → how requests to it share calls, with Jina's names (`uses_dynamic_batching`).
    pub batching: Map<String, Value>,
    /// Threads that run the executor.
    pub workers: Workers,
    /// Names of failures after whose reply the process ends, as replies have them; and `panic`.
    pub exit_on_exceptions: Vec<String>,
    /// What the executor may know while it loads.
    pub context: LoadContext,
    /// What a connection accepts.
    pub limits: Limits,
    /// How it shows what it has counted; none: it counts nothing.
    pub monitoring: Option<Monitoring>,
}

/// How a process shows what it has counted.
#[derive(Debug, Clone, Default)]
pub struct Monitoring {
    /// Port at which it does, 0 for any that is free.
    pub port: u16,
    /// What the process is called there, `enc/rep-0`.
    pub runtime_name: String,
}

/// Why an executor does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address could not be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The port for its metrics could not be bound.
    #[error(transparent)]
    Metrics(#[from] MetricsServerError),
    /// `uses_with` does not fit the executor.
    #[error("`uses_with` of executor `{name}` is wrong{options}")]
    With {
        /// The executor's name.
        name: String,
        /// What does not fit.
        options: BadOptions,
    },
    /// What the flow file says of its endpoints, batching or exceptions does not fit it.
    #[error("executor `{name}`: {reason}")]
    Settings {
        /// The executor's name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The executor's own code could not load.
    #[error("executor `{name}` could not load: {reason}")]
    Load {
        /// The executor's name.
        name: String,
        /// What its code said.
        reason: String,
    },
    /// No thread could be started.
    #[error("cannot start the executor's thread")]
    Thread(#[source] std::io::Error),
    /// A failure happened that `exit_on_exceptions` names.
    #[error("executor `{name}` ends after `{exception}`, as it was told to")]
    Exception {
        /// The executor's name.
        name: String,
        /// What the failure is called.
        exception: String,
    },
    /// The executor said that it can do no more.
    #[error("executor `{name}` can do no more: {reason}")]
    Last {
        /// The executor's name.
        name: String,
        /// What it said.
        reason: String,
    },
}

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
    let prepared = prepare::<E>(&mut settings, drain)?;
    serve_prepared(prepared, settings, drain, Box::new(ready)).await
}

/// An executor whose settings are checked and which is not loaded yet. What depends on its type is behind `start`,
/// so that the server is compiled once and not for each executor.
pub(crate) struct Prepared {
    directory: Directory,
    exit: ExitOn,
    class: &'static str,
    start: Box<Start>,
}

/// Starts the worker threads, which load the executor.
type Start = dyn FnOnce(LoadContext, Option<Meter>) -> std::io::Result<Worker>;

/// Called once, when the executor is loaded and answers.
pub(crate) type Ready<'r> = dyn FnOnce(&Addresses, &Facts) + 'r;

/// [`prepare`] for one type of executor.
pub(crate) type Prepare = fn(&mut Settings, &Drain) -> Result<Prepared, ServeError>;

/// Checks the settings of an executor. Takes `with` out of them.
pub(crate) fn prepare<E: Executor>(
    settings: &mut Settings,
    drain: &Drain,
) -> Result<Prepared, ServeError> {
    let endpoints = E::endpoints();
    let (directory, exit) = check(settings, &endpoints, drain)?;
    let name = settings.context.name.clone();
    let with = std::mem::take(&mut settings.with);
    let with = options::read::<E>(with).map_err(|options| ServeError::With {
        name: name.clone(),
        options,
    })?;
    let (workers, ends) = (settings.workers, exit.clone());
    let start = move |context: LoadContext, meter| {
        let plan = Plan {
            name,
            endpoints: Arc::new(endpoints),
            workers,
            exit: ends,
            meter,
        };
        worker::start(plan, move || E::load(with, &context))
    };
    Ok(Prepared {
        directory,
        exit,
        class: class::<E>(),
        start: Box::new(start),
    })
}

/// See [`serve`].
pub(crate) async fn serve_prepared(
    prepared: Prepared,
    settings: Settings,
    drain: &Drain,
    ready: Box<Ready<'_>>,
) -> Result<Stopped, ServeError> {
    let Prepared {
        directory,
        exit,
        class,
        start,
    } = prepared;
    let name = settings.context.name.clone();
    let listener = Listener::bind(&settings.host, settings.port).await?;
    let mut counting = match &settings.monitoring {
        Some(monitoring) => {
            Some(Counting::start(&settings.host, monitoring, (class, &directory)).await?)
        }
        None => None,
    };
    let addresses = Addresses {
        serving: listener.local_addr(),
        metrics: counting.as_ref().map(|it| it.server.local_addr()),
    };

    let context = LoadContext {
        monitor: counting
            .as_ref()
            .map(|it| it.monitor.clone())
            .unwrap_or_default(),
        ..settings.context
    };
    let meter = counting.as_ref().map(|it| it.meter.clone());
    let worker = start(context, meter.clone()).map_err(ServeError::Thread)?;
    let Worker { admission, loaded } = worker;
    let (health, health_service) = Health::new(SERVICES).await;
    let wire = Wire::new(name.clone(), directory, admission, meter);
    let routes = routes(&wire, settings.limits).add_service(health_service);

    let server = Server::new(listener, GrpcService::new(routes));
    let mut serving = std::pin::pin!(server.serve(drain, health.set_serving(false)));
    let mut showing = std::pin::pin!(serve_metrics(counting.take().map(|it| it.server)));
    tokio::select! {
        stopped = &mut serving => return Ok(stopped),
        never = &mut showing => match never {},
        facts = loaded => {
            let facts = facts.unwrap_or_else(|_| Err(LoadError::new("its thread ended")));
            let facts = facts
                .map_err(|error| ServeError::Load { name: name.clone(), reason: error.to_string() })?;
            health.set_serving(true).await;
            ready(&addresses, &facts);
        }
    }
    let stopped = tokio::select! {
        stopped = serving => stopped,
        never = showing => match never {},
    };
    ending(name, &exit).map_or(Ok(stopped), Err)
}

/// The failure that ended the process, if one did.
fn ending(name: String, exit: &ExitOn) -> Option<ServeError> {
    Some(match exit.happened()?.clone() {
        Ending::Named(exception) => ServeError::Exception { name, exception },
        Ending::Last(reason) => ServeError::Last { name, reason },
    })
}

/// What a process that is monitored counts with.
struct Counting {
    meter: Meter,
    /// For what the executor counts itself.
    monitor: Monitor,
    server: MetricsServer,
}

impl Counting {
    async fn start(
        host: &str,
        monitoring: &Monitoring,
        (class, directory): (&'static str, &Directory),
    ) -> Result<Self, MetricsServerError> {
        let metrics = Registry::new();
        let whose = Whose {
            runtime: &monitoring.runtime_name,
            executor: class,
        };
        Ok(Self {
            meter: Meter::new(&metrics, whose, directory),
            monitor: Monitor::new(&metrics, whose.runtime),
            server: MetricsServer::bind(host, monitoring.port, metrics).await?,
        })
    }
}

/// A type's own name, which stands where Jina has that of a class.
fn class<E>() -> &'static str {
    let name = std::any::type_name::<E>();
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name)
}

async fn serve_metrics(server: Option<MetricsServer>) -> Infallible {
    match server {
        Some(server) => server.serve().await,
        None => std::future::pending().await,
    }
}

/// What is wrong with the settings is told before anything is loaded.
fn check<E>(
    settings: &Settings,
    endpoints: &Endpoints<E>,
    drain: &Drain,
) -> Result<(Directory, ExitOn), ServeError> {
    let wrong = |error: &dyn std::error::Error| ServeError::Settings {
        name: settings.context.name.clone(),
        reason: error.to_string(),
    };
    let overrides = Overrides {
        requests: Some(&settings.requests),
        batching: Written::all(&settings.batching).map_err(|error| wrong(&error))?,
    };
    let directory = Directory::new(endpoints, &overrides).map_err(|error| wrong(&error))?;
    let exit = ExitOn::new(&settings.exit_on_exceptions, drain).map_err(|error| wrong(&error))?;
    Ok((directory, exit))
}

/// Names that health is asked by.
const SERVICES: &[&str] = &[
    "jina.JinaSingleDataRequestRPC",
    "jina.JinaDataRequestRPC",
    "jina.JinaSingleDocumentRequestRPC",
    "jina.JinaDiscoverEndpointsRPC",
    "jina.JinaInfoRPC",
    "jina.JinaRPC",
];

fn routes(wire: &Wire, limits: Limits) -> Routes {
    macro_rules! configured {
        ($server:ident) => {
            $server::new(wire.clone())
                .accept_compressed(CompressionEncoding::Gzip)
                .accept_compressed(CompressionEncoding::Deflate)
                .max_decoding_message_size(limits.message_len_max)
                .max_encoding_message_size(limits.message_len_max)
        };
    }
    let routes = Routes::new(ErrorTrailer(configured!(JinaSingleDataRequestRpcServer)))
        .add_service(ErrorTrailer(configured!(JinaDataRequestRpcServer)))
        .add_service(configured!(JinaRpcServer))
        .add_service(configured!(JinaSingleDocumentRequestRpcServer))
        .add_service(configured!(JinaDiscoverEndpointsRpcServer))
        .add_service(configured!(JinaInfoRpcServer));
    flow_net::with_reflection(routes)
}
