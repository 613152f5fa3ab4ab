//! The flow's Docker engine: connected to when the first container is to be started, and asked for images
//! once for all replicas.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flow_docker::{Credentials, Engine, EngineError, Image, Step};
use tokio::sync::{OnceCell, mpsc};

use crate::image::Contained;
use crate::log_line::LogSource;
use crate::relay::Relay;

/// Sentences about a pull that wait to be logged; more are left out.
const SENTENCES_MAX: usize = 4;

/// Between two sentences about a pull.
const SENTENCE_EVERY: Duration = Duration::from_secs(2);

/// Looks up what a registry wants to see, by the name of an image of its.
type Lookup = dyn Fn(&str) -> Option<Credentials> + Send + Sync;

/// How a flow reaches its Docker engine.
#[derive(Clone, Default)]
pub struct Docker {
    /// As in DOCKER_HOST; none: where engines are.
    pub host: Option<String>,
    /// What registries want to see; none: nobody has a password.
    pub credentials: Option<Arc<Lookup>>,
}

impl fmt::Debug for Docker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        f.debug_struct("Docker")
            .field("host", host)
            .finish_non_exhaustive()
    }
}

/// The flow's engine, and what it was asked so far.
#[derive(Debug, Default)]
pub(crate) struct Dock {
    docker: Docker,
    engine: OnceCell<Engine>,
    /// By the image: whether it was fetched already. Whoever looks at one keeps the others from it.
    fetched: Mutex<HashMap<String, Arc<tokio::sync::Mutex<bool>>>>,
    started: AtomicU64,
}

impl Dock {
    pub(crate) fn new(docker: Docker) -> Self {
        Self {
            docker,
            ..Self::default()
        }
    }

    /// The engine. What launchers left behind that were killed is removed on the way.
    pub(crate) async fn engine(&self) -> Result<&Engine, EngineError> {
        let connect = || async {
            let engine = Engine::connect(self.docker.host.as_deref()).await?;
            if !engine.is_here() {
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

    /// A number that no other container of this flow has.
    pub(crate) fn next(&self) -> u64 {
        self.started.fetch_add(1, Ordering::Relaxed)
    }

    /// The image of an executor, fetched if it is not there. The relay hears how that goes.
    pub(crate) async fn image(
        &self,
        contained: &Contained,
        relay: &Relay,
    ) -> Result<Image, EngineError> {
        let engine = self.engine().await?;
        let fetched = self.fetched(&contained.image);
        let mut fetched = fetched.lock().await;
        let is_wanted = contained.container.is_refetched && !*fetched;
        if !is_wanted && let Some(image) = engine.image(&contained.image).await? {
            return Ok(image);
        }
        self.pull(engine, contained, relay).await?;
        *fetched = true;
        let image = engine.image(&contained.image).await?;
        image.ok_or_else(|| EngineError::NoImage {
            image: contained.image.clone(),
        })
    }

    fn fetched(&self, image: &str) -> Arc<tokio::sync::Mutex<bool>> {
        let mut all = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(image.to_owned()).or_default().clone()
    }

    async fn pull(
        &self,
        engine: &Engine,
        contained: &Contained,
        relay: &Relay,
    ) -> Result<(), EngineError> {
        let name = contained.image.as_str();
        let pulling = format!("pulling the image `{name}`");
        relay.line(LogSource::Flow, pulling).await;
        let credentials = self.docker.credentials.as_ref();
        let credentials = credentials.and_then(|lookup| lookup(name));
        let (tell, mut told) = mpsc::channel(SENTENCES_MAX);
        let mut news = News::new(name);
        let progress = move |step: Step| {
            if let Some(sentence) = news.note(step, Instant::now()) {
                // Nobody misses one of many.
                drop(tell.try_send(sentence));
            }
        };
        let platform = contained.container.platform.as_deref();
        let pull = engine.pull(name, platform, credentials, progress);
        let relayed = async {
            while let Some(sentence) = told.recv().await {
                relay.line(LogSource::Flow, sentence).await;
            }
        };
        let (pulled, ()) = tokio::join!(pull, relayed);
        pulled
    }
}

/// How a pull goes, in a sentence from time to time.
#[derive(Debug)]
struct News {
    image: String,
    layers: HashMap<String, (u64, u64)>,
    said: Option<Instant>,
}

impl News {
    fn new(image: &str) -> Self {
        Self {
            image: image.to_owned(),
            layers: HashMap::new(),
            said: None,
        }
    }

    fn note(&mut self, step: Step, now: Instant) -> Option<String> {
        let bytes = step.bytes.filter(|_| step.status == "Downloading")?;
        self.layers.insert(step.layer, bytes);
        let since = *self.said.get_or_insert(now);
        if now.duration_since(since) < SENTENCE_EVERY {
            return None;
        }
        self.said = Some(now);
        let sum = |part: fn(&(u64, u64)) -> u64| self.layers.values().map(part).sum::<u64>() >> 20;
        let (done, all) = (sum(|it| it.0), sum(|it| it.1));
        Some(format!(
            "pulling the image `{}`: {done} of {all} MiB",
            self.image
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_is_told_in_a_few_sentences() {
        let step = |layer: &str, done: u64| Step {
            layer: layer.to_owned(),
            status: "Downloading".to_owned(),
            bytes: Some((done << 20, 10 << 20)),
        };
        let (mut news, t0) = (News::new("a:1"), Instant::now());
        assert_eq!(news.note(step("x", 1), t0), None);
        assert_eq!(news.note(step("y", 2), t0 + SENTENCE_EVERY / 2), None);
        assert_eq!(
            news.note(step("x", 5), t0 + SENTENCE_EVERY).as_deref(),
            Some("pulling the image `a:1`: 7 of 20 MiB")
        );
        let pulled = Step {
            status: "Pull complete".to_owned(),
            ..Step::default()
        };
        assert_eq!(news.note(pulled, t0 + 9 * SENTENCE_EVERY), None);
    }
}
