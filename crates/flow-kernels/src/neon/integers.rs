//! What tiles of 8-bit integers have in common.

use std::arch::aarch64::{
    int32x4_t, vaddq_f32, vcvtq_f32_s32, vdupq_n_f32, vdupq_n_s32, vld1q_f32, vld1q_s32, vmlaq_s32,
    vmulq_f32, vst1q_f32,
};

use crate::int8::Int8Tile;

/// Values in a register of 32-bit integers.
pub(super) const REGISTER: usize = 4;

/// Columns summed at once: two registers.
pub(super) const COLUMNS: usize = 2 * REGISTER;

/// Adds `offset − zero` times the sum of each column's weights to the sums of one row, scales them, adds the bias and writes
/// the results. `offset` is what states were reduced by before they were multiplied.
///
/// # Safety
///
/// The machine must have NEON, [`Int8Tile::check`] must have passed, `row` must be one of the tile's rows, and [`COLUMNS`]
/// columns from `column` on must lie within the panel.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn store(
    tile: &mut Int8Tile<'_>,
    (row, column): (usize, usize),
    sums: [int32x4_t; 2],
    offset: i32,
) {
    let state = tile.row_scales[row];
    for (register, sum) in sums.into_iter().enumerate() {
        let column = column + register * REGISTER;
        // SAFETY: `Int8Tile::check` verified that each row of `c` holds a whole panel, as scales, sums and bias do, and the
        // columns lie within the panel.
        unsafe {
            let weights = vld1q_s32(tile.columns.sums.as_ptr().add(column));
            let sum = vmlaq_s32(sum, vdupq_n_s32(offset - state.zero), weights);
            let scales = vld1q_f32(tile.columns.scales.as_ptr().add(column));
            let scale = vmulq_f32(vdupq_n_f32(state.scale), scales);
            let value = vmulq_f32(vcvtq_f32_s32(sum), scale);
            let bias = vld1q_f32(tile.bias.as_ptr().add(column));
            let c = tile.c.as_mut_ptr().add(row * tile.c_stride + column);
            vst1q_f32(c, vaddq_f32(value, bias));
        }
    }
}
