//! Chooses what runs a Python executor: our own runtime, where an interpreter has the package `flow_serve`, or else the
//! user's Jina.

mod environment;
mod interpreter;
pub(crate) mod jina;
mod requirements;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use self::interpreter::{PACKAGE, PYTHON, candidates, has_module};
use self::jina::Jina;
use super::builder::Builder;
use crate::shell::Shell;

/// Variable that decides between the runtimes: `flow` or `jina`.
const RUNTIME: &str = "FLOW_PYTHON_RUNTIME";

/// What runs a Python executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PythonRuntime {
    /// Our own runtime, in this interpreter.
    Flow(PathBuf),
    /// Jina's.
    Jina(Jina),
}

impl PythonRuntime {
    /// Finds the runtime for the executor in this file, or of this module.
    ///
    /// # Errors
    ///
    /// If no interpreter has one. The error says what to install.
    pub(crate) fn find(
        executor: &Path,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let wanted = variable(RUNTIME).filter(|it| !it.is_empty());
        match wanted.as_deref() {
            None => {
                let flow = Self::find_flow(executor, &variable);
                flow.map_or_else(|| Self::find_jina(executor, variable), Ok)
            }
            Some("flow") => Self::find_flow(executor, &variable).with_context(|| missing(executor)),
            Some("jina") => Jina::find(executor, variable).map(Self::Jina),
            Some(other) => bail!("{RUNTIME} must be `flow` or `jina`, is `{other}`"),
        }
    }

    fn find_flow(executor: &Path, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        interpreter_with_package(executor, variable).map(Self::Flow)
    }

    /// Jina, for executors with a config: it does not run a file.
    fn find_jina(
        executor: &Path,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        match super::is_config(executor) {
            true => Jina::find(executor, variable).map(Self::Jina),
            false => bail!(missing(executor)),
        }
    }
}

/// Installs the `requirements.txt` beside an executor in an environment of its own, and returns the variable, with its value,
/// that makes the environment's interpreter run the executor. `None` if there is no such file.
///
/// # Errors
///
/// If there is no interpreter, or a requirement cannot be installed.
pub(crate) fn install(
    executor: &Path,
    variable: impl Fn(&str) -> Option<String>,
    builder: &Builder,
    shell: &Shell,
) -> anyhow::Result<Option<(String, String)>> {
    let Some(file) = requirements::beside(executor) else {
        return Ok(None);
    };
    let wants_jina = variable(RUNTIME).is_some_and(|it| it == "jina");
    let base = match wants_jina {
        true => {
            let own = std::env::current_exe().ok();
            candidates(executor, variable, own).into_iter().next()
        }
        false => interpreter_with_package(executor, variable),
    };
    let base = base.with_context(|| missing(executor))?;
    let python = environment::prepare(&file, &base, builder, shell)?;
    Ok(Some((PYTHON.to_owned(), python.display().to_string())))
}

/// The folder of our package in an interpreter that has it.
///
/// # Errors
///
/// If the interpreter does not say where it is.
pub(crate) fn package_of(interpreter: &Path) -> anyhow::Result<PathBuf> {
    let base = environment::Base::of(interpreter)?;
    base.package
        .with_context(|| format!("`{}` has no package `{PACKAGE}`", interpreter.display()))
}

/// The first interpreter for a script or an executor that has our package.
pub(crate) fn interpreter_with_package(
    script: &Path,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let found = candidates(script, variable, own);
    let mut found = found.into_iter();
    found.find(|python| has_module(python, PACKAGE))
}

fn missing(executor: &Path) -> String {
    format!(
        "`{}` is a Python executor, and no interpreter has the package `{PACKAGE}` to run it; install it with \
         `pip install flow-serve`, or set FLOW_PYTHON to an interpreter that has it",
        executor.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(executor: &str, runtime: &str) -> String {
        let variable = |name: &str| match name {
            "FLOW_PYTHON" => Some("/no/python".to_owned()),
            RUNTIME => Some(runtime.to_owned()),
            _ => None,
        };
        PythonRuntime::find(Path::new(executor), variable)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn without_a_runtime_the_error_says_what_to_install() {
        let check = |executor: &str, runtime: &str, part: &str| {
            let error = error(executor, runtime);
            assert!(error.contains(part), "{error}");
        };
        check("executor.py", "", "`pip install flow-serve`");
        check("module:Mine", "", "`pip install flow-serve`");
        check("config.yml", "", "has no Jina to run it");
        check("config.yml", "flow", "`pip install flow-serve`");
        check("config.yml", "jina", "has no Jina to run it");
        check("config.yml", "ruby", "must be `flow` or `jina`, is `ruby`");
    }
}
