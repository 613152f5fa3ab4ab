//! What a child says on its standard output: lines that are meant for us are heard, all others passed on.

use tokio::io::AsyncRead;
use tokio::sync::{oneshot, watch};

use crate::log_line::LogSource;
use crate::ready::{self, BadReady, Ready};
use crate::relay::{Lines, Relay};

/// What is listened for.
#[derive(Debug)]
pub(crate) struct Ear {
    /// None where the child is asked instead.
    pub(crate) ready: Option<oneshot::Sender<Result<Ready, BadReady>>>,
    pub(crate) placed: watch::Sender<u64>,
}

impl Ear {
    /// Reads standard output: what is not meant for us is passed on.
    pub(crate) async fn listen(mut self, stdout: impl AsyncRead + Unpin, relay: Relay) {
        let mut lines = Lines::new(stdout);
        while let Some(line) = lines.next().await {
            if let Some(line) = self.hear(line) {
                relay.line(LogSource::Stdout, line).await;
            }
        }
    }

    /// Takes a line, or gives it back.
    fn hear(&mut self, line: String) -> Option<String> {
        if let Some(number) = ready::placed(&line) {
            self.placed.send_replace(number);
            return None;
        }
        match (ready::parse(&line), self.ready.take()) {
            (Some(said), Some(tell)) => {
                // Nobody waits any more when the child was stopped meanwhile.
                drop(tell.send(said));
                None
            }
            (_, waiting) => {
                self.ready = waiting;
                Some(line)
            }
        }
    }
}
