//! Serves an executor until a signal ends the process.

use std::num::NonZeroU16;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use flow_executor::{ExecutorArgs, Workers, run_definition};
use pyo3::prelude::*;

use super::arguments::ExecutorArguments;
use super::definition::definition;

/// Calls that run at a time if methods are coroutines, which mostly wait. Each has a thread that waits with it.
const CONCURRENT_CALLS: NonZeroU16 = NonZeroU16::new(64).expect("64 is not zero");

/// The time that an executor's `close` may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves an executor, and ends the process.
///
/// The process ends here and not in Python: a method that does not return would keep the interpreter from ending.
#[pyfunction]
#[pyo3(name = "serve")]
pub(crate) fn serve_executor(
    py: Python<'_>,
    arguments: &ExecutorArguments,
    executor: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let args = with_workers(arguments.for_runtime(), executor)?;
    let definition = definition(executor)?;
    let close = executor.getattr("close")?.unbind();
    py.detach(move || {
        let code = run_definition(definition, args);
        close_executor(close);
        flow_process::flush_log();
        exit(code)
    })
}

fn with_workers(mut args: ExecutorArgs, executor: &Bound<'_, PyAny>) -> PyResult<ExecutorArgs> {
    let waits: bool = executor.getattr("has_coroutines")?.extract()?;
    if waits && args.workers == Workers::default() {
        args.workers = Workers::Number(CONCURRENT_CALLS);
    }
    Ok(args)
}

/// Lets Python close what it opened, for a limited time: a call that holds the interpreter must not stop the end.
fn close_executor(close: Py<PyAny>) {
    let (closed, wait) = mpsc::sync_channel(1);
    thread::spawn(move || {
        Python::attach(|py| {
            if let Err(error) = close.bind(py).call0() {
                tracing::warn!(target: "executor", %error, "the executor could not be closed");
            }
            drop(close);
        });
        // After the time-out the caller is gone.
        closed.send(()).ok();
    });
    if wait.recv_timeout(CLOSE_TIMEOUT).is_err() {
        tracing::warn!("the executor was not closed within {CLOSE_TIMEOUT:?}");
    }
}

#[allow(clippy::exit, reason = "a program's end")]
fn exit(code: ExitCode) -> ! {
    // An `ExitCode` does not show its number.
    let number = (0..=u8::MAX).find(|number| ExitCode::from(*number) == code);
    std::process::exit(number.unwrap_or(1).into())
}
