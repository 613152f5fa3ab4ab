//! Iterates over an array, which may change meanwhile.

use pyo3::prelude::*;

use super::objects::{PyDocument, PyDocumentArray};

#[pyclass(module = "flow_serve")]
#[derive(Debug)]
pub(super) struct DocumentIterator {
    array: Py<PyDocumentArray>,
    next: usize,
}

#[pymethods]
impl DocumentIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDocument>>> {
        let document = PyDocumentArray::document(self.array.bind(py), self.next)?;
        self.next += 1;
        Ok(document)
    }
}

impl DocumentIterator {
    pub(super) fn new(array: &Bound<'_, PyDocumentArray>) -> Self {
        Self {
            array: array.clone().unbind(),
            next: 0,
        }
    }
}
