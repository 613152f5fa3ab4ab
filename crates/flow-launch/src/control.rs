//! The control socket of a running flow: lists its processes, and changes or stops them.
//!
//! A caller writes one request and reads responses until the last one; each is a line of JSON (`protocol.rs`). The
//! permissions of the state directory, which only its owner may enter, decide who can be a caller.

mod log_level;
pub mod protocol;
mod session;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::change::source::PlanSource;
use crate::control::session::ControlSession;
use crate::supervisor::Supervisor;
use crate::supervisor::shutdown::Shutdown;

/// Callers at a time: people at terminals, and a script or two.
const CALLERS_MAX: usize = 32;

/// Wait after a failed accept: no file descriptors are left, and there may be some soon.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(100);

/// Serves the control socket of a flow.
pub(crate) struct ControlServer {
    /// `None` for a flow without a state directory.
    pub(crate) listener: Option<UnixListener>,
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) source: Option<PlanSource>,
    /// Requests the shutdown of the flow.
    pub(crate) shutdown: watch::Sender<Shutdown>,
    /// The sessions that are not finished yet.
    pub(crate) sessions: TaskTracker,
}

impl ControlServer {
    /// Accepts callers for as long as it is polled. Their sessions go on until the end of the flow: a change that has
    /// begun does not stop when its caller leaves.
    pub(crate) async fn serve(&self) -> Infallible {
        let Some(listener) = &self.listener else {
            return std::future::pending().await;
        };
        let session = ControlSession {
            supervisor: self.supervisor.clone(),
            source: self.source.clone(),
            shutdown: self.shutdown.clone(),
        };
        loop {
            match listener.accept().await {
                // Too many: the connection is closed, and the caller may try again.
                Ok(_) if self.sessions.len() >= CALLERS_MAX => {}
                Ok((caller, _)) => drop(self.sessions.spawn(session.clone().run(caller))),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to the control socket");
                    tokio::time::sleep(ACCEPT_RETRY_AFTER).await;
                }
            }
        }
    }
}
