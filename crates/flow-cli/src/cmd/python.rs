//! `flow python` and `flow migrate`: commands that run Python programs of the package `flow_serve`.

use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::Args;

use crate::exit::BadUsage;
use crate::folder::python::interpreter_with_package;
use crate::shell::Shell;

const RUN_EXAMPLES: &str = "\
EXAMPLES:
  flow python main.py
  flow python -m mypackage.main --my-option

In the script, `import jina` imports the classes of flow_serve under Jina's names; so does `import
docarray`, unless docarray is installed. The interpreter is $FLOW_PYTHON, or that of `.venv` beside the
script, of the active virtual environment, beside this program, or on PATH, if it has flow-serve.

Exit codes: those of the script; 2 no interpreter has flow-serve.";

const MIGRATE_EXAMPLES: &str = "\
EXAMPLES:
  flow migrate .
  flow migrate flow.yml executor.py

Exit codes: 0 nothing has to be changed, 1 something has to be changed, 2 bad usage.";

const MISSING: &str = "no interpreter has the package `flow_serve`; install it with `pip install flow-serve`, or \
     set FLOW_PYTHON to an interpreter that has it";

/// Variable with the path of this program, for flows that Python starts.
const PROGRAM: &str = "FLOW_BIN";

/// Options of `flow python`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Python {
    /// The script, or `-m` and a module, and its arguments
    #[arg(value_name = "SCRIPT", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    script: Vec<String>,
}

/// Options of `flow migrate`.
#[derive(Debug, Args)]
#[command(after_help = MIGRATE_EXAMPLES)]
pub(crate) struct Migrate {
    /// Files and folders of a project that uses Jina
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

/// Replaces this process by the script's. Returns only if that fails.
pub(crate) fn run(python: &Python, shell: &Shell) -> anyhow::Result<Infallible> {
    exec("_compat", &python.script, shell)
}

/// Replaces this process by that of the Python part of `flow migrate`. Returns only if that fails.
pub(crate) fn migrate(migrate: &Migrate, shell: &Shell) -> anyhow::Result<Infallible> {
    let paths = migrate.paths.iter().map(|it| it.display().to_string());
    exec("_migrate", &paths.collect::<Vec<_>>(), shell)
}

fn exec(module: &str, arguments: &[String], shell: &Shell) -> anyhow::Result<Infallible> {
    let script = arguments.first().map_or(Path::new(""), Path::new);
    let python = interpreter_with_package(script, |name| shell.variable(name));
    let python = python.with_context(|| BadUsage(MISSING.to_owned()))?;
    let mut command = Command::new(&python);
    command.arg("-c").arg(main_of(module)).args(arguments);
    if shell.variable(PROGRAM).is_none() {
        let own = std::env::current_exe().context("cannot find the program `flow` itself")?;
        command.env(PROGRAM, own);
    }
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run `{}`", python.display()))
}

/// A program that runs a module of the package. The current folder is no place to import from.
fn main_of(module: &str) -> String {
    format!(
        "import sys
sys.path[:] = [folder for folder in sys.path if folder]
from flow_serve.{module} import main
sys.exit(main(sys.argv[1:]))"
    )
}
