//! Children that are containers of a Docker engine.

pub(crate) mod container;
pub(crate) mod context;
mod pull_progress;
pub(crate) mod volumes;
