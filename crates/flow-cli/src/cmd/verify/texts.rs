//! Reads the documents to compare, on a thread of its own, because reading may block.

use std::num::NonZeroUsize;

use flow_core::{Document, Tensor};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

use crate::cmd::post::InputSource;
use crate::exit::BadUsage;

/// Requests that are read ahead.
const READ_AHEAD: usize = 2;

/// A document of the input.
#[derive(Debug)]
pub(super) struct Text {
    /// The number of its line or text; the first is 1.
    pub(super) entry: u64,
    /// The document without an embedding.
    pub(super) document: Document,
    /// The embedding that it had.
    pub(super) embedding: Option<Tensor>,
}

/// Reads the documents of a request at a time. The thread's error is the first line that is not a document.
pub(super) fn read(
    source: InputSource,
    request_size: NonZeroUsize,
) -> (Receiver<Vec<Text>>, JoinHandle<anyhow::Result<()>>) {
    let (out, texts) = mpsc::channel(READ_AHEAD);
    let reading = tokio::task::spawn_blocking(move || read_all(source, request_size, &out));
    (texts, reading)
}

/// Ends early if the receiver is gone.
fn read_all(
    mut source: InputSource,
    request_size: NonZeroUsize,
    out: &Sender<Vec<Text>>,
) -> anyhow::Result<()> {
    let mut texts = Vec::new();
    while let Some(entry) = source.next()? {
        let document = entry.document.map_err(|error| {
            let number = entry.number;
            BadUsage(format!("entry {number} of the input {error}"))
        });
        texts.push(text(entry.number, document?));
        if texts.len() == request_size.get()
            && out.blocking_send(std::mem::take(&mut texts)).is_err()
        {
            return Ok(());
        }
    }
    if !texts.is_empty() {
        // An exchange that has failed takes no more texts.
        out.blocking_send(texts).ok();
    }
    Ok(())
}

fn text(entry: u64, mut document: Document) -> Text {
    let embedding = document.embedding();
    document.clear_embedding();
    Text {
        entry,
        document,
        embedding,
    }
}
