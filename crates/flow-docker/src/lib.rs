//! What flow says to a Docker engine: a thin layer over `bollard` that gives its answers types and words.
//!
//! ```text
//! Engine      the connection                          engine.rs
//! Image       looked at, pulled, built, pushed        image.rs
//! Wanted      what a container is to be: pure         wanted.rs
//! Container   created, started, heard, ended          container.rs
//! Launcher    whose containers are nobody's any more  sweep.rs
//! ```
//!
//! The rules:
//! - Nothing is decided here: what a container is to be is its caller's word.
//! - Every error says which of a few things went wrong, and what to do about it ([`EngineError`]).
//! - Nothing in here reads the environment or prints: addresses and credentials are arguments.

#![warn(missing_docs)]

mod container;
mod credentials;
mod engine;
mod error;
mod image;
pub mod labels;
mod sweep;
mod wanted;

pub use bollard::auth::DockerCredentials as Credentials;
pub use bollard::models::DeviceRequest;
pub use bollard::query_parameters::BuildImageOptionsBuilder;
pub use container::{Alive, Container, Ended, Output};
pub use credentials::{CredentialsError, DockerConfig, PUBLIC_REGISTRY, registry_of};
pub use engine::Engine;
pub use error::EngineError;
pub use image::{Image, Step};
pub use sweep::Launcher;
pub use wanted::{Network, PublishedPort, Wanted};
