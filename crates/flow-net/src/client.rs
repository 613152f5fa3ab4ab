//! A client of gateways and executors: sends requests and returns the replies.

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, Instant};

use flow_core::{Deadline, Failure};
use flow_proto::Envelope;
use flow_proto::jina::{EndpointsProto, SingleDocumentRequestProto, StatusProto};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::compression::Compression;
use crate::grpc::Metadata;
use crate::grpc::jina_discover_endpoints_rpc_client::JinaDiscoverEndpointsRpcClient;
use crate::grpc::jina_gateway_dry_run_rpc_client::JinaGatewayDryRunRpcClient;
use crate::grpc::jina_rpc_client::JinaRpcClient;
use crate::grpc::jina_single_data_request_rpc_client::JinaSingleDataRequestRpcClient;
use crate::grpc::jina_single_document_request_rpc_client::JinaSingleDocumentRequestRpcClient;
use crate::limits::Limits;
use crate::replica::{Connector, PeerSpoke, endpoint, socket_path, within};
use crate::status::to_failure;
use crate::tls::{ClientTls, TlsError, TlsOptions};

/// A connection to a gateway or an executor. Clones share the connection.
///
/// Most methods return boxed futures, so that the code of the HTTP/2 client is compiled in this crate and not once more in
/// each program that uses it.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    api_key: Option<ApiKey>,
    limits: Limits,
}

/// How a connection is made.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// TLS, for addresses that begin with `grpcs://`.
    pub tls: TlsOptions,
    /// The key that every request is sent with.
    pub api_key: Option<ApiKey>,
}

/// An API key of a gateway. Its text is never printed.
#[derive(Clone)]
pub struct ApiKey(MetadataValue<Ascii>);

/// The text is no API key.
#[derive(Debug, thiserror::Error)]
#[error("the API key is empty or contains invalid characters")]
pub struct BadApiKey;

/// The connection could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The text is not a usable URL.
    #[error("`{url}` is not an address: write `grpc://host:port` or `unix:/path`")]
    Url {
        /// The text.
        url: String,
        /// The cause, unless the message says it all.
        source: Option<tonic::transport::Error>,
    },
    /// There are options of TLS for a connection without it.
    #[error("`{url}` is not encrypted, so TLS options have no effect: write `grpcs://host:port`")]
    NotEncrypted {
        /// The text.
        url: String,
    },
    /// A file for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Nothing answers at that address.
    #[error("cannot connect to `{url}`; is the flow up?")]
    Connect {
        /// The text.
        url: String,
        /// The cause.
        source: tonic::transport::Error,
    },
}

/// Replies as they arrive.
pub type Replies = Pin<Box<dyn Stream<Item = Result<Envelope, Failure>> + Send>>;

/// Documents of a stream as they arrive.
pub type StreamedReplies = BoxStream<'static, Result<SingleDocumentRequestProto, Failure>>;

/// Options of a stream of requests.
#[derive(Debug, Clone, Default)]
pub struct PostOptions {
    /// Requests in progress; `None` for the gateway's default.
    pub prefetch: Option<usize>,
    /// Whether replies arrive in the order of the requests, rather than as they are done.
    pub results_in_order: bool,
    /// Time-out of the whole stream.
    pub timeout: Option<Duration>,
    /// Compression of requests.
    pub compression: Option<Compression>,
    /// Further metadata of the call.
    pub metadata: Metadata,
}

impl Client {
    /// Connects to `grpc://host:port`, with TLS to `grpcs://host:port`, or to a Unix socket at `unix:/path`.
    ///
    /// # Errors
    ///
    /// If the text is not a URL, or nothing answers there.
    pub fn connect(url: &str) -> BoxFuture<'_, Result<Self, ConnectError>> {
        Self::connect_with(url, ConnectOptions::default())
    }

    /// Connects with these options.
    ///
    /// # Errors
    ///
    /// If the text is not a URL, a file cannot be used, or nothing answers there that the options trust.
    pub fn connect_with(
        url: &str,
        options: ConnectOptions,
    ) -> BoxFuture<'_, Result<Self, ConnectError>> {
        Box::pin(async move {
            let uri = http_uri(url)?;
            let tls = tls(url, &uri, options.tls)?;
            let connector = Connector::new(tls, PeerSpoke::default()).to(&uri);
            let endpoint = endpoint(&uri).map_err(|source| ConnectError::Url {
                url: url.to_owned(),
                source: Some(source.into_cause()),
            })?;
            let channel = endpoint.connect_with_connector(connector).await;
            Ok(Self {
                channel: channel.map_err(|source| ConnectError::Connect {
                    url: url.to_owned(),
                    source,
                })?,
                api_key: options.api_key,
                limits: Limits::default(),
            })
        })
    }

    /// A request with the key of this client.
    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(ApiKey(value)) = &self.api_key {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        request
    }

    /// Sends a stream of requests and returns one reply for each. `requests` is polled only when the gateway can take
    /// the next one.
    ///
    /// # Errors
    ///
    /// If the stream cannot be opened. An item is an error if the stream ends before the last reply.
    pub async fn post(
        &self,
        options: &PostOptions,
        requests: impl Stream<Item = Envelope> + Send + 'static,
    ) -> Result<Replies, Failure> {
        let mut client = JinaRpcClient::new(self.channel.clone())
            .max_decoding_message_size(self.limits.message_len_max)
            .max_encoding_message_size(self.limits.message_len_max);
        if let Some(compression) = options.compression {
            client = client.send_compressed(compression.into());
        }
        let request = with_options(self.request(requests), options);
        let replies = client
            .call(request)
            .await
            .map_err(|status| to_failure(&status))?;
        let replies = replies.into_inner();
        Ok(Box::pin(replies.map(|reply| {
            reply.map_err(|status: Status| to_failure(&status))
        })))
    }

    /// Sends one request and returns its reply.
    ///
    /// # Errors
    ///
    /// If there is no reply. A reply that reports a failure is a reply.
    pub fn single(
        &self,
        request: Envelope,
        deadline: Deadline,
    ) -> BoxFuture<'_, Result<Envelope, Failure>> {
        Box::pin(async move {
            let mut client = JinaSingleDataRequestRpcClient::new(self.channel.clone())
                .max_decoding_message_size(self.limits.message_len_max)
                .max_encoding_message_size(self.limits.message_len_max);
            let request = with_deadline(self.request(request), deadline);
            Ok(within(deadline, client.process_single_data(request))
                .await?
                .into_inner())
        })
    }

    /// Sends one request with options, and returns its reply. Options of streams have no effect.
    ///
    /// # Errors
    ///
    /// If there is no reply. A reply that reports a failure is a reply.
    pub fn single_with(
        &self,
        request: Envelope,
        options: &PostOptions,
    ) -> BoxFuture<'static, Result<Envelope, Failure>> {
        let mut client = JinaSingleDataRequestRpcClient::new(self.channel.clone())
            .max_decoding_message_size(self.limits.message_len_max)
            .max_encoding_message_size(self.limits.message_len_max);
        if let Some(compression) = options.compression {
            client = client.send_compressed(compression.into());
        }
        let request = with_options(self.request(request), options);
        Box::pin(async move {
            let reply = client.process_single_data(request).await;
            let reply = reply.map_err(|status| to_failure(&status))?;
            Ok(reply.into_inner())
        })
    }

    /// Sends one document, and returns those that the executor streams in answer. Options of streams of requests have no
    /// effect.
    ///
    /// # Errors
    ///
    /// If the stream cannot be opened. An item is an error if the stream breaks; one that reports a failure is an item.
    pub fn stream_documents(
        &self,
        request: SingleDocumentRequestProto,
        options: &PostOptions,
    ) -> BoxFuture<'static, Result<StreamedReplies, Failure>> {
        let mut client = JinaSingleDocumentRequestRpcClient::new(self.channel.clone())
            .max_decoding_message_size(self.limits.message_len_max)
            .max_encoding_message_size(self.limits.message_len_max);
        let request = with_options(self.request(request), options);
        Box::pin(async move {
            let replies = client.stream_doc(request).await;
            let replies = replies.map_err(|status| to_failure(&status))?.into_inner();
            let replies = replies.map(|it| it.map_err(|status| to_failure(&status)));
            Ok(replies.boxed())
        })
    }

    /// Sends an empty request through the gateway's whole flow.
    ///
    /// # Errors
    ///
    /// If the gateway cannot be reached or is busy. A flow that does not work is a status that says so.
    pub fn dry_run(&self, deadline: Deadline) -> BoxFuture<'_, Result<StatusProto, Failure>> {
        Box::pin(async move {
            let mut client = JinaGatewayDryRunRpcClient::new(self.channel.clone());
            let request = with_deadline(self.request(()), deadline);
            Ok(within(deadline, client.dry_run(request))
                .await?
                .into_inner())
        })
    }

    /// The endpoints of the executor, or of all executors of the gateway.
    ///
    /// # Errors
    ///
    /// If it cannot be reached, or has no discovery, as stock gateways with the first version of DocArray.
    pub fn endpoints(&self, deadline: Deadline) -> BoxFuture<'_, Result<EndpointsProto, Failure>> {
        Box::pin(async move {
            let mut client = JinaDiscoverEndpointsRpcClient::new(self.channel.clone());
            let request = with_deadline(self.request(()), deadline);
            Ok(within(deadline, client.endpoint_discovery(request))
                .await?
                .into_inner())
        })
    }

    /// Whether the process reports that it serves.
    ///
    /// # Errors
    ///
    /// If it cannot be reached, or has no health service.
    pub fn is_serving(&self, deadline: Deadline) -> BoxFuture<'_, Result<bool, Failure>> {
        Box::pin(async move {
            use tonic_health::pb::health_check_response::ServingStatus;
            use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

            let mut client = HealthClient::new(self.channel.clone());
            let request = with_deadline(self.request(HealthCheckRequest::default()), deadline);
            let reply = within(deadline, client.check(request)).await?;
            Ok(reply.into_inner().status() == ServingStatus::Serving)
        })
    }
}

impl ApiKey {
    /// A key, as `flow key new` shows it.
    ///
    /// # Errors
    ///
    /// If the text cannot be sent in a header.
    pub fn new(text: &str) -> Result<Self, BadApiKey> {
        let is_fine = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let value = is_fine.then(|| format!("Bearer {text}").parse().ok());
        let mut value: MetadataValue<Ascii> = value.flatten().ok_or(BadApiKey)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// TLS for a URL that asks for it.
fn tls(url: &str, uri: &str, options: TlsOptions) -> Result<Option<ClientTls>, ConnectError> {
    if uri.starts_with("https:") {
        return Ok(Some(ClientTls::load(options)?));
    }
    if options != TlsOptions::default() {
        let url = url.to_owned();
        return Err(ConnectError::NotEncrypted { url });
    }
    Ok(None)
}

fn http_uri(url: &str) -> Result<String, ConnectError> {
    if let Some(path) = socket_path(url) {
        let is_usable = path.is_absolute();
        return is_usable.then(|| url.to_owned()).ok_or(bad_url(url));
    }
    let (scheme, rest) = match url.split_once("://") {
        None => ("http", url),
        Some(("grpc" | "http", rest)) => ("http", rest),
        Some(("grpcs" | "https", rest)) => ("https", rest),
        Some(_) => return Err(bad_url(url)),
    };
    let authority = rest.trim_end_matches('/');
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port {
        Ok(format!("{scheme}://{authority}"))
    } else {
        Err(bad_url(url))
    }
}

fn bad_url(url: &str) -> ConnectError {
    ConnectError::Url {
        url: url.to_owned(),
        source: None,
    }
}

fn with_options<T>(mut request: Request<T>, options: &PostOptions) -> Request<T> {
    let metadata = request.metadata_mut();
    if options.results_in_order {
        metadata.insert("__results_in_order__", MetadataValue::from_static("true"));
    }
    if let Some(prefetch) = options.prefetch {
        metadata.insert("__prefetch__", MetadataValue::from(prefetch as u64));
    }
    options.metadata.write(metadata);
    if let Some(timeout) = options.timeout {
        request.set_timeout(timeout);
    }
    request
}

fn with_deadline<T>(mut request: Request<T>, deadline: Deadline) -> Request<T> {
    if let Some(left) = deadline.remaining(Instant::now()) {
        request.set_timeout(left);
    }
    request
}

#[cfg(test)]
mod tests {
    use flow_core::Code;

    use super::*;

    #[test]
    fn addresses_have_several_forms() {
        for url in ["grpc://127.0.0.1:5", "127.0.0.1:5", "http://127.0.0.1:5/"] {
            assert_eq!(http_uri(url).unwrap(), "http://127.0.0.1:5");
        }
        assert_eq!(http_uri("grpc://[::1]:5").unwrap(), "http://[::1]:5");
        assert_eq!(http_uri("unix:/a.sock").unwrap(), "unix:/a.sock");
    }

    #[test]
    fn an_invalid_address_is_an_error_that_shows_a_valid_one() {
        let check = |url: &str, expected: &str| {
            assert_eq!(http_uri(url).unwrap_err().to_string(), expected);
        };
        check(
            "grpc://host",
            "`grpc://host` is not an address: write `grpc://host:port` or `unix:/path`",
        );
        check(
            "ftp://host:1",
            "`ftp://host:1` is not an address: write `grpc://host:port` or `unix:/path`",
        );
        check(
            "unix:a.sock",
            "`unix:a.sock` is not an address: write `grpc://host:port` or `unix:/path`",
        );
    }

    #[test]
    fn an_address_with_tls_has_a_scheme_of_its_own() {
        for url in ["grpcs://h:1", "https://h:1"] {
            assert_eq!(http_uri(url).unwrap(), "https://h:1");
        }
    }

    #[tokio::test]
    async fn options_of_tls_without_tls_are_an_error() {
        let tls = TlsOptions {
            server_name: Some("h".to_owned()),
            ..TlsOptions::default()
        };
        let options = ConnectOptions {
            tls,
            ..ConnectOptions::default()
        };
        let refused = Client::connect_with("grpc://127.0.0.1:1", options).await;
        let expected = "`grpc://127.0.0.1:1` is not encrypted, so TLS options have no effect: write \
            `grpcs://host:port`";
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }

    #[test]
    fn an_api_key_is_not_printed() {
        let key = ApiKey::new("flow_secret").unwrap();
        assert!(!format!("{key:?} {:?}", key.0).contains("secret"));
        assert!(ApiKey::new("").is_err() && ApiKey::new("a b").is_err());
        assert!(ApiKey::new("a\n").is_err() && ApiKey::new("ä").is_err());
    }

    /// Checks the failure of a call whose stream the server resets for this reason.
    async fn check_reset(reason: h2::Reason, expected: Code) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("grpc://{}", listener.local_addr().unwrap());
        let server = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let (_request, mut reply) = connection.accept().await.unwrap().unwrap();
            reply.send_reset(reason);
            while connection.accept().await.is_some() {}
            std::future::pending::<()>().await;
        };
        let call = async {
            let client = Client::connect(&url).await.unwrap();
            client.single(Envelope::default(), Deadline::NEVER).await
        };
        let outcome = tokio::select! {
            outcome = call => outcome,
            () = server => unreachable!("the server waits"),
        };
        assert_eq!(outcome.unwrap_err().code(), expected, "{reason:?}");
    }

    #[tokio::test]
    async fn a_stream_that_the_server_refused_did_not_run_and_others_may_have() {
        check_reset(h2::Reason::REFUSED_STREAM, Code::Unavailable).await;
        check_reset(h2::Reason::INTERNAL_ERROR, Code::Lost).await;
        check_reset(h2::Reason::ENHANCE_YOUR_CALM, Code::Lost).await;
    }
}
