//! The interface for authors of executors.

mod batching;
mod cancellation;
mod docs_matrix;
mod endpoints;
mod error;
mod executor;
mod fork;
mod monitor;
mod parameters;
mod schema;
mod short_calls;
mod span;
mod tokens;

pub(crate) use batching::BatchRule;
pub use batching::{Batching, Fit};
pub use cancellation::Cancellation;
pub use docs_matrix::DocsMatrix;
pub(crate) use endpoints::{Binding, Method, WholeMethod};
pub use endpoints::{Emit, Endpoints, IntoResults};
pub use error::{CallError, LoadError};
pub use executor::{Executor, LoadContext};
pub use flow_core::batching::BatchMetric;
pub use fork::Fork;
pub use monitor::{Count, Durations, Monitor, Sizes, Timer};
pub use parameters::Parameters;
pub use schema::{ClassSchema, MethodSchema};
pub(crate) use short_calls::SharedExecutor;
pub use short_calls::ShortCalls;
pub(crate) use span::{EnteredSpan, PastStage, StageCollector, root_span};
pub use span::{Span, SpanParent, add_past_spans, span};
pub use tokens::{IntoTokens, Tokens};
