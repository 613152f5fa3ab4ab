//! Runs the author's methods for requests that share a call, and gives each its own documents back.
//!
//! A method may panic: that fails the call and not the process. When a call with several requests fails,
//! each of them is tried alone, so that a bad one fails by itself. That is done for methods bound with
//! `on_batch` only: others may have had effects already.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use flow_core::{Code, Document, DocumentArray, Failure};
use flow_metrics::Stopwatch;
use tokio::sync::mpsc;

use crate::admission::Call;
use crate::batch::Rule;
use crate::directory::EndpointIdx;
use crate::endpoints::{Binding, Emit, Method, WholeMethod};
use crate::exit::{ExitOn, Manner};
use crate::meter::Meter;
use crate::reply::{Done, ReplyTo};
use crate::{CallError, DocsMatrix, Endpoints, Parameters};

/// One executor and all that it takes to call it.
pub(crate) struct Runner<E> {
    pub(crate) executor: E,
    pub(crate) endpoints: Arc<Endpoints<E>>,
    pub(crate) exit: ExitOn,
    pub(crate) meter: Option<Meter>,
}

/// A method did not succeed.
struct Failed {
    failure: Failure,
    manner: Manner,
}

impl<E> Runner<E> {
    /// Runs a batch. All its requests are alike, or it is one request.
    pub(crate) fn run(&mut self, mut batch: Vec<Call>) {
        let Some(first) = batch.first() else { return };
        let endpoints = Arc::clone(&self.endpoints);
        let Binding { method, .. } = &endpoints.bound[first.method.0];
        match method {
            Method::Batch(_) if batch.len() > 1 => self.run_together(method, batch),
            Method::Whole(whole) if first.rule != Rule::Alone => self.run_joined(whole, batch),
            _ => batch
                .drain(..)
                .for_each(|call| self.run_alone(method, call)),
        }
    }

    /// Puts the executor's weights on documents; a panic leaves them at 1.
    pub(crate) fn weigh(&self, call: &mut Call) {
        let Some(weigher) = &self.endpoints.weigher else {
            return call.weigh(|_| 1);
        };
        let executor = &self.executor;
        let weighed = guarded(|| {
            call.weigh(|document| (weigher.0)(executor, document));
            Ok(())
        });
        if let Err(failed) = weighed {
            tracing::warn!(failure = %failed.failure, "documents could not be weighed");
            call.weigh(|_| 1);
        }
    }

    /// One call of the method for the documents of all requests, which are then given back.
    fn run_together(&mut self, method: &Method<E>, batch: Vec<Call>) {
        let Method::Batch(together) = method else {
            return;
        };
        // A copy of a document shares its bytes; should the call fail, the requests still have theirs.
        let copies = batch.iter().flat_map(|call| call.documents.iter().cloned());
        let mut documents: Vec<Document> = copies.collect();
        let time = self.time(batch[0].endpoint);
        let outcome =
            guarded(|| together(&mut self.executor, &mut documents, &batch[0].parameters));
        drop(time);
        match outcome {
            Ok(()) => give_back(batch, documents),
            Err(Failed { failure, .. }) => {
                tracing::debug!(%failure, requests = batch.len(), "batch failed, trying each alone");
                for call in batch {
                    self.run_alone(method, call);
                }
            }
        }
    }

    /// The same for a method that might change the number of documents, but must not here: nobody could
    /// say whose they are.
    fn run_joined(&mut self, method: &WholeMethod<E>, mut batch: Vec<Call>) {
        let lengths: Vec<usize> = batch.iter().map(|call| call.documents.len()).collect();
        let moved = batch.iter_mut().flat_map(|call| call.documents.drain(..));
        let mut documents: DocumentArray = moved.collect();
        let before = documents.len();
        let parameters = &batch[0].parameters;
        let time = self.time(batch[0].endpoint);
        let outcome = guarded(|| {
            let results = method(&mut self.executor, &mut documents, parameters)?;
            check_joined(before, documents.len(), results.is_some())
        });
        drop(time);
        match outcome {
            Ok(()) => {
                let mut documents = documents.into_iter();
                for (call, docs) in batch.into_iter().zip(lengths) {
                    call.reply.answer(Ok(done(documents.by_ref().take(docs))));
                }
            }
            Err(failed) => {
                for call in batch {
                    call.reply.answer(Err(failed.failure.clone()));
                }
                self.exit.after(&failed.failure, failed.manner);
            }
        }
    }

    fn run_alone(&mut self, method: &Method<E>, call: Call) {
        let Call {
            endpoint,
            parameters,
            documents,
            parts,
            reply,
            ..
        } = call;
        // A caller who has the reply finds its time counted.
        let time = self.time(endpoint);
        let failed = match reply {
            ReplyTo::Stream(reply) => {
                let outcome = self.run_stream(method, (&parameters, documents), &reply);
                drop(time);
                outcome.err().map(|failed| (ReplyTo::Stream(reply), failed))
            }
            reply => {
                let outcome = self.run_once(method, &parameters, (documents, parts));
                drop(time);
                match outcome {
                    Ok(done) => {
                        reply.answer(Ok(done));
                        None
                    }
                    Err(failed) => Some((reply, failed)),
                }
            }
        };
        if let Some((reply, failed)) = failed {
            reply.answer(Err(failed.failure.clone()));
            self.exit.after(&failed.failure, failed.manner);
        }
    }

    fn time(&self, endpoint: EndpointIdx) -> Option<Stopwatch> {
        self.meter.as_ref().map(|it| it.call(endpoint))
    }

    fn run_once(
        &mut self,
        method: &Method<E>,
        parameters: &Parameters,
        (mut documents, parts): (Vec<Document>, Vec<(String, usize)>),
    ) -> Result<Done, Failed> {
        let executor = &mut self.executor;
        match method {
            Method::Batch(method) => guarded(|| {
                method(executor, &mut documents, parameters)?;
                Ok(done(documents))
            }),
            Method::Whole(method) => guarded(|| {
                let mut documents = documents.into_iter().collect();
                let results = method(executor, &mut documents, parameters)?;
                Ok(Done { documents, results })
            }),
            Method::Matrix(method) => guarded(|| {
                let matrix = DocsMatrix::cut(documents, parts);
                Ok(done(method(executor, matrix, parameters)?))
            }),
            Method::Stream(_) => Err(Failed {
                failure: Failure::new(
                    Code::Unimplemented,
                    "this endpoint streams its documents: call `stream_doc`",
                ),
                manner: Manner::Failed,
            }),
        }
    }

    /// Runs a method for a caller who wants documents one by one.
    fn run_stream(
        &mut self,
        method: &Method<E>,
        (parameters, documents): (&Parameters, Vec<Document>),
        reply: &mpsc::Sender<Result<Document, Failure>>,
    ) -> Result<(), Failed> {
        let mut send = |document| reply.blocking_send(Ok(document)).is_ok();
        match method {
            Method::Stream(method) => documents.into_iter().try_for_each(|document| {
                let executor = &mut self.executor;
                guarded(|| method(executor, document, parameters, &mut Emit(&mut send)))
            }),
            other => {
                let parts = vec![(String::new(), documents.len())];
                let done = self.run_once(other, parameters, (documents, parts))?;
                done.documents.into_iter().all(&mut send);
                Ok(())
            }
        }
    }
}

fn check_joined(before: usize, after: usize, has_results: bool) -> Result<(), CallError> {
    if before != after {
        return Err(CallError::new(format!(
            "a method that is batched must keep the number of documents: it got {before} and left {after}"
        )));
    }
    if has_results {
        return Err(CallError::new(
            "a method that is batched has no one request that its results could go to",
        ));
    }
    Ok(())
}

fn done(documents: impl IntoIterator<Item = Document>) -> Done {
    Done {
        documents: documents.into_iter().collect(),
        results: None,
    }
}

fn give_back(batch: Vec<Call>, documents: Vec<Document>) {
    let mut documents = documents.into_iter();
    for call in batch {
        let own = documents.by_ref().take(call.documents.len());
        call.reply.answer(Ok(done(own)));
    }
}

/// Runs the author's code; a panic becomes a failure with its text.
fn guarded<T>(method: impl FnOnce() -> Result<T, CallError>) -> Result<T, Failed> {
    match catch_unwind(AssertUnwindSafe(method)) {
        Ok(outcome) => outcome.map_err(|error| Failed {
            manner: match error.is_last() {
                true => Manner::Last,
                false => Manner::Failed,
            },
            failure: error.into_failure(),
        }),
        Err(panic) => {
            let text = text_of(&*panic);
            tracing::error!(panic = text, "executor panicked");
            Err(Failed {
                failure: Failure::new(Code::ExecutorFailed, format!("panicked: {text}")),
                manner: Manner::Panicked,
            })
        }
    }
}

pub(crate) fn text_of(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
