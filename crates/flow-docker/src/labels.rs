//! Labels that flow sets on images and containers.

/// On an image: the version of the protocol that its executor uses, which decides how it is started. See [`WIRE`].
pub const IMAGE_WIRE: &str = "dev.flow.wire";

/// The value of [`IMAGE_WIRE`] for an image whose entrypoint takes the arguments of `flow executor`, and that serves
/// Jina's gRPC services as this program does.
pub const WIRE: &str = "1";

/// On an image: the name of its executor.
pub const IMAGE_EXECUTOR: &str = "dev.flow.executor";

/// On an image: the devices that it can compute on, separated by commas (`cpu`, `cuda`).
pub const IMAGE_DEVICES: &str = "dev.flow.devices";

/// On an image: keywords for searches, separated by commas.
pub const IMAGE_KEYWORDS: &str = "dev.flow.keywords";

/// On a container: the process that started it, see [`LauncherId`](crate::LauncherId).
pub const RUN: &str = "dev.flow.run";

/// On a container: the flow it belongs to.
pub const FLOW: &str = "dev.flow.flow";

/// On a container: its node in the flow.
pub const NODE: &str = "dev.flow.node";

/// On a container: the name of its process in the flow, such as `encoder/rep-1`.
pub const REPLICA: &str = "dev.flow.replica";
