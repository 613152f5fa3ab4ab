//! Options of metrics and traces, for every process.

use crate::diagnostics::Spanned;
use crate::forms;
use crate::keys::{options, row};

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
    /// What a process exports to collectors of OpenTelemetry.
    struct TelemetryOptions, TelemetryTable TELEMETRY {
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
        metrics: bool = row(
            forms::FLAG,
            "The process exports its metrics to a collector of OpenTelemetry, whether it serves them to \
             Prometheus or not. See [Observing a flow](observing.md).",
        )
            .default("`false`")
            .example("true")
            .for_processes();
        metrics_exporter_host: String = row(
            forms::TEXT,
            "Host of the collector of metrics.",
        )
            .default("as the variables `OTEL_*` say, or this machine")
            .example("collector")
            .for_processes();
        metrics_exporter_port: u16 = row(
            forms::PORT,
            "Port of the collector of metrics.",
        )
            .default("as the variables `OTEL_*` say, or `4317`")
            .example("4317")
            .for_processes();
    }
}
