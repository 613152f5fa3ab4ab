//! A process of the flow as everything but its task uses it.

use std::sync::Arc;

use flow_process::{KeepsState, ListenAddress};
use tokio::sync::watch;

use crate::event::ReadyProcess;
use crate::process::error::ProcessStartError;
use crate::spec::process_spec::ProcessSpec;
use crate::supervisor::shutdown::Shutdown;
use crate::supervisor::status::{ProcessState, ProcessStatus};

/// A process of the flow. Its task runs until the process has exited for good.
#[derive(Debug, Clone)]
pub(crate) struct ProcessHandle {
    pub(crate) spec: Arc<ProcessSpec>,
    pub(crate) shutdown: watch::Sender<Shutdown>,
    pub(crate) status: watch::Receiver<ProcessStatus>,
    /// The filter that it logs by; `None` if it does not say.
    pub(crate) log_filter: watch::Receiver<Option<String>>,
}

impl ProcessHandle {
    pub(crate) fn status(&self) -> ProcessStatus {
        self.status.borrow().clone()
    }

    /// Waits until it is ready for the first time.
    ///
    /// # Errors
    /// If it never became ready; `None` if it was stopped before.
    pub(crate) async fn ready(&self) -> Result<ReadyProcess, Option<Arc<ProcessStartError>>> {
        let mut status = self.status.clone();
        let is_decided = |status: &ProcessStatus| {
            status.process.is_some() || status.state == ProcessState::Failed
        };
        match status.wait_for(is_decided).await {
            Ok(status) => status.process.clone().ok_or(status.failure.clone()),
            Err(_ended) => Err(None),
        }
    }

    /// Whether its task still runs: the process lives, or will be restarted.
    pub(crate) fn is_supervised(&self) -> bool {
        let has_failed = self.status.borrow().state == ProcessState::Failed;
        !has_failed && self.status.has_changed().is_ok()
    }

    /// Where it listens, or did when it last was ready.
    pub(crate) fn address(&self) -> Option<ListenAddress> {
        let status = self.status.borrow();
        status.process.as_ref().map(ReadyProcess::reachable)
    }

    /// Where it keeps what requests change, if it was ready and says so.
    pub(crate) fn keeps_state(&self) -> Option<KeepsState> {
        let status = self.status.borrow();
        status.process.as_ref().and_then(|it| it.keeps_state)
    }

    /// Whether both are the same process.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.spec, &other.spec)
    }

    /// Lets it finish what is in progress, and waits until it has exited.
    pub(crate) async fn stop(&self) {
        self.shutdown.send_replace(Shutdown::Drain);
        let mut status = self.status.clone();
        while status.changed().await.is_ok() {}
    }
}
