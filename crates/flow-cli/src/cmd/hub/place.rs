//! Which hub a command means, and who we are at its registry.

use anyhow::Context;
use clap::Args;
use flow_docker::{Engine, registry_of};
use flow_hub::Registry;
use flow_spec::{HUB_VARIABLE, Hub, HubName};

use crate::exit::BadUsage;
use crate::login;
use crate::shell::Shell;

/// Options of every command that asks a hub.
#[derive(Debug, Args)]
pub(super) struct Where {
    /// Registry and folder, such as registry.example.com/team [default: $FLOW_HUB]
    #[arg(long, value_name = "REGISTRY")]
    hub: Option<String>,
}

/// A hub: a folder of a registry.
pub(super) struct Place {
    pub(super) hub: Hub,
    /// The registry of it, `host[:port]`.
    pub(super) host: String,
    /// What stands before names in the registry: empty, or a folder with a slash behind it.
    pub(super) folder: String,
}

impl Where {
    /// The hub that is meant.
    pub(super) fn place(&self, shell: &Shell) -> anyhow::Result<Place> {
        let given = self.hub.clone().or_else(|| shell.variable(HUB_VARIABLE));
        let given = given.filter(|it| !it.is_empty()).with_context(|| {
            BadUsage(format!(
                "which hub? say it with `--hub registry.example.com/team`, or set {HUB_VARIABLE}"
            ))
        })?;
        let hub = Hub::parse(&given).map_err(|error| BadUsage(error.to_string()))?;
        Ok(Place::new(hub))
    }
}

impl Place {
    fn new(hub: Hub) -> Self {
        // A name tells its registry apart from a folder by what follows it.
        let text = format!("{hub}/");
        let host = registry_of(&text).to_owned();
        let folder = text.strip_prefix(&format!("{host}/")).unwrap_or(&text);
        Self {
            folder: folder.to_owned(),
            host,
            hub,
        }
    }

    /// Asks the registry as whoever `docker login` has left.
    pub(super) fn registry(&self, shell: &Shell) -> anyhow::Result<Registry> {
        let who = login::credentials(&self.host, shell)?;
        let trust = login::trust(&self.host, shell)?;
        Ok(Registry::new(&self.host, who, &trust))
    }

    /// The repository of a name in the registry.
    pub(super) fn repository(&self, name: &HubName) -> String {
        format!("{}{}", self.folder, name.repository())
    }
}

/// The engine that builds, sends and fetches.
pub(super) async fn engine(shell: &Shell) -> anyhow::Result<Engine> {
    Ok(Engine::connect(shell.variable("DOCKER_HOST").as_deref()).await?)
}

/// An executor's name, as it was typed.
pub(super) fn name(text: &str) -> anyhow::Result<HubName> {
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
            let place = Place::new(Hub::parse(text).unwrap());
            assert_eq!((place.host.as_str(), place.folder.as_str()), (host, folder));
        };
        check("localhost:5000", "localhost:5000", "");
        check("registry.example.com/team", "registry.example.com", "team/");
        check("r.example.com/a/b/", "r.example.com", "a/b/");
        check("team", PUBLIC_REGISTRY, "team/");
        check("docker.io/team", PUBLIC_REGISTRY, "team/");
    }

    #[test]
    fn a_name_is_typed_bare_or_as_a_flow_has_it() {
        for text in [
            "TorchEncoder:gpu",
            "hub://torch-encoder:gpu",
            "jinahub://TorchEncoder/gpu",
        ] {
            let name = name(text).unwrap();
            assert_eq!(
                (name.repository(), name.tag()),
                ("torch-encoder", "gpu"),
                "{text}"
            );
        }
        assert!(name("http://x").unwrap_err().is::<BadUsage>());
    }
}
