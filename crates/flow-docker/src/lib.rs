//! A client of the Docker engine: a layer over `bollard` with flow's own types and errors.
//!
//! ```text
//! engine.rs             Engine           the connection
//! image.rs              ImageInfo        inspects, pulls, tags, builds and pushes images
//! container_config.rs   ContainerConfig  the container to create, as the engine's JSON: pure
//! engine_options.rs                      the options of `docker_kwargs` in that form: pure
//! container.rs          Container        creates, starts, attaches to and stops containers
//! sweep.rs              LauncherId       removes containers that killed flows have left behind
//! credentials.rs        DockerConfig     the credentials that `docker login` has stored
//! ```
//!
//! The rules:
//! - This crate decides nothing: its callers decide which container is created.
//! - Every error says what went wrong and what to do about it ([`EngineError`]).
//! - Nothing in this crate reads the environment or prints: addresses and credentials are arguments.

#![warn(missing_docs)]

mod container;
mod container_config;
mod credentials;
mod engine;
mod engine_options;
mod error;
mod image;
pub mod labels;
mod sweep;

pub use container::{AttachedOutput, Container, ContainerExit, ContainerInfo};
pub use container_config::{ContainerConfig, GpuRequest, Mount, Network, PublishedPort};
pub use credentials::{Credentials, CredentialsError, DockerConfig, PUBLIC_REGISTRY, registry_of};
pub use engine::Engine;
pub use error::EngineError;
pub use flow_spec::Secret;
pub use image::{BuildOptions, ImageInfo, ProgressStep};
pub use sweep::LauncherId;
