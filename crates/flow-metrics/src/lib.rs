//! Metrics of a process, and the formats in which Prometheus reads them.
//!
//! Code that counts owns its metrics ([`Counter`], [`Gauge`], [`DurationSummary`], [`DurationHistogram`], …), created once at
//! the start: counting is an addition to an atomic, without a look-up of labels. The [`Registry`] knows the metrics
//! by their names, and `flow_net`'s `MetricsServer` reads all of them at once. Other exporters read the values themselves
//! ([`Registry::values`]).
//!
//! Jina's names are summaries without quantiles. The crates `prometheus-client` and `prometheus` have no summaries and no
//! native histograms, and the crate `metrics` keeps samples for quantiles behind a lock. Therefore the metrics are
//! implemented here.
//!
//! ```text
//! metric.rs      counters, gauges, summaries
//! stopwatch.rs   durations that are being measured
//! histogram.rs   distributions; histogram/layout.rs has their buckets   pure
//! collect.rs     values that are looked up when they are read
//! process.rs     what the kernel reports about a process
//! family.rs      the metrics of one name
//! registry.rs    all of them
//! exposition.rs  which format a reader wants                            pure
//! text.rs, protobuf.rs  the formats                                     pure
//! ```

#![warn(missing_docs)]

mod collect;
mod exposition;
mod family;
mod histogram;
mod metric;
mod process;
mod protobuf;
mod registry;
mod stopwatch;
mod text;

pub use collect::Collected;
pub use exposition::ExpositionFormat;
pub use family::{
    Description, Labels, Metric, MetricKind, OwnedLabels, SharedMetric, Value, Values,
};
pub use histogram::{
    DurationHistogram, Exemplar, Observed, SCHEMA, SizeHistogram, TraceId, ValueHistogram,
};
pub use metric::{Counter, DurationSummary, FloatCounter, FloatGauge, Gauge, SizeSummary};
pub use process::process_cpu_seconds;
pub use registry::{BadMetricName, MEMBERS_MAX, Registry};
pub use stopwatch::Stopwatch;
