//! Calls an executor's methods in a test, without sockets: loaded as in its process, on its own threads. [`SimulatedQueue`] is the
//! queue of an executor for simulations.

mod simulated_queue;

use std::path::PathBuf;
use std::sync::Arc;

use flow_core::{DocumentArray, Failure, Models, RequestId, Usage, Workers, to_struct};
use flow_process::{Facts, KeepsState};
use serde_json::{Map, Value};

use crate::definition::Definition;
use crate::endpoint_table::{BatchingOverride, EndpointOverrides, EndpointTable};
use crate::options;
use crate::queue::{Admission, CallOutput, CallRequest, PriorityClass, Timing};
use crate::sdk::{DocsMatrix, Executor, LoadContext, LoadError, Parameters};
use crate::server::check_parameters;
use crate::worker::{self, ExecutorReport, ExitPolicy, StartedWorkers, WorkerConfig};

pub use simulated_queue::SimulatedQueue;

/// The name of the executor under test.
const NAME: &str = "executor";

/// A loaded executor and the threads it runs on.
#[allow(
    missing_debug_implementations,
    reason = "an executor has nothing to show"
)]
pub struct Loaded {
    runtime: tokio::runtime::Runtime,
    admission: Admission,
    endpoints: EndpointTable,
    report: ExecutorReport,
}

/// The settings of the executor under test, as in a flow file.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// `uses_with`.
    pub with: Map<String, Value>,
    /// `uses_dynamic_batching`.
    pub batching: Map<String, Value>,
    /// `workers`.
    pub workers: Workers,
    /// `workspace`.
    pub workspace: Option<PathBuf>,
}

/// Loads `E` with options, as `uses_with` of a flow file has them.
///
/// # Errors
///
/// If the executor cannot be loaded with them.
///
/// # Panics
///
/// If `with` is not an object.
pub fn load<E: Executor>(with: &Value) -> Result<Loaded, LoadError> {
    let with = with.as_object().expect("`uses_with` is an object");
    load_as::<E>(Setup {
        with: with.clone(),
        ..Setup::default()
    })
}

/// Loads `E` with these settings.
///
/// # Errors
///
/// If the executor cannot be loaded with them.
pub fn load_as<E: Executor>(setup: Setup) -> Result<Loaded, LoadError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let bindings = E::endpoints();
    let overrides = EndpointOverrides {
        requests: None,
        batching: BatchingOverride::all(&setup.batching)?,
    };
    let endpoints = EndpointTable::new(&bindings, &overrides)?;
    let with = options::read::<E>(setup.with)?;
    let context = LoadContext {
        name: NAME.to_owned(),
        workspace: setup.workspace,
        environment: std::env::vars().collect(),
        ..LoadContext::default()
    };
    let config = WorkerConfig {
        name: NAME.to_owned(),
        endpoints: Arc::new(bindings),
        hooks: Definition::<E>::of().hooks,
        workers: setup.workers,
        request_memory_max: usize::MAX,
        exit: ExitPolicy::default(),
        metrics: None,
    };
    let StartedWorkers { admission, loaded } =
        worker::start(config, move || E::load(with, &context))?;
    let report = runtime.block_on(loaded);
    let report = report.unwrap_or_else(|_| Err(LoadError::new("its thread ended")))?;
    Ok(Loaded {
        runtime,
        admission,
        endpoints,
        report,
    })
}

impl Loaded {
    /// What the executor reports about itself.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.report.facts
    }

    /// Where the executor keeps what requests change.
    #[must_use]
    pub fn keeps_state(&self) -> KeepsState {
        self.report.keeps_state
    }

    /// The models that the executor reports, by endpoint.
    #[must_use]
    pub fn models(&self) -> &Models {
        &self.report.models
    }

    /// Sends one request to `endpoint`, and returns what a model did for it, if the executor counts that.
    ///
    /// # Errors
    ///
    /// If the call fails.
    pub fn usage(&self, endpoint: &str, docs: DocumentArray) -> Result<Option<Usage>, Failure> {
        let parts = DocsMatrix::new([("gateway".to_owned(), docs)]);
        let output = self.run(endpoint, parts, Map::new())?;
        Ok(output.usage)
    }

    /// Sends one request to `endpoint`, and returns the documents of its reply.
    ///
    /// # Errors
    ///
    /// If the call fails.
    pub fn call(&self, endpoint: &str, docs: DocumentArray) -> Result<DocumentArray, Failure> {
        self.call_with(endpoint, docs, Map::new())
    }

    /// Sends one request with parameters, as a client without a gateway does.
    ///
    /// # Errors
    ///
    /// If the call fails, or the method does not accept a parameter.
    pub fn call_with(
        &self,
        endpoint: &str,
        docs: DocumentArray,
        parameters: Map<String, Value>,
    ) -> Result<DocumentArray, Failure> {
        let parts = DocsMatrix::new([("gateway".to_owned(), docs)]);
        self.run(endpoint, parts, parameters)
            .map(|output| output.documents)
    }

    /// Sends one request, and returns the results that the client gets under `__results__`.
    ///
    /// # Errors
    ///
    /// If the call fails.
    pub fn results(
        &self,
        endpoint: &str,
        docs: DocumentArray,
        parameters: Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        let parts = DocsMatrix::new([("gateway".to_owned(), docs)]);
        let output = self.run(endpoint, parts, parameters)?;
        Ok(output.results.unwrap_or_default())
    }

    /// Sends one request that joins these parts.
    ///
    /// # Errors
    ///
    /// If the call fails.
    pub fn join(&self, endpoint: &str, parts: DocsMatrix) -> Result<DocumentArray, Failure> {
        self.run(endpoint, parts, Map::new())
            .map(|output| output.documents)
    }

    fn run(
        &self,
        endpoint: &str,
        matrix: DocsMatrix,
        parameters: Map<String, Value>,
    ) -> Result<CallOutput, Failure> {
        let parts = matrix.by_name();
        let parts = parts.map(|(name, docs)| (name.to_owned(), docs.len()));
        let parts = parts.collect();
        let documents = matrix.into_documents();
        let Some(bound) = self.endpoints.find(endpoint) else {
            return Ok(CallOutput {
                documents,
                results: None,
                usage: None,
            });
        };
        let of_method = self.endpoints.accepts(bound.method);
        check_parameters(&to_struct(&parameters), NAME, (of_method, endpoint))?;
        let request = CallRequest {
            id: RequestId::random().as_str().into(),
            trace: None,
            timing: Timing::default(),
            method: bound,
            parameters: Parameters::from(parameters),
            documents: documents.into_iter().collect(),
            parts,
        };
        self.runtime.block_on(async {
            let admitted = self.admission.admit(PriorityClass::Interactive, 0).await?;
            self.admission.call(admitted, request).await
        })
    }
}
