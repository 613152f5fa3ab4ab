//! The whole of an executor's program: arguments, log, signals, exit code.
//!
//! The only file of this crate that reads the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Parser};
use flow_core::Deadline;
use flow_core::parameters::from_options;
use flow_net::{Client, Drain, Stopped};
use serde_json::Value;

use crate::process::{Log, LogTo, announce, die_with, start_log};
use crate::service::{Prepare, prepare, serve_prepared};
use crate::{Executor, LoadContext, Monitoring, ServeError, Settings, Workers};

/// Exit code of a process that a second signal ended: 128 and SIGINT's number.
const EXIT_INTERRUPTED: u8 = 130;

/// Exit code of a process that ends after a failure that `--exit-on-exceptions` names, or after its executor's last:
/// EX_SOFTWARE of sysexits.h.
const EXIT_ON_EXCEPTION: u8 = 70;

/// The port of an executor for which no option says it. An image sets it, so that whatever asks for the
/// executor's health from inside finds it without being told.
pub const PORT_VARIABLE: &str = "FLOW_LISTEN_PORT";

/// What the executor is built with where neither its `config.yml` nor `--uses-with` says otherwise, as `--uses-with` takes
/// it. An image with a model in it sets it, and so names that model however the program is started.
const WITH_VARIABLE: &str = "FLOW_USES_WITH";

/// Where the log goes, `stderr` or `stdout`. What runs in a container has no results to keep apart from it.
pub const LOG_TO_VARIABLE: &str = "FLOW_LOG_TO";

/// How long an executor may take to say that it serves.
const PING_WITHIN: Duration = Duration::from_secs(3);

/// Arguments that every executor's program takes.
#[derive(Debug, Clone, Args)]
pub struct ExecutorArgs {
    /// Name of the executor, for logs, errors and parameters such as `NAME__top_k`
    #[arg(long, default_value = "executor")]
    pub name: String,
    /// Address to listen on
    #[arg(long, env = "FLOW_LISTEN_HOST", default_value = "127.0.0.1")]
    pub host: String,
    /// Port to listen on; 0 picks a free one
    #[arg(long, env = PORT_VARIABLE, default_value_t = 0)]
    pub port: u16,
    /// Settings of the executor, as a JSON object or as KEY:VALUE; can be given several times, and adds to
    /// the variable FLOW_USES_WITH
    #[arg(long, value_name = "JSON|KEY:VALUE")]
    pub uses_with: Vec<String>,
    /// Description fields that override the executor's own, as a JSON object or as KEY:VALUE
    #[arg(long, value_name = "JSON|KEY:VALUE")]
    pub uses_metas: Vec<String>,
    /// Methods to call for endpoints, where they differ from the executor's own, as a JSON object or as
    /// ENDPOINT:METHOD
    #[arg(long, value_name = "JSON|ENDPOINT:METHOD")]
    pub uses_requests: Vec<String>,
    /// Batch requests together, by endpoint or method, as JSON such as
    /// `{"/encode": {"preferred_batch_size": 32, "timeout": 5}}`; timeouts are in milliseconds
    #[arg(long, value_name = "JSON")]
    pub uses_dynamic_batching: Vec<String>,
    /// Number of threads that run the executor and share what it has loaded, or `auto` for one per core
    #[arg(long, value_name = "N|auto", default_value_t)]
    pub workers: Workers,
    /// Exit after a request has failed with one of these errors, named as in replies; `panic` stands for
    /// any panic
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub exit_on_exceptions: Vec<String>,
    /// Folder where the executor keeps its data
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Number of the shard that this process serves, from 0
    #[arg(long, value_name = "NUMBER")]
    pub shard: Option<u16>,
    /// Serve metrics for Prometheus at /metrics
    #[arg(long)]
    pub monitoring: bool,
    /// Port for the metrics; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port_monitoring: u16,
    /// Value of the label `runtime_name` in the metrics [default: NAME/rep-0]
    #[arg(long, value_name = "NAME")]
    pub runtime_name: Option<String>,
    /// Time that requests under way get to finish when the executor stops, such as 10s or 1m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub grace: Duration,
    /// Format of log lines: text or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Log::Text)]
    #[arg(hide_possible_values = true)]
    pub log: Log,
    /// The launcher that started this process; end with it, and tell it in JSON when ready
    #[arg(long, value_name = "PID", hide = true)]
    pub child_of: Option<u32>,
    /// Tell a launcher in JSON when ready, which does not end with it: this process is in a container
    #[arg(long, hide = true)]
    pub to_launcher: bool,
}

impl ExecutorArgs {
    /// Whether a launcher reads what this process writes.
    #[must_use]
    pub fn has_launcher(&self) -> bool {
        self.to_launcher || self.child_of.is_some()
    }

    fn monitoring(&self) -> Option<Monitoring> {
        let runtime_name = self.runtime_name.clone();
        self.monitoring.then(|| Monitoring {
            port: self.port_monitoring,
            runtime_name: runtime_name.unwrap_or_else(|| format!("{}/rep-0", self.name)),
        })
    }
}

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
    if command.ping {
        return ended(ping(command.args.port));
    }
    run_with::<E>(command.args)
}

/// Serves `E` as the arguments say, until a signal ends it.
#[must_use]
pub fn run_with<E: Executor>(args: ExecutorArgs) -> ExitCode {
    let environment: BTreeMap<String, String> = std::env::vars().collect();
    let value = |name: &str| environment.get(name).map_or("", String::as_str);
    let to = match args.has_launcher() {
        // It reads more than lines for people there.
        true => LogTo::Stderr,
        false => LogTo::named(value(LOG_TO_VARIABLE)),
    };
    let colours = !environment.contains_key("NO_COLOR");
    start_log(args.log, to, value("FLOW_LOG"), colours);
    ended(start(prepare::<E>, args, environment))
}

/// The exit code, after the last word where there is one.
fn ended(outcome: Result<ExitCode, Fault>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(Fault { message, code }) => {
            #[allow(clippy::print_stderr, reason = "this is the program's own last word")]
            {
                eprintln!("flow: {message}");
            }
            code
        }
    }
}

/// Why the program ends, and with which exit code.
struct Fault {
    message: String,
    code: ExitCode,
}

impl Fault {
    fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: ExitCode::from(2),
        }
    }

    fn failing(message: String) -> Self {
        Self {
            message,
            code: ExitCode::FAILURE,
        }
    }

    fn failed(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::failing(flow_core::Chain(error).to_string())
    }
}

/// Whether somebody serves at this port of this machine.
fn ping(port: u16) -> Result<ExitCode, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Fault::failed(&error))?;
    let url = format!("grpc://127.0.0.1:{port}");
    let silent = || Fault::failing(format!("`{url}` did not answer within {PING_WITHIN:?}"));
    let asked = async {
        let client = Client::connect(&url)
            .await
            .map_err(|it| Fault::failed(&it))?;
        let deadline = Deadline::after(Instant::now(), Some(PING_WITHIN));
        let serving = client.is_serving(deadline).await;
        match serving.map_err(|failure| Fault::failed(&failure))? {
            true => Ok(ExitCode::SUCCESS),
            false => Err(Fault::failing(format!("`{url}` is not serving"))),
        }
    };
    let answer = async { tokio::time::timeout(PING_WITHIN, asked).await };
    runtime.block_on(answer).map_err(|_| silent())?
}

fn start(
    prepare: Prepare,
    args: ExecutorArgs,
    environment: BTreeMap<String, String>,
) -> Result<ExitCode, Fault> {
    if let Some(parent) = args.child_of {
        die_with(parent).map_err(|error| Fault::failed(&error))?;
    }
    let drain = Drain::new(args.grace);
    let to_launcher = args.has_launcher();
    let name = args.name.clone();
    let mut settings = settings(args, environment)?;
    // One thread moves the bytes, others run the executor: all requests come over a gateway's few
    // connections, and handing them from thread to thread would cost more than decoding them.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Fault::failed(&error))?;
    let code = runtime.block_on(async {
        let serving = async {
            let prepared = prepare(&mut settings, &drain)?;
            let ready = |addresses: &_, facts: &_| {
                // A launcher that does not listen has gone; the kernel ends this process too.
                drop(announce(&name, addresses, facts, to_launcher));
            };
            serve_prepared(prepared, settings, &drain, Box::new(ready)).await
        };
        tokio::select! {
            stopped = serving => finish(stopped),
            () = drain.clone().follow_signals() => Ok(ExitCode::from(EXIT_INTERRUPTED)),
        }
    });
    // The worker may be in the middle of a call that nobody waits for any more.
    runtime.shutdown_background();
    code
}

fn finish(stopped: Result<Stopped, ServeError>) -> Result<ExitCode, Fault> {
    match stopped {
        Ok(Stopped::Clean) => Ok(ExitCode::SUCCESS),
        Ok(Stopped::Forced) => {
            tracing::warn!("the grace period ended with requests under way");
            Ok(ExitCode::FAILURE)
        }
        Err(error @ (ServeError::With { .. } | ServeError::Settings { .. })) => Err(Fault {
            code: ExitCode::from(2),
            ..Fault::failed(&error)
        }),
        Err(error @ (ServeError::Exception { .. } | ServeError::Last { .. })) => Err(Fault {
            code: ExitCode::from(EXIT_ON_EXCEPTION),
            ..Fault::failed(&error)
        }),
        Err(error) => Err(Fault::failed(&error)),
    }
}

fn settings(args: ExecutorArgs, environment: BTreeMap<String, String>) -> Result<Settings, Fault> {
    let map = |flag: &str, values: &[String]| {
        from_options(values)
            .map_err(|error| Fault::usage(format!("`{flag}`: {}", flow_core::Chain(&error))))
    };
    let of_image = environment.get(WITH_VARIABLE).map(std::slice::from_ref);
    let mut with = map(WITH_VARIABLE, of_image.unwrap_or_default())?;
    with.extend(map("--uses-with", &args.uses_with)?);
    let requests = map("--uses-requests", &args.uses_requests)?;
    let requests = requests.into_iter().map(|(endpoint, method)| match method {
        Value::String(method) => Ok((endpoint, method)),
        other => Err(Fault::usage(format!(
            "`--uses-requests`: `{other}` is no method's name"
        ))),
    });
    Ok(Settings {
        monitoring: args.monitoring(),
        host: args.host,
        port: args.port,
        with,
        requests: requests.collect::<Result<_, _>>()?,
        batching: map("--uses-dynamic-batching", &args.uses_dynamic_batching)?,
        workers: args.workers,
        exit_on_exceptions: args.exit_on_exceptions,
        context: LoadContext {
            name: args.name,
            workspace: args.workspace,
            shard: args.shard,
            metas: map("--uses-metas", &args.uses_metas)?,
            environment,
            ..LoadContext::default()
        },
        limits: flow_net::Limits::default(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_image_says_of_its_executor_gives_way_to_what_is_typed() {
        let check = |variable: Option<&str>, typed: &[&str], expected: Result<Value, &str>| {
            let line = ["x"].iter().chain(typed);
            let Command { args, .. } = Command::try_parse_from(line).unwrap();
            let set = variable.map(|value| (WITH_VARIABLE.to_owned(), value.to_owned()));
            match (settings(args, set.into_iter().collect()), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(Value::Object(found.with), expected),
                (Err(fault), Err(part)) => {
                    assert!(fault.message.contains(part), "{}", fault.message);
                }
                (found, _) => panic!("{variable:?} {typed:?}: {}", found.is_ok()),
            }
        };
        let device = r#"--uses-with={"device": "cpu"}"#;
        check(None, &[device], Ok(json!({"device": "cpu"})));
        let both = json!({"model": "/model", "device": "cpu"});
        check(Some("model:/model"), &[device], Ok(both));
        let other = ["--uses-with", "model:other"];
        check(Some("model:/model"), &other, Ok(json!({"model": "other"})));
        check(Some("{"), &[], Err("`FLOW_USES_WITH`: "));
    }
}
