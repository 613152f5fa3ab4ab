//! The name of this process.

/// The name of this process in metrics and traces, as in Jina; a flow has one gateway.
pub const RUNTIME: &str = "gateway/rep-0";
