//! Options of metrics and traces, for every process.

use super::unsupported::OFF;
use crate::diagnostics::Spanned;
use crate::forms;
use crate::keys::{Key, not_yet, options, row, without_effect};

const NO_METRICS: &str = "it means nothing without `metrics`";

options! {
    /// How a process serves its metrics.
    struct MonitoringOptions, MonitoringTable MONITORING {
        monitoring: bool = row(
            forms::FLAG,
            "The process counts requests, and serves the numbers to Prometheus at `/metrics`.",
        )
            .default("`false`")
            .example("true")
            .for_processes();
        port_monitoring: Vec<Spanned<u16>> = row(
            forms::PORTS_OR_ANY,
            "Port of `/metrics`: under `with`, the gateway's; for an executor, one for each \
             replica. `0` takes any free port.",
        )
            .default("any free port")
            .example("9090")
            .for_processes();
    }
}

options! {
    /// How a process exports spans.
    struct TracingOptions, TracingTable TRACING {
        tracing: bool = row(
            forms::FLAG,
            "The process exports spans of requests to a collector of OpenTelemetry. See [Observing a \
             flow](observing.md).",
        )
            .default("`false`")
            .example("true")
            .for_processes();
        traces_exporter_host: String = row(
            forms::TEXT,
            "Host of the collector.",
        )
            .default("as the variables `OTEL_*` say, or this machine")
            .example("collector")
            .for_processes();
        traces_exporter_port: u16 = row(
            forms::PORT,
            "Port of the collector.",
        )
            .default("as the variables `OTEL_*` say, or `4317`")
            .example("4317")
            .for_processes();
    }
}

pub(crate) const TELEMETRY_UNSUPPORTED: &[&Key] = &[
    &not_yet("metrics", OFF),
    &without_effect("metrics_exporter_host", NO_METRICS),
    &without_effect("metrics_exporter_port", NO_METRICS),
];
