//! Images: looked at, fetched, named, built and sent.

use std::collections::HashMap;

use bollard::body_full;
use bollard::errors::Error as Answer;
use bollard::models::{ImageInspect, ProgressDetail};
use bollard::query_parameters::{
    BuildImageOptions, CreateImageOptionsBuilder, PushImageOptionsBuilder, TagImageOptionsBuilder,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use crate::Credentials;
use crate::engine::Engine;
use crate::error::EngineError;

/// The engine's status for what it does not have.
const NOT_FOUND: u16 = 404;

/// What an engine knows of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Its content's name, `sha256:…`.
    pub id: String,
    /// What was put on it.
    pub labels: HashMap<String, String>,
    /// The program it runs, and that program's first arguments.
    pub entrypoint: Vec<String>,
    /// The arguments that count if no others are given.
    pub cmd: Vec<String>,
    /// Whom it runs as, `user[:group]`; empty: root.
    pub user: String,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// `linux/amd64`.
    pub platform: String,
    /// Bytes of all its layers.
    pub size: u64,
}

impl From<ImageInspect> for Image {
    fn from(found: ImageInspect) -> Self {
        let config = found.config.unwrap_or_default();
        let or_empty = Option::unwrap_or_default;
        Self {
            id: found.id.unwrap_or_default(),
            labels: config.labels.unwrap_or_default(),
            entrypoint: or_empty(config.entrypoint),
            cmd: or_empty(config.cmd),
            user: config.user.unwrap_or_default(),
            env: or_empty(config.env),
            platform: format!(
                "{}/{}",
                found.os.unwrap_or_default(),
                found.architecture.unwrap_or_default()
            ),
            size: found.size.and_then(|it| it.try_into().ok()).unwrap_or(0),
        }
    }
}

/// A piece of news while an image is fetched, built or sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// The layer it is about; empty: the whole image.
    pub layer: String,
    /// What happens to it, or a line that the build printed.
    pub status: String,
    /// Bytes that are done, and all of them, where the engine counts.
    pub bytes: Option<(u64, u64)>,
}

impl Step {
    fn new(layer: Option<String>, status: Option<String>, detail: Option<ProgressDetail>) -> Self {
        let count = |it: Option<i64>| it.and_then(|it| u64::try_from(it).ok());
        let detail = detail.unwrap_or_default();
        Self {
            layer: layer.unwrap_or_default(),
            status: status.unwrap_or_default(),
            bytes: count(detail.current).zip(count(detail.total)),
        }
    }
}

impl Engine {
    /// What the engine knows of an image; none: it does not have it.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn image(&self, name: &str) -> Result<Option<Image>, EngineError> {
        match self.raw().inspect_image(name).await {
            Ok(found) => Ok(Some(found.into())),
            Err(Answer::DockerResponseServerError {
                status_code: NOT_FOUND,
                ..
            }) => Ok(None),
            Err(answer) => Err(self.met(format!("show the image `{name}`"), answer)),
        }
    }

    /// Fetches an image, and tells how that goes. `platform` is such as `linux/arm64`; none: the engine's.
    ///
    /// # Errors
    /// If the registry does not have it, or not for us.
    pub async fn pull(
        &self,
        name: &str,
        platform: Option<&str>,
        credentials: Option<Credentials>,
        mut progress: impl FnMut(Step),
    ) -> Result<(), EngineError> {
        // Without a tag the engine would fetch all of them.
        let (repository, tag) = split(name);
        let mut options = CreateImageOptionsBuilder::default().from_image(repository);
        if !repository.contains('@') {
            options = options.tag(tag);
        }
        if let Some(platform) = platform {
            options = options.platform(platform);
        }
        let steps = self
            .raw()
            .create_image(Some(options.build()), None, credentials);
        let steps = steps.map(|step| {
            step.map(|step| progress(Step::new(step.id, step.status, step.progress_detail)))
        });
        drained(steps).await.map_err(|answer| {
            self.failed(name, answer, |image, message| EngineError::Pull {
                image,
                message,
            })
        })
    }

    /// Gives an image a further name.
    ///
    /// # Errors
    /// If there is no such image, or the name is none.
    pub async fn tag(&self, image: &str, name: &str) -> Result<(), EngineError> {
        let (repository, tag) = split(name);
        let options = TagImageOptionsBuilder::default().repo(repository).tag(tag);
        let named = self.raw().tag_image(image, Some(options.build())).await;
        named.map_err(|answer| match answer {
            Answer::DockerResponseServerError {
                status_code: NOT_FOUND,
                ..
            } => EngineError::NoImage {
                image: image.to_owned(),
            },
            answer => self.met(format!("name the image `{image}` `{name}`"), answer),
        })
    }

    /// Sends an image to the registry that its name says.
    ///
    /// # Errors
    /// If the registry does not take it, or not from us.
    pub async fn push(
        &self,
        name: &str,
        credentials: Option<Credentials>,
        mut progress: impl FnMut(Step),
    ) -> Result<(), EngineError> {
        let (repository, tag) = split(name);
        let options = PushImageOptionsBuilder::default().tag(tag).build();
        let steps = self
            .raw()
            .push_image(repository, Some(options), credentials);
        let steps = steps.map(|step| {
            // The engine says which layer where it says what, and nowhere else.
            step.map(|step| progress(Step::new(None, step.status, step.progress_detail)))
        });
        drained(steps).await.map_err(|answer| {
            self.failed(name, answer, |image, message| EngineError::Push {
                image,
                message,
            })
        })
    }

    /// Builds an image from a tar archive of its folder.
    ///
    /// # Errors
    /// If a step of its Dockerfile fails; what it printed has been told as progress.
    pub async fn build(
        &self,
        options: BuildImageOptions,
        tar: Bytes,
        mut progress: impl FnMut(Step),
    ) -> Result<(), EngineError> {
        let name = options.t.clone().unwrap_or_default();
        let steps = self.raw().build_image(options, None, Some(body_full(tar)));
        let steps = steps.map(|step| {
            step.map(|step| {
                let status = step.stream.or(step.status);
                progress(Step::new(step.id, status, step.progress_detail));
                step.error_detail
            })
        });
        let mut failure = None;
        let steps = steps.map(|step| step.map(|error| failure = failure.take().or(error)));
        let outcome = drained(steps).await;
        let build = |image, message| EngineError::Build { image, message };
        outcome.map_err(|answer| self.failed(&name, answer, build))?;
        match failure {
            None => Ok(()),
            Some(error) => Err(build(name, error.message.unwrap_or_default())),
        }
    }

    fn failed(
        &self,
        image: &str,
        answer: Answer,
        error: impl Fn(String, String) -> EngineError,
    ) -> EngineError {
        match answer {
            Answer::DockerResponseServerError { message, .. }
            | Answer::DockerStreamError { error: message } => {
                error(image.to_owned(), message.trim().to_owned())
            }
            answer => self.met(format!("finish its work on `{image}`"), answer),
        }
    }
}

/// Reads a stream to its end, or to its first error.
async fn drained(steps: impl Stream<Item = Result<(), Answer>>) -> Result<(), Answer> {
    let mut steps = std::pin::pin!(steps);
    while let Some(step) = steps.next().await {
        step?;
    }
    Ok(())
}

/// A name and its tag, `latest` if it has none. A name with a digest stays whole.
fn split(name: &str) -> (&str, &str) {
    match name.rsplit_once(':') {
        _ if name.contains('@') => (name, ""),
        // A colon before a slash is that of a registry's port.
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (name, "latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_name_is_cut_at_its_tag_and_not_at_a_registrys_port() {
        assert_eq!(split("a"), ("a", "latest"));
        assert_eq!(split("a/b:1"), ("a/b", "1"));
        assert_eq!(split("localhost:5000/a"), ("localhost:5000/a", "latest"));
        assert_eq!(split("localhost:5000/a:1"), ("localhost:5000/a", "1"));
        assert_eq!(split("a@sha256:12"), ("a@sha256:12", ""));
    }
}
