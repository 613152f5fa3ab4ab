//! What the flow file says of the container that an executor runs in.
//!
//! Everything is checked, and paths are as they were written: whoever starts the container knows whose
//! home `~` is, and where the flow file lies.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The container of an executor, where it says more than which image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    /// The GPUs that it gets; none: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Gpus>,
    /// Folders of the machine, and volumes of the engine, that it sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// What runs in it, in place of the image's own program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// It has the machine's own network; otherwise its port is published.
    #[serde(skip_serializing_if = "is_false")]
    pub on_host_network: bool,
    /// Which of an image's platforms, such as `linux/arm64`; none: the engine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// The image is fetched at each start, even if it is there.
    #[serde(skip_serializing_if = "is_false")]
    pub is_refetched: bool,
    /// The workspace is not mounted.
    #[serde(skip_serializing_if = "is_false")]
    pub without_workspace: bool,
    /// What `docker_kwargs` says, as part of what the engine's API is told (`ContainerCreate`).
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub engine: Map<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(it: &bool) -> bool {
    !it
}

/// GPUs of a container, as an engine is asked for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpus {
    /// So many; -1: all of them; none: those that are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    /// Numbers, or UUIDs (`GPU-…`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Whose driver; none: the engine's choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// What they must be able to do, besides `gpu`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Options of the driver.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub options: IndexMap<String, String>,
}

/// A folder of the machine, or a volume of the engine, inside a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The folder, as written: `~` is the home of the user that starts the flow, and a relative path begins
    /// at the flow file. Or the volume's name.
    pub host: String,
    /// `host` names a volume of the engine, which the engine creates at its first use.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_named: bool,
    /// In the container, from its root.
    pub inside: String,
    /// The container may not write there.
    #[serde(default)]
    pub read_only: bool,
}
