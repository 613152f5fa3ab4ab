//! The class `DocumentStream`.

use std::sync::Arc;

use flow_client::Documents;
use flow_core::{Document, Failure};
use futures_util::StreamExt;
use pyo3::prelude::*;
use tokio::sync::Mutex;

use super::exchange::call_error;
use super::tasks::Tasks;
use crate::document::PyDocument;
use crate::runtime::wait;

/// The documents that an executor streams in answer to one document.
#[pyclass(module = "flow_serve._native", frozen)]
pub(crate) struct DocumentStream {
    documents: Arc<Mutex<Documents>>,
    tasks: Tasks,
}

#[pymethods]
impl DocumentStream {
    /// Waits for the next document; `None` at the end.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let next = wait(py, next(Arc::clone(&self.documents)))?;
        to_python(py, next)
    }

    /// Calls `notify(document, error)` on another thread when the next document is there.
    fn step_then(&self, notify: Py<PyAny>) -> PyResult<()> {
        let next = next(Arc::clone(&self.documents));
        self.tasks.spawn(notify, next, to_python)
    }
}

impl DocumentStream {
    pub(super) fn new(documents: Documents) -> Self {
        Self {
            documents: Arc::new(Mutex::new(documents)),
            tasks: Tasks::default(),
        }
    }
}

async fn next(documents: Arc<Mutex<Documents>>) -> Option<Result<Document, Failure>> {
    documents.lock().await.next().await
}

fn to_python(
    py: Python<'_>,
    document: Option<Result<Document, Failure>>,
) -> PyResult<Bound<'_, PyAny>> {
    match document {
        None => Ok(py.None().into_bound(py)),
        Some(Ok(document)) => Bound::new(py, PyDocument::from_rust(document)).map(Bound::into_any),
        Some(Err(failure)) => Err(call_error(&failure)),
    }
}
