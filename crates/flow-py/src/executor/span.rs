//! Spans of an executor's own, for `self.tracer`.

use flow_executor::{Attribute, RecordedSpan, SpanParent};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};

/// A recorded span, within which others can begin on any thread.
#[pyclass(module = "flow_serve._native", frozen, name = "TracingContext")]
#[derive(Debug)]
pub(crate) struct PyTracingContext(SpanParent);

/// A span that an executor began. It ends with `end`, or with the object.
#[pyclass(module = "flow_serve._native", name = "NativeSpan")]
#[derive(Debug)]
pub(crate) struct PySpan(Option<RecordedSpan>);

/// The span of the call that this thread works on; `None` if there is no call, or if it is not recorded.
#[pyfunction]
pub(crate) fn tracing_context() -> Option<PyTracingContext> {
    SpanParent::current().map(PyTracingContext)
}

#[pymethods]
impl PyTracingContext {
    /// Begins a span, and the context for those within it; `None` if it is not recorded.
    fn begin(&self, name: String) -> Option<(PySpan, Self)> {
        let span = self.0.begin(name)?;
        let within = self.0.within(&span);
        Some((PySpan(Some(span)), Self(within)))
    }

    /// The id of the trace: 32 hexadecimal digits.
    #[getter]
    fn trace_id(&self) -> String {
        self.0.context().trace_id()
    }

    /// The id of the span: 16 hexadecimal digits.
    #[getter]
    fn span_id(&self) -> String {
        self.0.context().span_id()
    }

    /// The value of the header `traceparent` for requests that are made within the span.
    #[getter]
    fn traceparent(&self) -> String {
        self.0.context().to_string()
    }
}

#[pymethods]
impl PySpan {
    fn set(&mut self, key: String, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Some(span) = &mut self.0 {
            span.set(key, attribute(value)?);
        }
        Ok(())
    }

    fn add_event(
        &mut self,
        name: String,
        attributes: Vec<(String, Bound<'_, PyAny>)>,
    ) -> PyResult<()> {
        let Some(span) = &mut self.0 else {
            return Ok(());
        };
        let attributes = attributes.into_iter();
        let attributes = attributes.map(|(key, value)| Ok((key, attribute(&value)?)));
        span.add_event(name, attributes.collect::<PyResult<Vec<_>>>()?);
        Ok(())
    }

    fn rename(&mut self, name: String) {
        if let Some(span) = &mut self.0 {
            span.rename(name);
        }
    }

    fn fail(&mut self, cause: &str) {
        if let Some(span) = &mut self.0 {
            span.fail_because(cause);
        }
    }

    fn end(&mut self) {
        drop(self.0.take());
    }

    /// Whether it is recorded, and has not ended.
    fn is_recording(&self) -> bool {
        self.0.is_some()
    }
}

/// The value of an attribute. What has no value of its own in OpenTelemetry becomes a text.
fn attribute(value: &Bound<'_, PyAny>) -> PyResult<Attribute> {
    if value.is_instance_of::<PyBool>() {
        return Ok(Attribute::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Attribute::Text(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        let number = value.extract().map(Attribute::Integer);
        return number.or_else(|_| text(value).map(Attribute::Text));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Attribute::Float(value.extract()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        if let Ok(numbers) = value.extract() {
            return Ok(Attribute::Floats(numbers));
        }
        let texts = value.try_iter()?.map(|item| text(&item?));
        return Ok(Attribute::Texts(texts.collect::<PyResult<_>>()?));
    }
    text(value).map(Attribute::Text)
}

fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(value.str()?.to_string())
}
