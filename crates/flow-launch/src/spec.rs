//! Which processes a plan needs, and how each of them is started. Pure: paths, ports and the number of cores are
//! arguments.

pub(crate) mod container;
pub(crate) mod environment;
pub(crate) mod invocation;
pub(crate) mod ports;
pub(crate) mod process_spec;
pub(crate) mod role;
pub mod round_robin;
pub(crate) mod sandbox;
