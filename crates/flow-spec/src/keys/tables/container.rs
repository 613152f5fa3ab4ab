//! Options of the container that an executor runs in.

use crate::diagnostics::Spanned;
use crate::forms;
use crate::keys::{options, row};
use crate::values::{DockerOptions, Gpus, NetworkMode, Volume};

options! {
    /// Options of an executor's container.
    struct ContainerOptions, ContainerTable CONTAINER {
        entrypoint: Vec<String> = row(
            forms::ENTRYPOINT,
            "Program that runs in the container, instead of the image's own.",
        )
            .default("the image's")
            .example("[python, serve.py]");
        docker_kwargs: DockerOptions = row(
            forms::DOCKER_KWARGS,
            "Options of the container, by the names of Docker's Python SDK.",
        )
            .default("empty")
            .example("{shm_size: 1g}");
        volumes: Vec<Spanned<Volume>> = row(
            forms::VOLUMES,
            "Folders that the container sees, `folder[:folder in the container][:ro]`, where a relative \
             folder begins at the flow file; and volumes of the engine, `{type: volume, source: NAME, \
             target: /folder/in/the/container}`.",
        )
            .default("none")
            .example("[{type: volume, source: flow-cache, target: /cache}, 'data:/data:ro']")
            .jina("read-only volumes and volumes of the engine are not known");
        gpus: Gpus = row(
            forms::GPUS,
            "GPUs of the container: `all`, a number, `device=0,1` or `device=GPU-…`.",
        )
            .default("none")
            .example("all")
            .jina("`device=0,1` means GPU 0 and one more");
        disable_auto_volume: bool = row(
            forms::FLAG,
            "The `workspace` is not mounted into the container.",
        )
            .default("`false`")
            .example("true");
        force_network_mode: NetworkMode = row(
            forms::NETWORK_MODE,
            "`HOST`: the container uses the machine's network. Otherwise its port is published \
             on the loopback address.",
        )
            .default("`AUTO`")
            .example("HOST")
            .jina("the host network on Linux");
        force_update: bool = row(
            forms::FLAG,
            "The image is pulled at each start, even if it exists.",
        )
            .aliases(&["force"])
            .old_names(&["pull_latest"])
            .default("`false`")
            .example("true");
        prefer_platform: String = row(forms::TEXT, "The image's platform to use.")
            .default("the machine's")
            .example("linux/arm64");
    }
}
