//! A child that is a container.
//!
//! The engine is its parent, so nothing ends it when we are killed: it carries our name on a label, and the
//! next launcher removes it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use flow_core::Deadline;
use flow_docker::{Container, EngineError, Launcher, Wanted, labels};
use flow_net::{Limits, Replica};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

use crate::child::{Start, StartError, Voice};
use crate::command::Ports;
use crate::dock::Dock;
use crate::ended::Cause;
use crate::event::Facts;
use crate::image::{AtStart, Contained, Maker};
use crate::ready::{BadReady, Ready};
use crate::volumes;

/// Between two questions whether an executor of Jina's serves; starting Python takes seconds.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// What one of these questions may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Bytes of a container's output that are on their way to us; it waits while nobody reads them.
const OUTPUT_LEN_MAX: usize = 64 << 10;

/// What ends a container that does not say otherwise.
const SIGNAL: &str = "SIGTERM";

/// What was found out before a container is made.
#[derive(Debug)]
pub(crate) struct Berth<'s> {
    dock: &'s Dock,
    contained: &'s Contained,
    maker: Maker,
    /// Whom it runs as, instead of whom its image says.
    user: Option<String>,
}

impl<'s> Berth<'s> {
    /// Fetches the image if it is not there, and holds it and the folders against what the flow file says.
    pub(crate) async fn find(
        contained: &'s Contained,
        start: &Start<'_>,
        dock: &'s Dock,
    ) -> Result<Self, StartError> {
        let name = || start.name.clone();
        let image = dock.image(contained, &start.relay).await;
        let image = image.map_err(|source| failed(start, contained, source))?;
        let maker = contained.maker(&image);
        let maker = maker.map_err(|source| StartError::Image {
            name: name(),
            source,
        })?;
        let user = volumes::prepare(contained, maker, &image.user);
        let user = user.map_err(|source| StartError::Volume {
            name: name(),
            source,
        })?;
        Ok(Self {
            dock,
            contained,
            maker,
            user,
        })
    }

    /// Makes the container and runs it. Nothing is left of one that does not start.
    pub(crate) async fn start(
        self,
        start: &Start<'_>,
        voice: Voice,
    ) -> Result<(Inside, JoinSet<()>), StartError> {
        let port = |port| match (port, self.contained.container.on_host_network) {
            // An executor of Jina's cannot tell which port it was given.
            (0, true) if self.maker == Maker::Jina => free_port(),
            (port, _) => port,
        };
        let ports = Ports {
            serving: port(start.ports.serving),
            metrics: start.ports.metrics.map(port),
        };
        let wanted = self.wanted(start, ports);
        let made = self.dock.engine().await;
        let made = made.map_err(|source| failed(start, self.contained, source))?;
        let made = made.create(&wanted).await;
        let container = made.map_err(|source| failed(start, self.contained, source))?;
        match self.run(&container, ports, voice).await {
            Ok(running) => Ok(running),
            Err(source) => {
                remove(&container).await;
                Err(failed(start, self.contained, source))
            }
        }
    }

    async fn run(
        &self,
        container: &Container,
        ports: Ports,
        mut voice: Voice,
    ) -> Result<(Inside, JoinSet<()>), EngineError> {
        let output = container.listen().await?;
        container.start().await?;
        let alive = container.alive().await?;
        let address = self.contained.reached_at(&alive, ports);
        let tell = match self.maker {
            Maker::Flow => None,
            Maker::Jina => voice.take_ready(),
        };
        let (stdout, their_stdout) = tokio::io::duplex(OUTPUT_LEN_MAX);
        let (stderr, their_stderr) = tokio::io::duplex(OUTPUT_LEN_MAX);
        let mut relays = voice.hear(stdout, stderr);
        relays.spawn(output.copy(their_stdout, their_stderr));
        let asking = tell.zip(address);
        let asking = asking.map(|(tell, address)| relays.spawn(ask(address, tell)));
        Ok((
            Inside {
                container: container.clone(),
                pid: alive.pid,
                address,
                metrics: self.contained.metrics_at(&alive, ports),
                stop_signal: self.stop_signal(),
                asking,
            },
            relays,
        ))
    }

    fn wanted(&self, start: &Start<'_>, ports: Ports) -> Wanted {
        let invocation = start.invocation;
        let at = AtStart {
            name: start.name,
            ports,
            user: self.user.as_deref(),
        };
        let mut wanted =
            self.contained
                .wanted(self.maker, &invocation.arguments, &invocation.env, at);
        let name = start.name.replace('/', "-");
        let (pid, number) = (std::process::id(), self.dock.next());
        wanted.name = Some(format!("flow-{name}-{pid}-{number}"));
        let node = start.name.split('/').next().unwrap_or_default();
        let flow = self.contained.flow.clone();
        let labels = [
            (labels::RUN, Launcher::this().to_string()),
            (labels::FLOW, flow.unwrap_or_default()),
            (labels::NODE, node.to_owned()),
            (labels::REPLICA, start.name.to_string()),
        ];
        wanted.labels = labels.map(|(key, value)| (key.to_owned(), value)).into();
        wanted
    }

    fn stop_signal(&self) -> String {
        let engine = &self.contained.container.engine;
        let written = engine.get("StopSignal").and_then(serde_json::Value::as_str);
        written.unwrap_or(SIGNAL).to_owned()
    }
}

/// A container that was started.
#[derive(Debug)]
pub(crate) struct Inside {
    container: Container,
    pid: u32,
    /// Where it is reached; none: where it says.
    address: Option<SocketAddr>,
    /// The same for whoever reads its metrics.
    metrics: Option<SocketAddr>,
    stop_signal: String,
    /// Who asks whether it serves, where it does not say so.
    asking: Option<AbortHandle>,
}

impl Inside {
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn seen_from_outside(&self, mut ready: Ready) -> Ready {
        ready.address = self.address.unwrap_or(ready.address);
        ready.metrics = self.metrics.or(ready.metrics);
        ready
    }

    pub(crate) async fn ended(&self) -> Cause {
        Cause::from(self.container.ended().await)
    }

    pub(crate) async fn ask_to_end(&self) {
        self.signal(&self.stop_signal).await;
    }

    pub(crate) async fn kill(&self) {
        self.signal("SIGKILL").await;
    }

    async fn signal(&self, signal: &str) {
        if let Err(error) = self.container.signal(signal).await {
            tracing::warn!(%error, container = %self.container.id(), "cannot signal a container");
        }
    }

    /// Nobody is left to be asked.
    pub(crate) fn ask_no_more(&mut self) {
        self.asking.take().as_ref().map(AbortHandle::abort);
    }

    pub(crate) async fn remove(&self) {
        remove(&self.container).await;
    }
}

/// Waits until an executor that does not say that it is ready serves, and says so.
async fn ask(address: SocketAddr, tell: oneshot::Sender<Result<Ready, BadReady>>) {
    let Ok(executor) = Replica::new(&format!("http://{address}"), Limits::default()) else {
        return;
    };
    loop {
        let deadline = Deadline::after(Instant::now(), Some(ANSWER_WITHIN));
        if executor
            .is_serving(deadline)
            .await
            .is_ok_and(|serves| serves)
        {
            break;
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
    let facts = Facts::from_iter([("language".to_owned(), "Python".to_owned())]);
    // Nobody waits any more when the child was stopped meanwhile.
    drop(tell.send(Ok(Ready {
        address,
        metrics: None,
        facts,
    })));
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

fn failed(start: &Start<'_>, contained: &Contained, source: EngineError) -> StartError {
    StartError::Engine {
        name: start.name.clone(),
        image: contained.image.clone(),
        source,
    }
}
