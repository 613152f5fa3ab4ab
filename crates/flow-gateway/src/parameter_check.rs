//! Refuses a request with a parameter that no executor accepts; `flow_core::parameters` has the rule.
//!
//! The names of the parameters come from the executors (`known_endpoints.rs`). An executor that has not been asked
//! yet is asked here, so that the first request of a flow is treated like any other.

use bytes::Bytes;
use flow_core::parameters::{self, Accepts, RESULTS, are_trivial, decode};
use flow_core::{Code, Endpoint, Failure};
use flow_proto::jina::{EndpointsProto, HeaderProto};
use flow_spec::NodePlan;
use futures_util::future::join_all;
use prost_types::Struct;

use crate::discovery::{node_endpoints, soon};
use crate::known_endpoints::NodeAccepts;
use crate::node::GatewayNode;
use crate::snapshot::Snapshot;
use crate::target::TargetNodes;

/// The parameters of a request, if they have to be checked. Invalid bytes are left to the executors, which report
/// them.
pub(crate) fn to_check(header: &HeaderProto, parameters: Option<&Bytes>) -> Option<Struct> {
    let bytes = parameters.filter(|it| !are_trivial(it))?;
    let sent = decode(bytes).ok()?;
    let has_names = sent.fields.keys().any(|name| name != RESULTS);
    (has_names && endpoint(header) != Endpoint::DRY_RUN).then_some(sent)
}

/// Fails if a parameter is accepted by none of the executors that the request addresses.
pub(crate) async fn check(
    snapshot: &Snapshot,
    parameters: &Struct,
    header: &HeaderProto,
    target: &TargetNodes,
) -> Result<(), Failure> {
    let endpoint = endpoint(header);
    let nodes = snapshot.nodes().map(|(plan, node)| async move {
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

/// The endpoint of a request; executors take an empty one for the default.
fn endpoint(header: &HeaderProto) -> &str {
    let endpoint = header.exec_endpoint.as_deref();
    let endpoint = endpoint.filter(|it| !it.is_empty());
    endpoint.unwrap_or(Endpoint::DEFAULT)
}

async fn accepts(plan: &NodePlan, node: &GatewayNode, endpoint: &str) -> NodeAccepts {
    let generation = node.generation();
    let known = || node.endpoints.accepts(endpoint, generation);
    if known().is_none() {
        match node_endpoints(plan, node, soon()).await {
            Ok(offered) => node.endpoints.set(&offered, generation),
            // An executor that does not answer is not asked again by every request.
            Err(_) if known().is_none() => {
                node.endpoints.set(&EndpointsProto::default(), generation);
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
