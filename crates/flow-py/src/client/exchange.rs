//! The class `Exchange`.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use flow_client::{Client, ExchangeOptions, Outcome, RequestTemplate};
use flow_core::{Code, DocArrayVersion, Document, Failure};
use futures_util::FutureExt;
use pyo3::IntoPyObjectExt;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::feed::Feed;
use super::reply::Reply;
use super::tasks::Tasks;
use crate::document::{PyDocument, PyDocumentArray, all_to_rust, bad_document, to_rust};
use crate::runtime::{runtime, wait};

create_exception!(
    flow_serve._native,
    CallError,
    PyException,
    "A call failed as a whole. The arguments are the name of the failure's code, and a message."
);

/// Requests in progress, and their replies.
///
/// `step` returns a reply, `True` if a request can be sent, or `False` at the end.
#[pyclass(module = "flow_serve._native", frozen)]
#[derive(Debug)]
pub(crate) struct Exchange {
    template: RequestTemplate,
    feed: Feed,
    inner: Inner,
    tasks: Tasks,
}

type Inner = Arc<tokio::sync::Mutex<State>>;

#[derive(Debug)]
struct State {
    /// `None` after the exchange was cancelled.
    exchange: Option<flow_client::Exchange<()>>,
    /// Whether the post has a time-out. The post fails when it has passed, whether the gateway or this side notices that first.
    has_timeout: bool,
}

/// What a step came to.
enum Event {
    Wanted,
    Reply(Box<Reply>),
    Over,
}

#[pymethods]
impl Exchange {
    /// Sends a request with these documents: an array, a list of documents, or a list of encoded documents of DocArray.
    fn send(&self, py: Python<'_>, documents: &Bound<'_, PyAny>) -> PyResult<()> {
        let documents = documents_of(documents)?;
        let request = py.detach(|| self.template.request(documents));
        self.feed.push(request);
        Ok(())
    }

    /// Says that all requests have been sent.
    fn finish(&self) {
        self.feed.finish();
    }

    /// Waits for the next event.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let event = wait(py, next(Arc::clone(&self.inner), self.feed.clone()))?;
        to_python(py, event)
    }

    /// The next event if it is there already, or `None`.
    fn try_step<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let runtime = runtime()?;
        let event = py.detach(|| {
            let _context = runtime.enter();
            next(Arc::clone(&self.inner), self.feed.clone()).now_or_never()
        });
        event.map(|event| to_python(py, event)).transpose()
    }

    /// Calls `notify(event, error)` on another thread when there is an event.
    fn step_then(&self, notify: Py<PyAny>) -> PyResult<()> {
        let next = next(Arc::clone(&self.inner), self.feed.clone());
        self.tasks.spawn(notify, next, to_python)
    }

    /// Gives up the requests in progress.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let mut tasks = self.tasks.take();
        tasks.abort_all();
        let inner = Arc::clone(&self.inner);
        wait(py, async move {
            while tasks.join_next().await.is_some() {}
            inner.lock().await.exchange.take();
        })
    }
}

impl Exchange {
    pub(super) fn begin(
        client: &Client,
        template: RequestTemplate,
        options: &ExchangeOptions,
    ) -> PyResult<Self> {
        let feed = Feed::default();
        let _context = runtime()?.enter();
        let exchange = client.exchange(options, feed.clone());
        Ok(Self {
            template,
            feed,
            inner: Arc::new(tokio::sync::Mutex::new(State {
                exchange: Some(exchange),
                has_timeout: options.timeout.is_some(),
            })),
            tasks: Tasks::default(),
        })
    }
}

/// The next event of an exchange. Cancel safe.
async fn next(inner: Inner, feed: Feed) -> Result<Event, Failure> {
    let mut state = inner.lock().await;
    let has_timeout = state.has_timeout;
    let Some(exchange) = state.exchange.as_mut() else {
        return Ok(Event::Over);
    };
    let event = {
        let mut outcome = pin!(exchange.next());
        poll_fn(|context| match outcome.as_mut().poll(context) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if feed.take_wanted() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    };
    match event {
        None => Ok(Event::Wanted),
        Some(Some(outcome)) => reply(outcome, has_timeout),
        Some(None) => match exchange.end() {
            Some(Err(failure)) => Err(failure.clone()),
            _ => Ok(Event::Over),
        },
    }
}

/// A request that failed without a reply fails the post, and so does one that was too late.
fn reply(outcome: Outcome<()>, has_timeout: bool) -> Result<Event, Failure> {
    let Outcome {
        result, envelope, ..
    } = outcome;
    match (result, envelope) {
        (Ok(reply), Some(envelope)) => {
            let documents = Some(reply.documents);
            Ok(Event::Reply(Box::new(Reply::new(*envelope, documents))))
        }
        (Err(failure), _) if has_timeout && failure.code() == Code::DeadlineExceeded => {
            Err(failure)
        }
        (Err(_), Some(envelope)) if Reply::reports_failure(&envelope) => {
            Ok(Event::Reply(Box::new(Reply::new(*envelope, None))))
        }
        (Err(failure), _) => Err(failure),
        (Ok(_), None) => Err(Failure::new(
            Code::Internal,
            "a request has an outcome without a reply",
        )),
    }
}

fn to_python(py: Python<'_>, event: Result<Event, Failure>) -> PyResult<Bound<'_, PyAny>> {
    match event {
        Ok(Event::Wanted) => true.into_bound_py_any(py),
        Ok(Event::Over) => false.into_bound_py_any(py),
        Ok(Event::Reply(reply)) => Bound::new(py, *reply).map(Bound::into_any),
        Err(failure) => Err(call_error(&failure)),
    }
}

/// The exception for a failed call.
pub(super) fn call_error(failure: &Failure) -> PyErr {
    CallError::new_err((failure.code().as_str(), failure.to_string()))
}

fn documents_of(documents: &Bound<'_, PyAny>) -> PyResult<Vec<Document>> {
    if let Ok(array) = documents.cast::<PyDocumentArray>() {
        return all_to_rust(array);
    }
    let list = documents.cast::<PyList>()?;
    list.iter().map(|item| document_of(&item)).collect()
}

pub(super) fn document_of(item: &Bound<'_, PyAny>) -> PyResult<Document> {
    if let Ok(document) = item.cast::<PyDocument>() {
        return to_rust(document);
    }
    let encoded = item.cast::<PyBytes>().map_err(|_| {
        let text = format!("a `{}` is not a document", item.get_type());
        PyTypeError::new_err(text)
    })?;
    let encoded = encoded.as_bytes();
    let version = DocArrayVersion::of(encoded).unwrap_or_default();
    Document::decode(version, Bytes::copy_from_slice(encoded)).map_err(bad_document)
}
