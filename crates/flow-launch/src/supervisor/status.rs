//! The status of a process, which its task keeps up to date.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::event::ReadyProcess;
use crate::process::error::ProcessStartError;

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessState {
    /// It was started, or will be, and is not ready yet.
    Starting,
    /// It serves.
    Ready,
    /// It exited, and waits for its restart.
    Waiting,
    /// It finishes what is in progress.
    Stopping,
    /// It never became ready.
    Failed,
}

/// The status of a process at one moment.
#[derive(Debug, Clone)]
pub(crate) struct ProcessStatus {
    pub(crate) state: ProcessState,
    /// The process as it was when it last became ready.
    pub(crate) process: Option<ReadyProcess>,
    /// When it last became ready.
    pub(crate) ready_since: Option<Instant>,
    /// How often it was restarted because it had exited.
    pub(crate) restarts: u32,
    /// Why it never became ready.
    pub(crate) failure: Option<Arc<ProcessStartError>>,
}

impl ProcessStatus {
    pub(crate) fn starting() -> Self {
        Self {
            state: ProcessState::Starting,
            process: None,
            ready_since: None,
            restarts: 0,
            failure: None,
        }
    }
}
