//! Tiles in plain Rust: for machines without any of the other back ends' instructions, and what those are
//! compared with.

use crate::bf16;
use crate::tile::{PANEL, Tile};

/// Rows of a tile.
pub(crate) const ROWS: usize = 4;

/// Columns whose sums fit the sixteen registers that every x86-64 and ARM has.
const COLUMNS: usize = 8;

/// A tile of 32-bit floats.
pub(crate) fn exact(tile: &mut Tile<'_, f32>) {
    for row in 0..tile.rows {
        let a = &tile.a[row * tile.a_stride..][..tile.k];
        for column in (0..PANEL).step_by(COLUMNS) {
            let mut sums = [0.0; COLUMNS];
            sums.copy_from_slice(&tile.bias[column..][..COLUMNS]);
            for (step, value) in a.iter().enumerate() {
                let b = &tile.b[step * tile.b_stride + column..][..COLUMNS];
                for (sum, weight) in sums.iter_mut().zip(b) {
                    *sum += value * weight;
                }
            }
            tile.c[row * tile.c_stride + column..][..COLUMNS].copy_from_slice(&sums);
        }
    }
}

/// A tile of bf16.
pub(crate) fn rounded(tile: &mut Tile<'_, u16>) {
    for row in 0..tile.rows {
        let a = &tile.a[row * tile.a_stride..][..tile.k * 2];
        for column in (0..PANEL).step_by(COLUMNS) {
            let mut sums = [0.0; COLUMNS];
            sums.copy_from_slice(&tile.bias[column..][..COLUMNS]);
            for (step, pair) in a.as_chunks::<2>().0.iter().enumerate() {
                let b = &tile.b[step * tile.b_stride + column * 2..][..COLUMNS * 2];
                let (first, second) = (bf16::widen(pair[0]), bf16::widen(pair[1]));
                for (sum, weights) in sums.iter_mut().zip(b.as_chunks::<2>().0) {
                    *sum += first * bf16::widen(weights[0]) + second * bf16::widen(weights[1]);
                }
            }
            tile.c[row * tile.c_stride + column..][..COLUMNS].copy_from_slice(&sums);
        }
    }
}
