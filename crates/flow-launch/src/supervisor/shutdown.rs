//! The shutdown of processes: whether it was requested, and how.

use tokio::sync::watch;

/// The requested shutdown. Later values override earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shutdown {
    /// No shutdown was requested.
    None,
    /// Finish what is in progress, then exit.
    Drain,
    /// Exit at once.
    Kill,
}

/// The shutdown of one process: its own, or that of its group.
#[derive(Debug, Clone)]
pub(crate) struct ShutdownSignals {
    pub(crate) own: watch::Receiver<Shutdown>,
    pub(crate) group: watch::Receiver<Shutdown>,
}

impl ShutdownSignals {
    /// Waits until this shutdown or a stronger one is requested.
    pub(crate) async fn wait_for(&mut self, shutdown: Shutdown) {
        tokio::select! {
            () = wait_for(&mut self.own, shutdown) => {}
            () = wait_for(&mut self.group, shutdown) => {}
        }
    }
}

/// Waits until this shutdown or a stronger one is requested, or until nothing is left that could request it.
pub(crate) async fn wait_for(requested: &mut watch::Receiver<Shutdown>, shutdown: Shutdown) {
    drop(requested.wait_for(|it| *it >= shutdown).await.map(|_| ()));
}

/// Requests a shutdown, unless a stronger one is requested already.
pub(crate) fn request(requested: &watch::Sender<Shutdown>, shutdown: Shutdown) {
    requested.send_modify(|it| *it = shutdown.max(*it));
}
