//! Documents on their way to an endpoint, and the documents that come back.

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use flow_core::{Document, Failure};
use flow_net::{Client, Compression};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Map, Value};

use crate::exchange::{Exchange, ExchangeOptions};
use crate::reply::Reply;
use crate::request::RequestTemplate;

/// Documents of one request by default, as in Jina.
const REQUEST_SIZE: NonZeroUsize = NonZeroUsize::new(100).expect("is not zero");

/// Documents for an endpoint, and how to send them.
#[must_use = "nothing is sent before the replies are polled"]
pub struct Post<S> {
    client: Client,
    documents: S,
    template: RequestTemplate,
    request_size: NonZeroUsize,
    options: ExchangeOptions,
    progress: Option<ProgressCallback>,
}

type ProgressCallback = Box<dyn FnMut(Progress) + Send>;

/// The progress of a post, reported after each reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests that were answered, including failed ones.
    pub requests: usize,
    /// Documents that came back.
    pub documents: usize,
    /// Requests that failed.
    pub failed: usize,
}

impl<S> Post<S>
where
    S: Stream<Item = Document> + Send + 'static,
{
    pub(crate) fn new(client: Client, endpoint: &str, documents: S) -> Self {
        Self {
            client,
            documents,
            template: RequestTemplate {
                endpoint: endpoint.to_owned(),
                ..RequestTemplate::default()
            },
            request_size: REQUEST_SIZE,
            options: ExchangeOptions::default(),
            progress: None,
        }
    }

    /// Sets the documents of one request; 0 is taken as 1.
    pub fn request_size(mut self, documents: usize) -> Self {
        self.request_size = NonZeroUsize::new(documents).unwrap_or(NonZeroUsize::MIN);
        self
    }

    /// Returns replies in the order of the requests, rather than as they arrive.
    pub fn in_order(mut self) -> Self {
        self.options.in_order = true;
        self
    }

    /// Sets the maximum number of requests in progress; 0 is taken as 1. By default, 64 or as many as the gateway allows.
    pub fn prefetch(mut self, requests: usize) -> Self {
        self.options.prefetch = Some(NonZeroUsize::new(requests).unwrap_or(NonZeroUsize::MIN));
        self
    }

    /// Sets the time-out of the whole post.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Compresses the requests.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.options.compression = Some(compression);
        self
    }

    /// Retries connecting, and requests that did not run, up to this number of times. By default, nothing is retried.
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// States that running a request twice does no harm, so that retries include requests that may have run.
    pub fn idempotent(mut self) -> Self {
        self.options.idempotent = true;
        self
    }

    /// Sets the parameters of every request.
    pub fn parameters(mut self, parameters: Map<String, Value>) -> Self {
        self.template.parameters = parameters;
        self
    }

    /// Sends only to executors whose names begin with a match of this regular expression.
    pub fn target(mut self, expression: &str) -> Self {
        self.template.target = Some(expression.to_owned());
        self
    }

    /// Calls a function after each reply.
    pub fn on_progress(mut self, callback: impl FnMut(Progress) + Send + 'static) -> Self {
        self.progress = Some(Box::new(callback));
        self
    }

    /// Sends the documents, and returns the reply to each request. A request that failed is an error, and does not affect
    /// the others. An error of the connection is the last item.
    pub fn replies(self) -> impl Stream<Item = Result<Reply, Failure>> + Send {
        let Self {
            client,
            documents,
            template,
            request_size,
            options,
            mut progress,
        } = self;
        let chunks = documents.chunks(request_size.get());
        let requests = chunks.map(move |documents| (template.request(documents), ()));
        let mut counts = Progress::default();
        let results = Exchange::over(&client, &options, requests).into_results();
        results.inspect(move |result| {
            counts.add(result);
            if let Some(callback) = &mut progress {
                callback(counts);
            }
        })
    }

    /// Sends the documents, and returns those that come back. A request that failed is one error.
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

impl Progress {
    fn add(&mut self, result: &Result<Reply, Failure>) {
        self.requests += 1;
        match result {
            Ok(reply) => self.documents += reply.documents.len(),
            Err(_) => self.failed += 1,
        }
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
