//! What flow asks registries of images: which executors there are, and what is said of them.
//!
//! ```text
//! Trust      who may vouch for it        trust.rs
//! Registry   asks, and says who we are   registry.rs, challenge.rs
//! Catalog    names, tags, labels         catalog.rs
//! ```
//!
//! It speaks the distribution API of the Open Container Initiative, which every registry has. Images themselves are
//! fetched and sent by the Docker engine (`flow-docker`). Nothing in here reads the environment or prints.

#![warn(missing_docs)]

mod catalog;
mod challenge;
mod error;
mod registry;
mod trust;

pub use catalog::{About, Details};
pub use error::RegistryError;
pub use registry::Registry;
pub use trust::{Trust, TrustError};
