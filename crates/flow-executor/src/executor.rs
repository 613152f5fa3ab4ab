//! The trait an author implements.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Endpoints, Fork, LoadError, Monitor};

/// What an executor tells about itself for people to read, such as `device` and `model`.
pub type Facts = BTreeMap<String, String>;

/// The work of one executor: documents in, documents out.
///
/// The runtime builds the value on a worker's thread and uses it only there; with several workers, each has
/// a value of its own ([`fork`](Self::fork)). So it may hold what cannot be
/// shared (a device context, a tokenizer's buffers), needs no locks, and may block as long as the work
/// takes. A panic fails the call and not the process.
pub trait Executor: Sized + 'static {
    /// What stands under `uses_with:` in the flow file. Derive `Deserialize`, deny unknown fields.
    type With: DeserializeOwned + Send;

    /// Checks what the types of the options cannot express, such as two that exclude each other.
    ///
    /// It is called before [`load`](Self::load), and by `flow check` for executors that are built into flow, so it must
    /// not load anything.
    ///
    /// # Errors
    ///
    /// If the executor cannot be built with these options on any machine.
    fn check(with: &Self::With) -> Result<(), LoadError> {
        let _ = with;
        Ok(())
    }

    /// Loads what the methods need. The executor is ready after this returns.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from working; the text goes to whoever started the process.
    fn load(with: Self::With, context: &LoadContext) -> Result<Self, LoadError>;

    /// Which method answers which endpoint.
    fn endpoints() -> Endpoints<Self>;

    /// An executor for another worker of the same process (`workers: N`), sharing what is large.
    ///
    /// None: it works on one thread only, and more throughput needs replicas. To opt in, put weights and
    /// indexes behind an `Arc`, and give each worker what cannot be shared of its own:
    /// `Some(Fork::of(self.clone()))`, or [`Fork::new`] with a closure that builds the rest on the other
    /// worker's thread.
    fn fork(&self) -> Option<Fork<Self>> {
        None
    }

    /// What to say about it when it is ready.
    fn facts(&self) -> Facts {
        Facts::new()
    }
}

/// What an executor may know about its place while it loads.
#[derive(Debug, Clone, Default)]
pub struct LoadContext {
    /// The name of its node.
    pub name: String,
    /// A folder for what it keeps, which other executors of the flow may share.
    pub workspace: Option<PathBuf>,
    /// Which part of the node's state it keeps, where that is cut into several.
    pub shard: Option<u16>,
    /// What overrides the executor's own description (`uses_metas`).
    pub metas: Map<String, Value>,
    /// The process's environment, read once at its start.
    pub environment: BTreeMap<String, String>,
    /// Where it may show numbers of its own.
    pub monitor: Monitor,
}
