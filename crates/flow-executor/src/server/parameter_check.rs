//! Checks for parameters that a method does not accept; see [`Endpoints::accepts`](crate::Endpoints::accepts).
//!
//! A request that comes without a gateway is refused. A gateway sends the same parameters to all executors of a flow, so
//! there a parameter that looks misspelt is logged once and ignored.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use flow_core::parameters::{self, Accepted, Accepts, are_trivial, specialised};
use flow_core::{Code, Endpoint, Failure};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto, SingleDocumentRequestProto};
use prost_types::Struct;

/// Parameters that are logged. Clients choose the names, so their number must be bounded.
const LOGGED_MAX: usize = 64;

/// Checks the parameters of an executor's requests.
#[derive(Debug, Default)]
pub(crate) struct ParameterCheck {
    logged: Mutex<BTreeSet<String>>,
}

/// The parts of a request that the check reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedParameters<'r> {
    pub(crate) parameters: Option<&'r Bytes>,
    header: Option<&'r HeaderProto>,
    /// Empty unless the request comes from a gateway.
    routes: &'r [RouteProto],
}

impl ParameterCheck {
    /// Fails if a client has sent a parameter that `executor` does not accept.
    pub(crate) fn check(
        &self,
        received: ReceivedParameters<'_>,
        executor: &str,
        accepts: Accepts<'_>,
    ) -> Result<(), Failure> {
        let Accepts::Only(accepted) = accepts else {
            return Ok(());
        };
        let Some(all) = received.parameters.filter(|all| !are_trivial(all)) else {
            return Ok(());
        };
        let all = parameters::decode(all)?;
        if received.routes.is_empty() {
            check_parameters(&all, executor, (accepts, received.endpoint()))
        } else {
            self.log_misspelt(&specialised(all, executor), accepted);
            Ok(())
        }
    }

    fn log_misspelt(&self, parameters: &Struct, accepted: &Accepted) {
        for name in parameters
            .fields
            .keys()
            .filter(|name| !accepted.contains(name))
        {
            if let Some(meant) = accepted.closest(name)
                && self.is_new(name)
            {
                tracing::warn!(
                    parameter = name,
                    meant,
                    "ignored a parameter that looks misspelt; logged once"
                );
            }
        }
    }

    fn is_new(&self, name: &str) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.len() < LOGGED_MAX && logged.insert(name.to_owned())
    }
}

/// Fails if the executor, as the only one that the request reaches, does not accept a parameter.
pub(crate) fn check_parameters(
    all: &Struct,
    executor: &str,
    (accepts, endpoint): (Accepts<'_>, &str),
) -> Result<(), Failure> {
    parameters::check(all, &[(executor, accepts)], endpoint)
        .map_err(|error| Failure::from_error(Code::BadRequest, &error))
}

impl<'r> ReceivedParameters<'r> {
    fn endpoint(&self) -> &'r str {
        let endpoint = self.header.and_then(|it| it.exec_endpoint.as_deref());
        endpoint.unwrap_or(Endpoint::DEFAULT)
    }
}

impl<'r> From<&'r Envelope> for ReceivedParameters<'r> {
    fn from(request: &'r Envelope) -> Self {
        Self {
            parameters: request.parameters.as_ref(),
            header: request.header.as_ref(),
            routes: &request.routes,
        }
    }
}

impl<'r> From<&'r SingleDocumentRequestProto> for ReceivedParameters<'r> {
    fn from(request: &'r SingleDocumentRequestProto) -> Self {
        Self {
            parameters: request.parameters.as_ref(),
            header: request.header.as_ref(),
            routes: &request.routes,
        }
    }
}
