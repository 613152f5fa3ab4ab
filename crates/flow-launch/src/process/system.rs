//! The backend of a real flow: processes of this machine, and containers of its Docker engine.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use flow_core::{Chain, Code, Deadline, Failure};
use flow_net::{Limits, Replica};
use flow_process::ListenAddress;
use flow_spec::{Plan, Run};
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use crate::docker::container;
use crate::docker::context::DockerContext;
use crate::process::backend::{HealthCheck, ProcessBackend, StartRequest, StartedChild};
use crate::process::control_group::ControlGroups;
use crate::process::error::ProcessStartError;
use crate::process::local::{self, Machine};
use crate::process::output::ChildOutput;
use crate::spec::environment::Environment;

/// Starts processes and containers.
#[derive(Debug)]
pub(crate) struct SystemBackend {
    docker: DockerContext,
    machine: Machine,
}

impl SystemBackend {
    pub(crate) fn new(docker: DockerContext, environment: Environment) -> Self {
        Self {
            docker,
            machine: Machine {
                environment,
                control_groups: ControlGroups::default(),
            },
        }
    }

    /// Prepares control groups for the sandboxes of this plan. To be called before processes start.
    pub(crate) fn prepare_control_groups(&self, plan: &Plan) {
        let needs_them = |run: &Run| match run {
            Run::Local(run) => {
                let limits = run.sandbox.unwrap_or_default();
                limits.memory.is_some() || limits.cpus.is_some()
            }
            Run::External { .. } => false,
        };
        if plan.nodes.iter().any(|node| needs_them(&node.run)) {
            self.machine.control_groups.prepare();
        }
    }
}

impl ProcessBackend for SystemBackend {
    fn prepare<'a>(
        &'a self,
        request: &'a StartRequest<'_>,
    ) -> BoxFuture<'a, Result<(), ProcessStartError>> {
        Box::pin(async {
            match &request.invocation.container {
                None => Ok(()),
                Some(invocation) => container::prepare(request, invocation, &self.docker).await,
            }
        })
    }

    fn start<'a>(
        &'a self,
        request: &'a StartRequest<'_>,
        output: ChildOutput,
    ) -> BoxFuture<'a, Result<StartedChild, ProcessStartError>> {
        Box::pin(async {
            match &request.invocation.container {
                None => local::start(request, &self.machine, output),
                Some(invocation) => {
                    container::start(request, invocation, &self.docker, output).await
                }
            }
        })
    }

    fn health_check(&self, address: &ListenAddress, has_tls: bool) -> Option<Box<dyn HealthCheck>> {
        if let (true, Some(address)) = (has_tls, address.tcp()) {
            return Some(Box::new(TlsCheck(address)));
        }
        match Replica::new(&address.uri(), Limits::default()) {
            Ok(replica) => Some(Box::new(replica)),
            Err(error) => {
                tracing::warn!(%address, error = %Chain(&error), "cannot check the health of a process");
                None
            }
        }
    }
}

impl HealthCheck for Replica {
    fn responds(&self, limit: Duration) -> BoxFuture<'_, bool> {
        let deadline = Deadline::after(Instant::now(), Some(limit));
        Box::pin(async move { is_answer(&self.is_serving(deadline).await) })
    }
}

/// The check of a process that speaks TLS: it answers a handshake. Its certificate does not matter here, nor whether it
/// asks for one.
struct TlsCheck(SocketAddr);

impl HealthCheck for TlsCheck {
    fn responds(&self, limit: Duration) -> BoxFuture<'_, bool> {
        let answers = flow_net::tls::answers_handshake(self.0);
        Box::pin(async move { timeout(limit, answers).await.unwrap_or(false) })
    }
}

/// Any answer of the process counts; only silence does not.
fn is_answer(outcome: &Result<bool, Failure>) -> bool {
    let is_silence = |failure: &Failure| {
        matches!(
            failure.code(),
            Code::Unavailable | Code::Lost | Code::DeadlineExceeded
        )
    };
    !outcome.as_ref().is_err_and(is_silence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_answer() {
        let failed = |code| is_answer(&Err(Failure::new(code, "no")));
        assert!(is_answer(&Ok(false)));
        assert!(failed(Code::Internal));
        assert!(!failed(Code::Unavailable) && !failed(Code::DeadlineExceeded));
    }
}
