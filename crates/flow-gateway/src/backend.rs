//! The destination of the calls of one shard.

use flow_core::{CallOptions, Failure};
use flow_net::{DocumentStream, Pool, Reply};
use flow_proto::Envelope;
use flow_proto::jina::SingleDocumentRequestProto;

/// What answers the calls of one shard, or of what runs before or after the shards.
#[derive(Debug)]
#[cfg_attr(
    test,
    allow(
        clippy::large_enum_variant,
        reason = "only tests have the other variant"
    )
)]
pub(crate) enum Backend {
    /// Replicas on the network.
    Replicas(Pool),
    /// A function in this process.
    #[cfg(test)]
    InMemory(crate::tests::in_memory::InMemory),
}

impl Backend {
    /// One request, or several parts of one, and one reply.
    pub(crate) async fn call(
        &self,
        parts: &[Envelope],
        options: &CallOptions,
    ) -> Result<Reply, Failure> {
        match self {
            Self::Replicas(pool) => pool.call(parts, options).await,
            #[cfg(test)]
            Self::InMemory(node) => node.call(parts, options).await,
        }
    }

    /// One document in, a stream of documents out.
    pub(crate) async fn stream(
        &self,
        request: &SingleDocumentRequestProto,
        options: &CallOptions,
    ) -> Result<DocumentStream, Failure> {
        match self {
            Self::Replicas(pool) => pool.stream(request, options).await,
            #[cfg(test)]
            Self::InMemory(node) => node.stream(request, options).await,
        }
    }

    /// The replicas, if there are any.
    pub(crate) fn pool(&self) -> Option<&Pool> {
        match self {
            Self::Replicas(pool) => Some(pool),
            #[cfg(test)]
            Self::InMemory(_) => None,
        }
    }
}
