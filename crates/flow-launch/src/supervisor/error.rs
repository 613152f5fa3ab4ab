//! Errors of a flow that does not run.

use std::sync::Arc;

use flow_net::BindError;

use crate::process::error::ProcessStartError;
use crate::spec::process_spec::NodeDevicesError;

/// Why a flow does not run, or does not run any more.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The gateway's port cannot be bound.
    #[error("cannot listen on the gateway's address")]
    Port {
        /// The port.
        port: u16,
        /// Why.
        source: BindError,
    },
    /// The port for the gateway's metrics cannot be bound.
    #[error("cannot serve the gateway's metrics (`port_monitoring`)")]
    MetricsPort {
        /// The port.
        port: u16,
        /// Why.
        source: BindError,
    },
    /// Replicas cannot get the devices that the file says.
    #[error(transparent)]
    Devices(NodeDevicesError),
    /// The preparation has failed.
    #[error(transparent)]
    Preparation(Box<dyn std::error::Error + Send + Sync>),
    /// A process never became ready.
    #[error(transparent)]
    Start(Arc<ProcessStartError>),
    /// The flow was stopped before it served.
    #[error("the flow was stopped before it was ready")]
    Stopped,
    /// The supervisor's thread is gone.
    #[error("the supervisor of the flow has failed")]
    Supervisor,
}
