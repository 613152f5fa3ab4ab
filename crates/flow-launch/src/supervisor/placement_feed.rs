//! Sends placements to the gateway: one when it starts, and another one after every change.
//!
//! The gateway reads one placement per line and counts them from 1. When no request follows a placement older than
//! number n, it reports n (`process/ready.rs`). The supervisor's versions outlive a gateway that exits: the next one gets
//! the newest version as its number 1.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use crate::process::backend::ChildStdin;

/// A placement as the gateway reads it.
#[derive(Debug, Clone)]
pub(crate) struct VersionedPlacement {
    /// Counted from 1 over the whole run of the flow.
    pub(crate) version: u64,
    /// One line of JSON.
    pub(crate) json: Arc<str>,
}

/// Sends placements to the gateway's process, and receives its reports.
pub(crate) struct PlacementFeed {
    /// The newest placement; `None` while executors are not ready.
    placements: watch::Receiver<Option<VersionedPlacement>>,
    /// All requests follow this version or a later one.
    settled: watch::Sender<u64>,
    connection: Option<GatewayConnection>,
}

/// The pipes to one process of the gateway.
struct GatewayConnection {
    stdin: ChildStdin,
    placed: watch::Receiver<u64>,
    /// Versions in the order in which this process got them.
    sent: Vec<u64>,
}

impl PlacementFeed {
    pub(crate) fn new(
        placements: watch::Receiver<Option<VersionedPlacement>>,
        settled: watch::Sender<u64>,
    ) -> Self {
        Self {
            placements,
            settled,
            connection: None,
        }
    }

    /// Connects to a new process, and sends it the newest placement as soon as there is one.
    pub(crate) async fn connect(
        &mut self,
        stdin: Option<ChildStdin>,
        placed: watch::Receiver<u64>,
    ) {
        let Some(stdin) = stdin else { return };
        self.connection = Some(GatewayConnection {
            stdin,
            placed,
            sent: Vec::new(),
        });
        self.send_newest().await;
    }

    /// Records that the process serves: the requests of its predecessor ended with it.
    pub(crate) fn on_ready(&self) {
        let connection = self.connection.as_ref();
        if let Some(&first) = connection.and_then(|it| it.sent.first()) {
            self.settle(first);
        }
    }

    /// Sends each new placement, and records the reports of the process.
    pub(crate) async fn run(&mut self) -> Infallible {
        loop {
            let Some(connection) = &mut self.connection else {
                return std::future::pending().await;
            };
            tokio::select! {
                Ok(()) = self.placements.changed() => self.send_newest().await,
                Ok(()) = connection.placed.changed() => {
                    let number = *connection.placed.borrow_and_update();
                    let index = usize::try_from(number).ok().and_then(|it| it.checked_sub(1));
                    let version = index.and_then(|it| connection.sent.get(it)).copied();
                    self.settle(version.unwrap_or(0));
                }
                // The supervisor is gone, and the process has closed its output: it exits.
                else => return std::future::pending().await,
            }
        }
    }

    async fn send_newest(&mut self) {
        let exists = |placement: &Option<VersionedPlacement>| placement.is_some();
        if self.placements.wait_for(exists).await.is_err() {
            // The supervisor is gone: the shutdown follows.
            return std::future::pending().await;
        }
        let newest = self.placements.borrow_and_update().clone();
        let (Some(placement), Some(connection)) = (newest, &mut self.connection) else {
            return;
        };
        connection.sent.push(placement.version);
        // If the process has exited, its exit says more than a broken pipe.
        drop(write_line(&mut connection.stdin, &placement.json).await);
    }

    fn settle(&self, version: u64) {
        self.settled.send_if_modified(|settled| {
            let before = *settled;
            *settled = before.max(version);
            before < version
        });
    }
}

async fn write_line(stdin: &mut ChildStdin, line: &str) -> io::Result<()> {
    stdin.write_all(line.as_bytes()).await?;
    stdin.write_all(b"\n").await?;
    stdin.flush().await
}
