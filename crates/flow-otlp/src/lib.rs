//! The export of a process's spans, metrics and log records to a collector of OpenTelemetry, by OTLP.
//!
//! [`ExportSettings`] say what is exported, and where to; [`Exporting`] does it. What waits is bounded, and a thread of its
//! own sends it: a collector that is slow or gone never holds a request back. What could not be sent is counted.
//!
//! ```text
//! settings.rs   what options and `OTEL_*` variables say                pure
//! exporting.rs  the thread, and what ends with it
//! spans.rs      the spans that wait for their export, encoded
//! span_message.rs  encodes one of them                              pure
//! batches.rs    gathers log records, which come one by one
//! delivery.rs   sends one kind of telemetry, counts what is lost, and logs it
//! client.rs     one request over gRPC or HTTP
//! resource.rs   what is said of the process
//! values.rs     attributes and times, as messages have them          pure
//! metrics.rs    reads the metrics from time to time; metrics/message.rs converts them    pure
//! logs.rs       takes the log records, and converts them
//! ```
//!
//! The messages are those of the crate `opentelemetry-proto`. The connections are those of `flow-net`.

#![warn(missing_docs)]

mod batches;
mod client;
mod delivery;
mod exporting;
mod logs;
mod metrics;
mod resource;
mod settings;
mod span_message;
mod spans;
mod values;

pub use client::CannotSend;
pub use exporting::{CannotExport, Exporting};
pub use settings::{
    BadExportSetting, BatchSettings, Collector, ExportSettings, ExportTarget, Histograms,
    MetricSettings, OtlpProtocol, Place, RecordSettings, Requested, TraceSettings,
};
