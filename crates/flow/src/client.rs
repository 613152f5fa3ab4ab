//! A stream of documents to a flow, and a stream of documents back.

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use flow_core::{Code, Document, DocumentArray, Failure, RequestId};
use flow_net::{ConnectError, PostOptions};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use flow_proto::jina::status_proto::StatusCode;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value};

/// Documents of one request unless something else is said, as in Jina.
const REQUEST_SIZE: NonZeroUsize = NonZeroUsize::new(100).expect("is not zero");

/// A connection to a flow or to an executor. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    inner: flow_net::Client,
}

/// Documents on their way to an endpoint, and how they go.
#[must_use = "nothing is sent before the replies are asked for"]
pub struct Post<S> {
    client: flow_net::Client,
    documents: S,
    template: Template,
    request_size: NonZeroUsize,
    options: PostOptions,
    progress: Option<Box<dyn FnMut(Progress) + Send>>,
}

/// How far a post has come, told after each reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests that were answered, failed ones too.
    pub requests: usize,
    /// Documents that came back.
    pub documents: usize,
    /// Requests that failed.
    pub failed: usize,
}

/// The answer to one request.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Its documents.
    pub documents: DocumentArray,
    /// What executors returned besides documents, by their names.
    pub results: Map<String, Value>,
}

/// What all requests of a post have in common.
#[derive(Debug, Clone)]
struct Template {
    endpoint: String,
    target: Option<String>,
    parameters: Map<String, Value>,
}

impl Client {
    /// Connects to `grpc://host:port`.
    ///
    /// # Errors
    /// If the URL is not one, or nobody answers.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        let inner = flow_net::Client::connect(url).await?;
        Ok(Self { inner })
    }

    /// Documents for an endpoint, such as `/encode`. They are asked for only when there is room for them.
    pub fn post<S>(&self, endpoint: &str, documents: S) -> Post<S>
    where
        S: Stream<Item = Document> + Send + 'static,
    {
        Post {
            client: self.inner.clone(),
            documents,
            template: Template {
                endpoint: endpoint.to_owned(),
                target: None,
                parameters: Map::new(),
            },
            request_size: REQUEST_SIZE,
            options: PostOptions::default(),
            progress: None,
        }
    }
}

impl<S> Post<S>
where
    S: Stream<Item = Document> + Send + 'static,
{
    /// Documents of one request; 0 is taken as 1.
    pub fn request_size(mut self, documents: usize) -> Self {
        self.request_size = NonZeroUsize::new(documents).unwrap_or(NonZeroUsize::MIN);
        self
    }

    /// Replies come in the order of the requests, rather than as they are done.
    pub fn in_order(mut self) -> Self {
        self.options.results_in_order = true;
        self
    }

    /// Requests that may be under way; without it as many as the gateway says.
    pub fn prefetch(mut self, requests: usize) -> Self {
        self.options.prefetch = Some(requests);
        self
    }

    /// How long the whole of it may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Parameters of every request.
    pub fn parameters(mut self, parameters: Map<String, Value>) -> Self {
        self.template.parameters = parameters;
        self
    }

    /// Only executors whose names begin with a match of this regular expression work on the documents.
    pub fn target(mut self, expression: &str) -> Self {
        self.template.target = Some(expression.to_owned());
        self
    }

    /// Called after each reply.
    pub fn on_progress(mut self, tell: impl FnMut(Progress) + Send + 'static) -> Self {
        self.progress = Some(Box::new(tell));
        self
    }

    /// Sends, and gives each request's answer. A request that failed is an error and costs only itself;
    /// an error of the connection is the last item.
    pub fn replies(self) -> impl Stream<Item = Result<Reply, Failure>> + Send {
        let Self {
            client,
            documents,
            template,
            request_size,
            options,
            progress,
        } = self;
        let documents = documents.chunks(request_size.get());
        let requests = documents.map(move |documents| template.request(documents));
        let open = async move { client.post(&options, requests).await };
        let replies = stream::once(open).try_flatten();
        let mut tell = Teller {
            progress: Progress::default(),
            tell: progress,
        };
        replies.map(move |envelope| {
            let reply = envelope.and_then(|envelope| Reply::read(&envelope));
            tell.count(&reply);
            reply
        })
    }

    /// Sends, and gives the documents that come back. A request that failed is one error in their place.
    pub fn documents(self) -> impl Stream<Item = Result<Document, Failure>> + Send {
        self.replies().flat_map(|reply| {
            let items: Vec<_> = match reply {
                Ok(reply) => reply.documents.into_iter().map(Ok).collect(),
                Err(failure) => vec![Err(failure)],
            };
            stream::iter(items)
        })
    }
}

impl<S> fmt::Debug for Post<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post")
            .field("endpoint", &self.template.endpoint)
            .field("request_size", &self.request_size)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Template {
    fn request(&self, documents: Vec<Document>) -> Envelope {
        let documents: DocumentArray = documents.into_iter().collect();
        Envelope {
            header: Some(HeaderProto {
                request_id: RequestId::random().into(),
                exec_endpoint: Some(self.endpoint.clone()),
                target_executor: self.target.clone(),
                ..HeaderProto::default()
            }),
            parameters: (!self.parameters.is_empty())
                .then(|| flow_core::parameters::from_json(&self.parameters)),
            data: Some(documents.encode()),
            ..Envelope::default()
        }
    }
}

impl Reply {
    fn read(envelope: &Envelope) -> Result<Self, Failure> {
        let status = envelope
            .header
            .as_ref()
            .and_then(|header| header.status.as_ref());
        if let Some(status) = status.filter(|status| status.code() == StatusCode::Error) {
            let exception = status.exception.clone().unwrap_or_default();
            let said = [status.description.as_str(), exception.name.as_str()];
            let said = said.into_iter().find(|text| !text.is_empty());
            let failure = Failure::new(Code::ExecutorFailed, said.unwrap_or("no cause was told"));
            return Err(failure.at(exception.executor));
        }
        let documents = envelope
            .data
            .as_ref()
            .map(DocumentArray::decode)
            .transpose();
        let documents = documents
            .map_err(|error| Failure::from_error(Code::Internal, &error))?
            .unwrap_or_default();
        let mut parameters = flow_core::parameters::to_json(envelope.parameters.as_ref());
        let results = match parameters.remove("__results__") {
            Some(Value::Object(results)) => results,
            _ => Map::new(),
        };
        Ok(Self { documents, results })
    }
}

/// Tells how far it has come.
struct Teller {
    progress: Progress,
    tell: Option<Box<dyn FnMut(Progress) + Send>>,
}

impl Teller {
    fn count(&mut self, reply: &Result<Reply, Failure>) {
        self.progress.requests += 1;
        match reply {
            Ok(reply) => self.progress.documents += reply.documents.len(),
            Err(_) => self.progress.failed += 1,
        }
        if let Some(tell) = &mut self.tell {
            tell(self.progress);
        }
    }
}
