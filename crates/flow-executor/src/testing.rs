//! Calls an executor's methods in a test, without sockets: loaded as in its process, on its own thread.

use std::collections::BTreeMap;

use flow_core::{DocumentArray, Failure};
use serde_json::{Map, Value};

use crate::directory::Directory;
use crate::worker::{self, Worker};
use crate::{Executor, Facts, LoadContext, LoadError, Parameters};

/// A loaded executor and the thread it runs on.
#[allow(
    missing_debug_implementations,
    reason = "an executor has nothing to show"
)]
pub struct Loaded {
    runtime: tokio::runtime::Runtime,
    worker: crate::admission::Admission,
    directory: Directory,
    facts: Facts,
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let bindings = E::endpoints().into_bindings();
    let directory = Directory::new(&bindings, &BTreeMap::new())?;
    let with: E::With = serde_json::from_value(with.clone())?;
    let context = LoadContext {
        name: "executor".to_owned(),
        environment: std::env::vars().collect(),
        ..LoadContext::default()
    };
    let started = runtime.block_on(async {
        let Worker { admission, loaded } =
            worker::start("executor", bindings, move || E::load(with, &context))?;
        let facts = loaded
            .await
            .unwrap_or_else(|_| Err(LoadError::new("its thread ended")))?;
        Ok::<_, LoadError>((admission, facts))
    });
    let (worker, facts) = started?;
    Ok(Loaded {
        runtime,
        worker,
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

    /// The same with parameters.
    ///
    /// # Errors
    ///
    /// What the executor failed with.
    pub fn call_with(
        &self,
        endpoint: &str,
        docs: DocumentArray,
        parameters: Map<String, Value>,
    ) -> Result<DocumentArray, Failure> {
        let Some((method, _)) = self.directory.find(endpoint) else {
            return Ok(docs);
        };
        let call = self.worker.call(method, Parameters::from(parameters), docs);
        self.runtime.block_on(call).map(|done| done.documents)
    }
}
