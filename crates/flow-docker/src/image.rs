//! Images: inspected, pulled, tagged, built and pushed.

use std::collections::HashMap;

use bollard::body_full;
use bollard::errors::Error as ApiError;
use bollard::models::{ImageInspect, ProgressDetail};
use bollard::query_parameters::{
    BuildImageOptions, BuildImageOptionsBuilder, CreateImageOptionsBuilder,
    PushImageOptionsBuilder, TagImageOptionsBuilder,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use crate::credentials::Credentials;
use crate::engine::Engine;
use crate::error::EngineError;

/// The engine's HTTP status for an unknown object.
const NOT_FOUND: u16 = 404;

/// What an engine knows about an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageInfo {
    /// Its id, `sha256:…`.
    pub id: String,
    /// Its labels.
    pub labels: HashMap<String, String>,
    /// The program that it runs, and the program's first arguments.
    pub entrypoint: Vec<String>,
    /// The default arguments.
    pub cmd: Vec<String>,
    /// The user that it runs as, `user[:group]`; empty for root.
    pub user: String,
    /// Environment variables as `NAME=value`.
    pub env: Vec<String>,
    /// The platform, such as `linux/amd64`.
    pub platform: String,
    /// Size of all layers, in bytes.
    pub size: u64,
}

impl From<ImageInspect> for ImageInfo {
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

/// A step of a pull, a build or a push.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgressStep {
    /// The layer; empty for the whole image.
    pub layer: String,
    /// The state of the layer, or a line that the build printed.
    pub status: String,
    /// Bytes done and all bytes, where the engine counts them.
    pub bytes: Option<(u64, u64)>,
}

impl ProgressStep {
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

/// A build of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// The image's name.
    pub image: String,
    /// Labels of the image.
    pub labels: HashMap<String, String>,
    /// Build arguments of its Dockerfile.
    pub arguments: HashMap<String, String>,
}

impl BuildOptions {
    fn query(&self) -> BuildImageOptions {
        BuildImageOptionsBuilder::default()
            .t(&self.image)
            .labels(&self.labels)
            .buildargs(&self.arguments)
            .rm(true)
            .forcerm(true)
            .build()
    }
}

impl Engine {
    /// Inspects an image; `None` if the engine does not have it.
    ///
    /// # Errors
    /// If the engine does not respond.
    pub async fn image(&self, name: &str) -> Result<Option<ImageInfo>, EngineError> {
        match self.raw().inspect_image(name).await {
            Ok(found) => Ok(Some(found.into())),
            Err(ApiError::DockerResponseServerError {
                status_code: NOT_FOUND,
                ..
            }) => Ok(None),
            Err(error) => Err(self.api_error(format!("inspect the image `{name}`"), error)),
        }
    }

    /// Pulls an image and reports the progress. `platform` is one such as `linux/arm64`; `None` for the engine's.
    ///
    /// # Errors
    /// If the registry does not have the image, or does not allow the pull.
    pub async fn pull(
        &self,
        name: &str,
        platform: Option<&str>,
        credentials: Option<Credentials>,
        mut progress: impl FnMut(ProgressStep),
    ) -> Result<(), EngineError> {
        // Without a tag the engine would pull all tags.
        let (repository, tag) = split(name);
        let mut options = CreateImageOptionsBuilder::default().from_image(repository);
        if !repository.contains('@') {
            options = options.tag(tag);
        }
        if let Some(platform) = platform {
            options = options.platform(platform);
        }
        let steps =
            self.raw()
                .create_image(Some(options.build()), None, credentials.map(Into::into));
        let steps = steps.map(|step| {
            step.map(|step| {
                progress(ProgressStep::new(
                    step.id,
                    step.status,
                    step.progress_detail,
                ))
            })
        });
        drained(steps).await.map_err(|error| {
            self.failed(name, error, |image, message| EngineError::Pull {
                image,
                message,
            })
        })
    }

    /// Adds a name to an image.
    ///
    /// # Errors
    /// If there is no such image, or the name is not valid.
    pub async fn tag(&self, image: &str, name: &str) -> Result<(), EngineError> {
        let (repository, tag) = split(name);
        let options = TagImageOptionsBuilder::default().repo(repository).tag(tag);
        let named = self.raw().tag_image(image, Some(options.build())).await;
        named.map_err(|error| match error {
            ApiError::DockerResponseServerError {
                status_code: NOT_FOUND,
                ..
            } => EngineError::NoImage {
                image: image.to_owned(),
            },
            error => self.api_error(format!("tag the image `{image}` as `{name}`"), error),
        })
    }

    /// Pushes an image to the registry that its name contains.
    ///
    /// # Errors
    /// If the registry refuses it.
    pub async fn push(
        &self,
        name: &str,
        credentials: Option<Credentials>,
        mut progress: impl FnMut(ProgressStep),
    ) -> Result<(), EngineError> {
        let (repository, tag) = split(name);
        let options = PushImageOptionsBuilder::default().tag(tag).build();
        let steps = self
            .raw()
            .push_image(repository, Some(options), credentials.map(Into::into));
        let steps = steps.map(|step| {
            // The engine names the layer in the status alone.
            step.map(|step| progress(ProgressStep::new(None, step.status, step.progress_detail)))
        });
        drained(steps).await.map_err(|error| {
            self.failed(name, error, |image, message| EngineError::Push {
                image,
                message,
            })
        })
    }

    /// Builds an image from a tar archive of its folder.
    ///
    /// # Errors
    /// If a step of its Dockerfile fails. Its output was reported as progress.
    pub async fn build(
        &self,
        options: &BuildOptions,
        tar: Bytes,
        mut progress: impl FnMut(ProgressStep),
    ) -> Result<(), EngineError> {
        let name = &options.image;
        let steps = self
            .raw()
            .build_image(options.query(), None, Some(body_full(tar)));
        let steps = steps.map(|step| {
            step.map(|step| {
                let status = step.stream.or(step.status);
                progress(ProgressStep::new(step.id, status, step.progress_detail));
                step.error_detail
            })
        });
        let mut failure = None;
        let steps = steps.map(|step| step.map(|error| failure = failure.take().or(error)));
        let outcome = drained(steps).await;
        let build = |image, message| EngineError::Build { image, message };
        outcome.map_err(|error| self.failed(name, error, build))?;
        match failure {
            None => Ok(()),
            Some(error) => Err(build(name.clone(), error.message.unwrap_or_default())),
        }
    }

    fn failed(
        &self,
        image: &str,
        error: ApiError,
        kind: impl Fn(String, String) -> EngineError,
    ) -> EngineError {
        match error {
            ApiError::DockerResponseServerError { message, .. }
            | ApiError::DockerStreamError { error: message } => {
                kind(image.to_owned(), message.trim().to_owned())
            }
            error => self.api_error(format!("finish its work on `{image}`"), error),
        }
    }
}

/// Reads a stream to its end, or to its first error.
async fn drained(steps: impl Stream<Item = Result<(), ApiError>>) -> Result<(), ApiError> {
    let mut steps = std::pin::pin!(steps);
    while let Some(step) = steps.next().await {
        step?;
    }
    Ok(())
}

/// Splits a name from its tag, which defaults to `latest`. A name with a digest stays whole.
fn split(name: &str) -> (&str, &str) {
    match name.rsplit_once(':') {
        _ if name.contains('@') => (name, ""),
        // A colon before a slash belongs to the port of a registry.
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (name, "latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_name_is_split_at_its_tag_and_not_at_a_registrys_port() {
        assert_eq!(split("a"), ("a", "latest"));
        assert_eq!(split("a/b:1"), ("a/b", "1"));
        assert_eq!(split("localhost:5000/a"), ("localhost:5000/a", "latest"));
        assert_eq!(split("localhost:5000/a:1"), ("localhost:5000/a", "1"));
        assert_eq!(split("a@sha256:12"), ("a@sha256:12", ""));
    }
}
