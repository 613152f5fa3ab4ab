//! The size of a model.

use crate::family::Architecture;

/// The dimensions that determine how much arithmetic a model takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModelSize {
    pub(super) hidden: usize,
    pub(super) intermediate: usize,
    pub(super) layers: usize,
}

impl ModelSize {
    pub(super) fn new(architecture: &Architecture) -> Self {
        Self {
            hidden: architecture.hidden_size,
            intermediate: architecture.intermediate_size,
            layers: architecture.layers,
        }
    }

    /// Floating-point operations of all matrix products for a text of `tokens` tokens: two per multiplication, for the
    /// linear layers and for attention.
    pub(super) fn flop(self, tokens: usize) -> f64 {
        let linear = 4 * self.hidden * self.hidden + 2 * self.hidden * self.intermediate;
        let attention = 2 * self.hidden * tokens;
        2.0 * (self.layers * tokens * (linear + attention)) as f64
    }
}
