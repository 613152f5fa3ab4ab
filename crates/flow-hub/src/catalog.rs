//! What a registry holds: repositories, their tags, and what is written on an image.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::RegistryError;
use crate::registry::{Answer, Question, Registry};

/// The forms of a manifest: Docker's and the OCI's, of one image and of several.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// Names in one page of a catalogue.
const PAGE: usize = 100;

/// Pages that are read of one list; more than that is no hub of executors, but a whole company's registry.
const PAGES_MAX: usize = 100;

/// The scope that lists of repositories take.
const CATALOG: &str = "registry:catalog:*";

/// What is written on an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// When it was made, as the registry has it.
    pub created: String,
    /// `linux/amd64`.
    pub platform: String,
}

/// An image as a registry holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// What is written on it.
    pub about: About,
    /// Bytes of its layers, as they are fetched.
    pub bytes: u64,
    /// The content's name, `sha256:…`.
    pub digest: String,
}

#[derive(Deserialize)]
struct Repositories {
    #[serde(default)]
    repositories: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Tags {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

/// One image, or a list of images for several platforms.
#[derive(Deserialize)]
struct Manifest {
    config: Option<Blob>,
    #[serde(default)]
    layers: Vec<Blob>,
    #[serde(default)]
    manifests: Vec<Blob>,
}

#[derive(Deserialize)]
struct Blob {
    digest: String,
    #[serde(default)]
    size: u64,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

/// What an image's config says.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    created: Option<String>,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<Run>,
}

#[derive(Deserialize)]
struct Run {
    #[serde(rename = "Labels", default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Registry {
    /// All repositories, by name.
    ///
    /// # Errors
    /// If the registry does not answer, or tells nobody.
    pub fn repositories(&self) -> Result<Vec<String>, RegistryError> {
        let (mut found, mut path) = (Vec::new(), Some(format!("_catalog?n={PAGE}")));
        for _ in 0..PAGES_MAX {
            let Some(page) = path else { break };
            let question = Question {
                path: &page,
                accept: "application/json",
                what: "list of its repositories",
                scope: CATALOG,
            };
            let answer = self.ask::<Repositories>(&question);
            let answer = answer.map_err(|error| self.without_catalog(error))?;
            found.extend(answer.value.repositories.unwrap_or_default());
            path = answer.next;
        }
        found.sort();
        Ok(found)
    }

    /// Some registries have no such question, and others answer it to nobody.
    fn without_catalog(&self, error: RegistryError) -> RegistryError {
        match error {
            RegistryError::Missing { .. } | RegistryError::Refused { .. } => {
                RegistryError::NoCatalog(self.host().to_owned())
            }
            other => other,
        }
    }

    /// The tags of a repository, by name.
    ///
    /// # Errors
    /// If there is no such repository, or the registry does not answer, or not to us.
    pub fn tags(&self, repository: &str) -> Result<Vec<String>, RegistryError> {
        let (mut found, mut path) = (Vec::new(), Some(format!("{repository}/tags/list?n={PAGE}")));
        for _ in 0..PAGES_MAX {
            let Some(page) = path else { break };
            let question = Question {
                path: &page,
                accept: "application/json",
                what: &format!("repository `{repository}`"),
                scope: &pull(repository),
            };
            let answer = self.ask::<Tags>(&question)?;
            found.extend(answer.value.tags.unwrap_or_default());
            path = answer.next;
        }
        found.sort();
        Ok(found)
    }

    /// An image, by its tag or digest. Of several platforms this machine's is looked at.
    ///
    /// # Errors
    /// If there is no such image, or the registry does not answer, or not to us.
    pub fn image(&self, repository: &str, reference: &str) -> Result<Details, RegistryError> {
        let answer = self.manifest(repository, reference)?;
        let answer = match own(&answer.value.manifests) {
            Some(own) => self.manifest(repository, &own.digest)?,
            None => answer,
        };
        let (manifest, digest) = (answer.value, answer.digest.unwrap_or_default());
        let bytes = manifest.layers.iter().map(|it| it.size).sum();
        let about = match &manifest.config {
            Some(config) => self.about(repository, &config.digest)?,
            None => About::default(),
        };
        Ok(Details {
            about,
            bytes,
            digest,
        })
    }

    fn manifest(
        &self,
        repository: &str,
        reference: &str,
    ) -> Result<Answer<Manifest>, RegistryError> {
        let question = Question {
            path: &format!("{repository}/manifests/{reference}"),
            accept: MANIFESTS,
            what: &format!("image `{repository}:{reference}`"),
            scope: &pull(repository),
        };
        self.ask(&question)
    }

    fn about(&self, repository: &str, digest: &str) -> Result<About, RegistryError> {
        let question = Question {
            path: &format!("{repository}/blobs/{digest}"),
            accept: "*/*",
            what: &format!("config of `{repository}`"),
            scope: &pull(repository),
        };
        let config = self.ask::<Config>(&question)?.value;
        Ok(About {
            labels: config.config.and_then(|it| it.labels).unwrap_or_default(),
            created: config.created.unwrap_or_default(),
            platform: format!("{}/{}", config.os, config.architecture),
        })
    }
}

/// The image for this machine, or else the first.
fn own(images: &[Blob]) -> Option<&Blob> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let fits = |image: &&Blob| {
        let platform = image.platform.as_ref();
        platform.is_some_and(|it| it.os == "linux" && it.architecture == architecture)
    };
    images.iter().find(fits).or(images.first())
}

fn pull(repository: &str) -> String {
    format!("repository:{repository}:pull")
}
