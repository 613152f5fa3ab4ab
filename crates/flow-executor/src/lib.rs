//! What an executor is written with, and the runtime that serves it.
//!
//! An author writes two things: a typed config, and methods bound to endpoints ([`Executor`]). The rest is
//! here. A request walks through these files in this order:
//!
//! `grpc.rs` (bytes → call) → `admission.rs` (bounded lanes) → `queue.rs` → `batch.rs` (who shares a call;
//! pure) → `worker.rs` (threads that own the executor) → `calls.rs` → the author's method, and the same
//! stairs up.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use flow_executor::{CallError, DocumentArray, Endpoints, Executor, LoadContext, LoadError, Parameters};
//! use serde::Deserialize;
//!
//! /// Upper-cases every text.
//! struct Shout {
//!     suffix: String,
//! }
//!
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct With {
//!     #[serde(default)]
//!     suffix: String,
//! }
//!
//! impl Executor for Shout {
//!     type With = With;
//!
//!     fn load(with: With, _: &LoadContext) -> Result<Self, LoadError> {
//!         Ok(Self { suffix: with.suffix })
//!     }
//!
//!     fn endpoints() -> Endpoints<Self> {
//!         Endpoints::new().on("/shout", Self::shout).default(Self::shout)
//!     }
//! }
//!
//! impl Shout {
//!     fn shout(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
//!         for doc in docs {
//!             doc.set_text(doc.text().to_uppercase() + &self.suffix);
//!         }
//!         Ok(())
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     flow_executor::run::<Shout>()
//! }
//! ```

#![warn(missing_docs)]

mod accepts;
mod admission;
mod batch;
mod calls;
mod directory;
mod endpoints;
mod error;
mod executor;
mod exit;
mod grpc;
mod matrix;
mod meter;
mod monitor;
mod options;
mod parameters;
mod process;
mod queue;
mod reply;
mod rules;
mod run;
mod schema;
mod service;
pub mod testing;
mod trailer;
mod worker;
mod workers;

pub use flow_core::{
    AccessPaths, BadAccessPath, BadOption, Chain, DataType, Document, DocumentArray, Endpoint,
    Failure, Flavour, NodeName, Tensor,
};

pub use batch::{Batching, Fit, Metric};
pub use endpoints::{Emit, Endpoints, IntoResults};
pub use error::{CallError, LoadError};
pub use executor::{Executor, Facts, LoadContext};
pub use flow_metrics::{BadMetricName, Stopwatch};
pub use matrix::DocsMatrix;
pub use monitor::{Monitor, Timer};
pub use options::{BadOptions, check_options};
pub use parameters::{BadParameter, Parameters};
pub use process::{Addresses, Log, LogTo, announce, die_with, start_log};
pub use run::{ExecutorArgs, LOG_TO_VARIABLE, PORT_VARIABLE, run, run_with};
pub use service::{Monitoring, ServeError, Settings, serve};
pub use workers::{BadWorkers, Fork, Workers};

/// Compiles the examples of the book's page on executors.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/executors-rust.md")]
struct Book;
