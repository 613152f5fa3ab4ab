//! Who we are at registries, and who may vouch for them: what Docker's own folders say.

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_docker::{Credentials, DockerConfig, registry_of};
use flow_hub::Trust;

use crate::shell::Shell;

/// Docker's folder of the machine's.
const OF_ENGINE: &str = "/etc/docker";

/// Certificates of registries in either folder.
const CERTIFICATES: &str = "certs.d";

/// Who we are at the registry `host`; none: nobody in particular.
pub(crate) fn credentials(host: &str, shell: &Shell) -> anyhow::Result<Option<Credentials>> {
    let Some(folder) = of_user(shell) else {
        return Ok(None);
    };
    let config = DockerConfig::read(&folder)?;
    let found = config.credentials(host);
    found.with_context(|| format!("cannot tell who we are at the registry `{host}`"))
}

/// Who may vouch for the registry `host`: whom the engine trusts, whom the user does, and the world's authorities.
pub(crate) fn trust(host: &str, shell: &Shell) -> anyhow::Result<Trust> {
    let of_user = of_user(shell).map(|folder| folder.join(CERTIFICATES));
    let folders: Vec<PathBuf> = of_user
        .into_iter()
        .chain([Path::new(OF_ENGINE).join(CERTIFICATES)])
        .collect();
    let file = shell.variable("SSL_CERT_FILE").filter(|it| !it.is_empty());
    let trust = Trust::read(host, &folders, file.as_deref().map(Path::new));
    trust.with_context(|| format!("cannot tell who may vouch for the registry `{host}`"))
}

/// Docker's folder of the user's.
fn of_user(shell: &Shell) -> Option<PathBuf> {
    let home = || Some(PathBuf::from(shell.variable("HOME")?).join(".docker"));
    let folder = shell.variable("DOCKER_CONFIG").map(PathBuf::from);
    folder.or_else(home)
}

/// Who we are at the registry of an image. What cannot be read is told: the registry may not need it.
pub(crate) fn of_image(image: &str, shell: &Shell) -> Option<Credentials> {
    let found = credentials(registry_of(image), shell);
    let told = found.inspect_err(|error| tracing::warn!(image, "{error:#}"));
    told.ok().flatten()
}
