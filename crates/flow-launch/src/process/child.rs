//! A child from its start to its exit, whatever its backend.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::logs::relay::OutputRelay;
use crate::process::backend::{ChildControl, ChildStdin, ProcessBackend, StartRequest};
use crate::process::error::ProcessStartError;
use crate::process::exit_status::{ExitCause, ProcessExit};
use crate::process::output::{ChildOutput, ChildReports};
use crate::process::ready::ReadyReport;

/// Time that a child's output is read after its exit: processes that it started may keep its pipes open.
const LAST_LINES_WITHIN: Duration = Duration::from_millis(500);

/// Time for a step of an exit that a Docker engine may delay, such as a signal or the removal of a container.
const ENGINE_STEP_MAX: Duration = Duration::from_secs(10);

/// A child that was started.
pub(crate) struct Child {
    name: Arc<str>,
    control: Box<dyn ChildControl>,
    stdin: Option<ChildStdin>,
    reports: ChildReports,
    relay: OutputRelay,
    readers: JoinSet<()>,
}

impl Child {
    /// Starts a child.
    pub(crate) async fn start(
        request: StartRequest<'_>,
        backend: &dyn ProcessBackend,
    ) -> Result<Self, ProcessStartError> {
        let (output, reports) = ChildOutput::new(request.relay.clone(), request.log_filter.clone());
        let started = backend.start(&request, output).await?;
        Ok(Self {
            name: request.name.clone(),
            control: started.control,
            stdin: started.stdin,
            reports,
            relay: request.relay,
            readers: started.readers,
        })
    }

    /// Its process id; 0 when it has exited.
    pub(crate) fn pid(&self) -> u32 {
        self.control.pid()
    }

    /// Its standard input, for the first caller.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// The number of the newest placement that all its requests follow; 0 for none yet.
    pub(crate) fn placed(&self) -> watch::Receiver<u64> {
        self.reports.placed.clone()
    }

    /// Waits for an exit before the child was ready.
    pub(crate) async fn exited_early(&mut self) -> ProcessStartError {
        let exit = self.exited().await;
        self.exit_error(exit)
    }

    /// Waits until the child is ready.
    pub(crate) async fn ready(
        &mut self,
        limit: Option<Duration>,
    ) -> Result<ReadyReport, ProcessStartError> {
        let limit = limit.unwrap_or(Duration::MAX);
        match timeout(limit, self.ready_or_exited()).await {
            Ok(outcome) => outcome.map(|ready| self.control.published(ready)),
            Err(_elapsed) => Err(ProcessStartError::TooLate {
                last_lines: self.kill().await.last_lines,
                name: self.name.clone(),
                limit,
            }),
        }
    }

    async fn ready_or_exited(&mut self) -> Result<ReadyReport, ProcessStartError> {
        let outcome = tokio::select! {
            Ok(outcome) = &mut self.reports.ready => outcome,
            cause = self.control.exited() => return self.ready_before_exit(cause).await,
        };
        match outcome {
            Ok(ready) => Ok(ready),
            Err(source) => {
                self.kill().await;
                let (name, source) = (self.name.clone(), Box::new(source));
                Err(ProcessStartError::BadReadyLine { name, source })
            }
        }
    }

    /// A child that was ready for a moment may have exited before its ready line was read.
    async fn ready_before_exit(
        &mut self,
        cause: ExitCause,
    ) -> Result<ReadyReport, ProcessStartError> {
        let exit = self.after_exit(cause).await;
        match self.reports.ready.try_recv() {
            Ok(Ok(ready)) => Ok(ready),
            _ => Err(self.exit_error(exit)),
        }
    }

    fn exit_error(&self, exit: ProcessExit) -> ProcessStartError {
        ProcessStartError::Exited {
            name: self.name.clone(),
            exit,
        }
    }

    /// Waits for the child's exit.
    pub(crate) async fn exited(&mut self) -> ProcessExit {
        let cause = self.control.exited().await;
        self.after_exit(cause).await
    }

    /// Asks the child to exit, and kills it when the limit is over.
    pub(crate) async fn stop(&mut self, limit: Duration) -> ProcessExit {
        let exited = async {
            self.control.terminate().await;
            self.control.exited().await
        };
        match timeout(limit, exited).await {
            Ok(cause) => self.after_exit(cause).await,
            Err(_elapsed) => {
                tracing::warn!(name = %self.name, ?limit, "process did not exit in time and is killed");
                self.kill().await
            }
        }
    }

    /// Ends the child and all that it started.
    pub(crate) async fn kill(&mut self) -> ProcessExit {
        let exited = async {
            self.control.kill().await;
            self.control.exited().await
        };
        let cause = timeout(ENGINE_STEP_MAX, exited).await;
        self.after_exit(cause.unwrap_or(ExitCause::NotConfirmed))
            .await
    }

    /// Reads the last lines of a child that has exited, and removes what is left of it.
    async fn after_exit(&mut self, cause: ExitCause) -> ProcessExit {
        self.control.release();
        let read = async { while self.readers.join_next().await.is_some() {} };
        if timeout(LAST_LINES_WITHIN, read).await.is_err() {
            self.readers.abort_all();
        }
        if timeout(ENGINE_STEP_MAX, self.control.remove())
            .await
            .is_err()
        {
            tracing::warn!(name = %self.name, limit = ?ENGINE_STEP_MAX, "the Docker engine does not remove a container");
        }
        ProcessExit {
            cause,
            last_lines: self.relay.last_lines(),
        }
    }
}
