//! Turns the Python description of an executor into the definition that the runtime serves.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use flow_executor::{
    BatchMetric, Batching, CallError, ClassSchema, Definition, Document, DocumentArray, Emit,
    Endpoints, Fit, Fork, LoadContext, LoadError, MethodSchema, Parameters,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value};

use super::call::Function;
use super::monitor::ExecutorMonitor;
use crate::document::{Numbers, PyDocument, map_from_python, map_to_python};

/// The executor as its workers have it. All of them share one Python object, which the functions hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct PythonExecutor;

/// The longest time that a document may wait for others, so that a number of Python fits.
const WAIT_MAX_MS: f64 = 1e12;

/// Makes the definition of `executor`, an object of `_definition.py`.
pub(super) fn definition(executor: &Bound<'_, PyAny>) -> PyResult<Definition<PythonExecutor>> {
    let describe = executor.getattr("describe")?;
    let mut endpoints = Endpoints::new();
    let mut weighs: Vec<(String, Py<PyAny>)> = Vec::new();
    for method in executor.getattr("methods")?.try_iter()? {
        let method = method?;
        let endpoint: String = method.getattr("endpoint")?.extract()?;
        let name: String = method.getattr("name")?.extract()?;
        let function = Function::new(method.getattr("call")?, describe.clone());
        let kind: String = method.getattr("kind")?.extract()?;
        endpoints = bind(endpoints, &endpoint, &kind, function)
            .named(&name)
            .described(schema(&method.getattr("schema")?)?);
        if let Some(batching) = batching(&method)? {
            endpoints = endpoints.batching(&endpoint, batching);
        }
        let weigh = method.getattr("custom_metric")?;
        if !weigh.is_none() {
            weighs.push((endpoint, weigh.unbind()));
        }
    }
    if !weighs.is_empty() {
        endpoints = endpoints.weigh_by_endpoint(move |_, endpoint, document| {
            let weigh = weighs.iter().find(|(of, _)| of == endpoint);
            weigh.map_or(1, |(_, weigh)| weight(weigh, document))
        });
    }
    let class: String = executor.getattr("class_name")?.extract()?;
    let load = executor.getattr("load")?.unbind();
    let definition = Definition::new(class, endpoints, move |with, context| {
        load_executor(&load, &with, context)
    });
    Ok(definition
        .raises_exceptions()
        .fork(|executor| Some(Fork::of(*executor))))
}

fn bind(
    endpoints: Endpoints<PythonExecutor>,
    endpoint: &str,
    kind: &str,
    function: Function,
) -> Endpoints<PythonExecutor> {
    let function = Arc::new(function);
    match kind {
        "matrix" => endpoints.on_matrix_with_results(endpoint, move |_, matrix, parameters| {
            function.with_matrix(matrix, parameters)
        }),
        "stream" => endpoints.on_stream(
            endpoint,
            move |_: &mut PythonExecutor,
                  document,
                  parameters: &Parameters,
                  emit: &mut Emit<'_>| {
                stream(&function, document, parameters, emit)
            },
        ),
        _ => endpoints.on(
            endpoint,
            move |_: &mut PythonExecutor,
                  documents: &mut DocumentArray,
                  parameters: &Parameters| {
                let taken = std::mem::take(documents);
                let (changed, results) = function.with_documents(taken, parameters)?;
                *documents = changed;
                Ok(Returned(results))
            },
        ),
    }
}

/// What the annotations of a method say, as `_schemas.py` reads them.
fn schema(described: &Bound<'_, PyAny>) -> PyResult<MethodSchema> {
    Ok(MethodSchema {
        input: class_schema(&described.getattr("input")?)?,
        output: class_schema(&described.getattr("output")?)?,
        parameters: class_schema(&described.getattr("parameters")?)?,
        is_for_one_document: described.getattr("is_for_one_document")?.extract()?,
    })
}

/// The name of a class and its JSON schema, if there is one.
fn class_schema(class: &Bound<'_, PyAny>) -> PyResult<Option<ClassSchema>> {
    let Some((name, schema)) = class.extract::<Option<(String, Bound<'_, PyDict>)>>()? else {
        return Ok(None);
    };
    let schema = map_from_python(&schema)?;
    Ok(Some(ClassSchema { name, schema }))
}

/// Results, if the method returned any.
struct Returned(Option<Map<String, Value>>);

impl flow_executor::IntoResults for Returned {
    fn into_results(self) -> Option<Map<String, Value>> {
        self.0
    }
}

fn stream(
    function: &Function,
    document: Document,
    parameters: &Parameters,
    emit: &mut Emit<'_>,
) -> Result<(), CallError> {
    function.stream(document, parameters, &mut |document| emit.send(document))
}

/// How requests share calls, if the method is decorated with `@dynamic_batching`.
fn batching(method: &Bound<'_, PyAny>) -> PyResult<Option<Batching>> {
    let options = method.getattr("batching")?;
    if options.is_none() {
        return Ok(None);
    }
    let options = options.cast_into::<PyDict>()?;
    let option = |name: &str| options.get_item(name);
    let size: usize = match option("preferred_batch_size")? {
        Some(size) if !size.is_none() => size.extract()?,
        _ => 4,
    };
    let timeout: f64 = match option("timeout")? {
        Some(timeout) if !timeout.is_none() => timeout.extract()?,
        _ => 10_000.0,
    };
    let flag = |name: &str| match option(name)? {
        Some(flag) => flag.is_truthy(),
        None => Ok(false),
    };
    Ok(Some(Batching {
        size: NonZeroUsize::new(size).unwrap_or(NonZeroUsize::MIN),
        wait_max: Duration::from_secs_f64(timeout.clamp(0.0, WAIT_MAX_MS) / 1000.0),
        metric: match flag("use_custom_metric")? {
            true => BatchMetric::Custom,
            false => BatchMetric::Documents,
        },
        fit: match flag("flush_all")? {
            true => Fit::All,
            false => Fit::Exact,
        },
    }))
}

/// The weight of a document; a document whose weight cannot be computed counts as one.
fn weight(weigh: &Py<PyAny>, document: &Document) -> usize {
    Python::attach(|py| {
        let weighed = Bound::new(py, PyDocument::from_rust(document.clone()))
            .and_then(|document| weigh.bind(py).call1((document,)))
            .and_then(|weight| weight.extract::<f64>());
        match weighed {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a float that is too large or negative becomes the nearest integer"
            )]
            Ok(weight) => weight as usize,
            Err(error) => {
                tracing::warn!(target: "executor", %error, "cannot compute the weight of a document");
                1
            }
        }
    })
}

/// Makes the Python object, on the first worker's thread.
fn load_executor(
    load: &Py<PyAny>,
    with: &Map<String, Value>,
    context: &LoadContext,
) -> Result<PythonExecutor, LoadError> {
    let monitor = ExecutorMonitor(context.monitor.clone());
    let loaded = Python::attach(|py| {
        let with = map_to_python(py, with, Numbers::AsWritten)?;
        load.bind(py).call1((with, monitor)).map(drop)
    });
    loaded.map_err(|error: PyErr| {
        let text = Python::attach(|py| match error.value(py).str() {
            Ok(text) => format!("{}: {text}", error.get_type(py)),
            Err(_) => error.to_string(),
        });
        LoadError::new(text)
    })?;
    Ok(PythonExecutor)
}
