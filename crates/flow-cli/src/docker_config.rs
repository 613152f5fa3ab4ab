//! Credentials and certificates of image registries, from Docker's own configuration.

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_docker::{Credentials, DockerConfig, registry_of};

use crate::shell::Shell;

/// Configuration of the Docker engine.
const ENGINE_FOLDER: &str = "/etc/docker";

/// Folder with certificates of registries, in the configuration of the engine and of users.
const CERTIFICATES: &str = "certs.d";

/// The user's credentials for the registry `host`. `None` means anonymous access.
pub(crate) fn credentials(host: &str, shell: &Shell) -> anyhow::Result<Option<Credentials>> {
    let Some(folder) = user_folder(shell) else {
        return Ok(None);
    };
    let found = DockerConfig::read(&folder)?.credentials(host);
    found.with_context(|| format!("cannot read the credentials for the registry `{host}`"))
}

/// The user's credentials for the registry of an image. An error is logged: the registry may not require credentials.
pub(crate) fn image_credentials(image: &str, shell: &Shell) -> Option<Credentials> {
    let found = credentials(registry_of(image), shell);
    let found = found.inspect_err(|error| tracing::warn!(image, "{error:#}"));
    found.ok().flatten()
}

/// Folders with certificates of registries.
#[cfg_attr(not(feature = "hub"), allow(dead_code, reason = "`flow hub` uses it"))]
pub(crate) fn certificate_folders(shell: &Shell) -> Vec<PathBuf> {
    let folders = user_folder(shell).into_iter();
    let folders = folders.chain([PathBuf::from(ENGINE_FOLDER)]);
    folders.map(|folder| folder.join(CERTIFICATES)).collect()
}

/// The user's own configuration of Docker.
fn user_folder(shell: &Shell) -> Option<PathBuf> {
    let home = || Some(Path::new(&shell.variable("HOME")?).join(".docker"));
    let folder = shell.variable("DOCKER_CONFIG").map(PathBuf::from);
    folder.or_else(home)
}
