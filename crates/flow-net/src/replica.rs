//! One running process of a node: its channel, how busy it is, and whether it is worth asking.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flow_core::{Code, Deadline, Failure};
use flow_proto::Envelope;
use flow_proto::jina::EndpointsProto;
use flow_proto::jina::SingleDocumentRequestProto;
use flow_proto::jina::jina_discover_endpoints_rpc_client::JinaDiscoverEndpointsRpcClient;
use flow_proto::jina::jina_single_data_request_rpc_client::JinaSingleDataRequestRpcClient;
use flow_proto::jina::jina_single_document_request_rpc_client::JinaSingleDocumentRequestRpcClient;
use tonic::metadata::{Ascii, MetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

use crate::limits::{CONNECTION_WINDOW, Limits, STREAM_WINDOW};
use crate::status::{to_failure, too_late};

/// How long a connection may take to be made: any longer, and another replica is the better choice.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// After how long of silence the kernel asks whether the other side is still there.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// How long a replica is left alone after it could not be reached; doubled each time.
const REST_FIRST: Duration = Duration::from_millis(50);

/// Longest time a replica is left alone: also how late one that came back may be noticed.
const REST_MAX: Duration = Duration::from_secs(2);

/// Metadata that goes with each call of a node.
pub type Metadata = Vec<(MetadataKey<Ascii>, MetadataValue<Ascii>)>;

/// The text is not an address.
#[derive(Debug, thiserror::Error)]
#[error("`{uri}` is not an address: write `grpc://host:port`")]
pub struct BadUri {
    uri: String,
    source: tonic::transport::Error,
}

/// One running process of a node.
#[derive(Debug)]
pub struct Replica {
    uri: String,
    channel: Channel,
    limits: Limits,
    in_flight: AtomicUsize,
    rest: Mutex<Rest>,
}

/// When a replica may be asked again after it could not be reached.
#[derive(Debug, Default)]
struct Rest {
    failures: u32,
    until: Option<Instant>,
}

impl Replica {
    /// A replica at `http://host:port`. The connection is made at the first call, and again after it
    /// breaks.
    ///
    /// # Errors
    ///
    /// If the text is not a URI.
    pub fn new(uri: &str, limits: Limits) -> Result<Self, BadUri> {
        Ok(Self {
            uri: uri.to_owned(),
            channel: endpoint(uri)?.connect_lazy(),
            limits,
            in_flight: AtomicUsize::new(0),
            rest: Mutex::default(),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_resting(&self, now: Instant) -> bool {
        self.rest().until.is_some_and(|until| now < until)
    }

    /// Notes how a call went: one that could not be reached is left alone for a while.
    pub(crate) fn note<T>(&self, outcome: &Result<T, Failure>, now: Instant) {
        let unreachable = outcome
            .as_ref()
            .is_err_and(|failure| matches!(failure.code(), Code::Unavailable | Code::Lost));
        let mut rest = self.rest();
        if !unreachable {
            if rest.failures > 0 {
                tracing::info!(replica = self.uri, "replica is back");
                *rest = Rest::default();
            }
            return;
        }
        if rest.failures == 0 {
            tracing::warn!(replica = self.uri, "replica cannot be reached");
        }
        let pause = REST_FIRST
            .saturating_mul(1 << rest.failures.min(10))
            .min(REST_MAX);
        rest.failures += 1;
        rest.until = Some(now + pause);
    }

    fn rest(&self) -> std::sync::MutexGuard<'_, Rest> {
        self.rest
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// One request, one reply.
    ///
    /// # Errors
    ///
    /// If there is no reply. A reply that tells of a failure is a reply.
    pub async fn single(
        &self,
        request: Envelope,
        metadata: &Metadata,
        deadline: Deadline,
    ) -> Result<Envelope, Failure> {
        let mut client = JinaSingleDataRequestRpcClient::new(self.channel.clone())
            .max_decoding_message_size(self.limits.message_len_max)
            .max_encoding_message_size(self.limits.message_len_max);
        let call = client.process_single_data(prepare(request, metadata, deadline));
        let reply = within(deadline, call).await?;
        Ok(reply.into_inner())
    }

    /// One document in, a stream of documents out.
    ///
    /// # Errors
    ///
    /// If the stream cannot be opened.
    pub async fn stream(
        &self,
        request: SingleDocumentRequestProto,
        metadata: &Metadata,
        deadline: Deadline,
    ) -> Result<Streaming<SingleDocumentRequestProto>, Failure> {
        let mut client = JinaSingleDocumentRequestRpcClient::new(self.channel.clone())
            .max_decoding_message_size(self.limits.message_len_max)
            .max_encoding_message_size(self.limits.message_len_max);
        let call = client.stream_doc(prepare(request, metadata, deadline));
        Ok(within(deadline, call).await?.into_inner())
    }

    /// What the executor offers.
    ///
    /// # Errors
    ///
    /// If it cannot be reached, or does not tell.
    pub async fn endpoints(&self, deadline: Deadline) -> Result<EndpointsProto, Failure> {
        let mut client = JinaDiscoverEndpointsRpcClient::new(self.channel.clone());
        let call = client.endpoint_discovery(prepare((), &Metadata::new(), deadline));
        Ok(within(deadline, call).await?.into_inner())
    }

    /// Whether the executor says that it is serving.
    ///
    /// # Errors
    ///
    /// If it cannot be reached, or has no health service.
    pub async fn is_serving(&self, deadline: Deadline) -> Result<bool, Failure> {
        use tonic_health::pb::health_check_response::ServingStatus;
        use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

        let mut client = HealthClient::new(self.channel.clone());
        let request = prepare(HealthCheckRequest::default(), &Metadata::new(), deadline);
        let reply = within(deadline, client.check(request)).await?;
        Ok(reply.into_inner().status() == ServingStatus::Serving)
    }
}

/// The settings of every connection that we open.
pub(crate) fn endpoint(uri: &str) -> Result<Endpoint, BadUri> {
    let endpoint = Endpoint::from_shared(uri.to_owned()).map_err(|source| BadUri {
        uri: uri.to_owned(),
        source,
    })?;
    Ok(endpoint
        .connect_timeout(CONNECT_MAX)
        .tcp_nodelay(true)
        // No HTTP/2 pings: stock servers close a connection that sends more than one in five minutes.
        .tcp_keepalive(Some(TCP_KEEPALIVE))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW))
}

fn prepare<T>(message: T, metadata: &Metadata, deadline: Deadline) -> Request<T> {
    let mut request = Request::new(message);
    add(request.metadata_mut(), metadata);
    if let Some(left) = deadline.remaining(Instant::now()) {
        // The other side learns how long anybody will wait.
        request.set_timeout(left);
    }
    request
}

fn add(to: &mut MetadataMap, metadata: &Metadata) {
    for (key, value) in metadata {
        to.insert(key.clone(), value.clone());
    }
}

/// The call's outcome, or that the deadline passed first.
pub(crate) async fn within<T>(
    deadline: Deadline,
    call: impl Future<Output = Result<T, tonic::Status>>,
) -> Result<T, Failure> {
    let outcome = match deadline.instant() {
        None => call.await,
        Some(end) => match tokio::time::timeout_at(end.into(), call).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => return Err(too_late()),
        },
    };
    outcome.map_err(|status| to_failure(&status))
}
