//! Checks the settings of an executor before anything is loaded.

use std::sync::Arc;

use flow_net::Drain;
use flow_process::on_behalf_of;
use flow_trace::Tracer;

use super::error::ServeError;
use super::settings::ServerSettings;
use crate::definition::Definition;
use crate::endpoint_table::{BatchingOverride, EndpointOverrides, EndpointTable};
use crate::metrics::ExecutorMetrics;
use crate::sdk::{LoadContext, root_span};
use crate::worker::{self, ExitPolicy, StartedWorkers, WorkerConfig};

/// The span of the time that an executor takes to load.
const LOAD: &str = "load";

/// An executor whose settings are checked and which is not loaded yet.
///
/// Everything that depends on the executor's type is behind `start`, so that the server is compiled once and not for
/// each executor.
pub(crate) struct Prepared {
    pub(crate) endpoints: EndpointTable,
    pub(crate) exit: ExitPolicy,
    /// The name of the executor's type, which takes the place of Jina's class name.
    pub(crate) class: String,
    pub(crate) start: Box<Start>,
}

/// Starts the worker threads, which load the executor.
type Start = dyn FnOnce(
    LoadContext,
    Option<ExecutorMetrics>,
    Option<Tracer>,
) -> std::io::Result<StartedWorkers>;

/// [`prepare`] for one executor.
pub(crate) type Prepare =
    Box<dyn FnOnce(&mut ServerSettings, &Drain) -> Result<Prepared, ServeError>>;

/// Checks the settings of an executor. Takes `with` out of them.
pub(crate) fn prepare<E: 'static>(
    definition: Definition<E>,
    settings: &mut ServerSettings,
    drain: &Drain,
) -> Result<Prepared, ServeError> {
    let (endpoints, exit) = check(settings, &definition, drain)?;
    let name = settings.context.name.clone();
    let with = std::mem::take(&mut settings.with);
    let load =
        (definition.read_options)(with.into_revealed()).map_err(|options| ServeError::With {
            name: name.clone(),
            options,
        })?;
    let (workers, exit_of_workers) = (settings.workers, exit.clone());
    let request_memory_max = settings.request_memory_max.unwrap_or(usize::MAX);
    let (bindings, hooks) = (definition.endpoints, definition.hooks);
    let start = move |context: LoadContext, metrics, tracer: Option<Tracer>| {
        let config = WorkerConfig {
            name,
            endpoints: Arc::new(bindings),
            hooks,
            workers,
            // The other half is for the bytes that arrive.
            request_memory_max: request_memory_max / 2,
            exit: exit_of_workers,
            metrics,
        };
        worker::start(config, move || {
            // On behalf of no request: what this thread logs later does not belong to the span.
            on_behalf_of([], || {
                let mut span = tracer.map(|tracer| root_span(&tracer, LOAD));
                load(&context).inspect_err(|error| span.iter_mut().for_each(|it| it.fail(error)))
            })
        })
    };
    Ok(Prepared {
        endpoints,
        exit,
        class: definition.class,
        start: Box::new(start),
    })
}

fn check<E>(
    settings: &ServerSettings,
    definition: &Definition<E>,
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
    let endpoints = EndpointTable::new(&definition.endpoints, &overrides);
    let endpoints = endpoints.map_err(|it| wrong(it.into()))?;
    let names = &settings.exit_on_exceptions;
    let exit = match definition.raises_exceptions {
        true => ExitPolicy::of_any_exception(names, drain),
        false => ExitPolicy::new(names, drain).map_err(|it| wrong(it.into()))?,
    };
    Ok((endpoints, exit))
}
