//! One thread that owns the executor, pulls the next batch when it is free, and runs it.
//!
//! The executor's code may block and may panic. A panic fails the call and not the process. When a call
//! with several requests fails, each of them is tried alone, so that a bad one fails by itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Instant;

use flow_core::{Code, Document, DocumentArray, Failure};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout_at;

use crate::admission::{Admission, Call, Done, QUEUE_REQUESTS_MAX, ReplyTo};
use crate::batch::{Batcher, Next};
use crate::endpoints::{Binding, Emit, Method};
use crate::{Executor, Facts, LoadError, Parameters};

/// How often a worker looks for its next call before it sleeps. Yielding is no spinning: with nobody else
/// to run, these are some microseconds after each batch.
const YIELDS: u32 = 8;

/// What is known of a worker from outside.
pub(crate) struct Worker {
    pub(crate) admission: Admission,
    /// Comes when the executor is loaded, or could not be.
    pub(crate) loaded: oneshot::Receiver<Result<Facts, LoadError>>,
}

/// Starts the thread; `load` runs on it first. It ends when nobody can call it any more.
pub(crate) fn start<E: Executor>(
    name: &str,
    bindings: Vec<Binding<E>>,
    load: impl FnOnce() -> Result<E, LoadError> + Send + 'static,
) -> std::io::Result<Worker> {
    let (admission, calls) = Admission::new();
    let (tell, loaded) = oneshot::channel();
    let runtime = Handle::current();
    // The kernel keeps 15 bytes of a thread's name; `top -H` then shows whose time it is.
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(move || match load_guarded(load) {
        Ok(executor) => {
            let batcher = Batcher::new(executor.batching());
            if tell.send(Ok(executor.facts())).is_ok() {
                Loop {
                    calls,
                    batcher,
                    runtime,
                    executor,
                    bindings,
                }
                .run();
            }
        }
        // Whoever asked to load has gone: nobody is left to be told.
        Err(error) => drop(tell.send(Err(error))),
    })?;
    Ok(Worker { admission, loaded })
}

fn load_guarded<E>(load: impl FnOnce() -> Result<E, LoadError>) -> Result<E, LoadError> {
    catch_unwind(AssertUnwindSafe(load))
        .unwrap_or_else(|panic| Err(LoadError::new(format!("panicked: {}", text_of(&*panic)))))
}

struct Loop<E> {
    calls: mpsc::Receiver<Call>,
    batcher: Batcher<Call>,
    runtime: Handle,
    executor: E,
    bindings: Vec<Binding<E>>,
}

impl<E: Executor> Loop<E> {
    fn run(mut self) {
        while let Some(batch) = self.next_batch() {
            self.run_batch(batch);
        }
    }

    /// `None` once nobody can call any more.
    fn next_batch(&mut self) -> Option<Vec<Call>> {
        loop {
            self.gather();
            match self.batcher.next(Instant::now()) {
                Next::Call(batch) => return Some(batch),
                Next::Idle => {
                    let call = self.wait_for_call()?;
                    self.batcher.push(call);
                }
                Next::WaitUntil(then) => {
                    let come = self
                        .runtime
                        .block_on(timeout_at(then.into(), self.calls.recv()));
                    if let Ok(call) = come {
                        self.batcher.push(call?);
                    }
                }
            }
        }
    }

    /// Lets others run a few times before it sleeps: under load the next call is there by then, and being
    /// woken up costs more than a short call does.
    fn wait_for_call(&mut self) -> Option<Call> {
        for _ in 0..YIELDS {
            match self.calls.try_recv() {
                Ok(call) => return Some(call),
                Err(TryRecvError::Empty) => thread::yield_now(),
                Err(TryRecvError::Disconnected) => return None,
            }
        }
        self.calls.blocking_recv()
    }

    /// Takes what has come meanwhile, as far as there is room.
    fn gather(&mut self) {
        while self.batcher.len() < QUEUE_REQUESTS_MAX {
            let Ok(call) = self.calls.try_recv() else {
                return;
            };
            self.batcher.push(call);
        }
    }

    fn run_batch(&mut self, mut batch: Vec<Call>) {
        let Some(first) = batch.first() else { return };
        if let Method::Batch(_) = self.bindings[first.method.0].method
            && batch.len() > 1
        {
            return self.run_together(batch);
        }
        for call in batch.drain(..) {
            self.run_alone(call);
        }
    }

    /// One call of the method for the documents of all requests, which are then given back.
    fn run_together(&mut self, batch: Vec<Call>) {
        let method = &self.bindings[batch[0].method.0].method;
        let Method::Batch(method) = method else {
            return;
        };
        // A copy of a document shares its bytes; should the call fail, the requests still have theirs.
        let mut documents: Vec<Document> = batch
            .iter()
            .flat_map(|call| call.documents.iter().cloned())
            .collect();
        let outcome = guarded(|| method(&mut self.executor, &mut documents, &batch[0].parameters));
        match outcome {
            Ok(()) => give_back(batch, documents),
            Err(failure) => {
                tracing::debug!(%failure, requests = batch.len(), "batch failed, trying each alone");
                for call in batch {
                    self.run_alone(call);
                }
            }
        }
    }

    fn run_alone(&mut self, call: Call) {
        let Call {
            method,
            parameters,
            documents,
            reply,
            ..
        } = call;
        let method = &self.bindings[method.0].method;
        match (method, reply) {
            (Method::Stream(_), ReplyTo::Once(reply)) => {
                let message = "this endpoint streams its documents: call `stream_doc`";
                answer(reply, Err(Failure::new(Code::Unimplemented, message)));
            }
            (method, ReplyTo::Once(reply)) => {
                answer(
                    reply,
                    run_once(&mut self.executor, method, &parameters, documents),
                );
            }
            (method, ReplyTo::Stream(reply)) => {
                run_stream(&mut self.executor, method, (&parameters, documents), &reply);
            }
        }
    }
}

fn run_once<E>(
    executor: &mut E,
    method: &Method<E>,
    parameters: &Parameters,
    mut documents: DocumentArray,
) -> Result<Done, Failure> {
    let results = match method {
        Method::Batch(method) => {
            guarded(|| method(executor, &mut documents, parameters)).map(|()| None)
        }
        Method::Whole(method) => guarded(|| method(executor, &mut documents, parameters)),
        Method::Stream(_) => Ok(None),
    }?;
    Ok(Done { documents, results })
}

/// Runs a method for a caller who wants documents one by one.
fn run_stream<E>(
    executor: &mut E,
    method: &Method<E>,
    (parameters, documents): (&Parameters, DocumentArray),
    reply: &mpsc::Sender<Result<Document, Failure>>,
) {
    let mut send = |document| reply.blocking_send(Ok(document)).is_ok();
    let outcome = match method {
        Method::Stream(method) => documents.into_iter().try_for_each(|document| {
            guarded(|| method(executor, document, parameters, &mut Emit(&mut send)))
        }),
        other => run_once(executor, other, parameters, documents).map(|done| {
            done.documents.into_iter().all(&mut send);
        }),
    };
    if let Err(failure) = outcome {
        // A caller who has gone needs no reason.
        drop(reply.blocking_send(Err(failure)));
    }
}

fn give_back(batch: Vec<Call>, documents: Vec<Document>) {
    let mut documents = documents.into_iter();
    for call in batch {
        let own: DocumentArray = documents.by_ref().take(call.documents.len()).collect();
        if let ReplyTo::Once(reply) = call.reply {
            answer(
                reply,
                Ok(Done {
                    documents: own,
                    results: None,
                }),
            );
        }
    }
}

fn answer(reply: oneshot::Sender<Result<Done, Failure>>, outcome: Result<Done, Failure>) {
    // A caller who has gone does not want it.
    drop(reply.send(outcome));
}

/// Runs the author's code; a panic becomes a failure with its text.
fn guarded<T>(method: impl FnOnce() -> Result<T, crate::CallError>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(method)) {
        Ok(outcome) => outcome.map_err(crate::CallError::into_failure),
        Err(panic) => {
            let text = text_of(&*panic);
            tracing::error!(panic = text, "executor panicked");
            Err(Failure::new(
                Code::ExecutorFailed,
                format!("panicked: {text}"),
            ))
        }
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
