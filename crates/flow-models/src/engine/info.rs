//! What an engine says of itself.

/// Names of an engine, its back end and its precision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineInfo {
    /// `flow` or `candle`.
    pub engine: &'static str,
    /// The instruction set, or the GPU's compute capability.
    pub back_end: String,
    /// The precision of matrix products.
    pub precision: String,
}
