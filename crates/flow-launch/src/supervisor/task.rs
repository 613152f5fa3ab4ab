//! The task that keeps one process of a flow running, from its first start until its shutdown.
//!
//! ```text
//!             ┌──── wait (backoff.rs) ◄───┐
//!             ▼                           │ exited, was killed, hung, or was not ready in time
//! start ──► starting ──ready──► serving ──┘
//!             │
//!             └─► failed: it never became ready
//! ```
//!
//! A shutdown is obeyed in every state. Each task owns its process and nothing else, and publishes what happens in a
//! [`ProcessStatus`].

use std::convert::Infallible;
use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flow_core::Chain;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::event::{FlowEvent, ReadyProcess};
use crate::logs::relay::{LogSinks, OutputRelay};
use crate::process::backend::{ProcessBackend, StartRequest};
use crate::process::child::Child;
use crate::process::error::ProcessStartError;
use crate::process::exit_status::ProcessExit;
use crate::process::ready::ReadyReport;
use crate::spec::ports::Ports;
use crate::spec::process_spec::ProcessSpec;
use crate::state::listen_sockets::ListenSocket;
use crate::state::sandbox_folders;
use crate::supervisor::backoff::RestartBackoff;
use crate::supervisor::liveness::{self, LivenessProbe};
use crate::supervisor::placement_feed::PlacementFeed;
use crate::supervisor::shutdown::{Shutdown, ShutdownSignals};
use crate::supervisor::status::{ProcessState, ProcessStatus};

/// Time for a process that was never ready to exit: nothing is in progress in it.
const STARTING_GRACE: Duration = Duration::from_secs(1);

/// A process ends itself when its grace period is over; this is the time that it gets for that.
const GRACE_SLACK: Duration = Duration::from_secs(2);

/// Time for a start that a Docker engine delays to finish after a shutdown, so that no container is left behind.
const START_MAX: Duration = Duration::from_secs(10);

/// Keeps a process running.
pub(crate) struct ProcessTask {
    pub(crate) spec: ProcessSpec,
    /// Where the process listened in its last run, or is to listen in its first.
    pub(crate) ports: Ports,
    /// The socket at which it listens in each run. It is dropped before `status`, whose end says that nothing is left.
    pub(crate) listen_socket: Option<ListenSocket>,
    /// The folder of a sandboxed process, which is removed with it.
    pub(crate) sandbox_folder: Option<PathBuf>,
    pub(crate) shutdown: ShutdownSignals,
    pub(crate) status: watch::Sender<ProcessStatus>,
    pub(crate) sinks: LogSinks,
    pub(crate) liveness: LivenessProbe,
    /// The gateway's placements.
    pub(crate) feed: Option<PlacementFeed>,
    pub(crate) backend: Arc<dyn ProcessBackend>,
    /// The file in which the process finds its log filter.
    pub(crate) filter_file: Option<PathBuf>,
    /// Where the process says how it does.
    pub(crate) status_socket: Option<PathBuf>,
    /// The filter that the process logs by; `None` if it does not say.
    pub(crate) log_filter: watch::Sender<Option<String>>,
}

/// How one run of the process ended.
enum RunEnd {
    /// It was stopped.
    Stopped,
    /// It never became ready.
    NeverReady(ProcessStartError),
    /// It was ready for some time and then exited by itself.
    Exited {
        pid: u32,
        exit: ProcessExit,
        served: Duration,
    },
}

impl ProcessTask {
    /// Starts the process, and restarts it whenever it exits, until its shutdown.
    pub(crate) async fn run(mut self) {
        self.keep_running().await;
        if let Some(folder) = self.sandbox_folder.take() {
            sandbox_folders::remove(folder).await;
        }
    }

    async fn keep_running(&mut self) {
        let mut backoff = RestartBackoff::new(self.spec.restart_policy);
        let mut was_ready = false;
        loop {
            let end = self.run_once(&mut was_ready).await;
            let served = match end {
                RunEnd::Stopped => return,
                RunEnd::NeverReady(error) if !was_ready => return self.fail(error),
                RunEnd::NeverReady(_) => Duration::ZERO,
                RunEnd::Exited { served, .. } => served,
            };
            let wait = backoff.on_exit(served);
            self.log_exit(&end, wait);
            self.note(format!("{}, starting again in {wait:?}", cause_note(&end)));
            if self.wait_for_restart(wait).await.is_break() {
                return;
            }
        }
    }

    async fn run_once(&mut self, was_ready: &mut bool) -> RunEnd {
        let started = Instant::now();
        let restarts = self.status.borrow().restarts;
        self.note(match restarts {
            0 => "starting".to_owned(),
            number => format!("starting again (restart {number})"),
        });
        let mut child = match self.start_child().await {
            Some(Ok(child)) => child,
            Some(Err(error)) => return RunEnd::NeverReady(error),
            None => return RunEnd::Stopped,
        };
        let ready = match self.wait_until_ready(&mut child).await {
            Some(Ok(ready)) => ready,
            Some(Err(error)) => return RunEnd::NeverReady(error),
            None => return self.stop(child, STARTING_GRACE).await,
        };
        *was_ready = true;
        let process = self.publish_ready(&child, ready, started.elapsed());
        self.serve(child, &process).await
    }

    /// Starts the child; `None` if the shutdown came first.
    async fn start_child(&mut self) -> Option<Result<Child, ProcessStartError>> {
        let backend = self.backend.clone();
        // That of the process before it, which has exited.
        self.log_filter.send_replace(None);
        let request = StartRequest {
            name: &self.spec.name,
            invocation: &self.spec.invocation,
            ports: self.ports,
            listen_socket: self.listen_socket.as_ref().map(|it| it.0.clone()),
            relay: OutputRelay::new(self.spec.name.clone(), self.sinks.clone()),
            filter_file: self.filter_file.clone(),
            sandbox_folder: self.sandbox_folder.clone(),
            status_socket: self.status_socket.clone(),
            log_filter: self.log_filter.clone(),
        };
        let prepared = tokio::select! {
            prepared = backend.prepare(&request) => prepared,
            () = self.shutdown.wait_for(Shutdown::Drain) => return None,
        };
        if let Err(error) = prepared {
            return Some(Err(error));
        }
        let given_up = async {
            self.shutdown.wait_for(Shutdown::Drain).await;
            tokio::time::sleep(START_MAX).await;
        };
        tokio::select! {
            started = Child::start(request, &*backend) => Some(started),
            () = given_up => None,
        }
    }

    /// Waits until the child is ready; `None` if the shutdown came first.
    async fn wait_until_ready(
        &mut self,
        child: &mut Child,
    ) -> Option<Result<ReadyReport, ProcessStartError>> {
        let limit = self.spec.timeout_ready;
        let feed = &mut self.feed;
        let ready = async {
            if let Some(feed) = feed {
                tokio::select! {
                    () = feed.connect(child.take_stdin(), child.placed()) => {}
                    error = child.exited_early() => return Err(error),
                }
            }
            child.ready(limit).await
        };
        tokio::select! {
            outcome = ready => Some(outcome),
            () = self.shutdown.wait_for(Shutdown::Drain) => None,
        }
    }

    fn publish_ready(&mut self, child: &Child, ready: ReadyReport, took: Duration) -> ReadyProcess {
        // The next run gets the same ports, and the same socket anyway.
        self.ports = Ports {
            serving: ready.address.port().unwrap_or(0),
            metrics: ready.metrics.map(|it| it.port()).or(self.ports.metrics),
        };
        let process = ReadyProcess {
            name: self.spec.name.clone(),
            role: self.spec.role.clone(),
            pid: child.pid(),
            address: ready.address,
            more_addresses: ready.more_addresses,
            metrics: ready.metrics,
            facts: ready.facts,
            keeps_state: ready.keeps_state,
            took,
        };
        if let Some(feed) = &self.feed {
            feed.on_ready();
        }
        self.note(process.to_string());
        // The event comes before everything that follows from the status.
        self.sinks.send(FlowEvent::Ready(process.clone()));
        self.status.send_modify(|status| {
            status.state = ProcessState::Ready;
            status.ready_since = Some(Instant::now());
            status.process = Some(process.clone());
        });
        process
    }

    async fn serve(&mut self, mut child: Child, process: &ReadyProcess) -> RunEnd {
        let since = Instant::now();
        let address = process.reachable();
        let hangs = liveness::failed(self.liveness, (&address, self.spec.has_tls), &*self.backend);
        let pid = process.pid;
        let is_shutdown = tokio::select! {
            exit = child.exited() => {
                let served = since.elapsed();
                return RunEnd::Exited { pid, exit, served };
            }
            never = run_feed(&mut self.feed) => match never {},
            () = hangs => false,
            () = self.shutdown.wait_for(Shutdown::Drain) => true,
        };
        if is_shutdown {
            let limit = self.spec.grace + GRACE_SLACK;
            return self.stop(child, limit).await;
        }
        tracing::warn!(name = %process.name, pid, "process does not answer health checks and is killed");
        self.note(format!(
            "process {pid} does not answer health checks and is killed"
        ));
        let exit = child.kill().await;
        let served = since.elapsed();
        RunEnd::Exited { pid, exit, served }
    }

    async fn stop(&mut self, mut child: Child, limit: Duration) -> RunEnd {
        self.set_state(ProcessState::Stopping);
        let pid = child.pid();
        let stopped = tokio::select! {
            exit = child.stop(limit) => Some(exit),
            () = self.shutdown.wait_for(Shutdown::Kill) => None,
        };
        let exit = match stopped {
            Some(exit) => exit,
            None => child.kill().await,
        };
        tracing::debug!(name = %self.spec.name, cause = %exit.cause, "process has stopped");
        self.note(format!("process {pid} {}", exit.cause));
        RunEnd::Stopped
    }

    fn log_exit(&self, end: &RunEnd, wait: Duration) {
        let (cause, last_lines): (&dyn fmt::Display, &[String]) = match end {
            RunEnd::Stopped => return,
            RunEnd::NeverReady(error) => (error, &[]),
            RunEnd::Exited { exit, .. } => (&exit.cause, exit.quoted()),
        };
        let name = &self.spec.name;
        tracing::warn!(%name, %cause, ?last_lines, ?wait, "process died and is restarted");
    }

    /// Writes a note to the log file of the process.
    fn note(&self, text: String) {
        self.sinks.note(&self.spec.name, text);
    }

    async fn wait_for_restart(&mut self, wait: Duration) -> ControlFlow<()> {
        self.set_state(ProcessState::Waiting);
        tokio::select! {
            () = tokio::time::sleep(wait) => {
                self.status.send_modify(|status| {
                    status.state = ProcessState::Starting;
                    status.restarts += 1;
                });
                ControlFlow::Continue(())
            }
            () = self.shutdown.wait_for(Shutdown::Drain) => ControlFlow::Break(()),
        }
    }

    fn fail(&self, error: ProcessStartError) {
        self.note(never_ready_note(&error));
        self.status.send_modify(|status| {
            status.state = ProcessState::Failed;
            status.failure = Some(Arc::new(error));
        });
    }

    fn set_state(&self, state: ProcessState) {
        self.status.send_modify(|status| status.state = state);
    }
}

/// A note about the end of a run, in one line. The last lines are in the log file already.
fn cause_note(end: &RunEnd) -> String {
    match end {
        RunEnd::Stopped => "stopped".to_owned(),
        RunEnd::Exited { pid, exit, .. } => format!("process {pid} {}", exit.cause),
        RunEnd::NeverReady(error) => never_ready_note(error),
    }
}

fn never_ready_note(error: &ProcessStartError) -> String {
    match error {
        ProcessStartError::Exited { exit, .. } => format!("{} before it was ready", exit.cause),
        ProcessStartError::TooLate { limit, .. } => {
            format!("not ready within {limit:?} (`timeout_ready`) and killed")
        }
        error => Chain(error).to_string().replace('\n', "; "),
    }
}

async fn run_feed(feed: &mut Option<PlacementFeed>) -> Infallible {
    match feed {
        Some(feed) => feed.run().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
