//! What a gateway is told while it runs: a placement, and another one each time that something moves.
//!
//! It reads one placement a line and counts them from 1; when no request follows one before number n any
//! more, it says so (`ready.rs`). Placements have versions of ours, which outlive a gateway that dies:
//! its next life begins with the newest one as its number 1.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::process::ChildStdin;
use tokio::sync::watch;

use crate::local::write_line;

/// A placement as the gateway reads it.
#[derive(Debug, Clone)]
pub(crate) struct Placing {
    /// Counted over the whole life of the flow, from 1.
    pub(crate) version: u64,
    /// One line of JSON.
    pub(crate) text: Arc<str>,
}

/// The way to the gateway's process, and back.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The newest placement; none: executors are not ready yet.
    placings: watch::Receiver<Option<Placing>>,
    /// Requests follow this version or a later one, all of them.
    settled: watch::Sender<u64>,
    line: Option<Line>,
}

/// The way to one process.
#[derive(Debug)]
struct Line {
    stdin: ChildStdin,
    placed: watch::Receiver<u64>,
    /// Versions in the order in which this process was told.
    told: Vec<u64>,
}

impl Feed {
    pub(crate) fn new(
        placings: watch::Receiver<Option<Placing>>,
        settled: watch::Sender<u64>,
    ) -> Self {
        Self {
            placings,
            settled,
            line: None,
        }
    }

    /// Tells a new process the newest placement, as soon as there is one.
    pub(crate) async fn begin(&mut self, stdin: Option<ChildStdin>, placed: watch::Receiver<u64>) {
        let Some(stdin) = stdin else { return };
        self.line = Some(Line {
            stdin,
            placed,
            told: Vec::new(),
        });
        self.tell().await;
    }

    /// The process serves: requests of the one before it, and what they followed, ended with it.
    pub(crate) fn is_ready(&self) {
        if let Some(&first) = self.line.as_ref().and_then(|line| line.told.first()) {
            self.settle(first);
        }
    }

    /// Tells the process of each new placement, and takes note of what it says.
    pub(crate) async fn go_on(&mut self) -> Infallible {
        loop {
            let Some(line) = &mut self.line else {
                return std::future::pending().await;
            };
            tokio::select! {
                Ok(()) = self.placings.changed() => self.tell().await,
                Ok(()) = line.placed.changed() => {
                    let number = *line.placed.borrow_and_update();
                    let place = usize::try_from(number).ok().and_then(|it| it.checked_sub(1));
                    let version = place.and_then(|it| line.told.get(it)).copied();
                    self.settle(version.unwrap_or(0));
                }
                // Nobody places anything any more, and the process has closed its output: it ends.
                else => return std::future::pending().await,
            }
        }
    }

    async fn tell(&mut self) {
        let is_there = |placing: &Option<Placing>| placing.is_some();
        if self.placings.wait_for(is_there).await.is_err() {
            // There is nobody left to place anything: the order to stop is on its way.
            return std::future::pending().await;
        }
        let newest = self.placings.borrow_and_update().clone();
        let (Some(placing), Some(line)) = (newest, &mut self.line) else {
            return;
        };
        line.told.push(placing.version);
        // If the process has ended meanwhile, its end says more than a broken pipe.
        drop(write_line(&mut line.stdin, &placing.text).await);
    }

    fn settle(&self, version: u64) {
        self.settled.send_if_modified(|settled| {
            let before = *settled;
            *settled = before.max(version);
            before < version
        });
    }
}
