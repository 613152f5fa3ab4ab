//! Rotations that distribute outliers.

/// Largest number of values that a rotation mixes.
const BLOCK_MAX: usize = 128;

/// A rotation of rows: the values of each block are multiplied by the same Hadamard matrix, whose entries are 1 and -1.
///
/// A Hadamard matrix of size `n` is symmetric, and its square is `n` times the identity. States are multiplied by the
/// matrix itself, and weights by the matrix divided by `n`, so that products stay the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    block: usize,
}

impl Rotation {
    /// The rotation of rows of `width` values. Its blocks are as large as the width allows, up to 128 values; the size of a
    /// Hadamard matrix of this kind is a power of two.
    ///
    /// # Panics
    ///
    /// If `width` is 0.
    #[must_use]
    pub fn of_width(width: usize) -> Self {
        assert!(width > 0, "a row has values");
        let power = 1 << width.trailing_zeros();
        Self {
            block: BLOCK_MAX.min(power),
        }
    }

    /// Number of values of a block.
    #[must_use]
    pub fn block(self) -> usize {
        self.block
    }

    /// Rotates a row of states in place.
    pub fn rotate_states(self, row: &mut [f32]) {
        rotate(row, self.block);
    }

    /// Rotates a row of weights in place.
    pub fn rotate_weights(self, row: &mut [f32]) {
        rotate(row, self.block);
        let factor = 1.0 / self.block as f32;
        row.iter_mut().for_each(|value| *value *= factor);
    }
}

/// Values of a register, for blocks of whole registers.
const LANES: usize = 16;

/// Multiplies each block by a Hadamard matrix (Sylvester, 1867), in as many steps as the block's size has bits.
#[inline(always)]
pub(crate) fn rotate(row: &mut [f32], block: usize) {
    match block {
        128 => row
            .as_chunks_mut()
            .0
            .iter_mut()
            .for_each(rotate_lanes::<128, 8>),
        _ => row.chunks_exact_mut(block).for_each(rotate_any),
    }
}

/// One block of `V` values in `R` chunks of lanes.
#[inline(always)]
fn rotate_lanes<const V: usize, const R: usize>(values: &mut [f32; V]) {
    let chunks = values.as_chunks_mut::<LANES>().0;
    let mut lanes: [[f32; LANES]; R] = std::array::from_fn(|chunk| chunks[chunk]);
    let mut half = 1;
    while half < R {
        for first in (0..R).filter(|chunk| chunk & half == 0) {
            let (a, b) = (lanes[first], lanes[first + half]);
            lanes[first] = std::array::from_fn(|lane| a[lane] + b[lane]);
            lanes[first + half] = std::array::from_fn(|lane| a[lane] - b[lane]);
        }
        half *= 2;
    }
    for (chunk, lanes) in chunks.iter_mut().zip(lanes) {
        *chunk = mix_lanes(lanes);
    }
}

/// Mixes the values of one chunk.
#[inline(always)]
fn mix_lanes(lanes: [f32; LANES]) -> [f32; LANES] {
    let lanes = mix_distance::<1>(lanes);
    let lanes = mix_distance::<2>(lanes);
    let lanes = mix_distance::<4>(lanes);
    mix_distance::<8>(lanes)
}

/// Replaces each two values that are `D` apart by their sum and their difference.
#[inline(always)]
fn mix_distance<const D: usize>(lanes: [f32; LANES]) -> [f32; LANES] {
    let others: [f32; LANES] = std::array::from_fn(|lane| lanes[lane ^ D]);
    let signed: [f32; LANES] = std::array::from_fn(|lane| {
        if lane & D == 0 {
            lanes[lane]
        } else {
            -lanes[lane]
        }
    });
    std::array::from_fn(|lane| others[lane] + signed[lane])
}

/// One block of any size.
#[inline(always)]
fn rotate_any(values: &mut [f32]) {
    let mut half = 1;
    while half < values.len() {
        for pair in values.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of the Hadamard matrix: -1 if row and column have an odd number of bits in common.
    fn entry(row: usize, column: usize) -> f32 {
        if (row & column).count_ones().is_multiple_of(2) {
            1.0
        } else {
            -1.0
        }
    }

    #[test]
    fn each_block_is_multiplied_by_a_hadamard_matrix() {
        for width in [1, 2, 3, 8, 12, 16, 32, 48, 64, 128, 384] {
            let rotation = Rotation::of_width(width);
            let before: Vec<f32> = (0..width).map(|n| (n * 37 % 19) as f32 - 9.0).collect();
            let mut after = before.clone();
            rotation.rotate_states(&mut after);
            let blocks = before
                .chunks(rotation.block())
                .zip(after.chunks(rotation.block()));
            for (before, after) in blocks {
                for (row, actual) in after.iter().enumerate() {
                    let products = before
                        .iter()
                        .enumerate()
                        .map(|(column, value)| entry(row, column) * value);
                    assert_eq!(*actual, products.sum::<f32>(), "width {width}, value {row}");
                }
            }
        }
    }

    #[test]
    fn products_of_rotated_states_and_weights_stay_the_same() {
        let states: Vec<f32> = (0..384).map(|n| (n * 31 % 17) as f32 - 8.0).collect();
        let weights: Vec<f32> = (0..384).map(|n| (n * 29 % 23) as f32 - 11.0).collect();
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let expected = product(&states, &weights);
        let (mut states, mut weights) = (states, weights);
        Rotation::of_width(384).rotate_states(&mut states);
        Rotation::of_width(384).rotate_weights(&mut weights);
        assert_eq!(product(&states, &weights), expected);
    }

    #[test]
    fn blocks_are_the_largest_powers_of_two_that_divide_the_width() {
        let blocks = [1, 6, 384, 312, 768, 1000].map(|width| Rotation::of_width(width).block());
        assert_eq!(blocks, [1, 2, 128, 8, 128, 8]);
    }
}
