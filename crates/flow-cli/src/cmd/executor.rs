//! `flow executor`: starts one executor alone: a built-in one, or what a folder holds. What it does then is
//! `flow-executor`'s, or Jina's.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use clap::Args;
use flow_executor::ExecutorArgs;
use flow_spec::{ExecutorConfig, NotFound};
use serde_json::json;

use crate::builtin;
use crate::exit::BadUsage;
use crate::folder::python::{Jina, become_jina};
use crate::folder::{self, Found, package};
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow executor --uses echo --port 54400
  flow executor --uses ./my-executor --port 54400
  flow executor --uses sentence-encoder --uses-with device:cpu --uses-with normalize:true
  flow executor --uses sentence-encoder --uses-with '{\"model\": \"all-MiniLM-L6-v2\"}'";

/// Options of `flow executor`.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct Executor {
    /// Executor to run: the name of a built-in one, or the path of a program, of an executor's folder or of
    /// its config.yml
    #[arg(long, env = "FLOW_USES", value_name = "NAME|PATH")]
    uses: String,
    #[command(flatten)]
    args: ExecutorArgs,
}

fn after_help() -> String {
    format!("{}\n\n{EXAMPLES}", builtin::listing())
}

/// Serves until a signal ends it. `run_with` starts a log too, but the first one counts: ours knows
/// `--log-level`.
pub(crate) fn run(executor: Executor, shell: &Shell) -> anyhow::Result<ExitCode> {
    let colour = shell.wants_colour;
    shell
        .log
        .start_service(executor.args.has_launcher(), colour);
    if let Some(builtin) = builtin::find(&executor.uses) {
        return Ok((builtin.run)(executor.args));
    }
    let uses = Path::new(&executor.uses);
    let wrong = || BadUsage(format!("cannot run `{}`", executor.uses));
    if !uses.exists() {
        let NotFound { message, remedy } = builtin::not_found(&executor.uses, &[]);
        let remedy = remedy.map(|remedy| format!("; {remedy}"));
        bail!(BadUsage(message + &remedy.unwrap_or_default()));
    }
    match folder::look(uses, &[Path::new("")], shell, &|_| {}).with_context(wrong)? {
        Found::Named(config) => named(config, executor.args, shell),
        Found::Program(path) => {
            let config = ExecutorConfig::default();
            never(become_program(&path, &config, &executor.args, shell))
        }
        Found::Package { manifest, config } => {
            let path = package::build(&manifest, &folder::name(&config), shell)?;
            never(become_program(&path, &config, &executor.args, shell))
        }
        Found::Python(config) => {
            let jina = Jina::find(&config, |name| shell.variable(name))?;
            never(become_jina(&jina, &config, &executor.args, shell))
        }
    }
}

/// What another program has taken the place of does not come back.
fn never(outcome: anyhow::Result<Infallible>) -> anyhow::Result<ExitCode> {
    outcome.map(|never| match never {})
}

fn named(config: ExecutorConfig, args: ExecutorArgs, shell: &Shell) -> anyhow::Result<ExitCode> {
    let name = folder::name(&config);
    match builtin::find(&name) {
        Some(builtin) => Ok((builtin.run)(under(config, args))),
        None => never(become_program(Path::new(&name), &config, &args, shell)),
    }
}

/// What was typed counts before the config's word, key by key: later values win.
fn under(config: ExecutorConfig, mut args: ExecutorArgs) -> ExecutorArgs {
    let [with, metas, requests, batching] = texts(&config);
    let before = |values: &mut Vec<String>, text| values.splice(0..0, text).for_each(drop);
    before(&mut args.uses_with, with);
    before(&mut args.uses_metas, metas);
    before(&mut args.uses_requests, requests);
    before(&mut args.uses_dynamic_batching, batching);
    args.workspace = args.workspace.or(config.workspace);
    args
}

/// What a config says, as arguments with these keys.
const KEYS: [&str; 4] = [
    "--uses-with",
    "--uses-metas",
    "--uses-requests",
    "--uses-dynamic-batching",
];

/// A config's parts as JSON, in the order of [`KEYS`]; none where there is nothing to say.
fn texts(config: &ExecutorConfig) -> [Option<String>; 4] {
    let requests = json!(config.requests);
    let parts = [
        json!(config.with),
        json!(config.metas),
        requests,
        json!(config.batching),
    ];
    parts.map(|part| (part != json!({})).then(|| part.to_string()))
}

/// A program of its own takes this process's place, with what its config says and what was typed.
fn become_program(
    program: &Path,
    config: &ExecutorConfig,
    args: &ExecutorArgs,
    shell: &Shell,
) -> anyhow::Result<Infallible> {
    let mut command = Command::new(program);
    if let (Some(folder), None) = (&config.workspace, &args.workspace) {
        command.arg("--workspace").arg(folder);
    }
    for (key, text) in KEYS.into_iter().zip(texts(config)) {
        command.args(text.iter().flat_map(|text| [key, text]));
    }
    let error = command
        .args(others(std::env::args_os().skip(1)))
        .env("FLOW_LOG", &shell.log.filter)
        .exec();
    Err(error).with_context(|| format!("cannot run `{}`", program.display()))
}

/// What was typed, without what is this program's own.
fn others(mut typed: impl Iterator<Item = OsString>) -> Vec<OsString> {
    const OURS: &[&str] = &["--uses", "--log-level"];
    let mut others = Vec::new();
    let mut is_command = true;
    while let Some(argument) = typed.next() {
        let text = argument.to_string_lossy();
        if is_command && text == "executor" {
            is_command = false;
        } else if OURS.contains(&&*text) {
            typed.next();
        } else if !OURS.iter().any(|own| text.starts_with(&format!("{own}="))) {
            others.push(argument);
        }
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_program_is_told_all_but_what_is_ours() {
        let line = "--log-level debug executor --uses=./x --name executor --port 5 --log json";
        let typed = line.split(' ').map(OsString::from);
        let told = others(typed).join(" ".as_ref());
        assert_eq!(told, "--name executor --port 5 --log json");
    }
}
