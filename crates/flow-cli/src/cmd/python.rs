//! `flow python` and `flow migrate`: Python programs that stand on the package `flow_serve`.

use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::Args;

use crate::shell::Shell;

const RUN_EXAMPLES: &str = "\
EXAMPLES:
  flow python main.py
  flow python -m mypackage.main --my-option

In the script, `import jina` imports the classes of flow_serve under Jina's names; so does `import
docarray`, unless docarray is installed. The interpreter is $FLOW_PYTHON, or that beside this program,
of the active virtual environment, or on PATH; it needs the package flow-serve.";

const MIGRATE_EXAMPLES: &str = "\
EXAMPLES:
  flow migrate .
  flow migrate flow.yml executor.py

Exit codes: 0 if everything works, 1 if something has to be changed.";

/// Variable with the path of an interpreter.
const PYTHON: &str = "FLOW_PYTHON";

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
    let own = std::env::current_exe().context("cannot find the program `flow` itself")?;
    let python = interpreter(&own, |name| shell.variable(name));
    let mut command = Command::new(&python);
    command.arg("-c").arg(main_of(module)).args(arguments);
    if shell.variable(PROGRAM).is_none() {
        command.env(PROGRAM, &own);
    }
    let error = command.exec();
    let python = python.display();
    Err(error).with_context(|| format!("cannot run `{python}`; name an interpreter in {PYTHON}"))
}

/// A program that runs a module of the package, or says that the package is missing.
fn main_of(module: &str) -> String {
    format!(
        "import sys
sys.path[:] = [folder for folder in sys.path if folder]
try:
    from flow_serve.{module} import main
except ModuleNotFoundError as error:
    if error.name != 'flow_serve': raise
    sys.exit('flow: ' + sys.executable + ' has no package flow_serve; install it with `pip install flow-serve`, '
             'or name an interpreter that has it in the environment variable {PYTHON}')
sys.exit(main(sys.argv[1:]))"
    )
}

/// The interpreter: that of the variable, that beside this program, that of the active environment, or that on `PATH`.
fn interpreter(own: &Path, variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    let set = |name: &str| variable(name).filter(|it| !it.is_empty());
    if let Some(python) = set(PYTHON) {
        return python.into();
    }
    let beside = own.with_file_name("python");
    let active = set("VIRTUAL_ENV").map(|folder| Path::new(&folder).join("bin/python"));
    let found = [Some(beside), active].into_iter().flatten();
    let mut found = found.filter(|it| it.is_file());
    found.next().unwrap_or_else(|| "python3".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_is_the_named_one_or_the_nearest() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        };
        let own = make("bin/flow");
        let found = |variables: &[(&str, &str)]| {
            let find = |name: &str| variables.iter().find(|it| it.0 == name);
            interpreter(&own, |name| find(name).map(|it| it.1.to_owned()))
        };
        assert_eq!(found(&[]), Path::new("python3"));
        let venv = folder.path().join("venv");
        let of_venv = make("venv/bin/python");
        let active = ("VIRTUAL_ENV", venv.to_str().unwrap());
        assert_eq!(found(&[active]), of_venv);
        let beside = make("bin/python");
        assert_eq!(found(&[active]), beside);
        assert_eq!(
            found(&[active, (PYTHON, "/a/python")]),
            Path::new("/a/python")
        );
        assert_eq!(found(&[(PYTHON, "")]), beside);
    }
}
