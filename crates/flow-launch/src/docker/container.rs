//! A child that is a container.
//!
//! The Docker engine is its parent, so the kernel does not end it when this process is killed. A label names this
//! process, and the next flow that uses the engine removes the container.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use flow_core::Deadline;
use flow_docker::{Container, ContainerConfig, EngineError, LauncherId, labels};
use flow_net::{Limits, Replica};
use futures_util::future::BoxFuture;
use tokio::task::{AbortHandle, JoinSet};

use crate::docker::context::DockerContext;
use crate::docker::volumes::{self, VolumeError};
use crate::event::Facts;
use crate::process::backend::{ChildControl, StartRequest, StartedChild};
use crate::process::error::ProcessStartError;
use crate::process::exit_status::ExitCause;
use crate::process::output::{ChildOutput, ReadySender};
use crate::process::ready::ReadyReport;
use crate::spec::container::{ContainerInvocation, ImageKind, StartArguments};
use crate::spec::ports::Ports;

/// Wait between two health checks of an executor of Jina's that starts. Starting Python takes seconds.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Time limit of one of these checks.
const CHECK_WITHIN: Duration = Duration::from_secs(1);

/// Bytes of a container's output that may wait to be read.
const OUTPUT_LEN_MAX: usize = 64 << 10;

/// The signal that stops a container which does not name another.
const STOP_SIGNAL: &str = "SIGTERM";

/// Pulls the image of a container that is to be started.
pub(crate) async fn prepare(
    request: &StartRequest<'_>,
    container: &ContainerInvocation,
    docker: &DockerContext,
) -> Result<(), ProcessStartError> {
    let image = docker.image(container, &request.relay).await;
    image
        .map(drop)
        .map_err(|source| engine_error(request, container, source))
}

/// Creates and starts a container. Nothing is left of one that does not start.
pub(crate) async fn start(
    request: &StartRequest<'_>,
    container: &ContainerInvocation,
    docker: &DockerContext,
    output: ChildOutput,
) -> Result<StartedChild, ProcessStartError> {
    let prepared = PreparedContainer::new(request, container, docker).await?;
    let started = prepared.start(output).await;
    started.map_err(|source| engine_error(request, container, source))
}

/// A container whose image and folders are ready.
struct PreparedContainer<'s> {
    request: &'s StartRequest<'s>,
    docker: &'s DockerContext,
    container: &'s ContainerInvocation,
    kind: ImageKind,
    /// The user that it runs as; `None` for the image's.
    user: Option<String>,
}

impl<'s> PreparedContainer<'s> {
    /// Checks the image and the folders against what the flow file says.
    async fn new(
        request: &'s StartRequest<'s>,
        container: &'s ContainerInvocation,
        docker: &'s DockerContext,
    ) -> Result<Self, ProcessStartError> {
        let name = || request.name.clone();
        let image = docker.image(container, &request.relay).await;
        let image = image.map_err(|source| engine_error(request, container, source))?;
        let kind = container.kind(&image);
        let kind = kind.map_err(|source| ProcessStartError::Image {
            name: name(),
            source,
        })?;
        let mounted = container.clone();
        let prepare = move || volumes::prepare(&mounted, kind, &image.user);
        let prepared = tokio::task::spawn_blocking(prepare).await;
        let user = prepared.unwrap_or_else(|error| Err(VolumeError::Interrupted(error)));
        let user = user.map_err(|source| ProcessStartError::Volume {
            name: name(),
            source,
        })?;
        Ok(Self {
            request,
            docker,
            container,
            kind,
            user,
        })
    }

    async fn start(self, output: ChildOutput) -> Result<StartedChild, EngineError> {
        let port = |port| match (port, self.container.container.on_host_network) {
            // An executor of Jina's does not report which port it got.
            (0, true) if self.kind == ImageKind::Jina => free_port(),
            (port, _) => port,
        };
        let ports = Ports {
            serving: port(self.request.ports.serving),
            metrics: self.request.ports.metrics.map(port),
        };
        let engine = self.docker.engine().await?;
        let created = engine.create(&self.config(ports)).await?;
        let started = self.run(&created, ports, output).await;
        if started.is_err() {
            remove(&created).await;
        }
        started
    }

    async fn run(
        &self,
        created: &Container,
        ports: Ports,
        mut output: ChildOutput,
    ) -> Result<StartedChild, EngineError> {
        let attached = created.attach().await?;
        created.start().await?;
        let info = created.info().await?;
        let address = self.container.address(&info, ports);
        let ready_sender = match self.kind {
            ImageKind::Flow => None,
            ImageKind::Jina => output.take_ready_sender(),
        };
        let (stdout, stdout_writer) = tokio::io::duplex(OUTPUT_LEN_MAX);
        let (stderr, stderr_writer) = tokio::io::duplex(OUTPUT_LEN_MAX);
        let mut readers = output.read(stdout, stderr);
        readers.spawn(attached.copy(stdout_writer, stderr_writer));
        let check = ready_sender.zip(address);
        let control = RunningContainer {
            container: created.clone(),
            pid: info.pid,
            address,
            metrics: self.container.metrics_address(&info, ports),
            stop_signal: self.stop_signal(),
            ready_check: check.map(|(sender, address)| spawn_check(&mut readers, address, sender)),
        };
        Ok(StartedChild {
            control: Box::new(control),
            stdin: None,
            readers,
        })
    }

    fn config(&self, ports: Ports) -> ContainerConfig {
        let (name, invocation) = (self.request.name, self.request.invocation);
        let at_start = StartArguments {
            name,
            ports,
            user: self.user.as_deref(),
        };
        let (arguments, env) = (&invocation.arguments, &invocation.env);
        let mut config = self.container.config(self.kind, arguments, env, at_start);
        let (pid, number) = (std::process::id(), self.docker.next_number());
        config.name = Some(format!("flow-{}-{pid}-{number}", name.replace('/', "-")));
        let node = name.split('/').next().unwrap_or_default();
        let labels = [
            (labels::RUN, LauncherId::current().to_string()),
            (
                labels::FLOW,
                self.container.flow.clone().unwrap_or_default(),
            ),
            (labels::NODE, node.to_owned()),
            (labels::REPLICA, name.to_string()),
        ];
        config.labels = labels.map(|(key, value)| (key.to_owned(), value)).into();
        config
    }

    fn stop_signal(&self) -> String {
        let written = self.container.container.options.text("stop_signal");
        written.unwrap_or(STOP_SIGNAL).to_owned()
    }
}

/// A container that was started.
#[derive(Debug)]
struct RunningContainer {
    container: Container,
    pid: u32,
    /// Its address for this machine; `None` if its ready line names it.
    address: Option<SocketAddr>,
    /// The same for its metrics.
    metrics: Option<SocketAddr>,
    stop_signal: String,
    /// Checks whether it is ready, where it does not write a ready line.
    ready_check: Option<AbortHandle>,
}

impl RunningContainer {
    async fn signal(&self, signal: &str) {
        if let Err(error) = self.container.signal(signal).await {
            tracing::warn!(%error, container = %self.container.id(), "cannot signal a container");
        }
    }
}

impl ChildControl for RunningContainer {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn published(&self, mut ready: ReadyReport) -> ReadyReport {
        ready.address = self.address.map_or(ready.address, Into::into);
        ready.metrics = self.metrics.or(ready.metrics);
        ready
    }

    fn exited(&mut self) -> BoxFuture<'_, ExitCause> {
        Box::pin(async { ExitCause::from(self.container.exited().await) })
    }

    fn terminate(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.signal(&self.stop_signal))
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.signal("SIGKILL"))
    }

    /// Nothing in a container outlives its first process, so only the check is left.
    fn release(&mut self) {
        self.ready_check.take().as_ref().map(AbortHandle::abort);
    }

    fn remove(&self) -> BoxFuture<'_, ()> {
        Box::pin(remove(&self.container))
    }
}

fn spawn_check(
    readers: &mut JoinSet<()>,
    address: SocketAddr,
    ready_sender: ReadySender,
) -> AbortHandle {
    readers.spawn(async move {
        if let Ok(executor) = Replica::new(&format!("http://{address}"), Limits::default()) {
            wait_until_serving(&executor).await;
            let facts = Facts::from_iter([("language".to_owned(), "Python".to_owned())]);
            // Without a receiver, the child was stopped in the meantime.
            drop(ready_sender.send(Ok(ReadyReport {
                address: address.into(),
                more_addresses: Vec::new(),
                metrics: None,
                facts,
                keeps_state: None,
            })));
        }
    })
}

async fn wait_until_serving(executor: &Replica) {
    loop {
        let deadline = Deadline::after(Instant::now(), Some(CHECK_WITHIN));
        let serves = executor.is_serving(deadline).await;
        if serves.is_ok_and(|serves| serves) {
            return;
        }
        tokio::time::sleep(CHECK_EVERY).await;
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let bound = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let port = bound.and_then(|it| it.local_addr()).map(|it| it.port());
    port.unwrap_or(0)
}

async fn remove(container: &Container) {
    if let Err(error) = container.remove().await {
        tracing::warn!(%error, container = %container.id(), "cannot remove a container");
    }
}

fn engine_error(
    request: &StartRequest<'_>,
    container: &ContainerInvocation,
    source: EngineError,
) -> ProcessStartError {
    ProcessStartError::Engine {
        name: request.name.clone(),
        image: container.image.clone(),
        source,
    }
}
