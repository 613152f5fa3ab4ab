//! The dispatch tables: the functions of each instruction set.

use crate::elementwise::{self, Elementwise};
use crate::int8::Int8TileFn;
use crate::portable;
use crate::tile::{PANEL, TileFn};
#[cfg(target_arch = "x86_64")]
use crate::x86::{
    amx, avx_vnni, avx2, avx2_bf16, avx2_int8, avx2_quantize, avx512, avx512_bf16, avx512_quantize,
    avx512_vnni,
};

/// The functions of an instruction set.
///
/// They may be called only on a machine that has the instructions. [`crate::Kernels::select`] checks that.
pub(crate) struct DispatchTable {
    /// Computes a tile of 32-bit floats.
    pub(crate) tile_f32: TileFn<f32>,
    /// Maximum rows of such a tile.
    pub(crate) rows_f32: usize,
    /// Columns of weights that such a tile reads side by side.
    pub(crate) columns_f32: usize,
    /// Computes a tile of bf16.
    pub(crate) tile_bf16: TileFn<u16>,
    /// Maximum rows of such a tile.
    pub(crate) rows_bf16: usize,
    /// Columns of weights that such a tile reads side by side.
    pub(crate) columns_bf16: usize,
    /// Computes a tile of 8-bit integers.
    pub(crate) tile_int8: Int8TileFn,
    /// Maximum rows of such a tile.
    pub(crate) rows_int8: usize,
    /// Columns of weights that such a tile reads side by side.
    pub(crate) columns_int8: usize,
    /// Called by each thread after the last tile of a product.
    pub(crate) finish: fn(),
    pub(crate) elementwise: Elementwise,
}

pub(crate) static PORTABLE: DispatchTable = DispatchTable {
    tile_f32: portable::tile_f32,
    rows_f32: portable::ROWS,
    columns_f32: PANEL,
    tile_bf16: portable::tile_bf16,
    rows_bf16: portable::ROWS,
    columns_bf16: PANEL,
    tile_int8: portable::tile_int8,
    rows_int8: portable::ROWS,
    columns_int8: PANEL,
    finish: no_op,
    elementwise: elementwise::portable::TABLE,
};

#[cfg(target_arch = "x86_64")]
pub(crate) static AVX2: DispatchTable = DispatchTable {
    tile_f32: avx2::tile_f32,
    rows_f32: avx2::ROWS,
    columns_f32: avx2::COLUMNS,
    tile_bf16: avx2_bf16::tile_bf16,
    rows_bf16: avx2::ROWS,
    columns_bf16: avx2::COLUMNS,
    tile_int8: avx2_int8::tile_int8,
    rows_int8: avx2_int8::ROWS,
    columns_int8: avx2::COLUMNS,
    finish: no_op,
    elementwise: Elementwise {
        quantize: avx2_quantize::quantize,
        ..elementwise::avx2::TABLE
    },
};

#[cfg(target_arch = "x86_64")]
pub(crate) static AVX_VNNI: DispatchTable = DispatchTable {
    tile_int8: avx_vnni::tile_int8,
    rows_int8: avx_vnni::ROWS,
    columns_int8: avx2::COLUMNS,
    ..AVX2
};

#[cfg(target_arch = "x86_64")]
pub(crate) static AVX512: DispatchTable = DispatchTable {
    tile_f32: avx512::tile_f32,
    rows_f32: avx512::ROWS,
    columns_f32: PANEL,
    elementwise: Elementwise {
        quantize: avx512_quantize::quantize,
        ..elementwise::avx512::TABLE
    },
    ..AVX2
};

#[cfg(target_arch = "x86_64")]
pub(crate) static AVX512_VNNI: DispatchTable = DispatchTable {
    tile_int8: avx512_vnni::tile_int8,
    rows_int8: avx512_vnni::ROWS,
    columns_int8: PANEL,
    ..AVX512
};

#[cfg(target_arch = "x86_64")]
pub(crate) static AVX512_BF16: DispatchTable = DispatchTable {
    tile_bf16: avx512_bf16::tile_bf16,
    rows_bf16: avx512_bf16::ROWS,
    columns_bf16: PANEL,
    elementwise: Elementwise {
        round: avx512_bf16::round,
        ..AVX512.elementwise
    },
    ..AVX512_VNNI
};

#[cfg(target_arch = "x86_64")]
pub(crate) static AMX: DispatchTable = DispatchTable {
    tile_bf16: amx::tile_bf16,
    rows_bf16: amx::ROWS,
    columns_bf16: PANEL,
    finish: amx::release,
    ..AVX512_BF16
};

#[cfg(target_arch = "aarch64")]
pub(crate) static NEON: DispatchTable = DispatchTable {
    tile_f32: crate::neon::tile_f32,
    rows_f32: crate::neon::ROWS,
    columns_f32: PANEL,
    tile_bf16: portable::tile_bf16,
    rows_bf16: portable::ROWS,
    columns_bf16: PANEL,
    tile_int8: portable::tile_int8,
    rows_int8: portable::ROWS,
    columns_int8: PANEL,
    finish: no_op,
    elementwise: elementwise::neon::TABLE,
};

fn no_op() {}
