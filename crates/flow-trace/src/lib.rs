//! Spans of requests.
//!
//! A [`Tracer`] makes [`Span`]s. A process that exports none has no tracer, and makes no span. A span that ends goes to a
//! function; that of `flow-otlp` puts it into a bounded queue, from which it is exported: a collector that is slow or gone never
//! holds a request back.
//!
//! ```text
//! tracer.rs     spans, and their contexts
//! attribute.rs  values of their attributes
//! sampling.rs   which requests are recorded
//! ended.rs      the function that gets spans
//! ```

#![warn(missing_docs)]

mod attribute;
mod ended;
mod sampling;
mod tracer;

pub use attribute::Attribute;
pub use opentelemetry::trace::SpanKind;
pub use opentelemetry_sdk::trace::SpanData;
pub use sampling::Sampling;
pub use tracer::{SCOPE, ServerSpan, Span, Tracer};
