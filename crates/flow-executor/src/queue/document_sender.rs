//! Sends the documents of a stream to its caller, from a thread that may block.
//!
//! A caller that reads slowly makes the executor wait, but not for ever: the executor's thread works for other callers, too.
//! There is always room for a failure that ends the stream, so that the caller does not take a part of it for the whole.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use flow_core::{Code, Document, Failure};
use tokio::sync::mpsc::{self, OwnedPermit, WeakSender};

/// Documents of a stream that wait for its caller.
const DOCUMENTS_MAX: usize = 16;

/// How long the executor waits until its caller takes a document.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The receiving end of a stream.
pub(crate) type StreamedDocuments = mpsc::Receiver<Result<Document, Failure>>;

/// Sends the documents of a stream.
#[derive(Debug)]
pub(crate) struct DocumentSender {
    documents: mpsc::Sender<Result<Document, Failure>>,
    /// The place of the failure that ends the stream.
    end: OwnedPermit<Result<Document, Failure>>,
    wait_max: Duration,
}

/// Why a document was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// The caller has gone.
    Abandoned,
    /// The caller took no document for too long.
    TooSlow,
}

impl DocumentSender {
    /// A stream.
    pub(crate) fn new() -> (Self, StreamedDocuments) {
        Self::waiting(WAIT_MAX)
    }

    /// A stream whose caller may take so long for a document.
    fn waiting(wait_max: Duration) -> (Self, StreamedDocuments) {
        let (documents, receiver) = mpsc::channel(DOCUMENTS_MAX + 1);
        let Ok(end) = documents.clone().try_reserve_owned() else {
            unreachable!("the channel is new, so it has room");
        };
        let sender = Self {
            documents,
            end,
            wait_max,
        };
        (sender, receiver)
    }

    /// Whether the caller has gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.documents.is_closed()
    }

    /// Says whether the caller has gone, without keeping the stream open.
    pub(crate) fn downgrade(&self) -> WeakSender<Result<Document, Failure>> {
        self.documents.downgrade()
    }

    /// Sends a document, and waits while the caller is slow.
    pub(crate) fn send(&self, document: Document) -> Result<(), NotSent> {
        let begun = Instant::now();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut room = pin!(self.documents.reserve());
        loop {
            if let Poll::Ready(permit) = room.as_mut().poll(&mut context) {
                permit.map_err(|_| NotSent::Abandoned)?.send(Ok(document));
                return Ok(());
            }
            let left = self.wait_max.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(NotSent::TooSlow);
            }
            thread::park_timeout(left);
        }
    }

    /// Ends the stream with a failure.
    pub(crate) fn fail(self, failure: Failure) {
        self.end.send(Err(failure));
    }

    /// The failure of a stream whose caller is too slow.
    pub(crate) fn too_slow(&self) -> Failure {
        let seconds = self.wait_max.as_secs();
        let text =
            format!("the caller read no document for {seconds} s, so the stream ended early");
        Failure::new(Code::Cancelled, text)
    }
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_are_not_read_end_the_stream_with_a_failure() {
        let (sender, mut documents) = DocumentSender::waiting(Duration::ZERO);
        for _ in 0..DOCUMENTS_MAX {
            assert_eq!(sender.send(Document::default()), Ok(()));
        }
        assert_eq!(sender.send(Document::default()), Err(NotSent::TooSlow));
        let failure = sender.too_slow();
        sender.fail(failure);
        for _ in 0..DOCUMENTS_MAX {
            assert!(documents.blocking_recv().unwrap().is_ok());
        }
        assert!(documents.blocking_recv().unwrap().is_err());
        assert!(documents.blocking_recv().is_none());
    }

    #[test]
    fn a_slow_caller_gets_all_documents() {
        let (sender, mut documents) = DocumentSender::new();
        let reader = thread::spawn(move || {
            let mut count = 0;
            while let Some(document) = documents.blocking_recv() {
                count += usize::from(document.is_ok());
            }
            count
        });
        for _ in 0..1000 {
            sender.send(Document::default()).unwrap();
        }
        drop(sender);
        assert_eq!(reader.join().unwrap(), 1000);
    }

    #[test]
    fn a_caller_that_has_gone_is_noticed() {
        let (sender, documents) = DocumentSender::new();
        drop(documents);
        assert!(sender.is_abandoned());
        assert_eq!(sender.send(Document::default()), Err(NotSent::Abandoned));
    }
}
