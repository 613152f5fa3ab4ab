//! Tiles of 8-bit integers with NEON's matrix products: `usmmla` multiplies eight inputs of two rows for two columns at once.
//!
//! The instruction reads the eight inputs of a column side by side, where packed weights hold four. Two steps are therefore
//! interleaved when they are read.

use std::arch::aarch64::{
    int32x4_t, uint8x16_t, vcombine_u8, vdupq_n_s32, vdupq_n_u32, vget_low_u8, vld1_u8,
    vld1q_lane_u32, vld1q_u32, vreinterpretq_s32_s64, vreinterpretq_s64_s32, vreinterpretq_u8_u32,
    vzip1q_s64, vzip1q_u32, vzip2q_s64, vzip2q_u32,
};
use std::arch::asm;

use super::integers::{COLUMNS, REGISTER, store};
use crate::int8::{Int8Tile, STEP};
use crate::tile::PANEL;

/// Maximum rows of a tile: twenty registers hold sums, four weights. With twelve rows, the compiler moves sums between
/// registers in each step.
pub(crate) const ROWS: usize = 10;

/// Rows that are multiplied at once.
pub(crate) const UNIT: usize = 2;

/// Steps that are multiplied at once.
const STEPS: usize = 2;

/// Registers of weights that are multiplied with the same states: pairs of columns.
const PAIRS: usize = COLUMNS / 2;

/// Sums of two rows: `[[row 0, column 0], [row 0, column 1], [row 1, column 0], [row 1, column 1]]` for each pair of columns.
type Sums = [int32x4_t; PAIRS];

/// Computes a tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// The machine must have NEON with products of 8-bit matrices, and [`Int8Tile::check`] must have passed.
#[target_feature(enable = "neon,i8mm")]
pub(crate) unsafe fn tile_int8(tile: &mut Int8Tile<'_>) {
    for column in (0..PANEL).step_by(COLUMNS) {
        // SAFETY: the caller guarantees what `rows` needs.
        unsafe {
            match tile.rows.div_ceil(UNIT) {
                1 => rows::<1>(tile, column),
                2 => rows::<2>(tile, column),
                3 => rows::<3>(tile, column),
                4 => rows::<4>(tile, column),
                _ => rows::<{ ROWS / UNIT }>(tile, column),
            }
        }
    }
}

/// Computes [`COLUMNS`] columns of `R` pairs of rows, beginning with `column`. The last pair may have one row only.
///
/// # Safety
///
/// As for [`tile_int8`]. `R` must be the number of the tile's pairs, and the columns must lie within the panel.
#[target_feature(enable = "neon,i8mm")]
unsafe fn rows<const R: usize>(tile: &mut Int8Tile<'_>, column: usize) {
    let mut sums = [[vdupq_n_s32(0); PAIRS]; R];
    // SAFETY: `Int8Tile::check` verified that each row of `a` holds `k` steps, and that each of the `k` rows of `b` holds a
    // whole panel. A last step without a second one is read alone.
    unsafe {
        for step in (0..tile.k / STEPS * STEPS).step_by(STEPS) {
            let weights = interleaved(read(tile, step, column), read(tile, step + 1, column));
            for (pair, sums) in sums.iter_mut().enumerate() {
                let states = pair_rows(tile, pair).map(|row| vld1_u8(row.add(STEP * step)));
                multiply(sums, vcombine_u8(states[0], states[1]), &weights);
            }
        }
        if !tile.k.is_multiple_of(STEPS) {
            let step = tile.k - 1;
            let weights = interleaved(read(tile, step, column), [vdupq_n_u32(0); 2]);
            for (pair, sums) in sums.iter_mut().enumerate() {
                let states = pair_rows(tile, pair).map(|row| {
                    let four = vld1q_lane_u32::<0>(row.add(STEP * step).cast(), vdupq_n_u32(0));
                    vget_low_u8(vreinterpretq_u8_u32(four))
                });
                multiply(sums, vcombine_u8(states[0], states[1]), &weights);
            }
        }
        for (pair, sums) in sums.into_iter().enumerate() {
            for (row, sums) in [first_row(sums), second_row(sums)].into_iter().enumerate() {
                let row = UNIT * pair + row;
                if row < tile.rows {
                    store(tile, (row, column), sums, 0);
                }
            }
        }
    }
}

/// The two rows of a pair. The last row is its own second one if there is no other.
///
/// # Safety
///
/// [`Int8Tile::check`] must have passed, and the pair must be one of the tile's.
#[inline]
unsafe fn pair_rows(tile: &Int8Tile<'_>, pair: usize) -> [*const u8; UNIT] {
    [0, 1].map(|row| {
        let row = (UNIT * pair + row).min(tile.rows - 1);
        // SAFETY: the row is one of the tile's.
        unsafe { tile.a.as_ptr().add(row * tile.a_stride) }
    })
}

/// The weights of [`COLUMNS`] columns in one step: four inputs in each lane.
///
/// # Safety
///
/// The machine must have NEON, the step must be one of the tile's, and the columns must lie within the panel.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn read(tile: &Int8Tile<'_>, step: usize, column: usize) -> [Lanes; 2] {
    // SAFETY: the caller guarantees that the weights are there.
    unsafe {
        let b = tile.b.as_ptr().add(step * tile.b_stride + column * STEP);
        [
            vld1q_u32(b.cast()),
            vld1q_u32(b.add(STEP * REGISTER).cast()),
        ]
    }
}

/// Four lanes of four inputs.
type Lanes = std::arch::aarch64::uint32x4_t;

/// Joins the inputs of each column of two steps.
#[inline]
#[target_feature(enable = "neon")]
fn interleaved(first: [Lanes; 2], second: [Lanes; 2]) -> [Lanes; PAIRS] {
    [
        vzip1q_u32(first[0], second[0]),
        vzip2q_u32(first[0], second[0]),
        vzip1q_u32(first[1], second[1]),
        vzip2q_u32(first[1], second[1]),
    ]
}

/// Adds the products of two rows of states.
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn multiply(sums: &mut Sums, states: uint8x16_t, weights: &[Lanes; PAIRS]) {
    for (sums, weights) in sums.iter_mut().zip(weights) {
        // The intrinsic `vusmmlaq_s32` is not stable yet.
        // SAFETY: the instruction reads and writes these registers only.
        unsafe {
            asm!(
                "usmmla {sums:v}.4s, {states:v}.16b, {weights:v}.16b",
                sums = inout(vreg) *sums,
                states = in(vreg) states,
                weights = in(vreg) *weights,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
    }
}

/// The sums of the first row of a pair, column after column.
#[inline]
#[target_feature(enable = "neon")]
fn first_row(sums: Sums) -> [int32x4_t; 2] {
    let [a, b, c, d] = sums.map(|it| vreinterpretq_s64_s32(it));
    [vzip1q_s64(a, b), vzip1q_s64(c, d)].map(|it| vreinterpretq_s32_s64(it))
}

/// The sums of the second row of a pair, column after column.
#[inline]
#[target_feature(enable = "neon")]
fn second_row(sums: Sums) -> [int32x4_t; 2] {
    let [a, b, c, d] = sums.map(|it| vreinterpretq_s64_s32(it));
    [vzip2q_s64(a, b), vzip2q_s64(c, d)].map(|it| vreinterpretq_s32_s64(it))
}
