//! The output of a child: lines for the supervisor are parsed, all others are passed on.

use tokio::io::AsyncRead;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::logs::line_reader::LineReader;
use crate::logs::log_line::LogSource;
use crate::logs::relay::OutputRelay;
use crate::process::ready::{self, BadReady, ReadyReport};

/// Sends the outcome of a child's start.
pub(crate) type ReadySender = oneshot::Sender<Result<ReadyReport, BadReady>>;

/// Reads the output of one child.
#[derive(Debug)]
pub(crate) struct ChildOutput {
    relay: OutputRelay,
    parser: ReadyParser,
}

/// What the supervisor learns from a child's output.
#[derive(Debug)]
pub(crate) struct ChildReports {
    pub(crate) ready: oneshot::Receiver<Result<ReadyReport, BadReady>>,
    /// The number of the newest placement that all requests of a gateway follow; 0 for none yet.
    pub(crate) placed: watch::Receiver<u64>,
}

/// Finds the lines that are meant for the supervisor.
#[derive(Debug)]
struct ReadyParser {
    /// `None` once it was used, and where a health check replaces the ready line.
    ready: Option<ReadySender>,
    placed: watch::Sender<u64>,
    log_filter: watch::Sender<Option<String>>,
}

impl ChildOutput {
    /// `log_filter` gets the filter that the child logs by, if it says so.
    pub(crate) fn new(
        relay: OutputRelay,
        log_filter: watch::Sender<Option<String>>,
    ) -> (Self, ChildReports) {
        let (ready_sender, ready) = oneshot::channel();
        let (placed_sender, placed) = watch::channel(0);
        let parser = ReadyParser {
            ready: Some(ready_sender),
            placed: placed_sender,
            log_filter,
        };
        (Self { relay, parser }, ChildReports { ready, placed })
    }

    /// Starts to read both streams.
    pub(crate) fn read(
        self,
        stdout: impl AsyncRead + Unpin + Send + 'static,
        stderr: impl AsyncRead + Unpin + Send + 'static,
    ) -> JoinSet<()> {
        let mut readers = JoinSet::new();
        readers.spawn(self.parser.read_stdout(stdout, self.relay.clone()));
        readers.spawn(self.relay.relay_stderr(stderr));
        readers
    }

    /// The sender for a backend that finds out by a health check that the child is ready.
    pub(crate) fn take_ready_sender(&mut self) -> Option<ReadySender> {
        self.parser.ready.take()
    }
}

impl ReadyParser {
    async fn read_stdout(mut self, stdout: impl AsyncRead + Unpin, relay: OutputRelay) {
        let mut lines = LineReader::new(stdout);
        while let Some(line) = lines.next().await {
            if let Some(line) = self.parse(line) {
                relay.line(LogSource::Stdout, line);
            }
        }
    }

    /// Takes a line for the supervisor, and returns any other line.
    fn parse(&mut self, line: String) -> Option<String> {
        if let Some(number) = ready::placed(&line) {
            self.placed.send_replace(number);
            return None;
        }
        if let Some(filter) = ready::log_filter(&line) {
            self.log_filter.send_replace(Some(filter));
            return None;
        }
        match (ready::parse(&line), self.ready.take()) {
            (Some(outcome), Some(sender)) => {
                // Without a receiver, the child was stopped in the meantime.
                drop(sender.send(outcome));
                None
            }
            (_, sender) => {
                self.ready = sender;
                Some(line)
            }
        }
    }
}
