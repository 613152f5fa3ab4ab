//! A client of image registries, for the executors in them and their labels.
//!
//! | File | Subject |
//! |---|---|
//! | `trust.rs` | the certificates that are trusted for a registry |
//! | `registry.rs`, `challenge.rs` | requests and authentication |
//! | `catalog.rs` | repositories, tags and labels |
//!
//! It uses the distribution API of the Open Container Initiative, which every registry has. The Docker engine
//! (`flow-docker`) pulls and pushes the images themselves. Nothing here reads the environment or prints.

#![warn(missing_docs)]

mod catalog;
mod challenge;
mod error;
mod registry;
mod trust;

pub use catalog::{ImageConfig, ImageDetails};
pub use error::RegistryError;
pub use registry::Registry;
pub use trust::{TrustError, TrustStore};
