//! Executors in Python, served by the runtime of `flow-executor`.
//!
//! The Python side (`python/flow_serve/_executor.py`) finds a class, and makes one function of each of its methods. This
//! side calls these functions on the runtime's worker threads. The interpreter's lock is taken for a call and for nothing
//! else: the runtime reads, decodes, queues and encodes without it.

mod arguments;
mod call;
mod definition;
mod log;
mod monitor;
mod serve;
mod span;

pub(crate) use arguments::{ExecutorArguments, parse_arguments, read_config};
pub(crate) use log::{flush_own_log, log_message, requests_of_call};
pub(crate) use monitor::{
    ExecutorMonitor, MetricCounter, MetricGauge, MetricHistogram, RunningTimer,
};
pub(crate) use serve::serve_executor;
pub(crate) use span::{PySpan, PyTracingContext, tracing_context};
