//! Errors of an executor that cannot serve.

use std::path::PathBuf;

use flow_net::{BindError, MetricsServerError};
use flow_otlp::CannotExport;

use crate::options::BadOptions;

/// Why an executor does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The Unix socket cannot be listened at.
    #[error("cannot listen at the Unix socket `{}`", .path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The port for metrics cannot be listened on.
    #[error(transparent)]
    Metrics(#[from] MetricsServerError),
    /// Spans cannot be exported.
    #[error(transparent)]
    Export(#[from] CannotExport),
    /// `uses_with` does not fit the executor.
    #[error("`uses_with` of executor `{name}` is invalid{options}")]
    With {
        /// The executor's name.
        name: String,
        /// The options that do not fit.
        options: BadOptions,
    },
    /// The flow file's endpoints, batching or exceptions do not fit the executor.
    #[error("the settings of executor `{name}` are invalid")]
    Settings {
        /// The executor's name.
        name: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The executor's own code failed to load.
    #[error("executor `{name}` could not load: {reason}")]
    Load {
        /// The executor's name.
        name: String,
        /// Its error with all causes.
        reason: String,
    },
    /// A thread could not be started.
    #[error("cannot start the executor's thread")]
    Thread(#[source] std::io::Error),
    /// A failure happened that `exit_on_exceptions` lists.
    #[error("executor `{name}` ends after `{exception}`, which `exit_on_exceptions` lists")]
    Exception {
        /// The executor's name.
        name: String,
        /// The name of the failure.
        exception: String,
    },
    /// The executor reported that it cannot continue.
    #[error("executor `{name}` cannot continue: {reason}")]
    Last {
        /// The executor's name.
        name: String,
        /// Its message.
        reason: String,
    },
}
