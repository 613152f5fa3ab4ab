//! What running flows store on the disk: a state directory each, and the list of running flows.

pub(crate) mod directory;
pub(crate) mod listen_sockets;
pub(crate) mod log_filters;
pub(crate) mod process_paths;
pub mod registry;
pub(crate) mod sandbox_folders;
pub(crate) mod socket;
pub(crate) mod status_sockets;
