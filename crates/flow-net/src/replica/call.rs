//! Calls of a replica: the request with its metadata, the reply with its metadata.

use std::ops::RangeInclusive;
use std::time::Instant;

use flow_core::{CallOptions, Deadline, Failure, Usage};
use flow_proto::Envelope;
use flow_proto::jina::{
    DataRequestListProto, EndpointsProto, SingleDocumentRequestProto, StatusProto, status_proto,
};
use http::{Extensions, HeaderName};
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Streaming};

use super::single_data_call::single_data_call;
use super::{Metadata, Replica};
use crate::compression::Compression;
use crate::grpc::jina_data_request_rpc_client::JinaDataRequestRpcClient;
use crate::grpc::jina_discover_endpoints_rpc_client::JinaDiscoverEndpointsRpcClient;
use crate::grpc::jina_single_data_request_rpc_client::JinaSingleDataRequestRpcClient;
use crate::grpc::jina_single_document_request_rpc_client::JinaSingleDocumentRequestRpcClient;
use crate::grpc::metadata::write_options;
use crate::status::{AttemptError, too_late};

/// By this, stock heads choose how shards are polled.
const ENDPOINT: HeaderName = HeaderName::from_static("endpoint");

/// With these, a stock executor marks a reply that reports a failure, and a stock head says how many of its shards
/// answered.
const IS_ERROR: HeaderName = HeaderName::from_static("is-error");
const TOTAL_SHARDS: HeaderName = HeaderName::from_static("total_shards");
const FAILED_SHARDS: HeaderName = HeaderName::from_static("failed_shards");

/// The metadata of a reply in which our executors say how many tokens a model read for the request. It is metadata and
/// not a result in the reply, because clients get results, and stock peers ignore metadata that they do not know.
const TOKENS: HeaderName = HeaderName::from_static("flow-tokens");

/// The same for the texts whose vectors were in a cache.
const CACHED_TEXTS: HeaderName = HeaderName::from_static("flow-cached-texts");

/// How long requests are that are compressed, in bytes. Those that are longer would delay others on the same thread.
const COMPRESSED: RangeInclusive<usize> = 1 << 10..=1 << 20;

/// What the calls of a node have in common.
#[derive(Debug, Default)]
pub(crate) struct NodeCalls {
    pub(crate) metadata: Metadata,
    pub(crate) compression: Option<Compression>,
}

/// The reply of a replica.
#[derive(Debug)]
pub struct Reply {
    /// The reply. If its metadata marked it as a failure, its header says so too.
    pub envelope: Envelope,
    /// How many shards answered, if the replica is a stock head.
    pub shards: Option<Shards>,
    /// What a model did for the request, if the executor counts it.
    pub usage: Option<Usage>,
}

impl Reply {
    /// Whether it reports a failure. Up to Jina 3.5 the code of a failure was 3.
    pub(crate) fn is_failure(&self) -> bool {
        let header = self.envelope.header.as_ref();
        let status = header.and_then(|it| it.status.as_ref());
        status.is_some_and(|it| it.code >= status_proto::StatusCode::Error as i32)
    }
}

/// A stream of documents that a replica has begun.
#[derive(Debug)]
pub(crate) struct OpenedStream {
    first: Option<SingleDocumentRequestProto>,
    rest: Streaming<SingleDocumentRequestProto>,
    deadline: Deadline,
}

/// How many shards were called, and how many of them did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shards {
    /// Shards that were called.
    pub total: u32,
    /// Shards that did not answer.
    pub failed: u32,
}

impl Replica {
    /// One request, or several parts of one, and one reply.
    ///
    /// # Errors
    ///
    /// If there is no reply. A reply that reports a failure is a reply.
    pub(crate) async fn call(
        &self,
        parts: &[Envelope],
        of_node: &NodeCalls,
        options: &CallOptions,
    ) -> Result<Reply, AttemptError> {
        let response = match parts {
            [only] => self.single(only, of_node, options).await?,
            parts => self.list(parts, of_node, options).await?,
        };
        Ok(Reply::of(response))
    }

    async fn single(
        &self,
        request: &Envelope,
        of_node: &NodeCalls,
        options: &CallOptions,
    ) -> Result<Response<Envelope>, AttemptError> {
        let len_max = self.limits.message_len_max;
        let deadline = options.deadline;
        let mut metadata = prepare((), &of_node.metadata, deadline).into_parts().0;
        add_call_metadata(&mut metadata, request, options);
        let Some(encoding) = self.encoding(of_node, request) else {
            // In a box because it is large: the futures that wait for it are moved as they are passed on, and would contain it.
            let call = single_data_call(self.channel.clone(), request, metadata, len_max);
            return within(deadline, Box::pin(call)).await;
        };
        let mut client = JinaSingleDataRequestRpcClient::new(self.channel.clone())
            .max_decoding_message_size(len_max)
            .max_encoding_message_size(len_max)
            .send_compressed(encoding);
        let message = Request::from_parts(metadata, Extensions::new(), request.clone());
        within(deadline, Box::pin(client.process_single_data(message))).await
    }

    async fn list(
        &self,
        parts: &[Envelope],
        of_node: &NodeCalls,
        options: &CallOptions,
    ) -> Result<Response<Envelope>, AttemptError> {
        let mut client = JinaDataRequestRpcClient::new(self.channel.clone())
            .max_decoding_message_size(self.limits.message_len_max)
            .max_encoding_message_size(self.limits.message_len_max);
        let requests = parts.to_vec();
        let list = DataRequestListProto { requests };
        if let Some(encoding) = self.encoding(of_node, &list) {
            client = client.send_compressed(encoding);
        }
        let mut message = prepare(list, &of_node.metadata, options.deadline);
        if let Some(first) = parts.first() {
            add_call_metadata(message.metadata_mut(), first, options);
        }
        let call = Box::pin(client.process_data(message));
        within(options.deadline, call).await
    }

    /// One document in, a stream of documents out. Returns when the first document is there.
    ///
    /// # Errors
    ///
    /// If the stream ends with a failure before its first document.
    pub(crate) async fn stream(
        &self,
        request: &SingleDocumentRequestProto,
        of_node: &NodeCalls,
        options: &CallOptions,
    ) -> Result<OpenedStream, AttemptError> {
        let mut client = JinaSingleDocumentRequestRpcClient::new(self.channel.clone())
            .max_decoding_message_size(self.limits.message_len_max)
            .max_encoding_message_size(self.limits.message_len_max);
        if let Some(encoding) = self.encoding(of_node, request) {
            client = client.send_compressed(encoding);
        }
        let mut message = prepare(request.clone(), &of_node.metadata, options.deadline);
        write_options(message.metadata_mut(), options);
        let deadline = options.deadline;
        let mut rest = within(deadline, client.stream_doc(message))
            .await?
            .into_inner();
        let first = within(deadline, rest.message()).await?;
        Ok(OpenedStream {
            first,
            rest,
            deadline,
        })
    }

    /// How a request is compressed. Over a Unix socket that costs more time than it saves.
    fn encoding(
        &self,
        of_node: &NodeCalls,
        request: &impl prost::Message,
    ) -> Option<CompressionEncoding> {
        let compression = of_node.compression.filter(|_| self.is_over_network())?;
        COMPRESSED
            .contains(&request.encoded_len())
            .then(|| compression.into())
    }

    /// The endpoints that the executor offers.
    ///
    /// # Errors
    ///
    /// If it cannot be reached, or has no discovery.
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

impl OpenedStream {
    /// The next document; `None` at the end.
    pub(crate) async fn next(
        &mut self,
    ) -> Result<Option<SingleDocumentRequestProto>, AttemptError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => within(self.deadline, self.rest.message()).await,
        }
    }
}

impl Reply {
    fn of(response: Response<Envelope>) -> Self {
        let metadata = response.metadata();
        let is_error = text(metadata, IS_ERROR).is_some_and(|text| text == "true");
        let shards = shards(metadata);
        let usage = usage(metadata);
        let mut envelope = response.into_inner();
        if is_error {
            mark(&mut envelope);
        }
        Self {
            envelope,
            shards,
            usage,
        }
    }
}

fn shards(metadata: &MetadataMap) -> Option<Shards> {
    let count = |key| text(metadata, key)?.parse().ok();
    Some(Shards {
        total: count(TOTAL_SHARDS)?,
        failed: count(FAILED_SHARDS)?,
    })
}

fn usage(metadata: &MetadataMap) -> Option<Usage> {
    let count = |key| text(metadata, key)?.parse().ok();
    Some(Usage {
        tokens: count(TOKENS)?,
        cached_texts: count(CACHED_TEXTS),
    })
}

/// Writes what a model did for a request into the metadata of the reply.
pub fn write_usage(metadata: &mut MetadataMap, usage: Usage) {
    let headers = metadata.as_mut();
    headers.insert(TOKENS, usage.tokens.into());
    if let Some(texts) = usage.cached_texts {
        headers.insert(CACHED_TEXTS, texts.into());
    }
}

fn text(metadata: &MetadataMap, key: HeaderName) -> Option<&str> {
    metadata.as_ref().get(key)?.to_str().ok()
}

/// Makes the header of a reply report a failure, if it does not yet.
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
    metadata.write(request.metadata_mut());
    if let Some(left) = deadline.remaining(Instant::now()) {
        // The server learns how long the caller waits.
        request.set_timeout(left);
    }
    request
}

fn add_call_metadata(metadata: &mut MetadataMap, request: &Envelope, options: &CallOptions) {
    let header = request.header.as_ref();
    let endpoint = header.and_then(|header| header.exec_endpoint.as_deref());
    // One that is not ASCII is in the request nevertheless.
    if let Some(Ok(endpoint)) = endpoint.map(str::parse) {
        metadata.as_mut().insert(ENDPOINT, endpoint);
    }
    write_options(metadata, options);
}

/// The outcome of a call, or a failure if the deadline passes first.
pub(crate) async fn within<T>(
    deadline: Deadline,
    call: impl Future<Output = Result<T, tonic::Status>>,
) -> Result<T, AttemptError> {
    let outcome = match deadline.instant() {
        None => call.await,
        Some(end) => match tokio::time::timeout_at(end.into(), call).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => return Err(AttemptError::unanswered(too_late())),
        },
    };
    outcome.map_err(|status| AttemptError::from(&status))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_header_of_a_reply_that_is_marked_as_a_failure_says_so() {
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
            let marker = HeaderValue::from_static("true");
            response.metadata_mut().as_mut().insert(IS_ERROR, marker);
            let header = Reply::of(response).envelope.header.unwrap();
            let status = header.status.unwrap();
            assert_eq!((status.code, status.description.as_str()), (1, description));
        };
        check(None, "the executor marked its reply as a failure");
        check(Some(0), "the executor marked its reply as a failure");
        check(Some(1), "why");
    }

    #[test]
    fn an_executor_may_report_the_tokens_that_its_model_read() {
        let check = |value: Option<&'static str>, expected: Option<u64>| {
            let mut response = Response::new(Envelope::default());
            if let Some(value) = value {
                let value = HeaderValue::from_static(value);
                response.metadata_mut().as_mut().insert(TOKENS, value);
            }
            let usage = Reply::of(response).usage;
            assert_eq!(usage.map(|it| it.tokens), expected, "{value:?}");
        };
        check(Some("12"), Some(12));
        check(Some("-1"), None);
        check(None, None);
    }

    #[test]
    fn token_usage_survives_a_round_trip() {
        for cached_texts in [None, Some(0), Some(7)] {
            let usage = Usage {
                tokens: 12,
                cached_texts,
            };
            let mut response = Response::new(Envelope::default());
            write_usage(response.metadata_mut(), usage);
            assert_eq!(Reply::of(response).usage, Some(usage));
        }
    }

    #[test]
    fn a_stock_head_reports_its_shards() {
        let mut response = Response::new(Envelope::default());
        for (key, value) in [(TOTAL_SHARDS, "3"), (FAILED_SHARDS, "1")] {
            let value = HeaderValue::from_static(value);
            response.metadata_mut().as_mut().insert(key, value);
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
