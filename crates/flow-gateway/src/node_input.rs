//! The input of one node: the documents that its parents made, prepared for it. Pure.
//!
//! The documents of several parents become one array, or stay apart; a condition leaves out those that are not
//! for the node; and the parameters are the node's own.

use std::sync::OnceLock;
use std::time::SystemTime;

use bytes::Bytes;
use flow_core::{CallOptions, Failure};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto};
use flow_spec::{DocumentSource, NodePlan, Plan};

use crate::condition::{self, Matching};
use crate::document_order::DocumentOrder;
use crate::merge::merge;
use crate::node_parameters::node_parameters;
use crate::parts::{Part, Parts};
use crate::reply::{GATEWAY, ReplyBuilder, route};
use crate::target::TargetNodes;

/// What does not change while a request runs.
#[derive(Debug)]
pub(crate) struct RequestContext {
    pub(crate) options: CallOptions,
    pub(crate) started: SystemTime,
    pub(crate) target: TargetNodes,
    /// The documents as the client sent them.
    pub(crate) sent: Parts,
    /// Some node gets only some of the documents, so branches have to be put back in order.
    has_conditions: bool,
    /// Their order, if it was needed.
    order: OnceLock<DocumentOrder>,
}

/// The documents that a condition selects for a node.
pub(crate) enum Selected {
    Some(Parts),
    /// There were documents, and none of them is for this node.
    Nothing(Parts),
}

impl RequestContext {
    pub(crate) fn new(
        options: CallOptions,
        started: SystemTime,
        target: TargetNodes,
        sent: Option<Bytes>,
        has_conditions: bool,
    ) -> Self {
        Self {
            options,
            started,
            target,
            sent: Parts::one(sent, DocumentSource::Gateway),
            has_conditions,
            order: OnceLock::new(),
        }
    }

    /// The documents that the node gets of those of its parents.
    pub(crate) fn select(&self, node: &NodePlan, parts: Parts) -> Result<Selected, Failure> {
        let parts = if node.calls.reduce && !parts.is_one() {
            Parts::one(self.merge(&parts)?, parts.first().from)
        } else {
            parts
        };
        let Some(when) = &node.calls.when else {
            return Ok(Selected::Some(parts));
        };
        let mut nothing_matches = true;
        let parts = parts.try_map(|data| {
            Ok::<_, Failure>(match condition::apply(when, data.as_ref())? {
                Matching::All => {
                    nothing_matches = false;
                    data
                }
                Matching::Some(matching) => {
                    nothing_matches = false;
                    Some(matching)
                }
                Matching::Nothing(empty) => Some(empty),
            })
        })?;
        Ok(if nothing_matches {
            Selected::Nothing(parts)
        } else {
            Selected::Some(parts)
        })
    }

    /// The parts as one array of documents, in the client's order if branches got different ones.
    pub(crate) fn merge(&self, parts: &Parts) -> Result<Option<Bytes>, Failure> {
        let data = if parts.is_one() {
            parts.first().data.clone()
        } else {
            merge(&parts.data())?
        };
        if !self.has_conditions {
            return Ok(data);
        }
        Ok(self.order()?.restore(data)?)
    }

    fn order(&self) -> Result<&DocumentOrder, Failure> {
        if let Some(order) = self.order.get() {
            return Ok(order);
        }
        let order = DocumentOrder::of(self.sent.first().data.as_ref())?;
        Ok(self.order.get_or_init(|| order))
    }

    /// The request as the node gets it: with its own view of the parameters, and with routes that begin at the
    /// gateway. If parts stay apart, the last route of each names the node that made it.
    pub(crate) fn requests(
        &self,
        plan: &Plan,
        node: &NodePlan,
        reply: &ReplyBuilder,
        parts: &Parts,
    ) -> Vec<Envelope> {
        let header = node_header(&reply.header);
        let parameters = node_parameters(reply.parameters.as_ref(), node.name.as_str());
        let request = |part: &Part| Envelope {
            header: Some(header.clone()),
            parameters: parameters.clone(),
            routes: self.routes(plan, part.from, !parts.is_one()),
            data: part.data.clone(),
        };
        parts.iter().map(request).collect()
    }

    fn routes(
        &self,
        plan: &Plan,
        from: DocumentSource,
        is_one_of_several: bool,
    ) -> Vec<RouteProto> {
        let mut routes = vec![route(GATEWAY, self.started)];
        if let (DocumentSource::Node(node), true) = (from, is_one_of_several) {
            routes.push(RouteProto {
                executor: plan.node(node).name.as_str().to_owned(),
                ..RouteProto::default()
            });
        }
        routes
    }
}

/// The header of a request to a node.
pub(crate) fn node_header(client: &HeaderProto) -> HeaderProto {
    HeaderProto {
        request_id: client.request_id.clone(),
        exec_endpoint: client.exec_endpoint.clone(),
        // Present and empty: the gateway has already selected the nodes.
        target_executor: Some(String::new()),
        ..HeaderProto::default()
    }
}
