//! Checks the settings of an executor before anything is loaded.

use std::sync::Arc;

use flow_net::Drain;

use super::error::ServeError;
use super::settings::Settings;
use crate::endpoint_table::{BatchingOverride, EndpointOverrides, EndpointTable};
use crate::metrics::ExecutorMetrics;
use crate::options;
use crate::sdk::{Endpoints, Executor, LoadContext};
use crate::worker::{self, ExitPolicy, StartedWorkers, WorkerConfig};

/// An executor whose settings are checked and which is not loaded yet.
///
/// Everything that depends on the executor's type is behind `start`, so that the server is compiled once and not for
/// each executor.
pub(crate) struct Prepared {
    pub(crate) endpoints: EndpointTable,
    pub(crate) exit: ExitPolicy,
    /// The name of the executor's type, which takes the place of Jina's class name.
    pub(crate) class: &'static str,
    pub(crate) start: Box<Start>,
}

/// Starts the worker threads, which load the executor.
type Start = dyn FnOnce(LoadContext, Option<ExecutorMetrics>) -> std::io::Result<StartedWorkers>;

/// [`prepare`] for one type of executor.
pub(crate) type Prepare = fn(&mut Settings, &Drain) -> Result<Prepared, ServeError>;

/// Checks the settings of an executor. Takes `with` out of them.
pub(crate) fn prepare<E: Executor>(
    settings: &mut Settings,
    drain: &Drain,
) -> Result<Prepared, ServeError> {
    let bindings = E::endpoints();
    let (endpoints, exit) = check(settings, &bindings, drain)?;
    let name = settings.context.name.clone();
    let with = std::mem::take(&mut settings.with);
    let with = options::read::<E>(with).map_err(|options| ServeError::With {
        name: name.clone(),
        options,
    })?;
    let (workers, exit_of_workers) = (settings.workers, exit.clone());
    let request_memory_max = settings.request_memory_max.unwrap_or(usize::MAX);
    let start = move |context: LoadContext, metrics| {
        let config = WorkerConfig {
            name,
            endpoints: Arc::new(bindings),
            workers,
            request_memory_max,
            exit: exit_of_workers,
            metrics,
        };
        worker::start(config, move || E::load(with, &context))
    };
    Ok(Prepared {
        endpoints,
        exit,
        class: type_name::<E>(),
        start: Box::new(start),
    })
}

fn check<E>(
    settings: &Settings,
    bindings: &Endpoints<E>,
    drain: &Drain,
) -> Result<(EndpointTable, ExitPolicy), ServeError> {
    let wrong = |source| ServeError::Settings {
        name: settings.context.name.clone(),
        source,
    };
    let overrides = EndpointOverrides {
        requests: Some(&settings.requests),
        batching: BatchingOverride::all(&settings.batching).map_err(|it| wrong(it.into()))?,
    };
    let endpoints = EndpointTable::new(bindings, &overrides).map_err(|it| wrong(it.into()))?;
    let exit = ExitPolicy::new(&settings.exit_on_exceptions, drain);
    Ok((endpoints, exit.map_err(|it| wrong(it.into()))?))
}

/// The name of a type without its modules and parameters.
fn type_name<E>() -> &'static str {
    let name = std::any::type_name::<E>();
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name)
}
