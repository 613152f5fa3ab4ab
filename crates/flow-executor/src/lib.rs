//! The SDK for executors, and the runtime that serves them.
//!
//! An author writes a typed configuration and methods bound to endpoints ([`Executor`]). The runtime does the rest. A
//! request passes these files:
//!
//! | File | Step |
//! |---|---|
//! | `server/grpc.rs` | decodes a request into a call, and encodes the reply |
//! | `queue/admission.rs` | waits until the queue has room |
//! | `queue/call_queue.rs` | holds calls until a worker takes them |
//! | `queue/batcher.rs` | decides which calls share a batch; pure |
//! | `worker/threads.rs` | threads that own the executor |
//! | `worker/runner.rs` | runs the author's method for a batch |
//!
//! What authors use is in `sdk/`. `endpoint_table.rs` finds the method of an endpoint, and `run.rs` is the program
//! around it all.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use flow_executor::{CallError, DocumentArray, Endpoints, Executor, LoadContext, LoadError, Parameters};
//! use serde::Deserialize;
//!
//! /// Converts every text to upper case.
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

mod definition;
mod endpoint_table;
mod metrics;
mod options;
mod queue;
mod run;
mod sdk;
mod server;
mod sync;
pub mod testing;
mod worker;

pub use flow_core::{
    AccessPaths, BadAccessPath, BadDocument, BadOption, BadWorkers, Chain, DataType,
    DocArrayVersion, Document, DocumentArray, Endpoint, Exception, Failure, ModelInfo, ModelKind,
    Models, NodeName, ShorterVectors, Tensor, Usage, Workers,
};
pub use flow_metrics::{
    BadMetricName, FloatCounter, FloatGauge, Labels, SharedMetric, Stopwatch, ValueHistogram,
};
pub use flow_process::{Facts, KeepsState};
pub use flow_trace::{Attribute, Span as RecordedSpan};

pub use definition::Definition;
pub use options::{BadOptions, check_options, endpoints};
pub use run::{
    ColocateError, ExecutorArgs, LOG_TO_VARIABLE, PORT_VARIABLE, run, run_colocated,
    run_definition, run_with, start_log,
};
pub use sdk::{
    BatchMetric, Batching, CallError, Cancellation, ClassSchema, Count, DocsMatrix, Durations,
    Emit, Endpoints, Executor, Fit, Fork, IntoResults, IntoTokens, LoadContext, LoadError,
    MethodSchema, Monitor, Parameters, ShortCalls, Sizes, Span, SpanParent, Timer, Tokens,
    add_past_spans, span,
};
pub use server::{
    Addresses, ColocatedExecutor, ExecutorStatus, Monitoring, ServeError, ServerSettings, serve,
};

/// Compiles the examples of the book's page on executors.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/executors-rust.md")]
struct Book;
