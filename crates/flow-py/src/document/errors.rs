//! Errors about documents, as Python raises them.

use flow_core::{BadDocument, Chain};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Says why bytes or values are no document.
#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(crate) fn bad_document(error: BadDocument) -> PyErr {
    PyValueError::new_err(Chain(&error).to_string())
}

pub(super) fn out_of_range(index: &impl std::fmt::Display, len: usize) -> PyErr {
    PyIndexError::new_err(format!("document {index} of an array with {len} documents"))
}

pub(super) fn not_a_document(value: &Bound<'_, PyAny>) -> PyErr {
    let class = value.get_type().name().map(|name| name.to_string());
    PyTypeError::new_err(format!(
        "expected a `Document`, got `{}`",
        class.unwrap_or_default()
    ))
}
