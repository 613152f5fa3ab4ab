//! The threads that connections run on, and how Python waits for them.

use std::sync::Mutex;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

/// Threads that read and write connections. One is enough to keep a gateway busy; the second reads while the first encodes.
const THREADS: usize = 2;

/// How long Ctrl-C waits while a call blocks.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// The runtime of this process, and which process that is: threads do not survive a fork, so a forked process needs
/// another one.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// The runtime, started at its first use.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    let process = std::process::id();
    let mut current = RUNTIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((of, runtime)) = *current
        && of == process
    {
        return Ok(runtime);
    }
    let started = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("flow-client")
        .enable_all()
        .build();
    let started = started.map_err(|error| {
        PyRuntimeError::new_err(format!("cannot start the threads of the client: {error}"))
    })?;
    // It lives as long as the process. That of a parent process cannot be stopped from here.
    let runtime: &'static Runtime = Box::leak(Box::new(started));
    *current = Some((process, runtime));
    Ok(runtime)
}

/// Waits for a future without the interpreter's lock. Ctrl-C ends the wait.
pub(crate) fn wait<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let runtime = runtime()?;
    let mut future = Box::pin(future);
    loop {
        let done = py.detach(|| {
            runtime.block_on(async { tokio::time::timeout(SIGNAL_INTERVAL, &mut future).await })
        });
        match done {
            Ok(output) => return Ok(output),
            Err(_elapsed) => py.check_signals()?,
        }
    }
}
