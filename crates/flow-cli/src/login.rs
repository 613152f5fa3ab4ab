//! Who we are at registries: what `docker login` has left in the user's home.

use std::path::PathBuf;

use anyhow::Context;
use flow_docker::{Credentials, DockerConfig, registry_of};

use crate::shell::Shell;

/// Who we are at the registry `host`; none: nobody in particular.
pub(crate) fn credentials(host: &str, shell: &Shell) -> anyhow::Result<Option<Credentials>> {
    let home = || Some(PathBuf::from(shell.variable("HOME")?).join(".docker"));
    let folder = shell.variable("DOCKER_CONFIG").map(PathBuf::from);
    let Some(folder) = folder.or_else(home) else {
        return Ok(None);
    };
    let config = DockerConfig::read(&folder)?;
    let found = config.credentials(host);
    found.with_context(|| format!("cannot tell who we are at the registry `{host}`"))
}

/// Who we are at the registry of an image. What cannot be read is told: the registry may not need it.
pub(crate) fn of_image(image: &str, shell: &Shell) -> Option<Credentials> {
    let found = credentials(registry_of(image), shell);
    let told = found.inspect_err(|error| tracing::warn!(image, "{error:#}"));
    told.ok().flatten()
}
