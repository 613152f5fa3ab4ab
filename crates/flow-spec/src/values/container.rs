//! GPUs and volumes of containers, as they are written.
//!
//! Paths stay as they are: the code that starts the container knows which home `~` is, and where the flow file is.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// GPUs of a container, by the names of the engine's API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpus {
    /// The number of GPUs; -1 means all of them; `None` means those of `devices`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    /// Numbers or UUIDs (`GPU-…`) of GPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// The driver; `None` leaves the choice to the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Required capabilities besides `gpu`.
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
    /// The path in the container, from its root.
    pub inside: String,
    /// The container may not write there.
    #[serde(default)]
    pub read_only: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(it: &bool) -> bool {
    !it
}
