//! Where the output of a request is sent, and how the output of a request that was split over several calls is put
//! together.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use flow_core::{Document, DocumentArray, Failure, Usage};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use super::document_sender::{DocumentSender, NotSent};

/// The executor's output for a request.
#[derive(Debug)]
pub(crate) struct CallOutput {
    pub(crate) documents: DocumentArray,
    pub(crate) results: Option<Map<String, Value>>,
    /// What a model did for the request, if the executor counts it.
    pub(crate) usage: Option<Usage>,
}

/// Sends the output of a call to its caller.
#[derive(Debug)]
pub(crate) enum ReplySender {
    /// All documents at once.
    Once(Arc<WholeReply>),
    /// One document after another.
    Stream(DocumentSender),
    /// To the request that this is a part of.
    Part(SplitPart),
}

/// Sends all documents at once; `None` once they are sent.
#[derive(Debug)]
pub(crate) struct WholeReply(Mutex<Option<oneshot::Sender<Result<CallOutput, Failure>>>>);

/// Says whether the caller of a call has gone, while a worker has the [`ReplySender`]. It does not keep the caller waiting.
#[derive(Debug)]
pub(crate) enum ReplyWatch {
    Once(Weak<WholeReply>),
    Stream(mpsc::WeakSender<Result<Document, Failure>>),
    Part(Weak<Mutex<SplitRequest>>),
}

/// A part of a request that was split.
#[derive(Debug)]
pub(crate) struct SplitPart {
    request: Arc<Mutex<SplitRequest>>,
    /// The index of its first document among the request's documents.
    first: usize,
}

/// A request that was split, with the documents that are finished.
#[derive(Debug)]
pub(crate) struct SplitRequest {
    documents: Vec<Document>,
    missing: usize,
    /// That of the parts that are finished.
    usage: Option<Usage>,
    /// `None` once the reply is sent.
    reply: Option<oneshot::Sender<Result<CallOutput, Failure>>>,
}

impl WholeReply {
    fn is_abandoned(&self) -> bool {
        let reply = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reply.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn take(&self) -> Option<oneshot::Sender<Result<CallOutput, Failure>>> {
        let mut reply = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reply.take()
    }
}

impl ReplyWatch {
    /// Whether the caller has gone, or has its reply.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            Self::Once(reply) => reply.upgrade().is_none_or(|it| it.is_abandoned()),
            Self::Stream(reply) => reply.upgrade().is_none_or(|it| it.is_closed()),
            Self::Part(request) => request.upgrade().is_none_or(|it| is_abandoned(&it)),
        }
    }
}

fn is_abandoned(request: &Mutex<SplitRequest>) -> bool {
    let request = request.lock().unwrap_or_else(PoisonError::into_inner);
    let reply = request.reply.as_ref();
    reply.is_none_or(oneshot::Sender::is_closed)
}

impl ReplySender {
    /// Sends all documents at once.
    pub(crate) fn once(reply: oneshot::Sender<Result<CallOutput, Failure>>) -> Self {
        Self::Once(Arc::new(WholeReply(Mutex::new(Some(reply)))))
    }

    /// Whether the caller has gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            Self::Once(reply) => reply.is_abandoned(),
            Self::Stream(reply) => reply.is_abandoned(),
            Self::Part(part) => is_abandoned(&part.request),
        }
    }

    /// Says whether the caller has gone, while this is elsewhere.
    pub(crate) fn watch(&self) -> ReplyWatch {
        match self {
            Self::Once(reply) => ReplyWatch::Once(Arc::downgrade(reply)),
            Self::Stream(reply) => ReplyWatch::Stream(reply.downgrade()),
            Self::Part(part) => ReplyWatch::Part(Arc::downgrade(&part.request)),
        }
    }

    /// Splits a request of `total` documents into the first `docs` and the others.
    pub(crate) fn split(self, docs: usize, total: usize) -> (Self, Self) {
        let part = match self {
            Self::Part(part) => part,
            Self::Once(reply) => SplitPart {
                request: Arc::new(Mutex::new(SplitRequest {
                    documents: vec![Document::default(); total],
                    missing: total,
                    usage: None,
                    reply: reply.take(),
                })),
                first: 0,
            },
            // A stream has one document, which cannot be split.
            whole @ Self::Stream(_) => return (whole, Self::disconnected()),
        };
        let rest = SplitPart {
            request: Arc::clone(&part.request),
            first: part.first + docs,
        };
        (Self::Part(part), Self::Part(rest))
    }

    /// A sender without a receiver.
    pub(crate) fn disconnected() -> Self {
        Self::once(oneshot::channel().0)
    }

    /// Sends the output; it is lost if the caller has gone.
    pub(crate) fn send(self, output: Result<CallOutput, Failure>) {
        match self {
            Self::Once(reply) => {
                if let Some(reply) = reply.take() {
                    drop(reply.send(output));
                }
            }
            Self::Part(part) => part.send(output),
            Self::Stream(reply) => match output {
                Ok(output) => {
                    let mut documents = output.documents.into_iter();
                    let sent = documents.try_for_each(|document| reply.send(document));
                    if sent == Err(NotSent::TooSlow) {
                        let failure = reply.too_slow();
                        reply.fail(failure);
                    }
                }
                Err(failure) => reply.fail(failure),
            },
        }
    }
}

impl SplitPart {
    fn send(self, output: Result<CallOutput, Failure>) {
        let mut request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        match output {
            Ok(output) => request.insert(self.first, output),
            // The request can no longer succeed, so it does not wait for its other parts.
            Err(failure) => request.finish(Err(failure)),
        }
    }
}

impl SplitRequest {
    fn insert(&mut self, first: usize, output: CallOutput) {
        let CallOutput {
            documents, usage, ..
        } = output;
        self.usage = Usage::sum(self.usage, usage);
        self.missing = self.missing.saturating_sub(documents.len());
        for (slot, document) in self.documents.iter_mut().skip(first).zip(documents) {
            *slot = document;
        }
        if self.missing == 0 {
            let documents = std::mem::take(&mut self.documents).into_iter().collect();
            self.finish(Ok(CallOutput {
                documents,
                results: None,
                usage: self.usage,
            }));
        }
    }

    fn finish(&mut self, output: Result<CallOutput, Failure>) {
        if let Some(reply) = self.reply.take() {
            drop(reply.send(output));
        }
    }
}

#[cfg(test)]
mod tests {
    use flow_core::Code;

    use super::*;

    fn output(texts: &[&str]) -> Result<CallOutput, Failure> {
        let documents = texts.iter().map(|text| Document::from_text(text)).collect();
        Ok(CallOutput {
            usage: Some(Usage {
                tokens: texts.len() as u64,
                cached_texts: Some(1),
            }),
            documents,
            results: None,
        })
    }

    type Receiver = oneshot::Receiver<Result<CallOutput, Failure>>;

    /// A request of four documents, split into one, two and one.
    fn split() -> ([ReplySender; 3], Receiver) {
        let (reply, receiver) = oneshot::channel();
        let (first, rest) = ReplySender::once(reply).split(1, 4);
        let (second, third) = rest.split(2, 3);
        ([first, second, third], receiver)
    }

    #[test]
    fn a_split_request_is_answered_with_its_last_part_in_its_own_order() {
        let ([first, second, third], mut receiver) = split();
        third.send(output(&["d"]));
        first.send(output(&["a"]));
        assert!(receiver.try_recv().is_err());
        second.send(output(&["b", "c"]));
        let output = receiver.try_recv().unwrap().unwrap();
        let usage = Usage {
            tokens: 4,
            cached_texts: Some(3),
        };
        assert_eq!(output.usage, Some(usage));
        let documents = output.documents;
        let texts: Vec<String> = documents.iter().map(Document::text).collect();
        assert_eq!(texts, ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_part_that_fails_fails_its_request_at_once_and_abandons_the_other_parts() {
        let ([first, second, third], mut receiver) = split();
        assert!(!third.is_abandoned());
        second.send(Err(Failure::new(Code::ExecutorFailed, "no")));
        assert_eq!(receiver.try_recv().unwrap().unwrap_err().message(), "no");
        assert!(first.is_abandoned() && third.is_abandoned());
        first.send(output(&["a"]));
    }

    #[test]
    fn a_caller_that_has_gone_abandons_every_part() {
        let ([first, _, third], receiver) = split();
        let watch = third.watch();
        assert!(!watch.is_abandoned());
        drop(receiver);
        assert!(first.is_abandoned() && third.is_abandoned() && watch.is_abandoned());
    }

    #[test]
    fn a_watch_sees_that_a_caller_has_gone_and_keeps_no_caller_waiting() {
        let (reply, receiver) = oneshot::channel();
        let sender = ReplySender::once(reply);
        let watch = sender.watch();
        assert!(!watch.is_abandoned());
        drop(receiver);
        assert!(watch.is_abandoned() && sender.is_abandoned());

        let (reply, mut receiver) = oneshot::channel();
        let sender = ReplySender::once(reply);
        let watch = sender.watch();
        drop(sender);
        let closed = oneshot::error::TryRecvError::Closed;
        assert_eq!(receiver.try_recv().err(), Some(closed));
        assert!(watch.is_abandoned());

        let (reply, mut receiver) = DocumentSender::new();
        let sender = ReplySender::Stream(reply);
        let watch = sender.watch();
        assert!(!watch.is_abandoned());
        drop(sender);
        let closed = mpsc::error::TryRecvError::Disconnected;
        assert_eq!(receiver.try_recv().err(), Some(closed));
    }
}
