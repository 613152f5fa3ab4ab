//! Metrics of a process, and the text in which Prometheus reads them.
//!
//! Code that counts owns its metrics ([`Counter`], [`Gauge`], [`DurationSummary`], [`SizeSummary`]), created once at
//! the start: counting is an addition to an atomic, without a look-up of labels. The [`Registry`] knows the metrics
//! by their names, and `flow_net`'s `MetricsServer` reads all of them at once.
//!
//! The names are Jina's, and most of them are summaries without quantiles. The crates `prometheus-client` and
//! `prometheus` have no summaries, and the crate `metrics` keeps samples for quantiles behind a lock. Therefore the
//! metrics are implemented here, and `text.rs` formats them.

#![warn(missing_docs)]

mod family;
mod metric;
mod registry;
mod text;

pub use family::{Description, Labels, Metric};
pub use metric::{Counter, DurationSummary, Gauge, SizeSummary, Stopwatch};
pub use registry::{BadMetricName, Registry};
