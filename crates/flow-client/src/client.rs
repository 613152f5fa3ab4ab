//! A connection to a flow.

use std::time::Duration;

use flow_core::{Document, Failure};
use flow_net::grpc::metadata::Metadata;
use flow_net::{ConnectError, ConnectOptions};
use futures_util::Stream;
use futures_util::future::BoxFuture;

use crate::discovery::Discovery;
use crate::exchange::{Exchange, ExchangeOptions};
use crate::post::Post;
use crate::request::{Request, RequestTemplate};
use crate::streamed::{self, Documents};

/// A connection to a flow or to an executor. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    inner: flow_net::Client,
}

impl Client {
    /// Connects to `grpc://host:port`, or with TLS to `grpcs://host:port`.
    ///
    /// # Errors
    ///
    /// If the text is not a URL, or nothing answers there.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Ok(flow_net::Client::connect(url).await?.into())
    }

    /// Connects with options: TLS with your own files, or an API key.
    ///
    /// # Errors
    ///
    /// If the text is not a URL, a file cannot be used, or nothing answers there that the options trust.
    pub async fn connect_with(url: &str, options: ConnectOptions) -> Result<Self, ConnectError> {
        Ok(flow_net::Client::connect_with(url, options).await?.into())
    }

    /// Asks for the endpoints of the flow, for two seconds at most, or for `timeout` if that is shorter.
    pub async fn discover(&self, timeout: Option<Duration>) -> Discovery {
        Discovery::ask(&self.inner, timeout).await
    }

    /// Prepares to send documents to an endpoint, such as `/encode`. `documents` is polled only when the window has room.
    pub fn post<S>(&self, endpoint: &str, documents: S) -> Post<S>
    where
        S: Stream<Item = Document> + Send + 'static,
    {
        Post::new(self.inner.clone(), endpoint, documents)
    }

    /// Sends requests. Each has a tag, which comes back with its outcome. `requests` is polled only when the window has
    /// room, and nothing is sent before the exchange is polled.
    pub fn exchange<T: Send + 'static>(
        &self,
        options: &ExchangeOptions,
        requests: impl Stream<Item = (Request, T)> + Send + 'static,
    ) -> Exchange<T> {
        Exchange::over(&self.inner, options, requests)
    }
}

impl Client {
    /// Sends one document to an endpoint whose method is a generator, and returns the documents as they are made.
    ///
    /// # Errors
    ///
    /// If the request fails before the first document. An item is an error if the stream fails later; it is the last one.
    pub fn stream(
        &self,
        template: &RequestTemplate,
        document: &Document,
        timeout: Option<Duration>,
        metadata: Metadata,
    ) -> BoxFuture<'static, Result<Documents, Failure>> {
        streamed::stream(&self.inner, template, document, timeout, metadata)
    }
}

impl From<flow_net::Client> for Client {
    fn from(inner: flow_net::Client) -> Self {
        Self { inner }
    }
}
