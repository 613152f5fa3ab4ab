//! Which method answers which endpoint.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use flow_core::parameters::Accepted;
use flow_core::{Document, DocumentArray, Endpoint};

use crate::{Batching, CallError, DocsMatrix, Parameters};

/// The methods of an executor, bound to endpoints.
#[derive(Debug)]
pub struct Endpoints<E> {
    pub(crate) bound: Vec<Binding<E>>,
    /// Endpoint → how requests to it share calls.
    pub(crate) batching: BTreeMap<String, Batching>,
    /// Endpoint → the parameters that its method accepts, where that is said.
    pub(crate) accepted: BTreeMap<String, Accepted>,
    pub(crate) weigher: Option<Weigher<E>>,
}

/// What a document weighs, as the executor sees it.
pub(crate) struct Weigher<E>(pub(crate) WeighFn<E>);

type WeighFn<E> = Box<dyn Fn(&E, &Document) -> usize + Send + Sync>;

impl<E> std::fmt::Debug for Weigher<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Weigher")
    }
}

/// One method and the endpoint it answers.
#[derive(Debug)]
pub(crate) struct Binding<E> {
    pub(crate) endpoint: String,
    pub(crate) method: Method<E>,
}

/// How a method wants its documents.
pub(crate) enum Method<E> {
    /// Documents of several requests at once, their number fixed.
    Batch(BatchMethod<E>),
    /// The documents of one request, to change as it likes.
    Whole(WholeMethod<E>),
    /// The parts of a join, apart; makes the documents of the reply.
    Matrix(MatrixMethod<E>),
    /// One document in, documents out as they are made.
    Stream(StreamMethod<E>),
}

pub(crate) type BatchMethod<E> = fn_box::Batch<E>;
pub(crate) type WholeMethod<E> = fn_box::Whole<E>;
type MatrixMethod<E> = fn_box::Matrix<E>;
type StreamMethod<E> = fn_box::Stream<E>;

/// The boxed forms, apart so that they can be read.
mod fn_box {
    use super::{CallError, DocsMatrix, Document, DocumentArray, Emit, Map, Parameters, Value};

    pub(crate) type Batch<E> =
        Box<dyn Fn(&mut E, &mut [Document], &Parameters) -> Result<(), CallError> + Send + Sync>;
    pub(crate) type Whole<E> = Box<
        dyn Fn(
                &mut E,
                &mut DocumentArray,
                &Parameters,
            ) -> Result<Option<Map<String, Value>>, CallError>
            + Send
            + Sync,
    >;
    pub(crate) type Matrix<E> = Box<
        dyn Fn(&mut E, DocsMatrix, &Parameters) -> Result<DocumentArray, CallError> + Send + Sync,
    >;
    pub(crate) type Stream<E> = Box<
        dyn Fn(&mut E, Document, &Parameters, &mut Emit<'_>) -> Result<(), CallError> + Send + Sync,
    >;
}

impl<E> std::fmt::Debug for Method<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Batch(_) => "Batch",
            Self::Whole(_) => "Whole",
            Self::Matrix(_) => "Matrix",
            Self::Stream(_) => "Stream",
        })
    }
}

/// What a method may return besides the documents it changed.
pub trait IntoResults {
    /// Goes to the client under `__results__`, if there is any.
    fn into_results(self) -> Option<Map<String, Value>>;
}

impl IntoResults for () {
    fn into_results(self) -> Option<Map<String, Value>> {
        None
    }
}

impl IntoResults for Map<String, Value> {
    fn into_results(self) -> Option<Map<String, Value>> {
        Some(self)
    }
}

/// Where a streaming method puts its documents, one by one.
#[allow(
    missing_debug_implementations,
    reason = "a borrowed closure has nothing to show"
)]
pub struct Emit<'a>(pub(crate) &'a mut dyn FnMut(Document) -> bool);

impl Emit<'_> {
    /// Sends one document to the caller; waits while the caller is slow.
    ///
    /// # Errors
    ///
    /// If the caller has gone: there is no reason to go on.
    pub fn send(&mut self, document: Document) -> Result<(), CallError> {
        if (self.0)(document) {
            Ok(())
        } else {
            Err(CallError::new("the caller has gone"))
        }
    }
}

impl<E> Default for Endpoints<E> {
    fn default() -> Self {
        Self {
            bound: Vec::new(),
            batching: BTreeMap::new(),
            accepted: BTreeMap::new(),
            weigher: None,
        }
    }
}

impl<E: 'static> Endpoints<E> {
    /// No endpoints yet.
    #[must_use]
    pub fn new() -> Self {
        <Self as Default>::default()
    }

    /// `method` gets the documents of one request; it may change, add and remove them, and return a map
    /// that the client finds under `__results__`.
    #[must_use]
    pub fn on<R: IntoResults>(
        self,
        endpoint: &str,
        method: impl Fn(&mut E, &mut DocumentArray, &Parameters) -> Result<R, CallError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let boxed: WholeMethod<E> = Box::new(move |executor, docs, parameters| {
            method(executor, docs, parameters).map(IntoResults::into_results)
        });
        self.bind(endpoint, Method::Whole(boxed))
    }

    /// `method` gets documents of one or several requests with equal parameters. Their number cannot
    /// change, so requests that wait while the executor works share its next call.
    #[must_use]
    pub fn on_batch(
        self,
        endpoint: &str,
        method: impl Fn(&mut E, &mut [Document], &Parameters) -> Result<(), CallError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.bind(endpoint, Method::Batch(Box::new(method)))
    }

    /// `method` gets the inputs of a join apart, and makes the documents of the reply. It is for nodes with
    /// several `needs` and `no_reduce`; methods bound otherwise get the documents of all inputs in a row.
    #[must_use]
    pub fn on_matrix(
        self,
        endpoint: &str,
        method: impl Fn(&mut E, DocsMatrix, &Parameters) -> Result<DocumentArray, CallError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.bind(endpoint, Method::Matrix(Box::new(method)))
    }

    /// `method` gets one document and sends documents as it makes them (`stream_doc`).
    #[must_use]
    pub fn on_stream(
        self,
        endpoint: &str,
        method: impl Fn(&mut E, Document, &Parameters, &mut Emit<'_>) -> Result<(), CallError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.bind(endpoint, Method::Stream(Box::new(method)))
    }

    /// `method` answers every endpoint that has no method of its own, as [`on`](Self::on) does.
    #[must_use]
    pub fn default<R: IntoResults>(
        self,
        method: impl Fn(&mut E, &mut DocumentArray, &Parameters) -> Result<R, CallError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.on(Endpoint::DEFAULT, method)
    }

    /// `method` answers every endpoint that has no method of its own, as [`on_batch`](Self::on_batch) does.
    #[must_use]
    pub fn default_batch(
        self,
        method: impl Fn(&mut E, &mut [Document], &Parameters) -> Result<(), CallError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.on_batch(Endpoint::DEFAULT, method)
    }

    /// How requests to `endpoint` share calls, unless the flow file says otherwise (`uses_dynamic_batching`).
    ///
    /// Without it, requests to methods bound with `on_batch` share the next call when a worker is free, and
    /// others go one by one. A method bound with [`on`](Self::on) that is given a rule must not change the
    /// number of documents, and returns no results.
    #[must_use]
    pub fn batching(mut self, endpoint: &str, batching: Batching) -> Self {
        self.batching.insert(endpoint.to_owned(), batching);
        self
    }

    /// Says which parameters the method of `endpoint` reads, so that a misspelt one is refused.
    ///
    /// ```
    /// # use flow_executor::{CallError, Document, Endpoints, Parameters};
    /// # struct Index;
    /// # impl Index {
    /// #     fn search(&mut self, _: &mut [Document], _: &Parameters) -> Result<(), CallError> { Ok(()) }
    /// # }
    /// # let endpoints: Endpoints<Index> =
    /// Endpoints::new()
    ///     .on_batch("/search", Index::search)
    ///     .accepts("/search", ["top_k", "filter"])
    /// # ;
    /// ```
    ///
    /// A request's parameters go to all executors of a flow, so an executor ignores those that it does not
    /// know. The gateway refuses a parameter that none of the executors accepts, if all executors that the
    /// request reaches say what they accept; and one that is for a single executor (`index__top_k`, or
    /// `index: {top_k: 5}`) and is not accepted there. An executor that a client calls without a gateway
    /// does the same. The request fails with [`CallError::bad_request`]'s code, and the error names the
    /// closest parameter.
    ///
    /// Without this the method may read any parameter, and none is refused. Empty `names` say that it reads
    /// none. Endpoints that the flow file binds to the method (`uses_requests`) accept the same.
    #[must_use]
    pub fn accepts<'n>(mut self, endpoint: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        let accepted = names.into_iter().collect();
        self.accepted.insert(endpoint.to_owned(), accepted);
        self
    }

    /// What a document weighs where batches are counted by [`Metric::Custom`](crate::Metric::Custom): its
    /// tokens, its pixels. Called once for each document, on a worker's thread.
    #[must_use]
    pub fn weigh_by(
        mut self,
        weight: impl Fn(&E, &Document) -> usize + Send + Sync + 'static,
    ) -> Self {
        self.weigher = Some(Weigher(Box::new(weight)));
        self
    }

    fn bind(mut self, endpoint: &str, method: Method<E>) -> Self {
        self.bound.push(Binding {
            endpoint: endpoint.to_owned(),
            method,
        });
        self
    }
}
