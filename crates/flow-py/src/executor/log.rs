//! The log of the process, for Python.

use pyo3::prelude::*;

/// Python's numbers of levels, and Jina's own between INFO and WARNING.
const ERROR: u8 = 40;
const WARNING: u8 = 30;
const INFO: u8 = 20;

/// Logs a message of an executor, with a level of Python's `logging`.
#[pyfunction]
#[pyo3(name = "log")]
pub(crate) fn log_message(py: Python<'_>, level: u8, message: &str) {
    py.detach(|| match level {
        ERROR.. => tracing::error!(target: "executor", "{message}"),
        WARNING.. => tracing::warn!(target: "executor", "{message}"),
        INFO.. => tracing::info!(target: "executor", "{message}"),
        _ => tracing::debug!(target: "executor", "{message}"),
    });
}
