//! The hub of a command, and access to its registry.

use std::path::Path;

use anyhow::Context;
use clap::Args;
use flow_docker::{Engine, registry_of};
use flow_hub::{Registry, TrustStore};
use flow_spec::{HUB_VARIABLE, Hub, HubName};

use crate::docker_config;
use crate::exit::BadUsage;
use crate::shell::Shell;

/// Options of every command that uses a hub.
#[derive(Debug, Args)]
pub(super) struct LocationOptions {
    /// Registry and folder, such as registry.example.com/team [default: $FLOW_HUB]
    #[arg(long, value_name = "REGISTRY")]
    hub: Option<String>,
}

/// A hub: a folder of a registry.
pub(super) struct HubLocation {
    pub(super) hub: Hub,
    /// Its registry, `host[:port]`.
    pub(super) host: String,
    /// The prefix of names in the registry: empty, or a folder with a slash at the end.
    pub(super) folder: String,
}

impl LocationOptions {
    /// The hub of the option or of the environment.
    pub(super) fn resolve(&self, shell: &Shell) -> anyhow::Result<HubLocation> {
        let given = self.hub.clone().or_else(|| shell.variable(HUB_VARIABLE));
        let given = given.filter(|it| !it.is_empty()).with_context(|| {
            BadUsage(format!(
                "no hub is set: use `--hub registry.example.com/team`, or set {HUB_VARIABLE}"
            ))
        })?;
        let hub = Hub::parse(&given).map_err(|error| BadUsage(error.to_string()))?;
        Ok(HubLocation::new(hub))
    }
}

impl HubLocation {
    fn new(hub: Hub) -> Self {
        // The registry of a name is recognized by what follows it.
        let text = format!("{hub}/");
        let host = registry_of(&text).to_owned();
        let folder = text.strip_prefix(&format!("{host}/")).unwrap_or(&text);
        Self {
            folder: folder.to_owned(),
            host,
            hub,
        }
    }

    /// The registry, with the credentials of `docker login`.
    pub(super) fn registry(&self, shell: &Shell) -> anyhow::Result<Registry> {
        let credentials = docker_config::credentials(&self.host, shell)?;
        Ok(Registry::new(&self.host, credentials, &self.trust(shell)?))
    }

    /// The certificate authorities that may vouch for the registry: those of Docker's configuration, and public ones.
    fn trust(&self, shell: &Shell) -> anyhow::Result<TrustStore> {
        let folders = docker_config::certificate_folders(shell);
        let file = shell.variable("SSL_CERT_FILE").filter(|it| !it.is_empty());
        let trust = TrustStore::read(&self.host, &folders, file.as_deref().map(Path::new));
        trust.with_context(|| {
            format!(
                "cannot read the certificates for the registry `{}`",
                self.host
            )
        })
    }

    /// The repository of a name in the registry.
    pub(super) fn repository(&self, name: &HubName) -> String {
        format!("{}{}", self.folder, name.repository())
    }
}

/// The Docker engine.
pub(super) async fn engine(shell: &Shell) -> anyhow::Result<Engine> {
    Ok(Engine::connect(shell.variable("DOCKER_HOST").as_deref()).await?)
}

/// Parses the name of an executor.
pub(super) fn parse_name(text: &str) -> anyhow::Result<HubName> {
    let named = match text.contains("://") {
        true => HubName::parse(text).unwrap_or_else(|| HubName::named(text)),
        false => HubName::named(text),
    };
    named.map_err(|error| BadUsage(error.to_string()).into())
}

#[cfg(test)]
mod tests {
    use flow_docker::PUBLIC_REGISTRY;

    use super::*;

    #[test]
    fn a_hub_is_a_registry_and_a_folder() {
        let check = |text: &str, host: &str, folder: &str| {
            let location = HubLocation::new(Hub::parse(text).unwrap());
            assert_eq!(
                (location.host.as_str(), location.folder.as_str()),
                (host, folder)
            );
        };
        check("localhost:5000", "localhost:5000", "");
        check("registry.example.com/team", "registry.example.com", "team/");
        check("r.example.com/a/b/", "r.example.com", "a/b/");
        check("team", PUBLIC_REGISTRY, "team/");
        check("docker.io/team", PUBLIC_REGISTRY, "team/");
    }

    #[test]
    fn a_name_is_bare_or_in_the_notation_of_flow_files() {
        for text in [
            "TorchEncoder:gpu",
            "hub://torch-encoder:gpu",
            "jinahub://TorchEncoder/gpu",
        ] {
            let name = parse_name(text).unwrap();
            assert_eq!(
                (name.repository(), name.tag()),
                ("torch-encoder", "gpu"),
                "{text}"
            );
        }
        assert!(parse_name("http://x").unwrap_err().is::<BadUsage>());
    }
}
