//! How the hidden states of a text become its vector.

use crate::launcher::MODES_MAX;

/// A pooling mode of sentence-transformers. The numbers are those of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolingMode {
    /// The first pooled state.
    Cls = 0,
    /// The mean of all states.
    Mean = 1,
    /// The maximum of each value.
    Max = 2,
    /// The minimum of each value.
    Min = 3,
    /// The sum of all states, divided by the square root of their number.
    MeanSqrtLen = 4,
    /// The mean, weighted by the position of each token.
    WeightedMean = 5,
    /// The last state.
    LastToken = 6,
}

/// How hidden states become vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolingSpec {
    /// Modes whose results are concatenated.
    pub modes: Vec<PoolingMode>,
    /// Number of leading tokens of each text that are not pooled.
    pub skipped_tokens: usize,
    /// Values of a vector: how many leading values of the concatenated result are kept.
    pub width: usize,
    /// Whether vectors are normalized to length 1.
    pub normalize: bool,
}

impl PoolingSpec {
    /// The modes as kernels read them: four bits each, the first mode in the lowest bits.
    ///
    /// # Panics
    ///
    /// If there are too many modes, or `width` exceeds their concatenated results.
    pub(crate) fn mode_bits(&self, hidden: usize) -> u32 {
        assert!(self.modes.len() <= MODES_MAX, "at most {MODES_MAX} modes");
        assert!(self.width <= self.modes.len() * hidden, "width of a vector");
        let modes = self.modes.iter().rev();
        modes.fold(0, |bits, mode| bits << 4 | *mode as u32)
    }
}
