//! The methods of an executor, and the endpoints to which they are bound.

use std::collections::BTreeMap;

use flow_core::parameters::Accepted;
use flow_core::{Document, DocumentArray, Endpoint};
use serde_json::{Map, Value};

use crate::sdk::{Batching, CallError, DocsMatrix, IntoTokens, MethodSchema, Parameters, Tokens};

/// The methods of an executor, bound to endpoints.
#[derive(Debug)]
pub struct Endpoints<E> {
    pub(crate) bindings: Vec<Binding<E>>,
    /// Endpoint → how requests to it share calls.
    pub(crate) batching: BTreeMap<String, Batching>,
    /// Endpoint → the parameters that its method accepts, if they are declared.
    pub(crate) accepted: BTreeMap<String, Accepted>,
    pub(crate) weigher: Option<Weigher<E>>,
}

/// Computes the weight of a document.
pub(crate) struct Weigher<E>(pub(crate) WeighFn<E>);

/// Of the executor, the endpoint and the document.
type WeighFn<E> = Box<dyn Fn(&E, &str, &Document) -> usize + Send + Sync>;

impl<E> std::fmt::Debug for Weigher<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Weigher")
    }
}

/// A method and its endpoint.
#[derive(Debug)]
pub(crate) struct Binding<E> {
    pub(crate) endpoint: String,
    /// The method's name, if it is not that of its endpoint.
    pub(crate) name: Option<String>,
    /// What discovery says about its documents and parameters.
    pub(crate) schema: MethodSchema,
    pub(crate) method: Method<E>,
}

/// A method, by how it takes its documents.
pub(crate) enum Method<E> {
    /// Documents of one or several requests; it must keep their number.
    Batch(BatchMethod<E>),
    /// The documents of one request; it may add and remove some.
    Whole(WholeMethod<E>),
    /// The parts of a join, separately; it makes the documents of the reply.
    Matrix(MatrixMethod<E>),
    /// One document; it sends documents as it makes them.
    Stream(StreamMethod<E>),
}

type BatchMethod<E> = Box<
    dyn Fn(&mut E, &mut [Document], &Parameters) -> Result<Option<Tokens>, CallError> + Send + Sync,
>;

pub(crate) type WholeMethod<E> = Box<
    dyn Fn(&mut E, &mut DocumentArray, &Parameters) -> Result<Option<Map<String, Value>>, CallError>
        + Send
        + Sync,
>;

type MatrixMethod<E> =
    Box<dyn Fn(&mut E, DocsMatrix, &Parameters) -> Result<MatrixOutput, CallError> + Send + Sync>;

/// The documents of a reply, and the results that the client gets under `__results__`.
type MatrixOutput = (DocumentArray, Option<Map<String, Value>>);

type StreamMethod<E> = Box<
    dyn Fn(&mut E, Document, &Parameters, &mut Emit<'_>) -> Result<(), CallError> + Send + Sync,
>;

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

/// What a method may return besides the documents that it changed.
pub trait IntoResults {
    /// The results that the client gets under `__results__`, if any.
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

/// Sends the documents of a streaming method, one by one.
#[allow(
    missing_debug_implementations,
    reason = "a borrowed closure has nothing to show"
)]
pub struct Emit<'a>(pub(crate) &'a mut dyn FnMut(Document) -> bool);

impl Emit<'_> {
    /// Sends one document to the caller, and waits while the caller is slow.
    ///
    /// # Errors
    ///
    /// If the caller has gone; the method should end.
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
            bindings: Vec::new(),
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

    /// Binds a method that takes the documents of one request. It may change, add and remove them, and return a map that
    /// the client gets under `__results__`.
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

    /// Binds a method that takes documents of one or several requests with equal parameters. It cannot change their
    /// number, so requests that wait while the executor works share its next call.
    ///
    /// It returns nothing, or the [`Tokens`] that a model read for each document.
    #[must_use]
    pub fn on_batch<R: IntoTokens>(
        self,
        endpoint: &str,
        method: impl Fn(&mut E, &mut [Document], &Parameters) -> Result<R, CallError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let boxed: BatchMethod<E> = Box::new(move |executor, docs, parameters| {
            method(executor, docs, parameters).map(IntoTokens::into_tokens)
        });
        self.bind(endpoint, Method::Batch(boxed))
    }

    /// Binds a method that takes the inputs of a join separately, and makes the documents of the reply. It is for nodes
    /// with several `needs` and `no_reduce`. Other methods get the documents of all inputs one after another.
    #[must_use]
    pub fn on_matrix(
        self,
        endpoint: &str,
        method: impl Fn(&mut E, DocsMatrix, &Parameters) -> Result<DocumentArray, CallError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.on_matrix_with_results(endpoint, move |executor, matrix, parameters| {
            method(executor, matrix, parameters).map(|documents| (documents, None))
        })
    }

    /// Binds a method as [`on_matrix`](Self::on_matrix) does, which may also return a map that the client gets under
    /// `__results__`.
    #[must_use]
    pub fn on_matrix_with_results(
        self,
        endpoint: &str,
        method: impl Fn(
            &mut E,
            DocsMatrix,
            &Parameters,
        ) -> Result<(DocumentArray, Option<Map<String, Value>>), CallError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.bind(endpoint, Method::Matrix(Box::new(method)))
    }

    /// Names the method that was bound last. The flow file names methods in `uses_requests` and
    /// `uses_dynamic_batching`; without this, that of `/encode` is called `encode`. Methods of the same name are one.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        if let Some(last) = self.bindings.last_mut() {
            last.name = Some(name.to_owned());
        }
        self
    }

    /// Describes the documents and parameters of the method that was bound last, for discovery and the gateway's OpenAPI
    /// document. Without this, its documents are described as any document.
    #[must_use]
    pub fn described(mut self, schema: MethodSchema) -> Self {
        if let Some(last) = self.bindings.last_mut() {
            last.schema = schema;
        }
        self
    }

    /// Binds a method that takes one document and sends documents as it makes them (`stream_doc`).
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

    /// Binds a method to every endpoint without a method of its own, as [`on`](Self::on) does.
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

    /// Binds a method to every endpoint without a method of its own, as [`on_batch`](Self::on_batch) does.
    #[must_use]
    pub fn default_batch<R: IntoTokens>(
        self,
        method: impl Fn(&mut E, &mut [Document], &Parameters) -> Result<R, CallError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.on_batch(Endpoint::DEFAULT, method)
    }

    /// Sets how requests to `endpoint` share calls, unless the flow file overrides it (`uses_dynamic_batching`).
    ///
    /// By default, requests to methods bound with `on_batch` share the next call when a worker is free, and other requests
    /// run one by one. A method bound with [`on`](Self::on) for which this is set must keep the number of documents and
    /// return no results.
    #[must_use]
    pub fn batching(mut self, endpoint: &str, batching: Batching) -> Self {
        self.batching.insert(endpoint.to_owned(), batching);
        self
    }

    /// Declares which parameters the method of `endpoint` reads, so that a misspelt one is refused.
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
    /// All executors of a flow get a request's parameters, so an executor ignores those that it does not know. The gateway
    /// refuses a parameter that no executor accepts, if all executors that the request reaches declare theirs. It also
    /// refuses a parameter for a single executor (`index__top_k`, or `index: {top_k: 5}`) that this one does not accept.
    /// An executor that a client calls without a gateway does the same. The request fails with the code of
    /// [`CallError::bad_request`], and the error names the closest parameter.
    ///
    /// Without this the method may read any parameter, and none is refused. Without `names` it reads none. Endpoints that
    /// the flow file binds to the method (`uses_requests`) accept the same.
    #[must_use]
    pub fn accepts<'n>(mut self, endpoint: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        let accepted = names.into_iter().collect();
        self.accepted.insert(endpoint.to_owned(), accepted);
        self
    }

    /// Sets the weight of a document for batches with [`BatchMetric::Custom`](crate::BatchMetric::Custom), such as its tokens or
    /// pixels. A worker calls it once for each document.
    #[must_use]
    pub fn weigh_by(self, weight: impl Fn(&E, &Document) -> usize + Send + Sync + 'static) -> Self {
        self.weigh_by_endpoint(move |executor, _, document| weight(executor, document))
    }

    /// The same for weights that depend on the endpoint.
    #[must_use]
    pub fn weigh_by_endpoint(
        mut self,
        weight: impl Fn(&E, &str, &Document) -> usize + Send + Sync + 'static,
    ) -> Self {
        self.weigher = Some(Weigher(Box::new(weight)));
        self
    }

    fn bind(mut self, endpoint: &str, method: Method<E>) -> Self {
        self.bindings.push(Binding {
            endpoint: endpoint.to_owned(),
            name: None,
            schema: MethodSchema::default(),
            method,
        });
        self
    }
}
