//! Where the outcome of a request goes, and how one that was cut over several calls is put together.

use std::sync::{Arc, Mutex, PoisonError};

use flow_core::{Document, DocumentArray, Failure};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

/// What an executor made of a request.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) documents: DocumentArray,
    pub(crate) results: Option<Map<String, Value>>,
}

/// Where a call's outcome goes.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    Once(oneshot::Sender<Result<Done, Failure>>),
    Stream(mpsc::Sender<Result<Document, Failure>>),
    /// To the request that this was cut from.
    Part(Part),
}

/// Some documents of a request that was cut.
#[derive(Debug)]
pub(crate) struct Part {
    request: Arc<Mutex<Parts>>,
    /// Where they stand among the request's documents.
    first: usize,
}

/// A request that was cut, with those of its documents that are done.
#[derive(Debug)]
struct Parts {
    documents: Vec<Document>,
    missing: usize,
    /// None once it was answered.
    reply: Option<oneshot::Sender<Result<Done, Failure>>>,
}

impl ReplyTo {
    /// Whether nobody waits for it any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            Self::Once(reply) => reply.is_closed(),
            Self::Stream(reply) => reply.is_closed(),
            Self::Part(part) => {
                let parts = part.request.lock().unwrap_or_else(PoisonError::into_inner);
                parts.reply.as_ref().is_none_or(oneshot::Sender::is_closed)
            }
        }
    }

    /// Where the first `docs` of a request's `total` documents go; `self` is left for the others.
    pub(crate) fn cut(self, docs: usize, total: usize) -> (Self, Self) {
        let part = match self {
            Self::Part(part) => part,
            Self::Once(reply) => Part {
                request: Arc::new(Mutex::new(Parts {
                    documents: vec![Document::default(); total],
                    missing: total,
                    reply: Some(reply),
                })),
                first: 0,
            },
            // A stream's document is one, so there is nothing to cut.
            whole @ Self::Stream(_) => return (whole, Self::nobody()),
        };
        let rest = Part {
            request: Arc::clone(&part.request),
            first: part.first + docs,
        };
        (Self::Part(part), Self::Part(rest))
    }

    /// Goes nowhere.
    pub(crate) fn nobody() -> Self {
        Self::Once(oneshot::channel().0)
    }

    /// Tells the caller. One who has gone does not want it.
    pub(crate) fn answer(self, outcome: Result<Done, Failure>) {
        match self {
            Self::Once(reply) => drop(reply.send(outcome)),
            Self::Part(part) => part.answer(outcome),
            Self::Stream(reply) => match outcome {
                Ok(done) => done.documents.into_iter().for_each(|document| {
                    drop(reply.blocking_send(Ok(document)));
                }),
                Err(failure) => drop(reply.blocking_send(Err(failure))),
            },
        }
    }
}

impl Part {
    fn answer(self, outcome: Result<Done, Failure>) {
        let mut parts = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(done) => parts.put(self.first, done.documents),
            // One part is missing for good: the others are not waited for.
            Err(failure) => parts.finish(Err(failure)),
        }
    }
}

impl Parts {
    fn put(&mut self, first: usize, documents: DocumentArray) {
        self.missing = self.missing.saturating_sub(documents.len());
        for (place, document) in self.documents.iter_mut().skip(first).zip(documents) {
            *place = document;
        }
        if self.missing == 0 {
            let documents = std::mem::take(&mut self.documents).into_iter().collect();
            self.finish(Ok(Done {
                documents,
                results: None,
            }));
        }
    }

    fn finish(&mut self, outcome: Result<Done, Failure>) {
        if let Some(reply) = self.reply.take() {
            drop(reply.send(outcome));
        }
    }
}

#[cfg(test)]
mod tests {
    use flow_core::Code;

    use super::*;

    fn done(texts: &[&str]) -> Result<Done, Failure> {
        let documents = texts.iter().map(|text| Document::from_text(text)).collect();
        Ok(Done {
            documents,
            results: None,
        })
    }

    /// A request of four documents, cut into one, two and one.
    fn cut() -> ([ReplyTo; 3], oneshot::Receiver<Result<Done, Failure>>) {
        let (reply, outcome) = oneshot::channel();
        let (first, rest) = ReplyTo::Once(reply).cut(1, 4);
        let (second, third) = rest.cut(2, 3);
        ([first, second, third], outcome)
    }

    #[test]
    fn a_cut_request_is_answered_with_its_last_part_in_its_own_order() {
        let ([first, second, third], mut outcome) = cut();
        third.answer(done(&["d"]));
        first.answer(done(&["a"]));
        assert!(outcome.try_recv().is_err());
        second.answer(done(&["b", "c"]));
        let documents = outcome.try_recv().unwrap().unwrap().documents;
        let texts: Vec<String> = documents.iter().map(Document::text).collect();
        assert_eq!(texts, ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_part_that_fails_fails_its_request_at_once_and_nobody_waits_for_the_others() {
        let ([first, second, third], mut outcome) = cut();
        assert!(!third.is_abandoned());
        second.answer(Err(Failure::new(Code::ExecutorFailed, "no")));
        assert_eq!(outcome.try_recv().unwrap().unwrap_err().message(), "no");
        assert!(first.is_abandoned() && third.is_abandoned());
        first.answer(done(&["a"]));
    }

    #[test]
    fn a_caller_who_has_gone_abandons_every_part() {
        let ([first, _, third], outcome) = cut();
        drop(outcome);
        assert!(first.is_abandoned() && third.is_abandoned());
    }
}
