//! The module `flow_serve._native` of the Python package.
//! It wraps types of the other crates as Python classes. Code that needs no Rust is in `python/flow_serve/`. The
//! interpreter's lock is held only where Python objects are touched: not while bytes move, are decoded or encoded.

#![warn(missing_docs)]
#![allow(
    unsafe_code,
    reason = "what PyO3's macros write for classes and functions"
)]

mod client;
mod document;
mod encoder;
mod executor;
mod flow_file;
mod query;
mod runtime;

use pyo3::prelude::*;

#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::client::{CallError, Connection, DocumentStream, Exchange, Reply};
    #[pymodule_export]
    use crate::document::{NamedScore, PyDocument, PyDocumentArray};
    #[pymodule_export]
    use crate::encoder::TextEncoder;
    #[pymodule_export]
    use crate::executor::{
        ExecutorArguments, ExecutorMonitor, MetricCounter, MetricGauge, MetricHistogram, PySpan,
        PyTracingContext, RunningTimer, flush_own_log, log_message, parse_arguments, read_config,
        requests_of_call, serve_executor, tracing_context,
    };
    #[pymodule_export]
    use crate::flow_file::yaml_to_json;
    #[pymodule_export]
    use crate::query::matching;
}
