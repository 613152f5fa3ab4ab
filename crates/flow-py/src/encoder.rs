//! The class `TextEncoder`: the sentence encoder of `flow-models`, for Python's `SentenceEncoder`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::thread;

use flow_core::Chain;
use flow_models::source::{self, LogProgress, SourceEnvironment};
use flow_models::{DeviceSpec, EncodeRequest, EncoderOptions, PoolingMode, Precision};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict};
use serde::Deserialize;
use serde_json::Value;

use crate::document::map_from_python;

/// A model that turns texts into vectors. Threads can share it.
#[pyclass(module = "flow_serve._native", frozen)]
#[derive(Debug)]
pub(crate) struct TextEncoder(flow_models::TextEncoder);

/// Options under the names that flow files have for them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    pooling: Option<PoolingMode>,
    max_length: Option<NonZeroUsize>,
    dimensions: Option<NonZeroUsize>,
    precision: Option<Precision>,
    threads: Option<NonZeroUsize>,
}

#[pymethods]
impl TextEncoder {
    /// Loads a model, and downloads it first if it is not on the disk.
    #[new]
    fn new(
        py: Python<'_>,
        model: &str,
        revision: Option<&str>,
        device: &str,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let device: DeviceSpec = device.parse().map_err(|error| invalid(&error))?;
        let options = Value::Object(map_from_python(options)?);
        let options: Options = serde_json::from_value(options).map_err(|error| invalid(&error))?;
        let options = EncoderOptions {
            device,
            pooling: options.pooling,
            max_length: options.max_length,
            dimensions: options.dimensions,
            precision: options.precision,
            threads: options.threads,
            ..EncoderOptions::default()
        };
        py.detach(|| load(model, revision, &options))
            .map(Self)
            .map_err(PyRuntimeError::new_err)
    }

    /// The vectors of texts: an array of NumPy with a row for each. The options are the most texts of a batch, where 0 leaves it to
    /// the device; whether vectors are normalized; and the text put before each, if it is not the model's default one.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "Python's strings are copied, so that its lock can be free"
    )]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
        options: (usize, Option<bool>, Option<String>),
    ) -> PyResult<Bound<'py, PyAny>> {
        let (batch_size, normalize, prompt) = options;
        let request = EncodeRequest {
            batch_size: NonZeroUsize::new(batch_size),
            normalize,
            prompt: prompt.as_deref(),
            ..EncodeRequest::default()
        };
        let vectors = py.detach(|| self.0.encode_with(&texts, request));
        let vectors =
            vectors.map_err(|error| PyRuntimeError::new_err(Chain(&error).to_string()))?;
        let bytes = vectors.rows().len() * vectors.width() * size_of::<f32>();
        let buffer = PyByteArray::new_with(py, bytes, |buffer| {
            let (places, _) = buffer.as_chunks_mut();
            for (row, places) in vectors.rows().zip(places.chunks_exact_mut(vectors.width())) {
                for (place, value) in places.iter_mut().zip(row) {
                    *place = value.to_le_bytes();
                }
            }
            Ok(())
        })?;
        let flat = py
            .import("numpy")?
            .call_method1("frombuffer", (buffer, "<f4"))?;
        flat.call_method1("reshape", (texts.len(), vectors.width()))
    }

    /// The device that computes.
    #[getter]
    fn device(&self) -> String {
        match self.0.gpu() {
            Some(_) => "cuda".to_owned(),
            None => "cpu".to_owned(),
        }
    }

    /// The model's own prompts, by name.
    #[getter]
    fn prompts(&self) -> BTreeMap<String, String> {
        self.0.prompts().clone()
    }

    /// The name of the prompt that the model's authors use by default.
    #[getter]
    fn default_prompt_name(&self) -> Option<&str> {
        self.0.default_prompt_name()
    }

    /// Values of a vector.
    #[getter]
    fn width(&self) -> usize {
        self.0.width()
    }

    /// Tokens of a text that the model reads at most.
    #[getter]
    fn max_length(&self) -> usize {
        self.0.max_length()
    }
}

fn load(
    model: &str,
    revision: Option<&str>,
    options: &EncoderOptions,
) -> Result<flow_models::TextEncoder, String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the caller is a script, which has no other way to name the cache"
    )]
    let environment = SourceEnvironment::from_variables(|name| std::env::var(name).ok());
    let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let devices = options.device.open(cores);
    let devices = devices.map_err(|error| Chain(&error).to_string())?;
    let folder = source::pull(model, revision, &environment, &mut LogProgress::default());
    let folder = folder.map_err(|error| Chain(&error).to_string())?;
    let options = EncoderOptions {
        cache_folder: Some(environment.flow_cache),
        ..options.clone()
    };
    let loaded = flow_models::TextEncoder::load(&folder, &options, devices);
    loaded.map_err(|error| Chain(&error).to_string())
}

fn invalid(error: &dyn std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
