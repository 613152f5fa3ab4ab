//! What a reader of a page on containers has: a Docker engine, a registry, and a checkout after a build.
//!
//! Names are the test's own: an image, a container or a volume that this machine's user calls the same is left alone.

use std::fs;
use std::path::Path;

use flow_tests::flow_command;

use super::reader::root;
use crate::container_tutorial::model_hub;
use crate::docker::{self, DockerTest};
use crate::model_hub::ModelHub;
use crate::registry::Registry;

/// Commands that need an engine.
const COMMANDS: &[&str] = &["docker ", "flow hub "];

/// The volume for models.
const CACHE: &str = "cache";

/// An engine, and what goes with it. All that is made in it is removed with this value.
pub(crate) struct Engine {
    docker: DockerTest,
    registry: Registry,
    /// In place of Hugging Face's.
    models: ModelHub,
}

/// Whether a command can only run where there is an engine.
pub(crate) fn is_needed(line: &str) -> bool {
    COMMANDS.iter().any(|it| line.starts_with(it))
}

impl Engine {
    /// `None` if there is no engine or no registry.
    pub(crate) fn start() -> Option<Self> {
        let (registry, docker) = Registry::open().zip(DockerTest::start())?;
        docker.volume(CACHE);
        Some(Self {
            models: model_hub(docker.folder()),
            registry,
            docker,
        })
    }

    /// The hub in the registry, for `FLOW_HUB`.
    pub(crate) fn hub(&self) -> String {
        self.registry.hub()
    }

    /// What is typed or printed, with the test's own names.
    pub(crate) fn with_own_names(&self, line: &str) -> String {
        let own = |what: &str| self.docker.name(what);
        let line = format!(" {line} ")
            .replace(" sentence-encoder ", &format!(" {} ", own("image")))
            .replace(" encoder ", &format!(" {} ", own("encoder")))
            .replace(" flow-cache:", &format!(" {}:", own(CACHE)));
        line[1..line.len() - 1].to_owned()
    }

    /// A command as it can run here: base images are made and not pulled, and models come from a hub that can be reached.
    pub(crate) fn adapted(&self, line: &str) -> String {
        let base = self.docker.base();
        let hub = self.models.url();
        let build = format!("docker build --build-arg BASE={base} ");
        let run = format!(
            "docker run --add-host host.docker.internal:host-gateway -e HF_ENDPOINT={hub} "
        );
        self.with_own_names(line)
            .replace("docker build ", &build)
            .replace("docker run ", &run)
    }

    /// Puts into a folder what a checkout has for images after a build.
    pub(crate) fn furnish(folder: &Path) {
        fs::create_dir_all(folder.join("target/release")).unwrap();
        let program = flow_command().get_program().to_owned();
        docker::strip(Path::new(&program), &folder.join("target/release/flow"));
        fs::create_dir(folder.join("docker")).unwrap();
        for file in ["docker/Dockerfile", ".dockerignore", "LICENSE"] {
            fs::copy(root().join(file), folder.join(file)).unwrap();
        }
    }
}
