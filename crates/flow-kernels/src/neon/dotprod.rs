//! Tiles of 8-bit integers with NEON's dot products: `sdot` multiplies four inputs for four columns at once.
//!
//! It takes signed integers, and states are unsigned. They are reduced by 128, which `store` undoes with the sums of the
//! columns.

use std::arch::aarch64::{
    int8x16_t, int32x4_t, vdupq_n_s32, vdupq_n_u8, vdupq_n_u32, veorq_u8, vld1q_lane_u32, vld1q_s8,
    vld1q_u8, vreinterpretq_s8_u8, vreinterpretq_u8_u32,
};
use std::arch::asm;

use super::integers::{COLUMNS, store};
use crate::int8::{Int8Tile, STEP};
use crate::tile::PANEL;

/// Maximum rows of a tile: sixteen registers hold sums, eight weights.
pub(crate) const ROWS: usize = 8;

/// Steps in a register of states.
const STEPS: usize = 4;

/// Bytes of a register.
const BYTES: usize = 16;

/// What changes an unsigned state to a signed one that is 128 less.
const SIGN: u8 = 0x80;

/// Computes a tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// The machine must have NEON with dot products, and [`Int8Tile::check`] must have passed.
#[target_feature(enable = "neon,dotprod")]
pub(crate) unsafe fn tile_int8(tile: &mut Int8Tile<'_>) {
    for column in (0..PANEL).step_by(COLUMNS) {
        // SAFETY: the caller guarantees what `rows` needs.
        unsafe {
            match tile.rows {
                1 => rows::<1>(tile, column),
                2 => rows::<2>(tile, column),
                3 => rows::<3>(tile, column),
                4 => rows::<4>(tile, column),
                5 => rows::<5>(tile, column),
                6 => rows::<6>(tile, column),
                7 => rows::<7>(tile, column),
                _ => rows::<ROWS>(tile, column),
            }
        }
    }
}

/// Computes [`COLUMNS`] columns of `R` rows, beginning with `column`.
///
/// # Safety
///
/// As for [`tile_int8`]. `R` must not exceed the tile's rows, and the columns must lie within the panel.
#[target_feature(enable = "neon,dotprod")]
unsafe fn rows<const R: usize>(tile: &mut Int8Tile<'_>, column: usize) {
    let whole = tile.k / STEPS * STEPS;
    // SAFETY: `Int8Tile::check` verified that each row of `a` holds `k` steps, and that each of the `k` rows of `b` holds a
    // whole panel. The last steps, which do not fill a register, are read one by one.
    unsafe {
        let mut sums = [[vdupq_n_s32(0); 2]; R];
        for first in (0..whole).step_by(STEPS) {
            let weights: [_; STEPS] =
                std::array::from_fn(|step| weights(tile, first + step, column));
            for (row, sums) in sums.iter_mut().enumerate() {
                let states = signed(vld1q_u8(
                    tile.a.as_ptr().add(row * tile.a_stride + STEP * first),
                ));
                for half in 0..2 {
                    sums[half] = dot::<0>(sums[half], weights[0][half], states);
                    sums[half] = dot::<1>(sums[half], weights[1][half], states);
                    sums[half] = dot::<2>(sums[half], weights[2][half], states);
                    sums[half] = dot::<3>(sums[half], weights[3][half], states);
                }
            }
        }
        for step in whole..tile.k {
            let weights = weights(tile, step, column);
            for (row, sums) in sums.iter_mut().enumerate() {
                let states = tile.a.as_ptr().add(row * tile.a_stride + STEP * step);
                let states = vld1q_lane_u32::<0>(states.cast(), vdupq_n_u32(0));
                let states = signed(vreinterpretq_u8_u32(states));
                for half in 0..2 {
                    sums[half] = dot::<0>(sums[half], weights[half], states);
                }
            }
        }
        for (row, sums) in sums.into_iter().enumerate() {
            store(tile, (row, column), sums, i32::from(SIGN));
        }
    }
}

/// The weights of [`COLUMNS`] columns in one step.
///
/// # Safety
///
/// The machine must have NEON, the step must be one of the tile's, and the columns must lie within the panel.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn weights(tile: &Int8Tile<'_>, step: usize, column: usize) -> [int8x16_t; 2] {
    // SAFETY: the caller guarantees that the weights are there.
    unsafe {
        let b = tile.b.as_ptr().add(step * tile.b_stride + column * STEP);
        [vld1q_s8(b), vld1q_s8(b.add(BYTES))]
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn signed(states: std::arch::aarch64::uint8x16_t) -> int8x16_t {
    vreinterpretq_s8_u8(veorq_u8(states, vdupq_n_u8(SIGN)))
}

/// Adds the products of four columns and one step, which is lane `LANE` of the states.
// The intrinsic `vdotq_laneq_s32` is not stable yet.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn dot<const LANE: usize>(mut sums: int32x4_t, weights: int8x16_t, states: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction reads and writes these registers only.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {weights:v}.16b, {states:v}.4b[{lane}]",
            sums = inout(vreg) sums,
            weights = in(vreg) weights,
            states = in(vreg) states,
            lane = const LANE,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}
