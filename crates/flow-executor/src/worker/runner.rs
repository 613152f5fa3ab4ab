//! Runs the author's methods for a batch of requests, and returns each request its documents.
//!
//! A method that panics fails the call and not the process. When a call with several requests fails, each of them is
//! tried alone, so that only the bad one fails. This is done for methods bound with `on_batch` only: others may have
//! had effects already. While a method runs, [`Cancellation`] tells it when all callers have gone.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use flow_core::{Code, Document, DocumentArray, Failure};
use flow_metrics::Stopwatch;
use flow_process::on_behalf_of;

use super::exit_policy::{ExitPolicy, FailureKind};
use super::failure_log::FailureLog;
use crate::endpoint_table::EndpointIdx;
use crate::metrics::ExecutorMetrics;
use crate::queue::{
    Call, CallOutput, CallQueue, CallSpans, DocumentSender, LeaveReason, NotSent, ReplySender,
    ReplyWatch, Timing, Work,
};
use crate::sdk::{
    BatchRule, Binding, CallError, Cancellation, DocsMatrix, Emit, Endpoints, Method, Parameters,
    Tokens, WholeMethod,
};

/// What the calls of an executor need.
pub(crate) struct CallRunner<E> {
    pub(crate) endpoints: Arc<Endpoints<E>>,
    pub(crate) exit: ExitPolicy,
    pub(crate) metrics: Option<ExecutorMetrics>,
    pub(crate) failures: FailureLog,
}

/// A method that failed.
struct CallFailure {
    failure: Failure,
    kind: FailureKind,
}

impl<E> CallRunner<E> {
    /// Does what the queue gave.
    pub(crate) fn work(&mut self, executor: &mut E, work: Work, queue: &CallQueue) {
        match work {
            Work::Run(batch, reason) => self.run(executor, batch, reason),
            Work::Weigh(calls) => {
                let wanted = calls.into_iter().filter(|call| !call.reply.is_abandoned());
                for mut call in wanted {
                    self.weigh(executor, &mut call);
                    queue.push(call);
                }
            }
        }
    }

    /// Runs a batch: one request, or several with the same method and parameters.
    fn run(&mut self, executor: &mut E, mut batch: Vec<Call>, reason: LeaveReason) {
        let Some(first) = batch.first() else { return };
        if let Some(metrics) = &self.metrics {
            count(metrics, &batch, (first.endpoint, reason));
        }
        let endpoints = Arc::clone(&self.endpoints);
        let Binding { method, .. } = &endpoints.bindings[first.method.0];
        match method {
            Method::Batch(_) if batch.len() > 1 => self.run_together(executor, method, batch),
            Method::Whole(whole) if first.rule != BatchRule::Alone => {
                self.run_merged(executor, whole, batch)
            }
            _ => batch
                .drain(..)
                .for_each(|call| self.run_alone(executor, method, call)),
        }
    }

    /// Sets the weights of a call's documents as the executor computes them, or 1 if it panics.
    fn weigh(&self, executor: &E, call: &mut Call) {
        let Some(weigher) = &self.endpoints.weigher else {
            return call.set_weights(|_| 1);
        };
        let endpoint = &self.endpoints.bindings[call.method.0].endpoint;
        let weighed = catch_panic(|| {
            call.set_weights(|document| (weigher.0)(executor, endpoint, document));
            Ok(())
        });
        if let Err(failed) = weighed {
            tracing::warn!(failure = %failed.failure, "cannot compute the weights of documents");
            call.set_weights(|_| 1);
        }
    }

    /// Calls the method once for the documents of all requests.
    fn run_together(&mut self, executor: &mut E, method: &Method<E>, mut batch: Vec<Call>) {
        let Method::Batch(together) = method else {
            return;
        };
        // Copies share the documents' bytes. The originals are needed if the call fails.
        let count = batch.iter().map(|call| call.documents.len()).sum();
        let mut documents: Vec<Document> = Vec::with_capacity(count);
        let originals = batch.iter().flat_map(|call| &call.documents);
        documents.extend(originals.cloned());
        let time = self.time(&batch);
        let spans = self.spans(&mut batch);
        let outcome = run_method(&batch, || {
            let tokens = together(executor, &mut documents, &batch[0].parameters)?;
            check_tokens(documents.len(), tokens.as_ref())?;
            Ok(tokens)
        });
        drop(time);
        spans.end(outcome.as_ref().err().map(|it| &it.failure));
        match outcome {
            Ok(tokens) => send_outputs(batch, documents, tokens.as_ref()),
            Err(CallFailure { failure, .. }) => {
                tracing::debug!(%failure, requests = batch.len(), "batch failed; retrying each request alone");
                for call in batch {
                    // Its caller may have gone during the batch.
                    if !call.reply.is_abandoned() {
                        self.run_alone(executor, method, call);
                    }
                }
            }
        }
    }

    /// Calls a method once that could change the number of documents. Here it must not, because each request gets back as
    /// many documents as it sent.
    fn run_merged(&mut self, executor: &mut E, method: &WholeMethod<E>, mut batch: Vec<Call>) {
        let spans = self.spans(&mut batch);
        let lengths: Vec<usize> = batch.iter().map(|call| call.documents.len()).collect();
        let moved = batch.iter_mut().flat_map(|call| call.documents.drain(..));
        let mut documents: DocumentArray = moved.collect();
        let before = documents.len();
        let parameters = &batch[0].parameters;
        let time = self.time(&batch);
        let outcome = run_method(&batch, || {
            let results = method(executor, &mut documents, parameters)?;
            check_merged(before, documents.len(), results.is_some())
        });
        drop(time);
        spans.end(outcome.as_ref().err().map(|it| &it.failure));
        match outcome {
            Ok(()) => {
                let mut documents = documents.into_iter();
                for (call, docs) in batch.into_iter().zip(lengths) {
                    call.reply.send(Ok(output(documents.by_ref().take(docs))));
                }
            }
            Err(failed) => {
                let ids = batch.iter().map(|call| Arc::clone(&call.id));
                on_behalf_of(ids, || self.failures.call(&failed.failure, failed.kind));
                for call in batch {
                    call.reply.send(Err(failed.failure.clone()));
                }
                self.exit.observe(&failed.failure, failed.kind);
            }
        }
    }

    fn run_alone(&mut self, executor: &mut E, method: &Method<E>, call: Call) {
        let id = Arc::clone(&call.id);
        on_behalf_of([id], || self.run_one(executor, method, call));
    }

    fn run_one(&mut self, executor: &mut E, method: &Method<E>, mut call: Call) {
        let spans = self.spans(std::slice::from_mut(&mut call));
        // Stopped before the reply is sent, so that a caller with the reply finds its time in the metrics.
        let time = self.time(std::slice::from_ref(&call));
        let Call {
            parameters,
            documents,
            parts,
            reply,
            ..
        } = call;
        let entered = cancellation([reply.watch()]).enter();
        let failed = match reply {
            ReplySender::Stream(reply) => {
                let outcome = run_stream(executor, method, (&parameters, documents), &reply);
                drop(time);
                spans.end(outcome.as_ref().err().map(|it| &it.failure));
                outcome
                    .err()
                    .map(|failed| (ReplySender::Stream(reply), failed))
            }
            reply => {
                let outcome = run_once(executor, method, &parameters, (documents, parts));
                drop(time);
                spans.end(outcome.as_ref().err().map(|it| &it.failure));
                match outcome {
                    Ok(output) => {
                        reply.send(Ok(output));
                        None
                    }
                    Err(failed) => Some((reply, failed)),
                }
            }
        };
        drop(entered);
        if let Some((reply, failed)) = failed {
            self.failures.call(&failed.failure, failed.kind);
            reply.send(Err(failed.failure.clone()));
            self.exit.observe(&failed.failure, failed.kind);
        }
    }

    /// Begins the spans of a call for these requests.
    fn spans(&self, batch: &mut [Call]) -> CallSpans {
        let is_observed = |call: &&Call| call.trace.is_some() || call.timing.is_wanted();
        let Some(first) = batch.iter().find(is_observed) else {
            return CallSpans::default();
        };
        let endpoint = &self.endpoints.bindings[first.method.0].endpoint;
        let documents = batch.iter().map(|call| call.documents.len()).sum();
        let timings: Vec<Timing> = batch.iter().map(|call| call.timing.clone()).collect();
        let traces = batch.iter_mut().map(|call| call.trace.as_mut());
        let shared = (timings.len(), documents);
        CallSpans::begin(traces, (endpoint, documents)).timed(timings.into_iter(), shared)
    }

    /// Measures a call for these requests.
    fn time(&self, batch: &[Call]) -> Option<Stopwatch> {
        let (metrics, first) = (self.metrics.as_ref()?, batch.first()?);
        let trace = batch.iter().find_map(Call::trace_id);
        Some(metrics.call(first.endpoint, trace))
    }
}

/// Runs a method for a caller that gets all documents at once.
fn run_once<E>(
    executor: &mut E,
    method: &Method<E>,
    parameters: &Parameters,
    (mut documents, parts): (Vec<Document>, Vec<(String, usize)>),
) -> Result<CallOutput, CallFailure> {
    match method {
        Method::Batch(method) => catch_panic(|| {
            let tokens = method(executor, &mut documents, parameters)?;
            check_tokens(documents.len(), tokens.as_ref())?;
            Ok(CallOutput {
                usage: tokens.map(|it| it.usage(0..documents.len())),
                ..output(documents)
            })
        }),
        Method::Whole(method) => catch_panic(|| {
            let mut documents = documents.into_iter().collect();
            let results = method(executor, &mut documents, parameters)?;
            Ok(CallOutput {
                documents,
                results,
                usage: None,
            })
        }),
        Method::Matrix(method) => catch_panic(|| {
            let matrix = DocsMatrix::split(documents, parts);
            let (documents, results) = method(executor, matrix, parameters)?;
            Ok(CallOutput {
                documents,
                results,
                usage: None,
            })
        }),
        Method::Stream(_) => Err(CallFailure {
            failure: Failure::new(
                Code::Unimplemented,
                "this endpoint streams its documents: call `stream_doc`",
            ),
            kind: FailureKind::Error,
        }),
    }
}

/// Runs a method for a caller that gets its documents one by one.
fn run_stream<E>(
    executor: &mut E,
    method: &Method<E>,
    (parameters, documents): (&Parameters, Vec<Document>),
    reply: &DocumentSender,
) -> Result<(), CallFailure> {
    let mut is_too_slow = false;
    let mut send = |document| {
        let sent = reply.send(document);
        is_too_slow |= sent == Err(NotSent::TooSlow);
        sent.is_ok()
    };
    let outcome = match method {
        Method::Stream(method) => documents.into_iter().try_for_each(|document| {
            catch_panic(|| method(executor, document, parameters, &mut Emit(&mut send)))
        }),
        other => {
            let parts = vec![(String::new(), documents.len())];
            let output = run_once(executor, other, parameters, (documents, parts));
            output.map(|it| {
                it.documents.into_iter().all(&mut send);
            })
        }
    };
    match is_too_slow {
        true => Err(CallFailure {
            failure: reply.too_slow(),
            kind: FailureKind::Error,
        }),
        false => outcome,
    }
}

/// Counts a batch of this endpoint that leaves the queue, and how long its requests waited.
fn count(
    metrics: &ExecutorMetrics,
    batch: &[Call],
    (endpoint, reason): (EndpointIdx, LeaveReason),
) {
    let documents = batch.iter().map(|call| call.documents.len()).sum();
    metrics.batch(endpoint, reason, documents);
    let now = Instant::now();
    for call in batch {
        metrics.waited(call.endpoint, call.waited(now), call.trace_id());
    }
}

fn check_merged(before: usize, after: usize, has_results: bool) -> Result<(), CallError> {
    if before != after {
        return Err(CallError::new(format!(
            "a method that is batched must keep the number of documents: it got {before} and returned {after}"
        )));
    }
    if has_results {
        return Err(CallError::new(
            "a method that is batched cannot return results, because they belong to no single request",
        ));
    }
    Ok(())
}

fn output(documents: impl IntoIterator<Item = Document>) -> CallOutput {
    CallOutput {
        documents: documents.into_iter().collect(),
        results: None,
        usage: None,
    }
}

/// Checks that there is a number of tokens for each document.
fn check_tokens(documents: usize, tokens: Option<&Tokens>) -> Result<(), CallError> {
    match tokens.and_then(|it| it.wrong_number(documents)) {
        Some(counts) => Err(CallError::new(format!(
            "a method must report the tokens of each document: it got {documents} documents and reported {counts} numbers"
        ))),
        None => Ok(()),
    }
}

/// Sends each request its own documents, and what was counted of them.
fn send_outputs(batch: Vec<Call>, documents: Vec<Document>, tokens: Option<&Tokens>) {
    let mut documents = documents.into_iter();
    let mut start = 0;
    for call in batch {
        let end = start + call.documents.len();
        let own = documents.by_ref().take(end - start);
        call.reply.send(Ok(CallOutput {
            usage: tokens.map(|it| it.usage(start..end)),
            ..output(own)
        }));
        start = end;
    }
}

/// Runs the author's code for all requests of a batch.
fn run_method<T>(
    batch: &[Call],
    method: impl FnOnce() -> Result<T, CallError>,
) -> Result<T, CallFailure> {
    let ids = batch.iter().map(|call| Arc::clone(&call.id));
    let _entered = cancellation(batch.iter().map(|call| call.reply.watch())).enter();
    on_behalf_of(ids, || catch_panic(method))
}

/// The cancellation of a call for these callers.
fn cancellation(callers: impl IntoIterator<Item = ReplyWatch>) -> Cancellation {
    let callers: Vec<ReplyWatch> = callers.into_iter().collect();
    Cancellation::when(move || callers.iter().all(ReplyWatch::is_abandoned))
}

/// Runs the author's code. A panic becomes a failure with its message.
fn catch_panic<T>(method: impl FnOnce() -> Result<T, CallError>) -> Result<T, CallFailure> {
    match catch_unwind(AssertUnwindSafe(method)) {
        Ok(outcome) => outcome.map_err(|error| CallFailure {
            kind: match &error {
                error if error.is_final() => FailureKind::Final,
                error if error.is_cancelled() => FailureKind::Cancelled,
                _ => FailureKind::Error,
            },
            failure: error.into_failure(),
        }),
        Err(panic) => {
            let text = panic_message(&*panic);
            Err(CallFailure {
                failure: Failure::new(Code::ExecutorFailed, format!("panicked: {text}")),
                kind: FailureKind::Panic,
            })
        }
    }
}

pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
