//! The trait that an author implements.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use flow_core::Models;
use flow_process::{Facts, KeepsState};

use crate::sdk::{Endpoints, Fork, LoadError, Monitor, ShortCalls};

/// The work of one executor: documents in, documents out.
///
/// The runtime loads the value on a worker's thread and uses it only there. With several workers, each has a value of
/// its own ([`fork`](Self::fork)). So it may contain what cannot be shared between threads, needs no locks, and may
/// block. A panic fails the call and not the process.
pub trait Executor: Sized + 'static {
    /// The options in the flow file, under `uses_with`. Derive `Deserialize` and deny unknown fields.
    type With: DeserializeOwned + Send;

    /// Checks what the types of the options cannot express, such as two that exclude each other.
    ///
    /// The runtime calls it before [`load`](Self::load), and `flow check` calls it for built-in executors, so it must not
    /// load anything.
    ///
    /// # Errors
    ///
    /// If the executor cannot be loaded with these options on any machine.
    fn check(with: &Self::With) -> Result<(), LoadError> {
        let _ = with;
        Ok(())
    }

    /// Loads what the methods need. The executor is ready after this returns.
    ///
    /// # Errors
    ///
    /// If the executor cannot work. The text is reported to the user who started the flow.
    fn load(with: Self::With, context: &LoadContext) -> Result<Self, LoadError>;

    /// The endpoints, each with its method.
    fn endpoints() -> Endpoints<Self>;

    /// An executor for another worker of the same process (`workers: N`), sharing what is large.
    ///
    /// `None` if it works on one thread only; more throughput needs replicas then. To support several workers, put weights
    /// and indexes behind an `Arc` and return `Some(Fork::of(self.clone()))`, or [`Fork::new`] with a closure that makes
    /// the rest on the other worker's thread.
    fn fork(&self) -> Option<Fork<Self>> {
        None
    }

    /// What it reports about itself when it is ready, such as `device` and `model`.
    fn facts(&self) -> Facts {
        Facts::new()
    }

    /// The models that it runs, by the endpoint that each computes. The gateway's HTTP APIs find an executor by the name
    /// of its model, and describe the model to clients.
    fn models(&self) -> Models {
        Models::new()
    }

    /// Where it keeps what requests change, such as an index.
    ///
    /// Return [`KeepsState::InWorkspace`] if it writes files there. A restart or a reload then ends the process before its
    /// successor starts, so that two processes never use the same files. `flow scale` refuses to change the number of
    /// replicas of an executor with state, because a new one would have none.
    fn keeps_state(&self) -> KeepsState {
        KeepsState::Nowhere
    }

    /// Where short calls run. By default, all calls run on the worker's thread.
    ///
    /// Waking the worker, and being woken by it, can take longer than a short call. With [`ShortCalls::where_read`], the thread
    /// that reads requests runs the call of a small request at once if the worker has nothing to do and the calls that wait will take 2 ms at most,
    /// judging by earlier ones of the same method and size. Nothing else is read or answered meanwhile, health checks included.
    /// So the methods must neither wait, for a network or a disk for example, nor use thread-local values or start a runtime of tokio.
    fn short_calls(&self) -> ShortCalls<Self> {
        ShortCalls::on_worker()
    }
}

/// What an executor can use while it loads. `Debug` shows no values of the environment, which may be secrets.
#[derive(Clone, Default)]
pub struct LoadContext {
    /// The name of its node.
    pub name: String,
    /// The folder for its data, which other executors of the flow may share.
    pub workspace: Option<PathBuf>,
    /// The number of its shard, from 0, if the node has shards.
    pub shard: Option<u16>,
    /// Values that override the executor's own description (`uses_metas`).
    pub metas: Map<String, Value>,
    /// The environment variables of the process at its start.
    pub environment: BTreeMap<String, String>,
    /// Registers metrics of its own.
    pub monitor: Monitor,
}

impl fmt::Debug for LoadContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadContext")
            .field("name", &self.name)
            .field("workspace", &self.workspace)
            .field("shard", &self.shard)
            .field("metas", &self.metas)
            .field("monitor", &self.monitor)
            .finish_non_exhaustive()
    }
}
