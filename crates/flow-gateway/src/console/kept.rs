//! A failed or slow request, with all that is known of it and where its time went.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flow_core::TraceContext;
use serde::{Serialize, Serializer};

use crate::request_record::{RequestEnd, RequestRecord};
use crate::shortened::shortened;

/// Longest id and endpoint that are kept, in bytes; longer ones are cut.
const NAME_LEN_MAX: usize = 128;

/// Longest cause that is kept, in bytes.
const CAUSE_LEN_MAX: usize = 1_000;

/// Most nodes that are kept of a request; the picture of more could not be read.
const NODES_MAX: usize = 64;

/// A request that failed or was slow.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct KeptRequest {
    pub(crate) id: String,
    endpoint: String,
    protocol: Option<&'static str>,
    client: Option<IpAddr>,
    key: Option<Arc<str>>,
    documents: usize,
    bytes: usize,
    /// Seconds since 1970.
    #[serde(rename = "ended_s", serialize_with = "as_seconds")]
    pub(super) ended: SystemTime,
    /// All of it, waiting included.
    #[serde(rename = "took_ms", serialize_with = "as_milliseconds")]
    pub(super) took: Duration,
    /// How long it waited to be admitted.
    #[serde(rename = "waited_ms", serialize_with = "as_milliseconds")]
    waited: Duration,
    failure: Option<KeptFailure>,
    trace_id: Option<String>,
    nodes: Vec<KeptNode>,
}

#[derive(Debug, Clone, Serialize)]
struct KeptFailure {
    code: &'static str,
    /// The node where it failed; empty if it was none.
    executor: String,
    cause: String,
    /// Whether the client is the cause.
    is_clients: bool,
}

/// When a node worked on the request.
#[derive(Debug, Clone, Serialize)]
struct KeptNode {
    name: String,
    /// After the request was admitted.
    #[serde(rename = "after_ms", serialize_with = "as_milliseconds")]
    after: Duration,
    #[serde(rename = "took_ms", serialize_with = "as_milliseconds")]
    took: Duration,
    failed: bool,
}

impl KeptRequest {
    /// Most bytes of a kept request.
    pub(super) const BYTES_MAX: usize = size_of::<Self>()
        + 2 * NAME_LEN_MAX
        + NAME_LEN_MAX
        + CAUSE_LEN_MAX
        + 32
        + NODES_MAX * (size_of::<KeptNode>() + NAME_LEN_MAX);

    pub(super) fn new(
        record: &RequestRecord,
        end: &RequestEnd<'_>,
        ended: SystemTime,
        took: Duration,
    ) -> Self {
        let name = |text: &str| shortened(text, NAME_LEN_MAX).to_owned();
        let nodes = end.intervals().take(NODES_MAX);
        Self {
            id: name(&end.header.request_id),
            endpoint: name(end.endpoint()),
            protocol: record.origin.protocol,
            client: record.origin.client,
            key: record.origin.key.clone(),
            documents: record.documents(),
            bytes: record.bytes,
            ended,
            took,
            waited: record.waited,
            failure: end.failed.as_ref().map(|failed| KeptFailure {
                code: failed.code.as_str(),
                executor: name(failed.executor),
                cause: shortened(failed.cause, CAUSE_LEN_MAX).to_owned(),
                is_clients: failed.is_clients(),
            }),
            trace_id: record.trace.as_deref().map(TraceContext::trace_id),
            nodes: nodes
                .map(|node| KeptNode {
                    name: name(node.name),
                    after: node.after,
                    took: node.took,
                    failed: node.failed,
                })
                .collect(),
        }
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde calls"
)]
fn as_milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((time.as_secs_f64() * 1e6).round() / 1e3)
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde calls"
)]
fn as_seconds<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    serializer.serialize_f64(since.unwrap_or_default().as_secs_f64())
}
