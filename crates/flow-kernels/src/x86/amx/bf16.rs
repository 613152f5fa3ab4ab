//! Tiles of bf16.

use super::multiply::{self, BF16, Operands};
use crate::tile::Tile;

/// Computes a tile of up to [`super::ROWS`] rows.
///
/// # Safety
///
/// [`super::is_allowed`] must have returned true, and [`Tile::check`] must have passed. The weights must be packed side by
/// side for a whole panel.
pub(crate) unsafe fn tile_bf16(tile: &mut Tile<'_, u16>) {
    let operands = operands(tile);
    // SAFETY: `Tile::check` verified the operands.
    unsafe { BF16.run(operands) };
}

/// Computes the tiles of the same rows with several panels.
///
/// # Safety
///
/// As for [`tile_bf16`], for each of the panels. There must be at least one.
pub(crate) unsafe fn panels_bf16(tile: &mut Tile<'_, u16>, panels: usize) {
    let operands = operands(tile);
    // SAFETY: the caller verified the operands of each panel.
    unsafe { multiply::panels_bf16(operands, panels) };
}

fn operands(tile: &mut Tile<'_, u16>) -> Operands {
    Operands {
        rows: tile.rows,
        k: tile.k,
        a: tile.a.as_ptr().cast(),
        a_stride: tile.a_stride * size_of::<u16>(),
        b: tile.b.as_ptr().cast(),
        first: tile.bias.as_ptr().cast(),
        ahead: tile.ahead,
        c: tile.c.as_mut_ptr().cast(),
        c_stride: tile.c_stride * size_of::<f32>(),
    }
}
