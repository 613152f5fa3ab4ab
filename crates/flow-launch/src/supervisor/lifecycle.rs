//! A flow from its start to its shutdown.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use flow_net::Listener;
use flow_spec::{Placement, Plan};
use futures_util::future::try_join_all;
use tokio::sync::{oneshot, watch};

use crate::event::ReadyProcess;
use crate::process::error::ProcessStartError;
use crate::spec::process_spec;
use crate::supervisor::Supervisor;
use crate::supervisor::error::LaunchError;
use crate::supervisor::handle::ProcessHandle;
use crate::supervisor::preparation::Preparation;
use crate::supervisor::shutdown::{Shutdown, wait_for};

/// What changes wait for until the flow serves.
const START: &str = "the start of the flow, which may build executors,";

/// A flow that serves.
#[derive(Debug, Clone, PartialEq)]
pub struct StartedFlow {
    /// The gateway's process.
    pub gateway: ReadyProcess,
    /// Every executor process, in the order of the plan.
    pub executors: Vec<ReadyProcess>,
    /// The plan and the addresses of its processes.
    pub placement: Placement,
}

/// Runs a flow from its start to its shutdown.
pub(crate) struct Lifecycle {
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) preparation: Option<Preparation>,
    pub(crate) shutdown: watch::Receiver<Shutdown>,
}

impl Lifecycle {
    /// Starts the flow, serves until `serving` returns or the shutdown, and stops everything.
    ///
    /// `started` gets the outcome of the start: when the flow serves, or when it has failed and nothing of it is left.
    pub(crate) async fn run(
        mut self,
        started: oneshot::Sender<Result<StartedFlow, LaunchError>>,
        serving: impl Future<Output = ()>,
    ) {
        let outcome = self.start().await;
        let serves = outcome.is_ok();
        if serves {
            self.supervisor.announce_serving();
        } else {
            self.supervisor.stop(&mut self.shutdown).await;
        }
        // Without a receiver the flow is being dropped, and its shutdown follows.
        drop(started.send(outcome));
        if serves {
            tokio::select! {
                () = wait_for(&mut self.shutdown, Shutdown::Drain) => {}
                () = serving => {}
            }
            self.supervisor.stop(&mut self.shutdown).await;
        }
    }

    /// Prepares and starts every process, and waits until the flow serves or the shutdown comes.
    async fn start(&mut self) -> Result<StartedFlow, LaunchError> {
        // Changes wait until there is something to change.
        let supervisor = self.supervisor.clone();
        let _lock = supervisor.change_lock.acquire(START, |_| ()).await;
        let mut plan = self.supervisor.plan();
        tokio::select! {
            checked = check_ports(&plan) => checked?,
            () = wait_for(&mut self.shutdown, Shutdown::Drain) => return Err(LaunchError::Stopped),
        }
        if let Some(preparation) = self.preparation.take() {
            plan = preparation.run(&mut self.shutdown).await?;
        }
        let supervisor = &self.supervisor;
        let specs = process_spec::executors(&plan, &supervisor.shared);
        let specs = specs.map_err(LaunchError::Devices)?;
        let executors: Vec<ProcessHandle> = specs
            .into_iter()
            .map(|spec| supervisor.start(spec))
            .collect();
        let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let gateway = process_spec::gateway(&plan, &supervisor.shared, cores);
        let gateway = supervisor.start(gateway);
        supervisor.set_executors(plan, executors.clone());
        supervisor.set_gateway(gateway.clone());
        tokio::select! {
            started = all_ready(supervisor, &gateway, &executors) => started,
            () = wait_for(&mut self.shutdown, Shutdown::Drain) => Err(LaunchError::Stopped),
        }
    }
}

/// Waits until the flow serves. The gateway is ready only after it got its placement, unless it fails.
async fn all_ready(
    supervisor: &Supervisor,
    gateway: &ProcessHandle,
    executors: &[ProcessHandle],
) -> Result<StartedFlow, LaunchError> {
    let executors_ready = async {
        let executors = try_join_all(executors.iter().map(ready)).await?;
        let (_, placement) = supervisor.place();
        Ok((executors, placement))
    };
    let ((executors, placement), gateway) = tokio::try_join!(executors_ready, ready(gateway))?;
    Ok(StartedFlow {
        gateway,
        executors,
        placement,
    })
}

async fn ready(process: &ProcessHandle) -> Result<ReadyProcess, LaunchError> {
    let ready = process.ready().await;
    ready.map_err(|error: Option<Arc<ProcessStartError>>| {
        error.map_or(LaunchError::Stopped, LaunchError::Start)
    })
}

/// Finds out about a port in use at once. The gateway would report it only after every executor has loaded its model.
async fn check_ports(plan: &Plan) -> Result<(), LaunchError> {
    let gateway = &plan.gateway;
    for port in gateway.ports().filter_map(|it| it.port) {
        let bound = Listener::bind(gateway.listen_host(), port).await;
        bound.map_err(|source| LaunchError::Port { port, source })?;
    }
    match gateway.monitoring.as_ref().map_or(0, |it| it.port(0)) {
        0 => Ok(()),
        port => {
            let bound = Listener::bind(gateway.listen_host(), port).await;
            bound.map_err(|source| LaunchError::MetricsPort { port, source })?;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
