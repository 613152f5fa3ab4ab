//! The flow's Docker engine: connected to when the first container starts, and asked once per image for all replicas.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use flow_docker::{Credentials, Engine, EngineError, ImageInfo, ProgressStep};
use tokio::sync::{OnceCell, mpsc};

use crate::docker::pull_progress::PullProgress;
use crate::logs::log_line::LogSource;
use crate::logs::relay::OutputRelay;
use crate::spec::container::ContainerInvocation;

/// Sentences about a pull that may wait to be logged; more are left out.
const SENTENCES_MAX: usize = 4;

/// Finds the credentials for the registry of an image. May block, such as on a credential helper.
type FindCredentials = dyn Fn(&str) -> Option<Credentials> + Send + Sync;

/// How a flow reaches its Docker engine.
#[derive(Clone, Default)]
pub struct DockerOptions {
    /// The engine's address, as in DOCKER_HOST; `None` for the default.
    pub host: Option<String>,
    /// Finds the credentials for the registry of an image, on a thread where it may block. `None` if there are none.
    pub credentials: Option<Arc<FindCredentials>>,
}

impl fmt::Debug for DockerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        f.debug_struct("DockerOptions")
            .field("host", host)
            .finish_non_exhaustive()
    }
}

/// The Docker engine of a flow.
#[derive(Debug, Default)]
pub(crate) struct DockerContext {
    options: DockerOptions,
    engine: OnceCell<Engine>,
    /// Whether an image was pulled by this flow. The lock lets one replica look at an image while others wait.
    pulled: Mutex<HashMap<String, Arc<tokio::sync::Mutex<bool>>>>,
    containers: AtomicU64,
}

impl DockerContext {
    pub(crate) fn new(options: DockerOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// The engine. The first call removes containers that killed flows have left behind.
    pub(crate) async fn engine(&self) -> Result<&Engine, EngineError> {
        let connect = || async {
            let engine = Engine::connect(self.options.host.as_deref()).await?;
            if !engine.is_local() {
                let host = engine.host().to_owned();
                return Err(EngineError::Elsewhere { host });
            }
            for name in engine.sweep().await? {
                tracing::info!(%name, "removed the container of a flow that was killed");
            }
            Ok(engine)
        };
        self.engine.get_or_try_init(connect).await
    }

    /// A number for the name of a container, unique in this flow.
    pub(crate) fn next_number(&self) -> u64 {
        self.containers.fetch_add(1, Ordering::Relaxed)
    }

    /// The image of an executor, pulled if the engine does not have it. Progress goes to the relay.
    pub(crate) async fn image(
        &self,
        container: &ContainerInvocation,
        relay: &OutputRelay,
    ) -> Result<ImageInfo, EngineError> {
        let engine = self.engine().await?;
        let pulled = self.pulled(&container.image);
        let mut pulled = pulled.lock().await;
        let must_pull = container.container.is_refetched && !*pulled;
        if !must_pull && let Some(image) = engine.image(&container.image).await? {
            return Ok(image);
        }
        self.pull(engine, container, relay).await?;
        *pulled = true;
        let image = engine.image(&container.image).await?;
        image.ok_or_else(|| EngineError::NoImage {
            image: container.image.clone(),
        })
    }

    fn pulled(&self, image: &str) -> Arc<tokio::sync::Mutex<bool>> {
        let mut all = self.pulled.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(image.to_owned()).or_default().clone()
    }

    async fn pull(
        &self,
        engine: &Engine,
        container: &ContainerInvocation,
        relay: &OutputRelay,
    ) -> Result<(), EngineError> {
        let name = container.image.as_str();
        relay.line(LogSource::Flow, format!("pulling the image `{name}`"));
        let credentials = self.credentials(name).await;
        let (sender, mut sentences) = mpsc::channel(SENTENCES_MAX);
        let mut progress = PullProgress::new(name);
        let on_step = move |step: ProgressStep| {
            if let Some(sentence) = progress.record(step, Instant::now()) {
                // When the channel is full, the next sentence says more.
                drop(sender.try_send(sentence));
            }
        };
        let platform = container.container.platform.as_deref();
        let pull = engine.pull(name, platform, credentials, on_step);
        let relayed = async {
            while let Some(sentence) = sentences.recv().await {
                relay.line(LogSource::Flow, sentence);
            }
        };
        let (pulled, ()) = tokio::join!(pull, relayed);
        pulled
    }

    /// The credentials for an image. A credential helper is a program that may hang, so it runs on another thread.
    async fn credentials(&self, image: &str) -> Option<Credentials> {
        let find = self.options.credentials.clone()?;
        let name = image.to_owned();
        let found = tokio::task::spawn_blocking(move || find(&name)).await;
        found.unwrap_or_else(|error| {
            tracing::error!(image, %error, "cannot look up the credentials for an image");
            None
        })
    }
}
