//! The dispatch tables: the functions of each instruction set.

use crate::elementwise::{self, Elementwise};
use crate::int8::Int8TileFn;
use crate::keys::{TransposeKeysFn, transpose_keys};
#[cfg(target_arch = "aarch64")]
use crate::neon;
use crate::portable;
use crate::tile::{PANEL, PanelsFn, TileFn};
#[cfg(target_arch = "x86_64")]
use crate::x86::{
    amx, avx_vnni, avx2, avx2_bf16, avx2_int8, avx2_quantize, avx512, avx512_bf16, avx512_gelu,
    avx512_keys, avx512_quantize, avx512_softmax, avx512_vnni, avx512_widened,
};

/// A kernel that computes tiles of one format.
#[derive(Clone, Copy)]
pub(crate) struct TileKernel<F> {
    pub(crate) tile: F,
    /// Maximum rows of a tile.
    pub(crate) rows: usize,
    /// Rows that take as long as one: tiles have a multiple of it, as far as there are rows.
    pub(crate) unit: usize,
    /// Columns of weights that a tile reads side by side.
    pub(crate) columns: usize,
    /// Steps that are multiplied at once. Other numbers of steps are allowed, but cost more.
    pub(crate) steps: usize,
}

/// The functions of an instruction set.
///
/// They may be called only on a machine that has the instructions. [`crate::Kernels::select`] checks that.
pub(crate) struct DispatchTable {
    /// Computes tiles of 32-bit floats.
    pub(crate) f32: TileKernel<TileFn<f32>>,
    /// Computes tiles of bf16.
    pub(crate) bf16: TileKernel<TileFn<u16>>,
    /// Computes tiles of bf16 for several panels, if that is faster than one after the other.
    pub(crate) panels_bf16: Option<PanelsFn>,
    /// Computes tiles of 8-bit integers.
    pub(crate) int8: TileKernel<Int8TileFn>,
    pub(crate) transpose_keys: TransposeKeysFn,
    /// Called by each thread after the last tile of a product.
    pub(crate) finish: fn(),
    pub(crate) elementwise: Elementwise,
}

/// A kernel whose tiles may have any number of rows up to `rows`.
const fn kernel<F: Copy>(tile: F, rows: usize, columns: usize) -> TileKernel<F> {
    TileKernel {
        tile,
        rows,
        unit: 1,
        columns,
        steps: 1,
    }
}

/// A kernel whose tiles are multiplied sixteen rows at a time.
#[cfg(target_arch = "x86_64")]
const fn amx_kernel<F: Copy>(tile: F) -> TileKernel<F> {
    TileKernel {
        tile,
        rows: amx::ROWS,
        unit: amx::TILE_ROWS,
        columns: PANEL,
        steps: amx::TILE_STEPS,
    }
}

pub(crate) static PORTABLE: DispatchTable = DispatchTable {
    f32: kernel(portable::tile_f32, portable::ROWS, PANEL),
    bf16: kernel(portable::tile_bf16, portable::ROWS, PANEL),
    panels_bf16: None,
    int8: kernel(portable::tile_int8, portable::ROWS, PANEL),
    transpose_keys,
    finish: no_op,
    elementwise: elementwise::portable::TABLE,
};

#[cfg(target_arch = "x86_64")]
pub(crate) static AVX2: DispatchTable = DispatchTable {
    f32: kernel(avx2::tile_f32, avx2::ROWS, avx2::COLUMNS),
    bf16: kernel(avx2_bf16::tile_bf16, avx2::ROWS, avx2::COLUMNS),
    panels_bf16: None,
    int8: kernel(avx2_int8::tile_int8, avx2_int8::ROWS, avx2::COLUMNS),
    transpose_keys,
    finish: no_op,
    elementwise: Elementwise {
        quantize: avx2_quantize::quantize,
        ..elementwise::avx2::TABLE
    },
};

#[cfg(target_arch = "x86_64")]
pub(crate) static AVX_VNNI: DispatchTable = DispatchTable {
    int8: kernel(avx_vnni::tile_int8, avx_vnni::ROWS, avx2::COLUMNS),
    ..AVX2
};

#[cfg(target_arch = "x86_64")]
pub(crate) static AVX512: DispatchTable = DispatchTable {
    f32: kernel(avx512::tile_f32, avx512::ROWS, PANEL),
    bf16: kernel(avx512_widened::tile_bf16, avx512_widened::ROWS, PANEL),
    transpose_keys: avx512_keys::transpose_keys,
    elementwise: Elementwise {
        gelu: avx512_gelu::gelu,
        quantize: avx512_quantize::quantize,
        ..elementwise::avx512::TABLE
    },
    ..AVX2
};

#[cfg(target_arch = "x86_64")]
pub(crate) static AVX512_VNNI: DispatchTable = DispatchTable {
    int8: kernel(avx512_vnni::tile_int8, avx512_vnni::ROWS, PANEL),
    ..AVX512
};

#[cfg(target_arch = "x86_64")]
pub(crate) static AVX512_BF16: DispatchTable = DispatchTable {
    bf16: kernel(avx512_bf16::tile_bf16, avx512_bf16::ROWS, PANEL),
    elementwise: Elementwise {
        round: avx512_bf16::round,
        gelu_bf16: Some(avx512_gelu::gelu_bf16),
        weigh_bf16: avx512_softmax::weigh_bf16,
        ..AVX512.elementwise
    },
    ..AVX512_VNNI
};

#[cfg(target_arch = "x86_64")]
pub(crate) static AMX: DispatchTable = DispatchTable {
    bf16: amx_kernel(amx::tile_bf16),
    panels_bf16: Some(amx::panels_bf16),
    int8: amx_kernel(amx::tile_int8),
    finish: amx::release,
    ..AVX512_BF16
};

#[cfg(target_arch = "aarch64")]
pub(crate) static NEON: DispatchTable = DispatchTable {
    f32: kernel(neon::tile_f32, neon::ROWS, PANEL),
    bf16: kernel(portable::tile_bf16, portable::ROWS, PANEL),
    panels_bf16: None,
    int8: kernel(portable::tile_int8, portable::ROWS, PANEL),
    transpose_keys,
    finish: no_op,
    elementwise: elementwise::neon::TABLE,
};

#[cfg(target_arch = "aarch64")]
pub(crate) static NEON_DOTPROD: DispatchTable = DispatchTable {
    int8: kernel(neon::tile_dotprod, neon::DOTPROD_ROWS, PANEL),
    ..NEON
};

#[cfg(target_arch = "aarch64")]
pub(crate) static NEON_I8MM: DispatchTable = DispatchTable {
    int8: TileKernel {
        unit: neon::I8MM_UNIT,
        ..kernel(neon::tile_i8mm as Int8TileFn, neon::I8MM_ROWS, PANEL)
    },
    ..NEON_DOTPROD
};

fn no_op() {}
