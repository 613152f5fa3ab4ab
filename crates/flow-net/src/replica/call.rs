//! The calls to a replica: a request and what goes with it on the wire, the reply and what came with it.

use std::pin::pin;
use std::time::Instant;

use flow_core::{Deadline, Failure};
use flow_proto::Envelope;
use flow_proto::jina::jina_data_request_rpc_client::JinaDataRequestRpcClient;
use flow_proto::jina::jina_discover_endpoints_rpc_client::JinaDiscoverEndpointsRpcClient;
use flow_proto::jina::jina_single_data_request_rpc_client::JinaSingleDataRequestRpcClient;
use flow_proto::jina::jina_single_document_request_rpc_client::JinaSingleDocumentRequestRpcClient;
use flow_proto::jina::{
    DataRequestListProto, EndpointsProto, SingleDocumentRequestProto, StatusProto, status_proto,
};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::{Request, Response, Streaming};

use super::{Metadata, Replica};
use crate::status::{Miss, too_late};

/// By which stock heads choose how shards are polled.
const ENDPOINT: &str = "endpoint";

/// Says which requests overtake which in an executor's queue.
const PRIORITY: &str = "priority";

/// With these a stock executor marks a reply that tells of a failure, and a stock head says how many of
/// its shards answered.
const IS_ERROR: &str = "is-error";
const TOTAL_SHARDS: &str = "total_shards";
const FAILED_SHARDS: &str = "failed_shards";

/// What a caller wants besides the reply.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// When nobody waits for the reply any more.
    pub deadline: Deadline,
    /// Which requests overtake this one; passed on as it came.
    pub priority: Option<Priority>,
}

/// What a caller said of a request's priority: `interactive` or `bulk`. Executors give it its meaning.
#[derive(Debug, Clone)]
pub struct Priority(MetadataValue<Ascii>);

/// What a replica replied.
#[derive(Debug)]
pub struct Reply {
    /// The reply; one that was marked as a failure says so in its header, too.
    pub envelope: Envelope,
    /// How the shards behind a stock head did.
    pub shards: Option<Shards>,
}

/// How many shards there are, and how many of them have not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shards {
    /// All that were asked.
    pub total: u32,
    /// Those that did not answer.
    pub failed: u32,
}

impl Priority {
    /// The priority in a call's metadata.
    #[must_use]
    pub fn of(metadata: &MetadataMap) -> Option<Self> {
        metadata.get(PRIORITY).cloned().map(Self)
    }
}

impl Replica {
    /// One request, or several parts of one, and one reply.
    ///
    /// # Errors
    ///
    /// If there is no reply. A reply that tells of a failure is a reply.
    pub(crate) async fn call(
        &self,
        parts: &[Envelope],
        metadata: &Metadata,
        terms: &Terms,
    ) -> Result<Reply, Miss> {
        let response = match parts {
            [only] => self.single(only, metadata, terms).await?,
            parts => self.list(parts, metadata, terms).await?,
        };
        Ok(Reply::of(response))
    }

    async fn single(
        &self,
        request: &Envelope,
        metadata: &Metadata,
        terms: &Terms,
    ) -> Result<Response<Envelope>, Miss> {
        let mut client = JinaSingleDataRequestRpcClient::new(self.channel.clone())
            .max_decoding_message_size(self.limits.message_len_max)
            .max_encoding_message_size(self.limits.message_len_max);
        let mut message = prepare(request.clone(), metadata, terms.deadline);
        add_terms(message.metadata_mut(), request, terms);
        // Pinned here, for it is large: moved on, it would take its room twice in every request under way.
        let call = pin!(client.process_single_data(message));
        within(terms.deadline, call).await
    }

    async fn list(
        &self,
        parts: &[Envelope],
        metadata: &Metadata,
        terms: &Terms,
    ) -> Result<Response<Envelope>, Miss> {
        let mut client = JinaDataRequestRpcClient::new(self.channel.clone())
            .max_decoding_message_size(self.limits.message_len_max)
            .max_encoding_message_size(self.limits.message_len_max);
        let requests = parts.to_vec();
        let list = DataRequestListProto { requests };
        let mut message = prepare(list, metadata, terms.deadline);
        if let Some(first) = parts.first() {
            add_terms(message.metadata_mut(), first, terms);
        }
        let call = pin!(client.process_data(message));
        within(terms.deadline, call).await
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
        terms: &Terms,
    ) -> Result<Streaming<SingleDocumentRequestProto>, Failure> {
        let mut client = JinaSingleDocumentRequestRpcClient::new(self.channel.clone())
            .max_decoding_message_size(self.limits.message_len_max)
            .max_encoding_message_size(self.limits.message_len_max);
        let mut message = prepare(request, metadata, terms.deadline);
        add_priority(message.metadata_mut(), terms);
        let call = client.stream_doc(message);
        Ok(within(terms.deadline, call).await?.into_inner())
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

impl Reply {
    fn of(response: Response<Envelope>) -> Self {
        let metadata = response.metadata();
        let is_error = text(metadata, IS_ERROR).is_some_and(|text| text == "true");
        let shards = shards(metadata);
        let mut envelope = response.into_inner();
        if is_error {
            mark(&mut envelope);
        }
        Self { envelope, shards }
    }
}

fn shards(metadata: &MetadataMap) -> Option<Shards> {
    let count = |key| text(metadata, key)?.parse().ok();
    Some(Shards {
        total: count(TOTAL_SHARDS)?,
        failed: count(FAILED_SHARDS)?,
    })
}

fn text<'m>(metadata: &'m MetadataMap, key: &str) -> Option<&'m str> {
    metadata.get(key)?.to_str().ok()
}

/// A reply that is marked as a failure tells of one, whatever its header says.
fn mark(envelope: &mut Envelope) {
    let error: i32 = status_proto::StatusCode::Error.into();
    let status = &mut envelope.header.get_or_insert_default().status;
    if status.as_ref().is_none_or(|status| status.code < error) {
        *status = Some(StatusProto {
            code: error,
            description: "the executor marked its reply as a failure".to_owned(),
            exception: None,
        });
    }
}

fn prepare<T>(message: T, metadata: &Metadata, deadline: Deadline) -> Request<T> {
    let mut request = Request::new(message);
    for (key, value) in metadata {
        request.metadata_mut().insert(key.clone(), value.clone());
    }
    if let Some(left) = deadline.remaining(Instant::now()) {
        // The other side learns how long anybody will wait.
        request.set_timeout(left);
    }
    request
}

fn add_terms(metadata: &mut MetadataMap, request: &Envelope, terms: &Terms) {
    let header = request.header.as_ref();
    let endpoint = header.and_then(|header| header.exec_endpoint.as_deref());
    // One that is not ASCII stands in the request itself all the same.
    if let Some(Ok(endpoint)) = endpoint.map(str::parse) {
        metadata.insert(ENDPOINT, endpoint);
    }
    add_priority(metadata, terms);
}

fn add_priority(metadata: &mut MetadataMap, terms: &Terms) {
    if let Some(Priority(priority)) = &terms.priority {
        metadata.insert(PRIORITY, priority.clone());
    }
}

/// The call's outcome, or that the deadline passed first.
pub(crate) async fn within<T>(
    deadline: Deadline,
    call: impl Future<Output = Result<T, tonic::Status>>,
) -> Result<T, Miss> {
    let outcome = match deadline.instant() {
        None => call.await,
        Some(end) => match tokio::time::timeout_at(end.into(), call).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => return Err(Miss::unanswered(too_late())),
        },
    };
    outcome.map_err(|status| Miss::of(&status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_is_marked_as_a_failure_is_one() {
        let check = |code: Option<i32>, description: &str| {
            let status = code.map(|code| StatusProto {
                code,
                description: "why".to_owned(),
                exception: None,
            });
            let header = flow_proto::jina::HeaderProto {
                status,
                ..Default::default()
            };
            let mut response = Response::new(Envelope {
                header: Some(header),
                ..Envelope::default()
            });
            let marker = MetadataValue::from_static("true");
            response.metadata_mut().insert(IS_ERROR, marker);
            let header = Reply::of(response).envelope.header.unwrap();
            let status = header.status.unwrap();
            assert_eq!((status.code, status.description.as_str()), (1, description));
        };
        check(None, "the executor marked its reply as a failure");
        check(Some(0), "the executor marked its reply as a failure");
        check(Some(1), "why");
    }

    #[test]
    fn a_stock_head_tells_of_its_shards() {
        let mut response = Response::new(Envelope::default());
        for (key, value) in [(TOTAL_SHARDS, "3"), (FAILED_SHARDS, "1")] {
            let value = MetadataValue::from_static(value);
            response.metadata_mut().insert(key, value);
        }
        let shards = Shards {
            total: 3,
            failed: 1,
        };
        assert_eq!(Reply::of(response).shards, Some(shards));
        let without = Response::new(Envelope::default());
        assert_eq!(Reply::of(without).shards, None);
    }
}
