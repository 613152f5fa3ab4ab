//! Hands requests to the connection as there is room for them.
//!
//! Everything that goes out is noted first, so a reply can never come before the note of its request.

use std::sync::Arc;

use flow_proto::Envelope;
use futures_util::{Stream, stream};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender};

use super::requests::{Place, Read};

/// What happened on the way to the connection.
#[derive(Debug)]
pub(super) enum Note {
    /// This request goes out now.
    Sent { id: String, place: Place },
    /// Something that is not sent.
    Other(Read),
}

/// Between the reader and the connection.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) reads: Receiver<Read>,
    /// One permit for each request that may be under way; whoever settles a request gives it back.
    pub(super) room: Arc<Semaphore>,
    pub(super) notes: Sender<Note>,
}

impl Feed {
    /// The requests, as the connection wants them.
    pub(super) fn into_stream(self) -> impl Stream<Item = Envelope> + Send + 'static {
        stream::unfold(self, |mut feed| async move {
            let request = feed.next().await?;
            Some((request, feed))
        })
    }

    async fn next(&mut self) -> Option<Envelope> {
        loop {
            let (note, request) = match self.reads.recv().await? {
                Read::Request(request, place) => {
                    self.room.acquire().await.ok()?.forget();
                    let header = request.header.as_ref();
                    let id = header.map(|it| it.request_id.clone()).unwrap_or_default();
                    (Note::Sent { id, place }, Some(*request))
                }
                other => (Note::Other(other), None),
            };
            self.notes.send(note).await.ok()?;
            if request.is_some() {
                return request;
            }
        }
    }
}
