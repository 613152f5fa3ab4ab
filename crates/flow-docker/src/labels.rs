//! The labels by which flow knows images and containers again.

/// On an image: the wire its executor speaks, and so how it is started. See [`WIRE`].
pub const IMAGE_WIRE: &str = "dev.flow.wire";

/// What [`IMAGE_WIRE`] says of an image whose entrypoint takes the arguments of `flow executor`, and that
/// speaks Jina's gRPC services as this program does.
pub const WIRE: &str = "1";

/// On an image: the executor in it, by the name it is used under.
pub const IMAGE_EXECUTOR: &str = "dev.flow.executor";

/// On an image: what it can compute on, separated by commas (`cpu`, `cuda`).
pub const IMAGE_DEVICES: &str = "dev.flow.devices";

/// On an image: words to find it by, separated by commas.
pub const IMAGE_KEYWORDS: &str = "dev.flow.keywords";

/// On a container: the launcher that started it, see [`Launcher`](crate::Launcher).
pub const RUN: &str = "dev.flow.run";

/// On a container: the flow it belongs to.
pub const FLOW: &str = "dev.flow.flow";

/// On a container: its node in the flow.
pub const NODE: &str = "dev.flow.node";

/// On a container: its name among the flow's processes, such as `encoder/rep-1`.
pub const REPLICA: &str = "dev.flow.replica";
