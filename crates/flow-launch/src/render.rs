//! Renders a plan as files for Docker Compose, Docker Swarm and Kubernetes. Pure.
//!
//! ```text
//! Plan ──► Parts       the containers of a flow   parts.rs
//!      ──► Placement   for the gateway            placement.rs
//!      ──► Rendered    files and remarks          compose.rs, swarm.rs, kubernetes.rs; as YAML by yaml.rs
//! ```
//!
//! `parts.rs` decides what all of them share: which containers there are, and their images and arguments. The
//! gateway gets a placement with host names, and connects to every address behind a name, so it needs no load balancer
//! and no mesh. All nodes in that placement are external, so that it holds no executor's options or environment.

mod argument;
mod compose;
mod devices;
mod docker;
mod export;
mod fingerprint;
mod gateway_files;
mod gateway_health;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod metadata_secrets;
mod parts;
mod placement;
mod secret_references;
mod swarm;
mod yaml;

pub use compose::compose;
pub use devices::BadDevices;
pub use export::{ExportError, ExportOptions, Needs, Rendered, RenderedFile, build_commands};
#[cfg(feature = "kubernetes")]
pub use kubernetes::{
    Autoscale, Cache, HostRoute, Kubernetes, Resources, ScaleTarget, SecretEntry, SecretVariable,
    helm, kubernetes,
};
pub use swarm::{Publish, SecretFile, Swarm, TaskResources, stack_name, swarm};
