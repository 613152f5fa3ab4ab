//! `flow executor`: runs one executor: a built-in one, or the one in a folder.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use clap::Args;
use flow_core::Secret;
use flow_core::parameters::from_options;
use flow_executor::ExecutorArgs;
use flow_process::in_memory_file;
use flow_spec::{ExecutorConfig, NotFound, PythonSource};
use serde_json::json;

use crate::builtin;
use crate::exit::BadUsage;
use crate::folder::python::PythonRuntime;
use crate::folder::python::jina::exec_jina;
use crate::folder::{self, ExecutorFolder, package};
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow executor --uses echo --port 54400
  flow executor --uses ./my-executor --port 54400
  flow executor --uses sentence-encoder --uses-with device:cpu --uses-with normalize:true
  flow executor --uses sentence-encoder --uses-with '{\"model\": \"all-MiniLM-L6-v2\"}'

Exit codes: 0 stopped by a signal, 1 failure, or requests were cut off, 2 bad usage or bad options of
the executor, 70 the executor failed, 130 a second signal stopped it.";

/// Options of `flow executor`.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct Executor {
    /// Executor to run: the name of a built-in one, the path of a program, of an executor's folder or of its
    /// config.yml, a Python file, or MODULE:CLASS
    #[arg(long, env = "FLOW_USES", value_name = "NAME|PATH")]
    uses: String,
    #[command(flatten)]
    args: ExecutorArgs,
}

fn after_help() -> String {
    format!("{}\n\n{EXAMPLES}", builtin::listing())
}

/// Serves until a signal stops it.
pub(crate) fn run(executor: Executor, shell: &Shell) -> anyhow::Result<ExitCode> {
    let colour = shell.wants_colour;
    shell
        .log
        .start_service(executor.args.has_launcher(), colour, None);
    if let Some(builtin) = builtin::find(&executor.uses) {
        return Ok((builtin.run)(executor.args));
    }
    let uses = Path::new(&executor.uses);
    let wrong = || BadUsage(format!("cannot run `{}`", executor.uses));
    if !uses.exists() && PythonSource::of(uses).is_none() {
        let NotFound { message, remedy } = builtin::not_found(&executor.uses, &[]);
        let remedy = remedy.map(|remedy| format!("; {remedy}"));
        bail!(BadUsage(message + &remedy.unwrap_or_default()));
    }
    match folder::look(uses, &[Path::new("")], shell, &|_| {}).with_context(wrong)? {
        ExecutorFolder::Named(config) => named(config, executor.args, shell),
        ExecutorFolder::Program(path) => {
            let config = ExecutorConfig::default();
            never(exec_program(&path, &config, &executor.args, shell))
        }
        ExecutorFolder::Package { manifest, config } => {
            let path = package::build(&manifest, &folder::name(&config), shell)?;
            never(exec_program(&path, &config, &executor.args, shell))
        }
        ExecutorFolder::Python(config) => {
            let runtime = PythonRuntime::find(&config, |name| shell.variable(name))?;
            match runtime {
                PythonRuntime::Flow(python) => never(exec_flow_serve(&python, &config, shell)),
                PythonRuntime::Jina(jina) => {
                    // Jina reads options from the command line only.
                    let mut args = executor.args;
                    args.read_uses_with().with_context(wrong)?;
                    never(exec_jina(&jina, &config, &args, shell))
                }
            }
        }
    }
}

/// A process that another program has replaced does not return.
fn never(outcome: anyhow::Result<Infallible>) -> anyhow::Result<ExitCode> {
    outcome.map(|never| match never {})
}

fn named(config: ExecutorConfig, args: ExecutorArgs, shell: &Shell) -> anyhow::Result<ExitCode> {
    let name = folder::name(&config);
    match builtin::find(&name) {
        Some(builtin) => Ok((builtin.run)(with_config(config, args))),
        None => never(exec_program(Path::new(&name), &config, &args, shell)),
    }
}

/// Adds the values of the config before those of the command line: later values win, key by key.
fn with_config(config: ExecutorConfig, mut args: ExecutorArgs) -> ExecutorArgs {
    let [with, metas, requests, batching] = texts(&config);
    let before = |values: &mut Vec<String>, text| values.splice(0..0, text).for_each(drop);
    let with = with.map(Secret::new);
    args.uses_with.splice(0..0, with).for_each(drop);
    before(&mut args.uses_metas, metas);
    before(&mut args.uses_requests, requests);
    before(&mut args.uses_dynamic_batching, batching);
    args.workspace = args.workspace.or(config.workspace);
    args
}

/// The option with what an executor is built with.
const USES_WITH: &str = "--uses-with";

/// The options for the other values of a config.
const OTHER_KEYS: [&str; 3] = ["--uses-metas", "--uses-requests", "--uses-dynamic-batching"];

/// The values of a config as JSON: that of [`USES_WITH`], then those of [`OTHER_KEYS`]. `None` for those that are empty.
fn texts(config: &ExecutorConfig) -> [Option<String>; 4] {
    let requests = json!(config.requests);
    let parts = [
        json!(config.with.reveal()),
        json!(config.metas),
        requests,
        json!(config.batching),
    ];
    parts.map(|part| (part != json!({})).then(|| part.to_string()))
}

/// The options of a config with those of the command line, which win, as JSON.
fn merged(with: String, args: &ExecutorArgs) -> anyhow::Result<String> {
    let wrong = || BadUsage(format!("`{USES_WITH}` is invalid"));
    let mut args = args.clone();
    args.read_uses_with().with_context(wrong)?;
    args.uses_with.insert(0, Secret::new(with));
    let merged = from_options(&args.revealed_uses_with());
    let merged = merged
        .map_err(|error| anyhow::anyhow!(error.without_value()))
        .with_context(wrong)?;
    Ok(serde_json::Value::from(merged).to_string())
}

/// Replaces this process by a program, with the values of its config and the options of the command line. Its
/// `uses_with` may be secret, so it is no argument.
fn exec_program(
    program: &Path,
    config: &ExecutorConfig,
    args: &ExecutorArgs,
    shell: &Shell,
) -> anyhow::Result<Infallible> {
    let mut command = Command::new(program);
    if let (Some(folder), None) = (&config.workspace, &args.workspace) {
        command.arg("--workspace").arg(folder);
    }
    let [with, others @ ..] = texts(config);
    for (key, text) in OTHER_KEYS.into_iter().zip(others) {
        command.args(text.iter().flat_map(|text| [key, text]));
    }
    let typed = std::env::args_os().skip(1);
    match with {
        // What the program reads at its standard input is not touched.
        None => command.args(arguments_for_program(typed, OWN)),
        Some(with) => {
            let text = merged(with, args)?;
            let text = in_memory_file(&text).context("cannot hand options to the program")?;
            let own = [OWN, &[USES_WITH]].concat();
            command
                .args([USES_WITH, "@-"])
                .args(arguments_for_program(typed, &own))
                .stdin(text)
        }
    };
    let error = command.env("FLOW_LOG", shell.log.filter.as_str()).exec();
    Err(error).with_context(|| format!("cannot run `{}`", program.display()))
}

/// Replaces this process by an interpreter that serves a Python executor with our own runtime.
fn exec_flow_serve(python: &Path, uses: &Path, shell: &Shell) -> anyhow::Result<Infallible> {
    let error = Command::new(python)
        .args(["-m", "flow_serve._run", "--uses"])
        .arg(uses)
        .args(arguments_for_program(std::env::args_os().skip(1), OWN))
        .env("FLOW_LOG", shell.log.filter.as_str())
        .env("PYTHONUNBUFFERED", "1")
        .exec();
    Err(error).with_context(|| format!("cannot run `{}`", python.display()))
}

/// The options of `flow executor` that no other program has.
const OWN: &[&str] = &["--uses", "--log-level"];

/// The arguments of the command line for another program: without these options.
fn arguments_for_program(
    mut typed: impl Iterator<Item = OsString>,
    without: &[&str],
) -> Vec<OsString> {
    let mut arguments = Vec::new();
    let mut is_command = true;
    while let Some(argument) = typed.next() {
        let text = argument.to_string_lossy();
        if is_command && text == "executor" {
            is_command = false;
        } else if without.contains(&&*text) {
            typed.next();
        } else if !without
            .iter()
            .any(|own| text.starts_with(&format!("{own}=")))
        {
            arguments.push(argument);
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_program_gets_all_arguments_but_those_of_flow() {
        let line = "--log-level debug executor --uses=./x --name executor --port 5 --log json";
        let typed = line.split(' ').map(OsString::from);
        let passed = arguments_for_program(typed, OWN).join(" ".as_ref());
        assert_eq!(passed, "--name executor --port 5 --log json");
    }
}
