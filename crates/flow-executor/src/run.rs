//! The program of an executor: arguments, log, signals and exit code.
//!
//! Only this file of the crate reads the environment.

mod args;
mod exit_error;
mod settings;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use flow_core::Deadline;
use flow_net::{Client, Drain, Stopped};
use flow_process::{
    FILTER_FILE_VARIABLE, LogFormat, ReadyEvent, end_with_parent, exit, flush_log,
    follow_filter_file, on_termination,
};

use self::exit_error::ExitError;
use self::settings::{WITH_VARIABLE, log_settings, settings};
use crate::definition::Definition;
use crate::sdk::Executor;
use crate::server::{
    Addresses, ColocatedExecutor, Prepare, ServeError, colocate, prepare, serve_prepared,
};
use crate::worker::ExecutorReport;

pub use args::{ExecutorArgs, PORT_VARIABLE};
pub use settings::LOG_TO_VARIABLE;

/// The time that a health check may take.
const PING_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Parser)]
#[command(about = "Serve one executor over gRPC")]
struct Command {
    #[command(flatten)]
    args: ExecutorArgs,
    /// Check whether the executor on this port is ready, and exit; for the health checks of images
    #[arg(long)]
    ping: bool,
}

/// The `main` of an executor's own program.
#[must_use]
pub fn run<E: Executor>() -> ExitCode {
    let command = Command::parse();
    let outcome = match command.ping {
        true => ping(command.args.port),
        false => log_and_serve(preparation(Definition::<E>::of()), command.args),
    };
    conclude(outcome)
}

/// Serves `E` with these arguments until a signal ends it. The caller has started the log.
#[must_use]
pub fn run_with<E: Executor>(args: ExecutorArgs) -> ExitCode {
    run_definition(Definition::<E>::of(), args)
}

/// Serves an executor that is a value, until a signal ends it. The caller has started the log.
#[must_use]
pub fn run_definition<E: 'static>(definition: Definition<E>, args: ExecutorArgs) -> ExitCode {
    conclude(serve(preparation(definition), args, environment()))
}

/// Loads `E` in this process, for a gateway in it. The arguments say what it is, and nothing of how it listens. The variables are
/// those of the flow file, which replace those of the process.
///
/// # Errors
///
/// If its options do not fit, or it cannot load.
pub async fn run_colocated<E: Executor>(
    args: ExecutorArgs,
    variables: BTreeMap<String, String>,
) -> Result<ColocatedExecutor, ColocateError> {
    let drain = Drain::new(args.grace);
    let mut environment = environment();
    // It is for the only executor of an image, and there may be several here.
    environment.remove(WITH_VARIABLE);
    environment.extend(variables);
    let mut settings = settings(args, environment)?;
    // The process itself exports its log.
    settings.export.logs = None;
    let prepared =
        prepare(Definition::<E>::of(), &mut settings, &drain).map_err(ExitError::from)?;
    let colocated = colocate(prepared, settings, &drain).await;
    Ok(colocated.map_err(ExitError::from)?)
}

/// An executor does not run in this process.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ColocateError(String);

impl From<ExitError> for ColocateError {
    fn from(error: ExitError) -> Self {
        Self(error.message)
    }
}

/// Prints the error, if there is one, after the last lines of the log.
fn conclude(outcome: Result<ExitCode, ExitError>) -> ExitCode {
    flush_log();
    outcome.unwrap_or_else(ExitError::report)
}

fn preparation<E: 'static>(definition: Definition<E>) -> Prepare {
    Box::new(move |settings, drain| prepare(definition, settings, drain))
}

/// Starts the log of an executor's program, as its arguments and its environment say.
///
/// # Errors
///
/// If the environment names a level or an output that does not exist; it was reported.
pub fn start_log(args: &ExecutorArgs) -> Result<(), ExitCode> {
    let settings = log_settings(args, &environment());
    let settings = settings.map_err(ExitError::report)?;
    settings.start();
    Ok(())
}

fn log_and_serve(prepare: Prepare, args: ExecutorArgs) -> Result<ExitCode, ExitError> {
    let environment = environment();
    log_settings(&args, &environment)?.start();
    serve(prepare, args, environment)
}

/// The environment variables whose names and values are UTF-8.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Asks for the health of the executor on a port of this machine.
fn ping(port: u16) -> Result<ExitCode, ExitError> {
    let runtime = runtime()?;
    let url = format!("grpc://127.0.0.1:{port}");
    let ask = async {
        let client = Client::connect(&url)
            .await
            .map_err(|error| ExitError::from_error(&error))?;
        let deadline = Deadline::after(Instant::now(), Some(PING_TIMEOUT));
        let is_serving = client.is_serving(deadline).await;
        match is_serving.map_err(|failure| ExitError::from_error(&failure))? {
            true => Ok(ExitCode::SUCCESS),
            false => Err(ExitError::failure(format!("`{url}` is not serving"))),
        }
    };
    let answer = runtime.block_on(async { tokio::time::timeout(PING_TIMEOUT, ask).await });
    answer.unwrap_or_else(|_elapsed| {
        let message = format!("`{url}` did not answer within {PING_TIMEOUT:?}");
        Err(ExitError::failure(message))
    })
}

/// Logs the limit: at INFO if the executor was started alone, at DEBUG under `flow up`.
fn log_memory(max: usize, has_launcher: bool) {
    let text = format!(
        "requests take at most {} MiB (`--request-memory`)",
        max >> 20
    );
    match has_launcher {
        true => tracing::debug!("{text}"),
        false => tracing::info!("{text}"),
    }
}

/// One thread moves the bytes, and others run the executor. All requests come over a few connections of a gateway, and
/// passing them from thread to thread would take longer than decoding them.
fn runtime() -> Result<tokio::runtime::Runtime, ExitError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ExitError::from_error(&error))
}

fn serve(
    prepare: Prepare,
    args: ExecutorArgs,
    environment: BTreeMap<String, String>,
) -> Result<ExitCode, ExitError> {
    if let Some(parent) = args.parent_pid {
        end_with_parent(parent).map_err(|error| ExitError::from_error(&error))?;
    }
    if args.has_launcher()
        && let Some(file) = environment.get(FILTER_FILE_VARIABLE)
    {
        follow_filter_file(file.into()).map_err(|error| ExitError::from_error(&error))?;
    }
    let drain = Drain::new(args.grace);
    let format = match args.has_launcher() {
        true => LogFormat::Json,
        false => args.log,
    };
    let name = args.name.clone();
    let has_launcher = args.has_launcher();
    let mut settings = settings(args, environment)?;
    let runtime = runtime()?;
    let drain_of_signals = drain.clone();
    let begin_drain = move || drain_of_signals.begin();
    let outcome = runtime.block_on(async {
        let serving = async {
            let prepared = prepare(&mut settings, &drain)?;
            let request_memory_max = settings.request_memory_max;
            let ready = |addresses: &Addresses, report: &ExecutorReport| {
                if let Some(max) = request_memory_max {
                    log_memory(max, has_launcher);
                }
                report_ready(name, addresses, report, format);
            };
            serve_prepared(prepared, settings, &drain, Box::new(ready)).await
        };
        tokio::select! {
            stopped = serving => exit_code(stopped),
            () = on_termination(begin_drain) => Ok(ExitCode::from(exit::INTERRUPTED)),
        }
    });
    // A worker may be in the middle of a call for which no caller waits any more.
    runtime.shutdown_background();
    outcome
}

fn report_ready(name: String, addresses: &Addresses, report: &ExecutorReport, format: LogFormat) {
    let ready = ReadyEvent {
        metrics: addresses.metrics,
        facts: report.facts.clone(),
        keeps_state: Some(report.keeps_state),
        ..ReadyEvent::new(name, addresses.serving.clone())
    };
    if let Err(error) = ready.report(format) {
        tracing::debug!(%error, "cannot write to standard output");
    }
}

fn exit_code(stopped: Result<Stopped, ServeError>) -> Result<ExitCode, ExitError> {
    match stopped? {
        Stopped::Clean => Ok(ExitCode::SUCCESS),
        Stopped::Forced => {
            tracing::warn!("the grace period ended with requests in progress");
            Ok(ExitCode::FAILURE)
        }
    }
}
