//! Turns arguments and environment variables into the settings of an executor and of its log.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use flow_core::parameters::from_options;
use flow_core::{Chain, DocumentLimits, RequestLimits, Secret};
use flow_otlp::ExportSettings;
use flow_process::{LISTEN_SOCKET_VARIABLE, LogOutput, LogSettings, STATUS_SOCKET_VARIABLE};
use serde_json::Value;

use super::args::ExecutorArgs;
use super::exit_error::ExitError;
use crate::sdk::LoadContext;
use crate::server::ServerSettings;

/// The variable with options of the executor, in the form of `--uses-with`. Its `config.yml` and `--uses-with` override
/// it. An image that contains a model names it here.
pub(crate) const WITH_VARIABLE: &str = "FLOW_USES_WITH";

/// The variable with the log's output, `stderr` or `stdout`. Containers have no other output, and log to stdout.
pub const LOG_TO_VARIABLE: &str = "FLOW_LOG_TO";

/// The part of the memory that requests take by default. The executor itself needs most.
const MEMORY_SHARE: u64 = 4;

/// Least memory for requests by default, so that large messages pass on small machines.
const MEMORY_MIN: u64 = 256 << 20;

type Environment = BTreeMap<String, String>;

/// The settings of the executor.
pub(crate) fn settings(
    mut args: ExecutorArgs,
    environment: Environment,
) -> Result<ServerSettings, ExitError> {
    args.read_uses_with()
        .map_err(|error| ExitError::usage(format!("`--uses-with`: {error}")))?;
    let map = |flag: &str, values: &[String]| {
        from_options(values)
            .map_err(|error| ExitError::usage(format!("`{flag}`: {}", Chain(&error))))
    };
    let options = |flag: &str, values: &[String]| {
        from_options(values)
            .map_err(|error| ExitError::usage(format!("`{flag}`: {}", error.without_value())))
    };
    let of_image = environment.get(WITH_VARIABLE).map(std::slice::from_ref);
    let mut with = options(WITH_VARIABLE, of_image.unwrap_or_default())?;
    with.extend(options("--uses-with", &args.revealed_uses_with())?);
    let requests = map("--uses-requests", &args.uses_requests)?;
    let requests = requests.into_iter().map(|(endpoint, method)| match method {
        Value::String(method) => Ok((endpoint, method)),
        other => Err(ExitError::usage(format!(
            "`--uses-requests`: `{other}` is not the name of a method"
        ))),
    });
    let of_launcher = |name: &str| {
        let path = environment.get(name).map(PathBuf::from);
        path.filter(|_| args.has_launcher())
    };
    Ok(ServerSettings {
        socket: of_launcher(LISTEN_SOCKET_VARIABLE),
        status_socket: of_launcher(STATUS_SOCKET_VARIABLE),
        export: export(&args, &environment)?,
        monitoring: args.monitoring(),
        host: args.host,
        port: args.port,
        with: Secret::new(with),
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
        request_limits: RequestLimits {
            documents: DocumentLimits {
                depth_max: args.nesting_max,
                documents_max: args.documents_max,
            },
            ..RequestLimits::default()
        },
        request_memory_max: Some(request_memory(args.request_memory)),
    })
}

/// What is exported to collectors of OpenTelemetry.
fn export(args: &ExecutorArgs, environment: &Environment) -> Result<ExportSettings, ExitError> {
    let settings = ExportSettings::new(args.runtime_name(), &args.exported(), environment);
    settings.map_err(|error| ExitError::usage(error.to_string()))
}

/// The memory for requests, in bytes: as given, or a share of what the process may use.
fn request_memory(mebibytes: Option<NonZeroUsize>) -> usize {
    let share = || flow_net::memory_max().map_or(MEMORY_MIN, |max| max / MEMORY_SHARE);
    let default = || usize::try_from(share().max(MEMORY_MIN)).unwrap_or(usize::MAX);
    mebibytes.map_or_else(default, |it| it.get().saturating_mul(1 << 20))
}

/// The settings of the log.
pub(crate) fn log_settings(
    args: &ExecutorArgs,
    environment: &Environment,
) -> Result<LogSettings, ExitError> {
    let output = match args.has_launcher() {
        // The launcher reads events on standard output.
        true => LogOutput::Stderr,
        false => variable(environment, LOG_TO_VARIABLE)?.unwrap_or_default(),
    };
    Ok(LogSettings {
        format: args.log,
        filter: variable(environment, "FLOW_LOG")?.unwrap_or_default(),
        output,
        color: !environment.contains_key("NO_COLOR"),
        buffered_target: None,
    })
}

/// Parses a variable, unless it is empty or not set.
fn variable<T>(environment: &Environment, name: &str) -> Result<Option<T>, ExitError>
where
    T: FromStr<Err: std::error::Error + 'static>,
{
    let text = environment.get(name).filter(|text| !text.is_empty());
    let parsed = text.map(|text| text.parse()).transpose();
    parsed.map_err(|error| {
        ExitError::usage(format!(
            "the variable `{name}` is invalid: {}",
            Chain(&error)
        ))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ExecutorArgs,
    }

    #[test]
    fn arguments_override_the_variable_of_an_image() {
        let check = |variable: Option<&str>, given: &[&str], expected: Result<Value, &str>| {
            let line = ["x"].iter().chain(given);
            let Command { args, .. } = Command::try_parse_from(line).unwrap();
            let set = variable.map(|value| (WITH_VARIABLE.to_owned(), value.to_owned()));
            match (settings(args, set.into_iter().collect()), expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(Value::Object(found.with.into_revealed()), expected);
                }
                (Err(error), Err(part)) => {
                    assert!(error.message.contains(part), "{}", error.message);
                }
                (found, _) => panic!("{variable:?} {given:?}: {}", found.is_ok()),
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

    #[test]
    fn a_file_of_options_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("options.json");
        std::fs::write(&file, r#"{"device": "cpu", "n": 1}"#).unwrap();
        let of = |file: &std::path::Path| {
            let value = format!("@{}", file.display());
            let line = ["x", "--uses-with", &value, "--uses-with", "n:2"];
            let Command { args, .. } = Command::try_parse_from(line).unwrap();
            settings(args, Environment::new())
        };
        let found = of(&file).map(|it| Value::Object(it.with.into_revealed()));
        assert_eq!(found.ok(), Some(json!({"device": "cpu", "n": 2})));
        std::fs::write(&file, r#"{"password": "hunter2""#).unwrap();
        let wrong = of(&file).err().unwrap().message;
        assert!(wrong.ends_with("does not contain a JSON object"), "{wrong}");
        let missing = of(&folder.path().join("none")).err().unwrap().message;
        assert!(
            missing.starts_with("`--uses-with`: cannot read `/"),
            "{missing}"
        );
    }

    #[test]
    fn a_log_filter_that_is_wrong_is_bad_usage() {
        let check = |name: &str, value: &str, expected: &str| {
            let Command { args, .. } = Command::try_parse_from(["x"]).unwrap();
            let environment = [(name.to_owned(), value.to_owned())].into();
            let error = log_settings(&args, &environment).err().unwrap();
            assert!(error.message.starts_with(expected), "{}", error.message);
        };
        let expected = "the variable `FLOW_LOG` is invalid: `debgu` is not a log level";
        check("FLOW_LOG", "debgu", expected);
        let expected = "the variable `FLOW_LOG_TO` is invalid: `file` is not a log output";
        check("FLOW_LOG_TO", "file", expected);
    }
}
