//! Spans of requests, and their export to a collector of OpenTelemetry.
//!
//! A [`Tracer`] makes [`Span`]s. A process that exports none has no tracer, and makes no span. A span that ends goes into a
//! bounded queue (`queue.rs`), from which a thread of its own exports it ([`Exporting`]): a collector that is slow or gone
//! never holds a request back. Spans for which the queue has no room are counted.
//!
//! ```text
//! settings.rs  what options and `OTEL_*` variables say            pure
//! tracer.rs    spans, and their contexts
//! queue.rs     the spans that wait for their export
//! export.rs    the thread that exports them
//! ```

#![warn(missing_docs)]

mod export;
mod queue;
mod settings;
mod tracer;

pub use export::{CannotExport, Exporting, register_dropped};
pub use settings::{BadTraceSettings, Collector, Protocol, Sampling, TraceSettings};
pub use tracer::{Kind, Span, Tracer};
