//! Spans of requests.
//!
//! A [`Tracer`] makes [`Span`]s. A process that exports none has no tracer, and makes no span. A span that ends goes into a
//! bounded queue ([`EndedSpans`]), from which `flow-otlp` exports it: a collector that is slow or gone never holds a request
//! back. Spans for which the queue has no room are counted.
//!
//! ```text
//! tracer.rs     spans, and their contexts
//! attribute.rs  values of their attributes
//! sampling.rs   which requests are recorded
//! queue.rs      the spans that wait for their export
//! ```

#![warn(missing_docs)]

mod attribute;
mod queue;
mod sampling;
mod tracer;

pub use attribute::Attribute;
pub use opentelemetry::trace::SpanKind;
pub use queue::EndedSpans;
pub use sampling::Sampling;
pub use tracer::{ServerSpan, Span, Tracer};
