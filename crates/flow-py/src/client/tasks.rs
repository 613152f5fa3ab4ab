//! Work in the background whose result Python awaits.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use tokio::task::JoinSet;

use crate::runtime::runtime;

/// Tasks for which no thread waits. They end when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    /// Runs `work` and then calls `notify(result, error)` on another thread.
    pub(super) fn spawn<T: Send>(
        &self,
        notify: Py<PyAny>,
        work: impl Future<Output = T> + Send + 'static,
        to_python: impl for<'py> FnOnce(Python<'py>, T) -> PyResult<Bound<'py, PyAny>> + Send + 'static,
    ) -> PyResult<()> {
        let task = async move {
            let result = work.await;
            // There is no interpreter any more if it ends while a request is in progress.
            Python::try_attach(|py| {
                let arguments = match to_python(py, result) {
                    Ok(result) => (result, py.None().into_bound(py)),
                    Err(error) => (
                        py.None().into_bound(py),
                        error.into_value(py).into_bound(py).into_any(),
                    ),
                };
                if let Err(error) = notify.call1(py, arguments) {
                    error.write_unraisable(py, None);
                }
            });
        };
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, runtime()?.handle());
        Ok(())
    }

    /// Takes the tasks that have not ended.
    pub(super) fn take(&self) -> JoinSet<()> {
        std::mem::take(&mut *self.tasks())
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
