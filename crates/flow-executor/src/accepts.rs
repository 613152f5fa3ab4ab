//! What becomes of parameters that a method does not accept; see [`Endpoints::accepts`](crate::Endpoints::accepts).
//!
//! A client that calls the executor without a gateway reaches nobody else, so its request is refused. A
//! gateway sends the same parameters to all executors of a flow: then a parameter that looks like a
//! misspelt one of this executor's is named in the log, once, and ignored.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use flow_core::parameters::{self, Accepted, Accepts, are_trivial, specialised};
use flow_core::{Code, Endpoint, Failure};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto, SingleDocumentRequestProto};
use prost_types::Struct;

/// Names that are remembered as named in the log: clients choose them, so there must be an end.
const NAMED_MAX: usize = 64;

/// Checks the parameters of an executor's requests.
#[derive(Debug, Default)]
pub(crate) struct ParameterCheck {
    named: Mutex<BTreeSet<String>>,
}

/// What the check reads of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent<'r> {
    pub(crate) parameters: Option<&'r Bytes>,
    header: Option<&'r HeaderProto>,
    /// Gateways put themselves here, clients nothing.
    routes: &'r [RouteProto],
}

impl ParameterCheck {
    /// Fails if a client has sent a parameter that `executor` does not accept.
    pub(crate) fn check(
        &self,
        sent: Sent<'_>,
        executor: &str,
        accepts: Accepts<'_>,
    ) -> Result<(), Failure> {
        let Accepts::Only(accepted) = accepts else {
            return Ok(());
        };
        let Some(all) = sent.parameters.filter(|all| !are_trivial(all)) else {
            return Ok(());
        };
        let all = parameters::decode(all)?;
        if sent.routes.is_empty() {
            check(&all, executor, (accepts, sent.endpoint()))
        } else {
            self.name_slips(&specialised(all, executor), accepted);
            Ok(())
        }
    }

    fn name_slips(&self, seen: &Struct, accepted: &Accepted) {
        for name in seen.fields.keys().filter(|name| !accepted.contains(name)) {
            if let Some(meant) = accepted.closest(name)
                && self.is_new(name)
            {
                tracing::warn!(
                    parameter = name,
                    meant,
                    "ignored a parameter that looks like a misspelt one; said once"
                );
            }
        }
    }

    fn is_new(&self, name: &str) -> bool {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.len() < NAMED_MAX && named.insert(name.to_owned())
    }
}

/// Fails if the executor, which is the only one that the request reaches, does not accept a parameter.
pub(crate) fn check(
    all: &Struct,
    executor: &str,
    (accepts, endpoint): (Accepts<'_>, &str),
) -> Result<(), Failure> {
    parameters::check(all, &[(executor, accepts)], endpoint)
        .map_err(|error| Failure::from_error(Code::BadRequest, &error))
}

impl<'r> Sent<'r> {
    fn endpoint(&self) -> &'r str {
        let endpoint = self.header.and_then(|it| it.exec_endpoint.as_deref());
        endpoint.unwrap_or(Endpoint::DEFAULT)
    }
}

impl<'r> From<&'r Envelope> for Sent<'r> {
    fn from(request: &'r Envelope) -> Self {
        Self {
            parameters: request.parameters.as_ref(),
            header: request.header.as_ref(),
            routes: &request.routes,
        }
    }
}

impl<'r> From<&'r SingleDocumentRequestProto> for Sent<'r> {
    fn from(request: &'r SingleDocumentRequestProto) -> Self {
        Self {
            parameters: request.parameters.as_ref(),
            header: request.header.as_ref(),
            routes: &request.routes,
        }
    }
}
