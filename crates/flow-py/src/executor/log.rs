//! The log of the process, for Python.

use flow_process::{current_requests, on_behalf_of};
use pyo3::prelude::*;

/// Python's numbers of levels, and Jina's own between INFO and WARNING.
const ERROR: u8 = 40;
const WARNING: u8 = 30;
const INFO: u8 = 20;

/// Logs a message of an executor, with a level of Python's `logging`. The line names the requests of the call that runs on
/// this thread, or else these.
#[pyfunction]
#[pyo3(name = "log", signature = (level, message, requests = None))]
pub(crate) fn log_message(py: Python<'_>, level: u8, message: &str, requests: Option<Vec<String>>) {
    py.detach(|| match requests {
        Some(requests) if current_requests().is_empty() => {
            let ids = requests.into_iter().map(Into::into);
            on_behalf_of(ids, || write(level, message));
        }
        _ => write(level, message),
    });
}

/// Waits until the last lines of the log are written.
#[pyfunction]
#[pyo3(name = "flush_log")]
pub(crate) fn flush_own_log(py: Python<'_>) {
    py.detach(flow_process::flush_log);
}

fn write(level: u8, message: &str) {
    match level {
        ERROR.. => tracing::error!(target: "executor", "{message}"),
        WARNING.. => tracing::warn!(target: "executor", "{message}"),
        INFO.. => tracing::info!(target: "executor", "{message}"),
        _ => tracing::debug!(target: "executor", "{message}"),
    }
}

/// The ids of the requests whose call runs on this thread.
#[pyfunction]
#[pyo3(name = "current_requests")]
pub(crate) fn requests_of_call() -> Vec<String> {
    let ids = current_requests();
    ids.iter().map(|id| id.to_string()).collect()
}
