//! The content of a registry: repositories, their tags, and the configuration of an image.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::RegistryError;
use crate::registry::{Registry, RegistryRequest, RegistryResponse};

/// Media types of manifests: Docker's and the OCI's, of one image and of several.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// Names in one page of a list.
const PAGE: usize = 100;

/// Most pages of one list that are read. A registry with more is not a hub of executors.
const PAGES_MAX: usize = 100;

/// The token scope for the list of repositories.
const CATALOG: &str = "registry:catalog:*";

/// The configuration of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// When it was built, as the registry reports it.
    pub created: String,
    /// Its platform, such as `linux/amd64`.
    pub platform: String,
}

/// An image in a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageDetails {
    /// Its configuration.
    pub config: ImageConfig,
    /// Compressed size of its layers, in bytes.
    pub bytes: u64,
    /// The digest of its manifest, `sha256:…`.
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
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
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

/// The JSON of an image's configuration.
#[derive(Deserialize)]
struct ConfigBlob {
    #[serde(default)]
    created: Option<String>,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<ContainerConfig>,
}

#[derive(Deserialize)]
struct ContainerConfig {
    #[serde(rename = "Labels", default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Registry {
    /// All repositories, by name.
    ///
    /// # Errors
    /// If the registry does not answer, or does not list its repositories.
    pub fn repositories(&self) -> Result<Vec<String>, RegistryError> {
        let (mut names, mut path) = (Vec::new(), Some(format!("_catalog?n={PAGE}")));
        for _ in 0..PAGES_MAX {
            let Some(page) = path else { break };
            let request = RegistryRequest {
                path: &page,
                accept: "application/json",
                what: "list of its repositories",
                scope: CATALOG,
            };
            let response = self.request::<Repositories>(&request);
            let response = response.map_err(|error| self.without_catalog(error))?;
            names.extend(response.value.repositories.unwrap_or_default());
            path = response.next;
        }
        names.sort();
        Ok(names)
    }

    /// The error for registries that do not list their repositories.
    fn without_catalog(&self, error: RegistryError) -> RegistryError {
        match error {
            RegistryError::Missing { .. } | RegistryError::UnexpectedStatus { .. } => {
                RegistryError::NoCatalog(self.host().to_owned())
            }
            other => other,
        }
    }

    /// The tags of a repository, by name.
    ///
    /// # Errors
    /// If there is no such repository, or the registry does not answer or denies access.
    pub fn tags(&self, repository: &str) -> Result<Vec<String>, RegistryError> {
        let (mut names, mut path) = (Vec::new(), Some(format!("{repository}/tags/list?n={PAGE}")));
        for _ in 0..PAGES_MAX {
            let Some(page) = path else { break };
            let request = RegistryRequest {
                path: &page,
                accept: "application/json",
                what: &format!("repository `{repository}`"),
                scope: &pull_scope(repository),
            };
            let response = self.request::<Tags>(&request)?;
            names.extend(response.value.tags.unwrap_or_default());
            path = response.next;
        }
        names.sort();
        Ok(names)
    }

    /// An image, by its tag or digest. If it has several platforms, this machine's is read.
    ///
    /// # Errors
    /// If there is no such image, or the registry does not answer or denies access.
    pub fn image(&self, repository: &str, reference: &str) -> Result<ImageDetails, RegistryError> {
        let response = self.manifest(repository, reference)?;
        let response = match for_this_machine(&response.value.manifests) {
            Some(image) => self.manifest(repository, &image.digest)?,
            None => response,
        };
        let (manifest, digest) = (response.value, response.digest.unwrap_or_default());
        let bytes = manifest.layers.iter().map(|it| it.size).sum();
        let config = match &manifest.config {
            Some(config) => self.config(repository, &config.digest)?,
            None => ImageConfig::default(),
        };
        Ok(ImageDetails {
            config,
            bytes,
            digest,
        })
    }

    fn manifest(
        &self,
        repository: &str,
        reference: &str,
    ) -> Result<RegistryResponse<Manifest>, RegistryError> {
        let request = RegistryRequest {
            path: &format!("{repository}/manifests/{reference}"),
            accept: MANIFESTS,
            what: &format!("image `{repository}:{reference}`"),
            scope: &pull_scope(repository),
        };
        self.request(&request)
    }

    fn config(&self, repository: &str, digest: &str) -> Result<ImageConfig, RegistryError> {
        let request = RegistryRequest {
            path: &format!("{repository}/blobs/{digest}"),
            accept: "*/*",
            what: &format!("config of `{repository}`"),
            scope: &pull_scope(repository),
        };
        let config = self.request::<ConfigBlob>(&request)?.value;
        Ok(ImageConfig {
            labels: config.config.and_then(|it| it.labels).unwrap_or_default(),
            created: config.created.unwrap_or_default(),
            platform: format!("{}/{}", config.os, config.architecture),
        })
    }
}

/// The image for this machine's platform, or else the first.
fn for_this_machine(images: &[Descriptor]) -> Option<&Descriptor> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let fits = |image: &&Descriptor| {
        let platform = image.platform.as_ref();
        platform.is_some_and(|it| it.os == "linux" && it.architecture == architecture)
    };
    images.iter().find(fits).or(images.first())
}

fn pull_scope(repository: &str) -> String {
    format!("repository:{repository}:pull")
}
