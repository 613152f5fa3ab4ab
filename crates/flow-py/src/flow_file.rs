//! Flow files, as Python reads them to change them.

use flow_core::Chain;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::document::{Numbers, value_to_python};

/// The content of a flow file: dictionaries, lists, texts, numbers and booleans.
#[pyfunction]
pub(crate) fn yaml_to_json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    let value = flow_spec::yaml_to_json(text);
    let value = value.map_err(|error| PyValueError::new_err(Chain(&error).to_string()))?;
    value_to_python(py, &value, Numbers::AsWritten)
}
