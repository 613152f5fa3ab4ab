//! The arguments of an executor's program.

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use flow_core::{DocumentLimits, Secret, Workers};
use flow_otlp::{Collector, Requested};
use flow_process::LogFormat;

use crate::server::Monitoring;

/// The variable with the port of an executor that gets none as an argument. An image sets it, so that the health check
/// inside finds the executor.
pub const PORT_VARIABLE: &str = "FLOW_LISTEN_PORT";

/// The name of standard input in `--uses-with @-`.
const STDIN: &str = "-";

/// Arguments of every executor's program.
#[derive(Debug, Clone, Args)]
pub struct ExecutorArgs {
    /// Name of the executor, for logs, errors and parameters such as `NAME__top_k`
    #[arg(long, default_value = "executor")]
    pub name: String,
    /// Address to listen on
    #[arg(long, env = "FLOW_LISTEN_HOST", default_value = "127.0.0.1")]
    pub host: String,
    /// Port to listen on; 0 picks a free one
    #[arg(long, env = PORT_VARIABLE, default_value_t = 0)]
    pub port: u16,
    /// Settings of the executor, as a JSON object, as KEY:VALUE, or as @FILE for a file with a JSON object, where
    /// @- is standard input; can be given several times, and adds to the variable FLOW_USES_WITH
    #[arg(long, value_name = "JSON|KEY:VALUE|@FILE")]
    pub uses_with: Vec<Secret>,
    /// Description fields that override the executor's own, as a JSON object or as KEY:VALUE
    #[arg(long, value_name = "JSON|KEY:VALUE")]
    pub uses_metas: Vec<String>,
    /// Methods to call for endpoints, where they differ from the executor's own, as a JSON object or as
    /// ENDPOINT:METHOD
    #[arg(long, value_name = "JSON|ENDPOINT:METHOD")]
    pub uses_requests: Vec<String>,
    /// Batch requests together, by endpoint or method, as JSON such as
    /// `{"/encode": {"preferred_batch_size": 32, "timeout": 5}}`; timeouts are in milliseconds
    #[arg(long, value_name = "JSON")]
    pub uses_dynamic_batching: Vec<String>,
    /// Number of threads that run the executor and share what it has loaded, or `auto` for one per core
    #[arg(long, value_name = "N|auto", default_value_t)]
    pub workers: Workers,
    /// Exit after a request has failed with one of these errors, named as in replies; `panic` stands for
    /// any panic
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub exit_on_exceptions: Vec<String>,
    /// Folder where the executor keeps its data
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Number of the shard that this process serves, from 0
    #[arg(long, value_name = "NUMBER")]
    pub shard: Option<u16>,
    /// Serve metrics for Prometheus at /metrics
    #[arg(long)]
    pub monitoring: bool,
    /// Port for the metrics; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port_monitoring: u16,
    /// Name of the process in metrics and traces [default: NAME/rep-0]
    #[arg(long, value_name = "NAME")]
    pub runtime_name: Option<String>,
    /// Export spans of requests to a collector of OpenTelemetry
    #[arg(long)]
    pub tracing: bool,
    /// Host of the collector [default: as the variables OTEL_* say, or this machine]
    #[arg(long, value_name = "HOST")]
    pub traces_exporter_host: Option<String>,
    /// Port of the collector [default: as the variables OTEL_* say, or 4317]
    #[arg(long, value_name = "PORT")]
    pub traces_exporter_port: Option<u16>,
    /// Export metrics to a collector of OpenTelemetry
    #[arg(long)]
    pub metrics: bool,
    /// Host of the collector of metrics [default: as the variables OTEL_* say, or this machine]
    #[arg(long, value_name = "HOST")]
    pub metrics_exporter_host: Option<String>,
    /// Port of the collector of metrics [default: as the variables OTEL_* say, or 4317]
    #[arg(long, value_name = "PORT")]
    pub metrics_exporter_port: Option<u16>,
    /// Time for requests in progress to finish when the executor stops, such as 10s or 1m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub grace: Duration,
    /// Memory for requests, in MiB [default: a quarter of what the process may use]
    #[arg(long, value_name = "MIB")]
    pub request_memory: Option<NonZeroUsize>,
    /// Maximum number of documents in a request, nested ones included
    #[arg(long, value_name = "N", default_value_t = DocumentLimits::default().documents_max)]
    pub documents_max: usize,
    /// Maximum number of levels of nested documents
    #[arg(long, value_name = "N", default_value_t = DocumentLimits::default().depth_max)]
    pub nesting_max: usize,
    /// Format of log lines: text or json
    #[arg(long, value_name = "FORMAT", value_parser = log_formats(), default_value = "text")]
    #[arg(hide_possible_values = true)]
    pub log: LogFormat,
    /// Process id of the launcher that started this process; end with it, and write the ready event in JSON
    #[arg(long, alias = "child-of", value_name = "PID", hide = true)]
    pub parent_pid: Option<u32>,
    /// Write the ready event in JSON for a launcher outside of this container
    #[arg(long, hide = true)]
    pub to_launcher: bool,
}

impl ExecutorArgs {
    /// Replaces each `@FILE` of `--uses-with` by the text of the file, and `@-` by what standard input contains.
    ///
    /// # Errors
    ///
    /// If a file cannot be read. The error names it.
    pub fn read_uses_with(&mut self) -> io::Result<()> {
        for value in &mut self.uses_with {
            if let Some(file) = value.reveal().strip_prefix('@') {
                *value = Secret::new(read(file)?);
            }
        }
        Ok(())
    }

    /// The values of `--uses-with`, for what reads them or passes them on.
    #[must_use]
    pub fn revealed_uses_with(&self) -> Vec<String> {
        let values = self.uses_with.iter();
        values.map(|value| value.reveal().clone()).collect()
    }

    /// Whether a launcher reads the standard output of this process.
    #[must_use]
    pub fn has_launcher(&self) -> bool {
        self.to_launcher || self.parent_pid.is_some()
    }

    pub(crate) fn monitoring(&self) -> Option<Monitoring> {
        self.monitoring.then(|| Monitoring {
            port: self.port_monitoring,
            runtime_name: self.runtime_name(),
        })
    }

    /// The name of the process in metrics and traces.
    pub(crate) fn runtime_name(&self) -> String {
        let given = self.runtime_name.clone();
        given.unwrap_or_else(|| format!("{}/rep-0", self.name))
    }

    /// What is exported, and where to.
    pub(crate) fn exported(&self) -> Requested {
        Requested {
            traces: self.tracing.then(|| Collector {
                host: self.traces_exporter_host.clone(),
                port: self.traces_exporter_port,
            }),
            metrics: self.metrics.then(|| Collector {
                host: self.metrics_exporter_host.clone(),
                port: self.metrics_exporter_port,
            }),
        }
    }
}

/// The JSON object in a file, or at standard input for `-`. An error does not quote it: it may contain secrets.
fn read(file: &str) -> io::Result<String> {
    let (of, text) = match file {
        STDIN => ("standard input", io::read_to_string(io::stdin())),
        file => (file, std::fs::read_to_string(file)),
    };
    let cannot =
        |error: &io::Error| io::Error::new(error.kind(), format!("cannot read `{of}`: {error}"));
    let text = text.map_err(|error| cannot(&error))?;
    match serde_json::from_str(&text) {
        Ok(serde_json::Value::Object(_)) => Ok(text),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("`{of}` does not contain a JSON object"),
        )),
    }
}

fn log_formats() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(LogFormat::NAMES).try_map(|name| name.parse::<LogFormat>())
}
