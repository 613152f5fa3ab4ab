//! One container, from its creation to its removal.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error as ApiError;
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, KillContainerOptionsBuilder,
    RemoveContainerOptionsBuilder, WaitContainerOptionsBuilder,
};
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::container_config::{ContainerConfig, port_key};
use crate::engine::Engine;
use crate::error::EngineError;

/// The engine's HTTP status for an unknown object.
const NOT_FOUND: u16 = 404;
/// The engine's HTTP status for a container that has exited, or that is being removed.
const CONFLICT: u16 = 409;

/// Retries of a wait for a container's exit, such as while the engine restarts.
const WAIT_RETRIES_MAX: u32 = 30;
/// Wait between two of these retries.
const WAIT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A container of an engine.
#[derive(Debug, Clone)]
pub struct Container {
    engine: Engine,
    id: String,
}

/// How a container exited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerExit {
    /// The exit code of its program, or 128 plus the number of a signal. `None` if the container was removed, or if the
    /// engine does not respond.
    pub code: Option<i64>,
    /// The kernel ended it because it used more memory than its limit.
    pub out_of_memory: bool,
    /// The engine's message.
    pub message: String,
}

/// What an engine knows about a running container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerInfo {
    /// The process id of its first process on the engine's machine; 0 if it has exited.
    pub pid: u32,
    /// The addresses that its ports are published on.
    pub published: HashMap<String, SocketAddr>,
}

impl ContainerInfo {
    /// The address that a port of the container is published on.
    #[must_use]
    pub fn address(&self, container_port: u16) -> Option<SocketAddr> {
        self.published.get(&port_key(container_port)).copied()
    }
}

impl From<ContainerInspectResponse> for ContainerInfo {
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

/// The output of a container, from its start on.
pub struct AttachedOutput {
    stream: std::pin::Pin<Box<dyn Stream<Item = Result<LogOutput, ApiError>> + Send>>,
}

impl std::fmt::Debug for AttachedOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AttachedOutput").finish_non_exhaustive()
    }
}

impl AttachedOutput {
    /// Copies both streams until they end.
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
    /// Creates a container, without starting it.
    ///
    /// # Errors
    /// If there is no such image, or the engine rejects the configuration.
    pub async fn create(&self, config: &ContainerConfig) -> Result<Container, EngineError> {
        let mut options = CreateContainerOptionsBuilder::default();
        if let Some(name) = &config.name {
            options = options.name(name);
        }
        if let Some(platform) = &config.platform {
            options = options.platform(platform);
        }
        let body = config.body()?;
        let created = self
            .raw()
            .create_container(Some(options.build()), body)
            .await;
        let image = &config.image;
        match created {
            Ok(created) => Ok(Container {
                engine: self.clone(),
                id: created.id,
            }),
            Err(ApiError::DockerResponseServerError {
                status_code: NOT_FOUND,
                message,
            }) if message.contains("No such image") => Err(EngineError::NoImage {
                image: image.clone(),
            }),
            Err(error) => Err(self.api_error(format!("create a container from `{image}`"), error)),
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

    /// Its id in the engine.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Attaches to its output. To be called before [`Container::start`].
    ///
    /// # Errors
    /// If the engine refuses.
    pub async fn attach(&self) -> Result<AttachedOutput, EngineError> {
        let options = AttachContainerOptionsBuilder::default()
            .stdout(true)
            .stderr(true)
            .stream(true)
            .build();
        let attached = self.engine.raw().attach_container(&self.id, Some(options));
        let attached = attached.await;
        let attached =
            attached.map_err(|it| self.engine.api_error("relay a container's log", it))?;
        Ok(AttachedOutput {
            stream: Box::pin(attached.output),
        })
    }

    /// Starts it.
    ///
    /// # Errors
    /// If its port is in use, its GPUs do not exist, its program is not in the image, ….
    pub async fn start(&self) -> Result<(), EngineError> {
        let started = self.engine.raw().start_container(&self.id, None).await;
        started.map_err(|error| self.engine.api_error("start a container", error))
    }

    /// What the engine knows about it while it runs.
    ///
    /// # Errors
    /// If the engine has no such container.
    pub async fn info(&self) -> Result<ContainerInfo, EngineError> {
        self.inspect()
            .await
            .map(ContainerInfo::from)
            .map_err(|error| self.engine.api_error("inspect a container", error))
    }

    async fn inspect(&self) -> Result<ContainerInspectResponse, ApiError> {
        self.engine.raw().inspect_container(&self.id, None).await
    }

    /// Waits until it has exited. To be called after [`Container::start`].
    pub async fn exited(&self) -> ContainerExit {
        for _ in 0..WAIT_RETRIES_MAX {
            if let Some(exit) = self.exited_once().await {
                return exit;
            }
            tokio::time::sleep(WAIT_RETRY_AFTER).await;
        }
        ContainerExit {
            code: None,
            out_of_memory: false,
            message: "the Docker engine does not respond any more".to_owned(),
        }
    }

    /// `None` if the engine broke off the wait, and may know more later.
    async fn exited_once(&self) -> Option<ContainerExit> {
        let options = WaitContainerOptionsBuilder::default()
            .condition("not-running")
            .build();
        // The container's own state says more than the outcome.
        let _ = self
            .engine
            .raw()
            .wait_container(&self.id, Some(options))
            .next()
            .await;
        match self.inspect().await {
            Ok(found) => {
                let state = found.state.unwrap_or_default();
                let exit = ContainerExit {
                    code: state.exit_code,
                    out_of_memory: state.oom_killed == Some(true),
                    message: state.error.unwrap_or_default(),
                };
                (state.running != Some(true)).then_some(exit)
            }
            Err(ApiError::DockerResponseServerError {
                status_code: NOT_FOUND,
                ..
            }) => Some(ContainerExit {
                code: None,
                out_of_memory: false,
                message: "it was removed".to_owned(),
            }),
            Err(_) => None,
        }
    }

    /// Sends its first process a signal, such as `SIGTERM`. Does nothing if it has exited.
    ///
    /// # Errors
    /// If the engine does not respond.
    pub async fn signal(&self, signal: &str) -> Result<(), EngineError> {
        let options = KillContainerOptionsBuilder::default()
            .signal(signal)
            .build();
        let sent = self.engine.raw().kill_container(&self.id, Some(options));
        self.unless_gone(sent.await, "signal a container")
    }

    /// Kills it if it still runs, and removes it with its anonymous volumes.
    ///
    /// # Errors
    /// If the engine does not respond.
    pub async fn remove(&self) -> Result<(), EngineError> {
        let options = RemoveContainerOptionsBuilder::default()
            .force(true)
            .v(true)
            .build();
        let removed = self.engine.raw().remove_container(&self.id, Some(options));
        self.unless_gone(removed.await, "remove a container")
    }

    fn unless_gone(&self, outcome: Result<(), ApiError>, what: &str) -> Result<(), EngineError> {
        match outcome {
            Err(ApiError::DockerResponseServerError {
                status_code: NOT_FOUND | CONFLICT,
                ..
            })
            | Ok(()) => Ok(()),
            Err(error) => Err(self.engine.api_error(what, error)),
        }
    }
}
