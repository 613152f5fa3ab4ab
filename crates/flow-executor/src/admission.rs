//! Lets requests in: a queue with a bound before the one worker.
//!
//! When the queue is full, a caller waits for a place. It holds its request meanwhile, and its connection
//! holds back further ones, so pressure travels up the stream to the client. Refusing instead would be
//! wrong behind stock gateways, which turn RESOURCE_EXHAUSTED into an unknown error.

use std::time::Instant;

use flow_core::{Code, Document, DocumentArray, Failure};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use crate::Parameters;
use crate::batch::Waiting;
use crate::directory::MethodIdx;

/// Requests that may wait before callers are held back: some batches' worth, so that the worker never
/// idles, and no more, so that a slow executor does not collect minutes of work.
pub(crate) const QUEUE_REQUESTS_MAX: usize = 1024;

/// Documents of a stream that may wait for a slow reader.
const STREAM_DOCUMENTS_MAX: usize = 16;

/// One request on its way to the executor.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: MethodIdx,
    pub(crate) parameters: Parameters,
    pub(crate) documents: DocumentArray,
    pub(crate) reply: ReplyTo,
    pub(crate) arrived: Instant,
}

/// Where a call's outcome goes.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    Once(oneshot::Sender<Result<Done, Failure>>),
    Stream(mpsc::Sender<Result<Document, Failure>>),
}

/// What an executor made of a request.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) documents: DocumentArray,
    pub(crate) results: Option<Map<String, Value>>,
}

/// Documents that an executor is still making.
pub(crate) type Documents = mpsc::Receiver<Result<Document, Failure>>;

impl Waiting for Call {
    fn docs(&self) -> usize {
        self.documents.len()
    }

    fn arrived(&self) -> Instant {
        self.arrived
    }

    fn is_like(&self, other: &Self) -> bool {
        self.method == other.method
            && self.parameters == other.parameters
            && self.documents.flavour() == other.documents.flavour()
    }

    fn is_abandoned(&self, _now: Instant) -> bool {
        match &self.reply {
            ReplyTo::Once(reply) => reply.is_closed(),
            ReplyTo::Stream(reply) => reply.is_closed(),
        }
    }
}

/// The way in.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    queue: mpsc::Sender<Call>,
}

impl Admission {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Call>) {
        let (queue, calls) = mpsc::channel(QUEUE_REQUESTS_MAX);
        (Self { queue }, calls)
    }

    /// Waits for a place in the queue and then for the outcome. Dropping the future abandons the call.
    pub(crate) async fn call(
        &self,
        method: MethodIdx,
        parameters: Parameters,
        documents: DocumentArray,
    ) -> Result<Done, Failure> {
        let (reply, outcome) = oneshot::channel();
        let reply = ReplyTo::Once(reply);
        self.enqueue(Call {
            method,
            parameters,
            documents,
            reply,
            arrived: Instant::now(),
        })
        .await?;
        outcome.await.unwrap_or_else(|_| Err(worker_gone()))
    }

    /// The same for a method that makes its documents one by one.
    pub(crate) async fn stream(
        &self,
        method: MethodIdx,
        parameters: Parameters,
        document: Document,
    ) -> Result<Documents, Failure> {
        let (reply, documents) = mpsc::channel(STREAM_DOCUMENTS_MAX);
        let reply = ReplyTo::Stream(reply);
        let input = DocumentArray::from_iter([document]);
        let arrived = Instant::now();
        self.enqueue(Call {
            method,
            parameters,
            documents: input,
            reply,
            arrived,
        })
        .await?;
        Ok(documents)
    }

    async fn enqueue(&self, call: Call) -> Result<(), Failure> {
        self.queue.send(call).await.map_err(|_| worker_gone())
    }
}

fn worker_gone() -> Failure {
    Failure::new(Code::Unavailable, "the executor has stopped")
}
