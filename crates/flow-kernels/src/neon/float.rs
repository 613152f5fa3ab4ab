//! Tiles of 32-bit floats with NEON: six rows of four registers, so that 24 of the 32 registers hold sums.

use std::arch::aarch64::{vdupq_n_f32, vfmaq_f32, vld1q_f32, vst1q_f32};

use crate::tile::{PANEL, Tile};

/// Maximum rows of a tile.
pub(crate) const ROWS: usize = 6;

/// Values in a register.
const REGISTER: usize = 4;

/// Columns summed at once.
const COLUMNS: usize = 4 * REGISTER;

/// Computes a tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// The machine must have NEON, and [`Tile::check`] must have passed.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn tile_f32(tile: &mut Tile<'_, f32>) {
    for column in (0..PANEL).step_by(COLUMNS) {
        // SAFETY: the caller guarantees what `rows` needs.
        unsafe {
            match tile.rows {
                1 => rows::<1>(tile, column),
                2 => rows::<2>(tile, column),
                3 => rows::<3>(tile, column),
                4 => rows::<4>(tile, column),
                5 => rows::<5>(tile, column),
                _ => rows::<ROWS>(tile, column),
            }
        }
    }
}

/// Computes [`COLUMNS`] columns of `R` rows, beginning with `column`.
///
/// # Safety
///
/// As for [`tile_f32`]. `R` must not exceed the tile's rows, and the columns must lie within the panel.
#[target_feature(enable = "neon")]
unsafe fn rows<const R: usize>(tile: &mut Tile<'_, f32>, column: usize) {
    let (a, b, c) = (tile.a.as_ptr(), tile.b.as_ptr(), tile.c.as_mut_ptr());
    // SAFETY: `Tile::check` verified that each row of `a` holds `k` values, and that each of the `k` rows of `b`, each row
    // of `c` and the bias hold a whole panel.
    unsafe {
        let bias = tile.bias.as_ptr().add(column);
        let bias = [0, 1, 2, 3].map(|register| vld1q_f32(bias.add(register * REGISTER)));
        let mut sums = [bias; R];
        let mut b = b.add(column);
        for step in 0..tile.k {
            let weights = [0, 1, 2, 3].map(|register| vld1q_f32(b.add(register * REGISTER)));
            for (row, sums) in sums.iter_mut().enumerate() {
                let value = vdupq_n_f32(*a.add(row * tile.a_stride + step));
                for (sum, weights) in sums.iter_mut().zip(weights) {
                    *sum = vfmaq_f32(*sum, value, weights);
                }
            }
            b = b.wrapping_add(tile.b_stride);
        }
        for (row, sums) in sums.iter().enumerate() {
            let c = c.add(row * tile.c_stride + column);
            for (register, sum) in sums.iter().enumerate() {
                vst1q_f32(c.add(register * REGISTER), *sum);
            }
        }
    }
}
