//! What one node gets of a request: the documents that its parents made, as it wants them.
//!
//! Several parents' documents become one array, or stay apart; a condition leaves out those that are not
//! for the node; and the parameters are the node's own view of them.

use std::sync::OnceLock;
use std::time::SystemTime;

use bytes::Bytes;
use flow_core::Failure;
use flow_net::Terms;
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto};
use flow_spec::{NodePlan, Source};

use crate::condition::{self, Left};
use crate::core::Core;
use crate::merge::merge;
use crate::order::Order;
use crate::parts::{Part, Parts};
use crate::reply::{GATEWAY, Reply};
use crate::specialise::specialise;
use crate::target::Target;

/// What does not change while a request walks.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) terms: Terms,
    pub(crate) started: SystemTime,
    pub(crate) target: Target,
    pub(crate) sent: Parts,
    /// Only made where it is needed.
    pub(crate) order: OnceLock<Order>,
}

/// What a condition leaves for a node.
pub(crate) enum Input {
    Some(Parts),
    /// There were documents, and none of them is for this node.
    Nothing(Parts),
}

impl Call {
    /// What of its parents' documents the node is to get.
    pub(crate) fn input(
        &self,
        core: &Core,
        plan: &NodePlan,
        parts: Parts,
    ) -> Result<Input, Failure> {
        let parts = if plan.calls.reduce && !parts.is_one() {
            Parts::one(self.merged(core, &parts)?, parts.first().from)
        } else {
            parts
        };
        let Some(when) = &plan.calls.when else {
            return Ok(Input::Some(parts));
        };
        let mut nothing_left = true;
        let parts = parts.try_map(|data| {
            Ok::<_, Failure>(match condition::apply(when, data.as_ref())? {
                Left::All => {
                    nothing_left = false;
                    data
                }
                Left::Some(left) => {
                    nothing_left = false;
                    Some(left)
                }
                Left::Nothing(empty) => Some(empty),
            })
        })?;
        Ok(if nothing_left {
            Input::Nothing(parts)
        } else {
            Input::Some(parts)
        })
    }

    /// Parts as one array of documents, in the client's order where branches got different ones.
    pub(crate) fn merged(&self, core: &Core, parts: &Parts) -> Result<Option<Bytes>, Failure> {
        let data = if parts.is_one() {
            parts.first().data.clone()
        } else {
            merge(&parts.data())?
        };
        if !core.has_conditions {
            return Ok(data);
        }
        Ok(self.order()?.restore(data)?)
    }

    fn order(&self) -> Result<&Order, Failure> {
        if let Some(order) = self.order.get() {
            return Ok(order);
        }
        let order = Order::of(self.sent.first().data.as_ref())?;
        Ok(self.order.get_or_init(|| order))
    }

    /// The request as the node gets it: its own view of the parameters, and the way it came, the gateway
    /// first. Parts that stay apart are told apart by the last node on their way.
    pub(crate) fn requests_for(
        &self,
        core: &Core,
        plan: &NodePlan,
        reply: &Reply,
        parts: &Parts,
    ) -> Vec<Envelope> {
        let header = &reply.header;
        let header = HeaderProto {
            request_id: header.request_id.clone(),
            exec_endpoint: header.exec_endpoint.clone(),
            // Present and empty: the gateway has already chosen.
            target_executor: Some(String::new()),
            ..HeaderProto::default()
        };
        let parameters = specialise(reply.parameters.as_ref(), plan.name.as_str());
        let request = |part: &Part| Envelope {
            header: Some(header.clone()),
            parameters: parameters.clone(),
            routes: self.way(core, part.from, !parts.is_one()),
            data: part.data.clone(),
        };
        parts.iter().map(request).collect()
    }

    fn way(&self, core: &Core, from: Source, is_one_of_several: bool) -> Vec<RouteProto> {
        let mut way = vec![RouteProto {
            executor: GATEWAY.to_owned(),
            start_time: Some(self.started.into()),
            ..RouteProto::default()
        }];
        if let (Source::Node(node), true) = (from, is_one_of_several) {
            way.push(RouteProto {
                executor: core.plan.node(node).name.as_str().to_owned(),
                ..RouteProto::default()
            });
        }
        way
    }
}
