//! How the states of a text's tokens become its vector.

use crate::launcher::MODES_MAX;

/// A way to make one vector of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolingMode {
    /// The first state that counts.
    Cls = 0,
    /// The mean.
    Mean = 1,
    /// The largest of each value.
    Max = 2,
    /// The smallest of each value.
    Min = 3,
    /// The sum, divided by the square root of the number.
    MeanSqrtLen = 4,
    /// The mean, where later tokens weigh more.
    WeightedMean = 5,
    /// The last state.
    LastToken = 6,
}

/// What becomes of a text's states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pooling {
    /// What each way gives is put one after the other.
    pub modes: Vec<PoolingMode>,
    /// Tokens at each text's start that do not count.
    pub skipped: usize,
    /// Values that are kept of all; a vector has so many.
    pub width: usize,
    /// Whether vectors get the length 1.
    pub normalize: bool,
}

impl Pooling {
    /// The modes as kernels read them: four bits each, the first lowest.
    ///
    /// # Panics
    ///
    /// If there are more ways than fit, or fewer values than are to be kept.
    pub(crate) fn code(&self, hidden: usize) -> u32 {
        assert!(self.modes.len() <= MODES_MAX, "at most {MODES_MAX} modes");
        assert!(self.width <= self.modes.len() * hidden, "values to keep");
        let modes = self.modes.iter().rev();
        modes.fold(0, |code, mode| code << 4 | *mode as u32)
    }
}
