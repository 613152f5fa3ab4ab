//! The arguments of the executor's process, and its `config.yml`.

use std::path::Path;

use clap::Parser;
use flow_core::Chain;
use flow_core::parameters::from_options;
use flow_executor::{ExecutorArgs, Workers, start_log};
use flow_spec::{PythonConfig, TextFile, Variables};
use pyo3::exceptions::{PyOSError, PySystemExit, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value};

use crate::document::{Numbers, map_to_python};

#[derive(Debug, Clone, Parser)]
#[command(
    name = "python -m flow_serve._run",
    about = "Serve one executor in Python over gRPC"
)]
struct Command {
    /// Executor to run: a Python file, FILE:CLASS, MODULE:CLASS, or a config.yml with `py_modules`
    #[arg(long, env = "FLOW_USES", value_name = "FILE|MODULE:CLASS|CONFIG")]
    uses: String,
    #[command(flatten)]
    args: ExecutorArgs,
}

/// The arguments of an executor's process.
#[pyclass(module = "flow_serve._native", frozen)]
#[derive(Debug, Clone)]
pub(crate) struct ExecutorArguments(Command);

#[pymethods]
impl ExecutorArguments {
    /// What to run.
    #[getter]
    fn uses(&self) -> &str {
        &self.0.uses
    }

    /// The name of the executor in its flow.
    #[getter]
    fn name(&self) -> &str {
        &self.0.args.name
    }

    /// The name of this process in metrics, such as `encoder/rep-0`.
    #[getter]
    fn runtime_name(&self) -> String {
        let name = self.0.args.runtime_name.clone();
        name.unwrap_or_else(|| format!("{}/rep-0", self.0.args.name))
    }

    #[getter]
    fn host(&self) -> &str {
        &self.0.args.host
    }

    #[getter]
    fn port(&self) -> u16 {
        self.0.args.port
    }

    #[getter]
    fn shard(&self) -> Option<u16> {
        self.0.args.shard
    }

    #[getter]
    fn monitoring(&self) -> bool {
        self.0.args.monitoring
    }

    #[getter]
    fn workspace(&self) -> Option<String> {
        let folder = self.0.args.workspace.as_deref();
        folder.map(|folder| folder.to_string_lossy().into_owned())
    }

    /// Whether several threads may run the executor's synchronous methods at a time.
    #[getter]
    fn allows_concurrent_calls(&self) -> bool {
        self.0.args.workers != Workers::default()
    }

    /// Whether a launcher reads the standard output of this process.
    #[getter]
    fn has_launcher(&self) -> bool {
        self.0.args.has_launcher()
    }

    fn uses_metas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        options(py, "--uses-metas", &self.0.args.uses_metas)
    }

    fn uses_requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        options(py, "--uses-requests", &self.0.args.uses_requests)
    }

    fn uses_dynamic_batching<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let given = &self.0.args.uses_dynamic_batching;
        options(py, "--uses-dynamic-batching", given)
    }
}

impl ExecutorArguments {
    /// The arguments for the runtime. What Python has read of them already is left out.
    pub(super) fn for_runtime(&self) -> ExecutorArgs {
        ExecutorArgs {
            uses_requests: Vec::new(),
            uses_dynamic_batching: Vec::new(),
            ..self.0.args.clone()
        }
    }
}

/// Reads the arguments of the process, and starts its log. Prints what is wrong with them and exits.
#[pyfunction]
pub(crate) fn parse_arguments(arguments: Vec<String>) -> PyResult<ExecutorArguments> {
    let name = "python -m flow_serve._run".to_owned();
    let command = Command::try_parse_from(std::iter::once(name).chain(arguments));
    let command = command.map_err(|error| {
        let code = error.exit_code();
        match error.print() {
            Ok(()) => PySystemExit::new_err(code),
            Err(error) => PyOSError::new_err(error.to_string()),
        }
    })?;
    start_log(&command.args).map_err(|_reported| PySystemExit::new_err(2))?;
    Ok(ExecutorArguments(command))
}

/// What the `config.yml` of an executor says.
#[pyfunction]
pub(crate) fn read_config<'py>(py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyDict>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| PyOSError::new_err(format!("cannot read `{path}`: {error}")))?;
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let variables = Variables {
        env: env.collect(),
        ..Variables::default()
    };
    let file = TextFile {
        path: Path::new(path),
        text: &text,
    };
    let config = PythonConfig::load(file, &variables)
        .map_err(|error| PyValueError::new_err(Chain(&error).to_string()))?;
    let dict = PyDict::new(py);
    dict.set_item("jtype", config.jtype)?;
    dict.set_item("py_modules", config.py_modules)?;
    dict.set_item("workspace", config.workspace)?;
    for (name, map) in [
        ("with", config.with.into_revealed()),
        ("metas", config.metas),
        ("requests", config.requests),
        ("dynamic_batching", config.batching),
    ] {
        dict.set_item(name, map_to_python(py, &map, Numbers::AsWritten)?)?;
    }
    Ok(dict)
}

fn options<'py>(py: Python<'py>, flag: &str, given: &[String]) -> PyResult<Bound<'py, PyDict>> {
    let map: Map<String, Value> = from_options(given)
        .map_err(|error| PyValueError::new_err(format!("`{flag}`: {}", Chain(&error))))?;
    map_to_python(py, &map, Numbers::AsWritten)
}
