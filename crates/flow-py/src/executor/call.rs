//! One call of a Python function.

use flow_executor::{CallError, DocsMatrix, Document, DocumentArray, Exception, Parameters};
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Map, Value};

use crate::document::{
    Numbers, PyDocument, PyDocumentArray, all_to_rust, map_from_python, map_to_python, to_rust,
};

/// A function that the Python side made of a method.
#[derive(Debug)]
pub(super) struct Function {
    call: Py<PyAny>,
    /// Describes an exception: its `repr`, the name of its class, its arguments, and its traceback.
    describe: Py<PyAny>,
}

/// What a call returns: the documents, and results for the client.
pub(super) type Output = (DocumentArray, Option<Map<String, Value>>);

impl Function {
    pub(super) fn new(call: Bound<'_, PyAny>, describe: Bound<'_, PyAny>) -> Self {
        Self {
            call: call.unbind(),
            describe: describe.unbind(),
        }
    }

    /// Calls it with the documents of one request, or of several that share the call.
    pub(super) fn with_documents(
        &self,
        documents: DocumentArray,
        parameters: &Parameters,
    ) -> Result<Output, CallError> {
        Python::attach(|py| {
            let outcome = (|| {
                let documents = Bound::new(py, PyDocumentArray::from_rust(documents))?;
                let parameters = parameters_to_python(py, parameters)?;
                let returned = self.call.bind(py).call1((&documents, parameters))?;
                output(&returned, &documents)
            })();
            outcome.map_err(|error| self.failure(py, &error))
        })
    }

    /// Calls it with the parts of a join.
    pub(super) fn with_matrix(
        &self,
        matrix: DocsMatrix,
        parameters: &Parameters,
    ) -> Result<Output, CallError> {
        Python::attach(|py| {
            let outcome = (|| {
                let names: Vec<String> =
                    matrix.by_name().map(|(name, _)| name.to_owned()).collect();
                let parts = PyList::empty(py);
                let by_name = PyDict::new(py);
                for (name, part) in names.iter().zip(matrix.into_parts()) {
                    let part = Bound::new(py, PyDocumentArray::from_rust(part))?;
                    parts.append(&part)?;
                    by_name.set_item(name, part)?;
                }
                let documents = joined(&parts)?;
                let parameters = parameters_to_python(py, parameters)?;
                let arguments = (&documents, parameters, parts, by_name);
                let returned = self.call.bind(py).call1(arguments)?;
                output(&returned, &documents)
            })();
            outcome.map_err(|error| self.failure(py, &error))
        })
    }

    /// Calls it with one document, and sends the documents that it makes.
    pub(super) fn stream(
        &self,
        document: Document,
        parameters: &Parameters,
        send: &mut dyn FnMut(Document) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let documents = Python::attach(|py| {
            let outcome = (|| {
                let document = Bound::new(py, PyDocument::from_rust(document))?;
                let parameters = parameters_to_python(py, parameters)?;
                let made = self.call.bind(py).call1((document, parameters))?;
                Ok(made.try_iter()?.unbind())
            })();
            outcome.map_err(|error| self.failure(py, &error))
        })?;
        // The lock is not held while the caller is slow.
        loop {
            let next = Python::attach(|py| {
                let next = documents.bind(py).clone().next().transpose();
                let next = next.and_then(|next| next.map(|it| to_rust(it.cast()?)).transpose());
                next.map_err(|error| self.failure(py, &error))
            })?;
            match next {
                Some(document) => send(document)?,
                None => return Ok(()),
            }
        }
    }

    /// The exception as the caller sees it, with its traceback for the executor's log.
    fn failure(&self, py: Python<'_>, error: &PyErr) -> CallError {
        let described = self.describe.bind(py).call1((error.value(py),));
        let described = described.and_then(|it| it.extract::<MethodDescription>());
        let Ok((message, name, args, stacks)) = described else {
            return CallError::new(error.to_string());
        };
        let failure = CallError::raised(message, Exception { name, args }, stacks);
        // `sys.exit` ends the process, after this reply.
        let exits = error.is_instance_of::<PySystemExit>(py)
            || error.is_instance_of::<PyKeyboardInterrupt>(py);
        if exits { failure.and_end() } else { failure }
    }
}

type MethodDescription = (String, String, Vec<String>, Vec<String>);

fn parameters_to_python<'py>(
    py: Python<'py>,
    parameters: &Parameters,
) -> PyResult<Bound<'py, PyDict>> {
    map_to_python(py, parameters.as_map(), Numbers::Floats)
}

/// All documents of the parts; for one part, the part itself.
fn joined<'py>(parts: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyDocumentArray>> {
    if parts.len() == 1 {
        return Ok(parts.get_item(0)?.cast_into()?);
    }
    let all = Bound::new(parts.py(), PyDocumentArray::default())?;
    for part in parts.iter() {
        all.call_method1("extend", (part,))?;
    }
    Ok(all)
}

/// What a method returned: nothing, if it changed the documents in place; other documents; results, or both.
fn output(returned: &Bound<'_, PyAny>, documents: &Bound<'_, PyDocumentArray>) -> PyResult<Output> {
    if let Ok(others) = returned.cast::<PyDocumentArray>() {
        return Ok((all_to_rust(others)?.into_iter().collect(), None));
    }
    if let Ok((others, results)) = returned.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() {
        let others = all_to_rust(others.cast()?)?.into_iter().collect();
        return Ok((others, Some(map_from_python(results.cast()?)?)));
    }
    let documents = all_to_rust(documents)?.into_iter().collect();
    match returned.cast::<PyDict>() {
        Ok(results) => Ok((documents, Some(map_from_python(results)?))),
        Err(_) => Ok((documents, None)),
    }
}
