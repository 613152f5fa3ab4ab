//! Tiles in plain Rust, for machines without any of the other instruction sets, and as a reference for those.

use crate::bf16;
use crate::int8::{Int8Tile, STEP};
use crate::tile::{PANEL, Tile};

/// Maximum rows of a tile.
pub(crate) const ROWS: usize = 4;

/// Columns summed at once: their sums fit into the sixteen vector registers that every x86-64 and ARM processor has.
const COLUMNS: usize = 8;

/// Computes a tile of 32-bit floats.
pub(crate) fn tile_f32(tile: &mut Tile<'_, f32>) {
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

/// Computes a tile of bf16.
pub(crate) fn tile_bf16(tile: &mut Tile<'_, u16>) {
    for row in 0..tile.rows {
        let a = &tile.a[row * tile.a_stride..][..tile.k * 2];
        for column in (0..PANEL).step_by(COLUMNS) {
            let mut sums = [0.0; COLUMNS];
            sums.copy_from_slice(&tile.bias[column..][..COLUMNS]);
            for (step, pair) in a.as_chunks::<2>().0.iter().enumerate() {
                let b = &tile.b[step * tile.b_stride + column * 2..][..COLUMNS * 2];
                let (first, second) = (bf16::to_f32(pair[0]), bf16::to_f32(pair[1]));
                for (sum, weights) in sums.iter_mut().zip(b.as_chunks::<2>().0) {
                    *sum += first * bf16::to_f32(weights[0]) + second * bf16::to_f32(weights[1]);
                }
            }
            tile.c[row * tile.c_stride + column..][..COLUMNS].copy_from_slice(&sums);
        }
    }
}

/// Computes a tile of 8-bit integers.
pub(crate) fn tile_int8(tile: &mut Int8Tile<'_>) {
    let columns = tile.columns;
    for row in 0..tile.rows {
        let a = &tile.a[row * tile.a_stride..][..tile.k * STEP];
        let row_scale = tile.row_scales[row];
        let mut sums = columns.sums.map(|sum| -row_scale.zero * sum);
        for (step, values) in a.as_chunks::<STEP>().0.iter().enumerate() {
            let b = &tile.b[step * tile.b_stride..][..PANEL * STEP];
            for (sum, weights) in sums.iter_mut().zip(b.as_chunks::<STEP>().0) {
                for (value, weight) in values.iter().zip(weights) {
                    *sum += i32::from(*value) * i32::from(*weight);
                }
            }
        }
        let c = &mut tile.c[row * tile.c_stride..][..PANEL];
        for (column, (c, sum)) in c.iter_mut().zip(sums).enumerate() {
            *c = sum as f32 * (row_scale.scale * columns.scales[column]) + tile.bias[column];
        }
    }
}
