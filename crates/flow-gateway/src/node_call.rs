//! One call of a node, with the work that a head process does in Jina.
//!
//! `uses_before` gets the request first. Then, as the endpoint's polling says, one shard in turn gets it, or each
//! of them. Their replies become one: joined by `shard_replies.rs`, or made by `uses_after` from all of them.

use bytes::Bytes;
use flow_core::{CallOptions, Failure, Usage};
use flow_proto::Envelope;
use flow_spec::{NodePlan, Poll};
use futures_util::future::join_all;

use crate::heavy::HeavyWork;
use crate::node::GatewayNode;
use crate::reply::error_status;
use crate::shard_replies::{NodeReply, ShardReplies, ShardReply, join, parts_for_after};
use crate::stages;

/// A call of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeCall<'c> {
    pub(crate) node: &'c GatewayNode,
    pub(crate) plan: &'c NodePlan,
    pub(crate) options: &'c CallOptions,
    pub(crate) heavy: &'c HeavyWork,
}

impl NodeCall<'_> {
    /// Sends the node its request, which has several parts if the node's inputs are not merged.
    pub(crate) async fn run(self, parts: Vec<Envelope>) -> Result<NodeReply, Failure> {
        let GatewayNode { before, after, .. } = self.node;
        if let (None, [only], None) = (before, self.node.shards.as_slice(), after) {
            return only.call(&parts, self.options).await.map(NodeReply::from);
        }
        // In a box, so that the requests of all other nodes do not reserve space for it.
        Box::pin(self.run_with_shards(parts)).await
    }

    /// The call of a node with several shards, or with `uses_before` or `uses_after`.
    async fn run_with_shards(self, mut parts: Vec<Envelope>) -> Result<NodeReply, Failure> {
        let (mut parameters, mut usage, mut times) = (Vec::new(), None, Vec::new());
        if let Some(before) = &self.node.before {
            let reply = before.call(&parts, self.options).await?;
            usage = reply.usage;
            let mut envelope = reply.envelope;
            times.extend(stages::take(&mut envelope));
            if error_status(envelope.header.as_ref()).is_some() {
                return Ok(NodeReply::alone(envelope));
            }
            parameters.extend(envelope.parameters);
            parts.truncate(1);
            parts
                .iter_mut()
                .for_each(|it| it.data.clone_from(&envelope.data));
        }
        let replies = self.poll(&parts).await;
        let mut reply = self.join(&parts, ShardReplies::new(replies)).await?;
        reply.parameters.extend(parameters);
        reply.usage = Usage::sum(reply.usage, usage);
        times.append(&mut reply.stages);
        reply.stages = times;
        Ok(reply)
    }

    /// The replies of the shards that the endpoint's polling chooses.
    async fn poll(self, parts: &[Envelope]) -> Vec<ShardReply> {
        let header = parts.first().and_then(|it| it.header.as_ref());
        let endpoint = header.and_then(|it| it.exec_endpoint.as_deref());
        match self.plan.calls.polling.of(endpoint.unwrap_or_default()) {
            Poll::Any => match self.node.next_shard() {
                Some(shard) => vec![shard.call(parts, self.options).await],
                None => Vec::new(),
            },
            Poll::All => {
                let shards = self.node.shards.iter();
                join_all(shards.map(|shard| shard.call(parts, self.options))).await
            }
        }
    }

    async fn join(
        self,
        parts: &[Envelope],
        mut replies: ShardReplies,
    ) -> Result<NodeReply, Failure> {
        if replies.answered.is_empty() {
            return replies.into_failure();
        }
        let (note, shards, mut usage) = (replies.note(), replies.shards, replies.usage);
        let mut times = std::mem::take(&mut replies.stages);
        let answered = &mut replies.answered;
        let reply = match (&self.node.after, parts.first()) {
            (Some(after), Some(request)) => {
                let parts = parts_for_after(self.plan.name.as_str(), request, answered);
                let reply = after.call(&parts, self.options).await?;
                usage = Usage::sum(usage, reply.usage);
                let mut envelope = reply.envelope;
                times.extend(stages::take(&mut envelope));
                envelope
            }
            _ if answered.len() == 1 => answered.remove(0),
            _ => {
                let (answered, reduce) = (answered.clone(), self.plan.calls.reduce);
                let data = answered.iter().filter_map(|it| it.data.as_ref());
                let len = data.map(Bytes::len).sum();
                self.heavy.run(len, move || join(&answered, reduce)).await?
            }
        };
        let parameters = replies.answered.into_iter().filter_map(|it| it.parameters);
        Ok(NodeReply {
            reply,
            parameters: parameters.collect(),
            shards: Some(shards),
            note,
            usage,
            stages: times,
        })
    }
}
