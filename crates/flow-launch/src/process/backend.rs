//! How children are started and controlled, whatever they are: processes of this machine, containers, or fakes in tests.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flow_process::ListenAddress;
use futures_util::future::BoxFuture;
use tokio::io::AsyncWrite;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::logs::relay::OutputRelay;
use crate::process::error::ProcessStartError;
use crate::process::exit_status::ExitCause;
use crate::process::output::ChildOutput;
use crate::process::ready::ReadyReport;
use crate::spec::invocation::Invocation;
use crate::spec::ports::Ports;

/// What is to be started.
#[derive(Debug)]
pub(crate) struct StartRequest<'s> {
    pub(crate) name: &'s Arc<str>,
    pub(crate) invocation: &'s Invocation,
    pub(crate) ports: Ports,
    /// The Unix socket at which a process of this machine listens, if its program knows how.
    pub(crate) listen_socket: Option<PathBuf>,
    pub(crate) relay: OutputRelay,
    /// The file in which a process of this machine finds its log filter.
    pub(crate) filter_file: Option<PathBuf>,
    /// The folder of a sandboxed process, for its socket and its temporary files.
    pub(crate) sandbox_folder: Option<PathBuf>,
    /// Where a process of this machine says how it does.
    pub(crate) status_socket: Option<PathBuf>,
    /// Gets the filter that the child logs by, if it says so.
    pub(crate) log_filter: watch::Sender<Option<String>>,
}

/// The standard input of a child.
pub(crate) type ChildStdin = Box<dyn AsyncWrite + Send + Unpin>;

/// What a backend has started.
pub(crate) struct StartedChild {
    pub(crate) control: Box<dyn ChildControl>,
    /// Kept apart from the process, which would close it when its exit is awaited.
    pub(crate) stdin: Option<ChildStdin>,
    /// The tasks that read its output.
    pub(crate) readers: JoinSet<()>,
}

/// Starts children and checks their health.
pub(crate) trait ProcessBackend: Debug + Send + Sync {
    /// Does what may take long before a child can start, and can be cancelled: pulls an image.
    fn prepare<'a>(
        &'a self,
        request: &'a StartRequest<'_>,
    ) -> BoxFuture<'a, Result<(), ProcessStartError>>;

    /// Starts a child, whose output goes to `output`.
    ///
    /// The kernel ends a process when the thread ends that started it, so this does not change the thread.
    fn start<'a>(
        &'a self,
        request: &'a StartRequest<'_>,
        output: ChildOutput,
    ) -> BoxFuture<'a, Result<StartedChild, ProcessStartError>>;

    /// The health check of the child that listens there, with TLS or without; `None` if the address cannot be checked.
    fn health_check(&self, address: &ListenAddress, has_tls: bool) -> Option<Box<dyn HealthCheck>>;
}

/// Checks the health of one child.
pub(crate) trait HealthCheck: Send + Sync {
    /// Whether the child answers within the limit, whatever its answer is.
    fn responds(&self, limit: Duration) -> BoxFuture<'_, bool>;
}

/// Controls a child that was started.
pub(crate) trait ChildControl: Send + Sync {
    /// Its process id; 0 when it has exited.
    fn pid(&self) -> u32;

    /// Corrects the addresses of its ready line, which a container cannot know.
    fn published(&self, ready: ReadyReport) -> ReadyReport {
        ready
    }

    /// Waits until it has exited. Can be cancelled and called again.
    fn exited(&mut self) -> BoxFuture<'_, ExitCause>;

    /// Asks it to finish what is in progress and exit.
    fn terminate(&self) -> BoxFuture<'_, ()>;

    /// Ends it at once, with everything that it started.
    fn kill(&self) -> BoxFuture<'_, ()>;

    /// Ends what it started and left behind, which may keep its port and its pipes. To be called after its exit.
    fn release(&mut self);

    /// Removes what it needed, such as its container. To be called after its output was read.
    fn remove(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
