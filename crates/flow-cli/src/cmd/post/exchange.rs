//! One stream to the gateway: notes what goes out, takes what comes back, and hands it on in order.

use std::pin::Pin;
use std::sync::Arc;

use flow_core::{Code, Failure};
use flow_net::Client;
use flow_proto::Envelope;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinHandle;

use super::desk::Desk;
use super::entries::Source;
use super::feed::{Feed, Note};
use super::options::Post;
use super::requests::{Place, Read, Template, read};
use super::window::Window;

/// Requests that are read ahead, so that the connection never waits for the disk.
const READ_AHEAD: usize = 2;

/// Notes that wait for the loop below, which takes them at once; more than a few only hide a fault.
const NOTES: usize = 16;

/// How a stream ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Every request that could be sent has its reply.
    Complete,
    /// The other side, or the connection, did not last.
    Broken(Failure),
    /// The user's limit was reached.
    TimeIsUp,
    /// The user has had enough.
    Interrupted,
}

type Outcome = Result<Envelope, Failure>;

/// A stream under way.
pub(super) struct Exchange {
    replies: Pin<Box<dyn Stream<Item = Outcome> + Send>>,
    notes: Receiver<Note>,
    room: Arc<Semaphore>,
    window: Window<Place, Envelope>,
    all_is_sent: bool,
}

impl Exchange {
    /// Starts to read and to send. The handle is the reader's, which has a thread of its own.
    pub(super) fn start(
        client: &Client,
        post: &Post,
        source: Source,
        template: Template,
    ) -> (Self, JoinHandle<()>) {
        let (out, reads) = mpsc::channel(READ_AHEAD);
        let reader = tokio::task::spawn_blocking(move || read(source, &template, &out));
        let (notes_out, notes) = mpsc::channel(NOTES);
        let room = Arc::new(Semaphore::new(post.window().min(Semaphore::MAX_PERMITS)));
        let feed = Feed {
            reads,
            room: Arc::clone(&room),
            notes: notes_out,
        };
        let (client, options) = (client.clone(), post.options());
        // Some gateways answer nothing, not even headers, before the first reply: opening the stream is
        // a part of waiting for it.
        let open = async move { client.post(&options, feed.into_stream()).await };
        let replies = Box::pin(stream::once(open).try_flatten());
        let window = Window::default();
        (
            Self {
                replies,
                notes,
                room,
                window,
                all_is_sent: false,
            },
            reader,
        )
    }

    /// Goes on until the other side has ended the stream.
    pub(super) async fn run(&mut self, desk: &mut Desk) -> anyhow::Result<Ended> {
        loop {
            tokio::select! {
                Some(note) = self.notes.recv() => self.take_note(note, desk),
                reply = self.replies.next() => {
                    self.take_notes(desk);
                    match reply {
                        Some(Ok(reply)) => self.take_reply(reply),
                        Some(Err(failure)) => return Ok(Ended::Broken(failure)),
                        None => return Ok(self.end()),
                    }
                }
            }
            while let Some((place, reply)) = self.window.take_first() {
                self.room.add_permits(1);
                desk.reply(&place, &reply)?;
            }
        }
    }

    /// Hands on what came out of order, and tells of requests that will never have a reply.
    pub(super) fn give_up(&mut self, ended: &Ended, desk: &mut Desk) -> anyhow::Result<()> {
        self.take_notes(desk);
        let mut lost = Vec::new();
        for (place, reply) in self.window.take_all() {
            match reply {
                Some(reply) => desk.reply(&place, &reply)?,
                None => lost.push(place),
            }
        }
        desk.lost(ended, &lost, self.all_is_sent);
        Ok(())
    }

    /// The other side has ended the stream in good order; but has it answered everything?
    fn end(&self) -> Ended {
        if self.all_is_sent && self.window.is_empty() {
            return Ended::Complete;
        }
        Ended::Broken(Failure::new(Code::Lost, "the gateway ended the stream"))
    }

    fn take_notes(&mut self, desk: &mut Desk) {
        while let Ok(note) = self.notes.try_recv() {
            self.take_note(note, desk);
        }
    }

    fn take_note(&mut self, note: Note, desk: &mut Desk) {
        match note {
            Note::Sent { id, place } => self.window.open(id, place),
            Note::Other(Read::TooLarge { place, len }) => desk.too_large(&place, len),
            Note::Other(Read::BadEntry { number, error }) => desk.skipped(number, &error),
            Note::Other(Read::Broken(error)) => desk.input_broke(&error),
            Note::Other(Read::End) => self.all_is_sent = true,
            Note::Other(Read::Request(..)) => {}
        }
    }

    fn take_reply(&mut self, reply: Envelope) {
        let id = reply
            .header
            .as_ref()
            .map_or("", |header| header.request_id.as_str())
            .to_owned();
        if !self.window.settle(&id, reply) {
            tracing::warn!(request.id = id, "a reply came that nobody asked for");
        }
    }
}
