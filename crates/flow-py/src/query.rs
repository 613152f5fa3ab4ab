//! Filters over documents, as `DocumentArray.find` takes them.

use flow_core::query::Query;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::document::{PyDocumentArray, all_to_rust, map_from_python};

/// The positions of the documents that meet a filter, such as `{"tags__price": {"$lt": 10}}`.
#[pyfunction]
pub(crate) fn matching(
    py: Python<'_>,
    documents: &Bound<'_, PyDocumentArray>,
    filter: &Bound<'_, PyDict>,
) -> PyResult<Vec<usize>> {
    let filter = Value::Object(map_from_python(filter)?);
    let query = Query::parse(&filter).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let documents = all_to_rust(documents)?;
    Ok(py.detach(|| {
        let found = documents.iter().enumerate();
        let found = found.filter(|(_, document)| query.matches(document));
        found.map(|(position, _)| position).collect()
    }))
}
