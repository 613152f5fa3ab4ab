//! Calls an executor's methods in a test, without sockets: loaded as in its process, on its own threads.

use std::path::PathBuf;
use std::sync::Arc;

use flow_core::{DocumentArray, Failure, to_struct};
use serde_json::{Map, Value};

use crate::accepts;
use crate::admission::{Admission, Ask};
use crate::batch::Lane;
use crate::directory::{Directory, Overrides};
use crate::exit::ExitOn;
use crate::reply::Done;
use crate::rules::Written;
use crate::worker::{self, Plan, Worker};
use crate::{DocsMatrix, Executor, Facts, LoadContext, LoadError, Parameters, Workers};

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
    directory: Directory,
    facts: Facts,
}

/// What stands in a flow file for the executor under test.
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

/// Loads `E` with `with`, which stands for `uses_with` of a flow file.
///
/// # Errors
///
/// If the executor cannot be built with it.
///
/// # Panics
///
/// If `with` is no object.
pub fn load<E: Executor>(with: &Value) -> Result<Loaded, LoadError> {
    let with = with.as_object().expect("`uses_with` is an object");
    load_as::<E>(Setup {
        with: with.clone(),
        ..Setup::default()
    })
}

/// The same with more of what a flow file may say.
///
/// # Errors
///
/// If the executor cannot be built with it.
pub fn load_as<E: Executor>(setup: Setup) -> Result<Loaded, LoadError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let endpoints = E::endpoints();
    let overrides = Overrides {
        requests: None,
        batching: Written::all(&setup.batching)?,
    };
    let directory = Directory::new(&endpoints, &overrides)?;
    let with = crate::options::read::<E>(setup.with)?;
    let context = LoadContext {
        name: NAME.to_owned(),
        workspace: setup.workspace,
        environment: std::env::vars().collect(),
        ..LoadContext::default()
    };
    let plan = Plan {
        name: NAME.to_owned(),
        endpoints: Arc::new(endpoints),
        workers: setup.workers,
        exit: ExitOn::default(),
        meter: None,
    };
    let Worker { admission, loaded } = worker::start(plan, move || E::load(with, &context))?;
    let facts = runtime.block_on(loaded);
    let facts = facts.unwrap_or_else(|_| Err(LoadError::new("its thread ended")))?;
    Ok(Loaded {
        runtime,
        admission,
        directory,
        facts,
    })
}

impl Loaded {
    /// What the executor tells of itself.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// One request to `endpoint`; gives its documents back as the executor leaves them.
    ///
    /// # Errors
    ///
    /// What the executor failed with.
    pub fn call(&self, endpoint: &str, docs: DocumentArray) -> Result<DocumentArray, Failure> {
        self.call_with(endpoint, docs, Map::new())
    }

    /// The same with parameters, as a client sends them that calls the executor without a gateway.
    ///
    /// # Errors
    ///
    /// What the executor failed with, or a parameter that it does not accept.
    pub fn call_with(
        &self,
        endpoint: &str,
        docs: DocumentArray,
        parameters: Map<String, Value>,
    ) -> Result<DocumentArray, Failure> {
        let parts = DocsMatrix::new([("gateway".to_owned(), docs)]);
        self.run(endpoint, parts, parameters)
            .map(|done| done.documents)
    }

    /// One request; gives what the method returned for `__results__`.
    ///
    /// # Errors
    ///
    /// What the executor failed with.
    pub fn results(
        &self,
        endpoint: &str,
        docs: DocumentArray,
        parameters: Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        let parts = DocsMatrix::new([("gateway".to_owned(), docs)]);
        let done = self.run(endpoint, parts, parameters)?;
        Ok(done.results.unwrap_or_default())
    }

    /// One request that joins these parts.
    ///
    /// # Errors
    ///
    /// What the executor failed with.
    pub fn join(&self, endpoint: &str, parts: DocsMatrix) -> Result<DocumentArray, Failure> {
        self.run(endpoint, parts, Map::new())
            .map(|done| done.documents)
    }

    fn run(
        &self,
        endpoint: &str,
        matrix: DocsMatrix,
        parameters: Map<String, Value>,
    ) -> Result<Done, Failure> {
        let parts = matrix.by_name();
        let parts = parts.map(|(name, docs)| (name.to_owned(), docs.len()));
        let parts = parts.collect();
        let documents = matrix.into_documents();
        let Some(found) = self.directory.find(endpoint) else {
            return Ok(Done {
                documents,
                results: None,
            });
        };
        let of_method = self.directory.accepts(found.method);
        accepts::check(&to_struct(&parameters), NAME, (of_method, endpoint))?;
        let call = self.admission.call(Ask {
            found,
            lane: Lane::Interactive,
            parameters: Parameters::from(parameters),
            documents: documents.into_iter().collect(),
            parts,
        });
        self.runtime.block_on(call)
    }
}
