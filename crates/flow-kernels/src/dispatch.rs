//! The table of back ends: what each brings.

use crate::elementwise::{self, Elementwise};
use crate::portable;
use crate::tile::{PANEL, TileFn};

/// A back end's functions.
///
/// A row of the table may be used where its instructions are: see [`crate::BackEnd::choose`], the only way
/// to one.
pub(crate) struct Table {
    /// Tiles of 32-bit floats.
    pub(crate) exact: TileFn<f32>,
    /// How many rows such a tile can have.
    pub(crate) exact_rows: usize,
    /// How many columns of their weights it reads side by side.
    pub(crate) exact_columns: usize,
    /// Tiles of bf16.
    pub(crate) rounded: TileFn<u16>,
    /// How many rows such a tile can have.
    pub(crate) rounded_rows: usize,
    /// How many columns of their weights it reads side by side.
    pub(crate) rounded_columns: usize,
    /// Called by each thread after its last tile of a product.
    pub(crate) done: fn(),
    pub(crate) elementwise: Elementwise,
}

pub(crate) static PORTABLE: Table = Table {
    exact: portable::exact,
    exact_rows: portable::ROWS,
    exact_columns: PANEL,
    rounded: portable::rounded,
    rounded_rows: portable::ROWS,
    rounded_columns: PANEL,
    done: nothing,
    elementwise: elementwise::portable::TABLE,
};

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{AMX, AVX2, AVX512, AVX512_BF16};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{PANEL, Table, nothing};
    use crate::elementwise::{self, Elementwise};
    use crate::x86::{amx, avx2, avx2_bf16, avx512, avx512_bf16};

    pub(crate) static AVX2: Table = Table {
        exact: avx2::exact,
        exact_rows: avx2::ROWS,
        exact_columns: avx2::COLUMNS,
        rounded: avx2_bf16::rounded,
        rounded_rows: avx2::ROWS,
        rounded_columns: avx2::COLUMNS,
        done: nothing,
        elementwise: elementwise::avx2::TABLE,
    };

    pub(crate) static AVX512: Table = Table {
        exact: avx512::exact,
        exact_rows: avx512::ROWS,
        exact_columns: PANEL,
        elementwise: elementwise::avx512::TABLE,
        ..AVX2
    };

    pub(crate) static AVX512_BF16: Table = Table {
        rounded: avx512_bf16::rounded,
        rounded_rows: avx512_bf16::ROWS,
        rounded_columns: PANEL,
        elementwise: Elementwise {
            round: avx512_bf16::round,
            ..elementwise::avx512::TABLE
        },
        ..AVX512
    };

    pub(crate) static AMX: Table = Table {
        rounded: amx::rounded,
        rounded_rows: amx::ROWS,
        rounded_columns: PANEL,
        done: amx::release,
        ..AVX512_BF16
    };
}

#[cfg(target_arch = "aarch64")]
pub(crate) static NEON: Table = Table {
    exact: crate::neon::exact,
    exact_rows: crate::neon::ROWS,
    exact_columns: PANEL,
    rounded: portable::rounded,
    rounded_rows: portable::ROWS,
    rounded_columns: PANEL,
    done: nothing,
    elementwise: elementwise::neon::TABLE,
};

fn nothing() {}
