//! Refuses a request with a parameter that no executor accepts; `flow_core::parameters` has the rule.
//!
//! The names come from the executors (`offered.rs`). An executor that has not been asked yet is asked
//! here, so that the first request of a flow is treated like any other.

use std::sync::Arc;

use flow_core::parameters::{self, Accepted, Accepts, RESULTS, are_trivial, decode};
use flow_core::{Code, Endpoint, Failure};
use flow_proto::jina::EndpointsProto;
use flow_spec::NodePlan;
use futures_util::future::join_all;
use prost_types::Struct;

use crate::attend::{ask, soon};
use crate::core::Core;
use crate::reply::Reply;
use crate::target::Target;
use crate::visit::Node;

/// What a node does with the parameters of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeAccepts {
    Anything,
    Only(Arc<Accepted>),
    NotCalled,
}

/// A request's parameters, if there is something to check. Bytes that are none are left to the executors,
/// which say so.
pub(crate) fn to_check(reply: &Reply) -> Option<Struct> {
    let bytes = reply.parameters.as_ref().filter(|it| !are_trivial(it))?;
    let sent = decode(bytes).ok()?;
    let has_names = sent.fields.keys().any(|name| name != RESULTS);
    (has_names && endpoint(reply) != Endpoint::DRY_RUN).then_some(sent)
}

/// Fails if the request has a parameter that no executor accepts which the request reaches.
pub(crate) async fn check(
    core: &Core,
    parameters: &Struct,
    reply: &Reply,
    target: &Target,
) -> Result<(), Failure> {
    let endpoint = endpoint(reply);
    let nodes = core.nodes().map(|(plan, node)| async move {
        let name = plan.name.as_str();
        let accepts = match target.includes(name) {
            true => accepts(plan, node, endpoint).await,
            false => NodeAccepts::NotCalled,
        };
        (name, accepts)
    });
    let nodes = join_all(nodes).await;
    let executors: Vec<_> = nodes.iter().map(|(name, it)| (*name, it.into())).collect();
    parameters::check(parameters, &executors, endpoint).map_err(|error| {
        let failure = Failure::from_error(Code::BadRequest, &error);
        match error.executor() {
            Some(executor) => failure.at(executor),
            None => failure,
        }
    })
}

/// What the request asks for; executors take none for the default.
fn endpoint(reply: &Reply) -> &str {
    let endpoint = reply.header.exec_endpoint.as_deref();
    let endpoint = endpoint.filter(|it| !it.is_empty());
    endpoint.unwrap_or(Endpoint::DEFAULT)
}

async fn accepts(plan: &NodePlan, node: &Node, endpoint: &str) -> NodeAccepts {
    let generation = node.generation();
    let known = || node.offered.accepts(endpoint, generation);
    if known().is_none() {
        match ask(plan, node, soon()).await {
            Ok(said) => node.offered.learn(&said, generation),
            // One that does not tell is not asked again by every request.
            Err(_) if known().is_none() => {
                node.offered.learn(&EndpointsProto::default(), generation);
            }
            Err(_) => {}
        }
    }
    match known() {
        None => NodeAccepts::Anything,
        // What `uses_before` and `uses_after` accept is not known.
        Some(NodeAccepts::Only(_)) if node.before.is_some() || node.after.is_some() => {
            NodeAccepts::Anything
        }
        Some(known) => known,
    }
}

impl<'a> From<&'a NodeAccepts> for Accepts<'a> {
    fn from(accepts: &'a NodeAccepts) -> Self {
        match accepts {
            NodeAccepts::Anything => Self::Anything,
            NodeAccepts::Only(accepted) => Self::Only(accepted),
            NodeAccepts::NotCalled => Self::NotCalled,
        }
    }
}
