//! The class `Reply`.

use std::sync::{Mutex, PoisonError};

use flow_core::parameters::to_json;
use flow_core::{DocumentArray, document_array_message};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, StatusProto, status_proto::StatusCode};
use prost_types::Timestamp;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::document::{Numbers, PyDocumentArray, bad_document, map_to_python};

/// A reply. Its documents are taken once; later they are decoded again.
#[pyclass(module = "flow_serve._native", frozen)]
#[derive(Debug)]
pub(crate) struct Reply {
    envelope: Envelope,
    documents: Mutex<Option<DocumentArray>>,
}

/// Code and description of a status, and name, arguments, stacks and executor of its exception.
type Status = (i32, String, String, Vec<String>, Vec<String>, String);

/// Seconds and nanoseconds.
type Time = (i64, i32);

#[pymethods]
impl Reply {
    /// Whether the request failed.
    #[getter]
    fn is_error(&self) -> bool {
        Self::reports_failure(&self.envelope)
    }

    /// The id of the request.
    #[getter]
    fn request_id(&self) -> &str {
        let header = self.envelope.header.as_ref();
        header.map_or("", |header| header.request_id.as_str())
    }

    /// The id of the request, its endpoint, its target, and its status.
    fn header(&self) -> (String, String, String, Status) {
        let header = self.envelope.header.clone().unwrap_or_default();
        let HeaderProto {
            request_id,
            status,
            exec_endpoint,
            target_executor,
            ..
        } = header;
        (
            request_id,
            exec_endpoint.unwrap_or_default(),
            target_executor.unwrap_or_default(),
            parts(status),
        )
    }

    /// The name, the start, the end and the status of each route.
    fn routes(&self) -> Vec<(String, Time, Time, Status)> {
        let routes = self.envelope.routes.iter();
        let routes = routes.map(|route| {
            let times = [&route.start_time, &route.end_time].map(|time| time_of(time.as_ref()));
            let status = parts(route.status.clone());
            (route.executor.clone(), times[0], times[1], status)
        });
        routes.collect()
    }

    /// The parameters. All numbers are floats, as in Jina's clients.
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parameters = to_json(self.envelope.parameters.as_ref()).map_err(bad_document)?;
        map_to_python(py, &parameters, Numbers::Floats)
    }

    /// The documents.
    fn documents(&self, py: Python<'_>) -> PyResult<PyDocumentArray> {
        let documents = self.documents.lock();
        let documents = documents.unwrap_or_else(PoisonError::into_inner).take();
        let documents = match (documents, &self.envelope.data) {
            (Some(documents), _) => documents,
            (None, Some(data)) => {
                let decoded = py.detach(|| DocumentArray::decode(data));
                decoded.map_err(bad_document)?
            }
            (None, None) => DocumentArray::new(),
        };
        Ok(PyDocumentArray::from_rust(documents))
    }

    /// The documents as DocArray's message, a `DocumentArrayProto` or a `DocListProto`.
    fn encoded_documents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let data = self.envelope.data.clone().unwrap_or_default();
        let message = document_array_message(&data).map_err(bad_document)?;
        Ok(PyBytes::new(py, &message))
    }
}

impl Reply {
    pub(super) fn new(envelope: Envelope, documents: Option<DocumentArray>) -> Self {
        Self {
            envelope,
            documents: Mutex::new(documents),
        }
    }

    /// Whether a reply says that its request failed.
    pub(super) fn reports_failure(envelope: &Envelope) -> bool {
        let header = envelope.header.as_ref();
        let status = header.and_then(|header| header.status.as_ref());
        status.is_some_and(|status| status.code() == StatusCode::Error)
    }
}

fn parts(status: Option<StatusProto>) -> Status {
    let status = status.unwrap_or_default();
    let exception = status.exception.unwrap_or_default();
    (
        status.code,
        status.description,
        exception.name,
        exception.args,
        exception.stacks,
        exception.executor,
    )
}

fn time_of(time: Option<&Timestamp>) -> Time {
    time.map_or((0, 0), |time| (time.seconds, time.nanos))
}
