//! One container, from its making to its removal.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error as Answer;
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, KillContainerOptionsBuilder,
    RemoveContainerOptionsBuilder, WaitContainerOptionsBuilder,
};
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::wanted::{Wanted, port_key};

/// The engine's status for what it does not have.
const NOT_FOUND: u16 = 404;
/// The engine's status for a container that has ended already, or is being removed already.
const CONFLICT: u16 = 409;

/// An engine that was restarted is asked again so many times what became of a container.
const ASK_AGAIN_MAX: u32 = 30;
/// Wait between two of these questions.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A container that the engine has.
#[derive(Debug, Clone)]
pub struct Container {
    engine: Engine,
    id: String,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its program's exit code; above 128: a signal's number more; none: it was removed, or the engine
    /// has gone.
    pub code: Option<i64>,
    /// The kernel ended it because it used more memory than it may.
    pub out_of_memory: bool,
    /// What the engine says of it.
    pub message: String,
}

/// A container that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Alive {
    /// The number of its first process, as the engine's machine sees it; 0: it has ended.
    pub pid: u32,
    /// Where the engine has published its ports.
    pub published: HashMap<String, SocketAddr>,
}

impl Alive {
    /// Where a port of the container is published.
    #[must_use]
    pub fn address(&self, inside: u16) -> Option<SocketAddr> {
        self.published.get(&port_key(inside)).copied()
    }
}

impl From<ContainerInspectResponse> for Alive {
    fn from(found: ContainerInspectResponse) -> Self {
        let pid = found.state.and_then(|state| state.pid);
        let ports = found.network_settings.and_then(|it| it.ports);
        let first = |(key, bindings): (String, Option<Vec<_>>)| {
            let binding: bollard::models::PortBinding = bindings?.into_iter().next()?;
            let ip: IpAddr = binding.host_ip?.parse().ok()?;
            Some((key, SocketAddr::new(ip, binding.host_port?.parse().ok()?)))
        };
        Self {
            pid: pid.and_then(|it| it.try_into().ok()).unwrap_or(0),
            published: ports
                .unwrap_or_default()
                .into_iter()
                .filter_map(first)
                .collect(),
        }
    }
}

/// What a container writes, not started yet.
pub struct Output {
    stream: std::pin::Pin<Box<dyn Stream<Item = Result<LogOutput, Answer>> + Send>>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}

impl Output {
    /// Passes on what it writes until it ends.
    pub async fn copy(
        mut self,
        mut stdout: impl AsyncWrite + Unpin,
        mut stderr: impl AsyncWrite + Unpin,
    ) {
        while let Some(Ok(piece)) = self.stream.next().await {
            let written = match piece {
                LogOutput::StdErr { message } => stderr.write_all(&message).await,
                LogOutput::StdOut { message }
                | LogOutput::StdIn { message }
                | LogOutput::Console { message } => stdout.write_all(&message).await,
            };
            if written.is_err() {
                return;
            }
        }
    }
}

impl Engine {
    /// Makes a container, which does not run yet.
    ///
    /// # Errors
    /// If there is no such image, or the engine does not take what is wanted.
    pub async fn create(&self, wanted: &Wanted) -> Result<Container, EngineError> {
        let mut options = CreateContainerOptionsBuilder::default();
        if let Some(name) = &wanted.name {
            options = options.name(name);
        }
        if let Some(platform) = &wanted.platform {
            options = options.platform(platform);
        }
        let body = wanted.body()?;
        let made = self
            .raw()
            .create_container(Some(options.build()), body)
            .await;
        let image = &wanted.image;
        match made {
            Ok(made) => Ok(Container {
                engine: self.clone(),
                id: made.id,
            }),
            Err(Answer::DockerResponseServerError {
                status_code: NOT_FOUND,
                message,
            }) if message.contains("No such image") => Err(EngineError::NoImage {
                image: image.clone(),
            }),
            Err(answer) => Err(self.met(format!("make a container of `{image}`"), answer)),
        }
    }
}

impl Container {
    /// A container of this engine, by its id or its name.
    pub(crate) fn known(engine: &Engine, id: String) -> Self {
        Self {
            engine: engine.clone(),
            id,
        }
    }

    /// The engine's name for it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Listens to what it writes from its start on; to be called before [`Container::start`].
    ///
    /// # Errors
    /// If the engine does not let us.
    pub async fn listen(&self) -> Result<Output, EngineError> {
        let options = AttachContainerOptionsBuilder::default()
            .stdout(true)
            .stderr(true)
            .stream(true)
            .build();
        let attached = self.engine.raw().attach_container(&self.id, Some(options));
        let attached = attached.await;
        let attached = attached.map_err(|it| self.engine.met("relay a container's log", it))?;
        Ok(Output {
            stream: Box::pin(attached.output),
        })
    }

    /// Runs it.
    ///
    /// # Errors
    /// If its port is taken, its GPUs are not there, its program is not in the image, ….
    pub async fn start(&self) -> Result<(), EngineError> {
        let started = self.engine.raw().start_container(&self.id, None).await;
        started.map_err(|answer| self.engine.met("start a container", answer))
    }

    /// What the engine knows of it while it runs.
    ///
    /// # Errors
    /// If the engine has no such container.
    pub async fn alive(&self) -> Result<Alive, EngineError> {
        self.inspect()
            .await
            .map(Alive::from)
            .map_err(|answer| self.engine.met("show a container", answer))
    }

    async fn inspect(&self) -> Result<ContainerInspectResponse, Answer> {
        self.engine.raw().inspect_container(&self.id, None).await
    }

    /// Waits until it has ended; to be called after [`Container::start`].
    pub async fn ended(&self) -> Ended {
        for _ in 0..ASK_AGAIN_MAX {
            if let Some(ended) = self.ended_once().await {
                return ended;
            }
            tokio::time::sleep(ASK_AGAIN_AFTER).await;
        }
        Ended {
            code: None,
            out_of_memory: false,
            message: "the Docker engine answers no more".to_owned(),
        }
    }

    /// None: the engine broke off, and may know more later.
    async fn ended_once(&self) -> Option<Ended> {
        let options = WaitContainerOptionsBuilder::default()
            .condition("not-running")
            .build();
        // Whatever it says, the container's own state says more.
        let _ = self
            .engine
            .raw()
            .wait_container(&self.id, Some(options))
            .next()
            .await;
        match self.inspect().await {
            Ok(found) => {
                let state = found.state.unwrap_or_default();
                let ended = Ended {
                    code: state.exit_code,
                    out_of_memory: state.oom_killed == Some(true),
                    message: state.error.unwrap_or_default(),
                };
                (state.running != Some(true)).then_some(ended)
            }
            Err(Answer::DockerResponseServerError {
                status_code: NOT_FOUND,
                ..
            }) => Some(Ended {
                code: None,
                out_of_memory: false,
                message: "somebody has removed it".to_owned(),
            }),
            Err(_) => None,
        }
    }

    /// Sends its first process a signal, such as `SIGTERM`. One that has ended needs none.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub async fn signal(&self, signal: &str) -> Result<(), EngineError> {
        let options = KillContainerOptionsBuilder::default()
            .signal(signal)
            .build();
        let sent = self.engine.raw().kill_container(&self.id, Some(options));
        self.unless_gone(sent.await, "end a container")
    }

    /// Ends it if it still runs, and removes it with the volumes that it alone has.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub async fn remove(&self) -> Result<(), EngineError> {
        let options = RemoveContainerOptionsBuilder::default()
            .force(true)
            .v(true)
            .build();
        let removed = self.engine.raw().remove_container(&self.id, Some(options));
        self.unless_gone(removed.await, "remove a container")
    }

    fn unless_gone(&self, outcome: Result<(), Answer>, what: &str) -> Result<(), EngineError> {
        match outcome {
            Err(Answer::DockerResponseServerError {
                status_code: NOT_FOUND | CONFLICT,
                ..
            })
            | Ok(()) => Ok(()),
            Err(answer) => Err(self.engine.met(what, answer)),
        }
    }
}
