//! The products of tiles.

use std::arch::asm;

use super::{STEP_BYTES, TILE_ROWS, TILE_STEPS, configure};
use crate::tile::PANEL;

/// Bytes of a step in a panel of weights.
const WEIGHTS_STRIDE: usize = PANEL * STEP_BYTES;

/// What a tile reads and writes. Strides are in bytes.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub(super) rows: usize,
    /// Number of steps.
    pub(super) k: usize,
    /// States.
    pub(super) a: *const u8,
    pub(super) a_stride: usize,
    /// Weights.
    pub(super) b: *const u8,
    /// What sums begin with, in each row.
    pub(super) first: *const u8,
    /// Which part of the next panel to prefetch, if any.
    pub(super) ahead: Option<usize>,
    /// Sums.
    pub(super) c: *mut u8,
    pub(super) c_stride: usize,
}

/// Cache lines that each group of steps prefetches. Four tiles prefetch the next panel.
const PREFETCH_LINES: usize = 8;
const PREFETCH_BYTES: usize = PREFETCH_LINES * 64;

/// A block of assembly that multiplies.
///
/// # Safety
///
/// As for [`Product::run`], and the tile registers must be configured for the operands.
type MultiplyFn = unsafe fn(Steps);

/// The products of one format.
#[derive(Clone, Copy)]
pub(super) struct Product {
    /// Multiplies more than sixteen rows.
    both: MultiplyFn,
    /// Multiplies up to sixteen rows.
    upper: MultiplyFn,
}

/// What one block of assembly reads and writes.
#[derive(Clone, Copy)]
struct Steps {
    operands: Operands,
    /// What sums begin with.
    start: *const u8,
    /// Bytes from one row of it to the next.
    start_stride: usize,
    /// Number of groups of steps; at least 1.
    groups: usize,
    /// What the groups prefetch, one after the other.
    prefetch: *const u8,
}

impl Operands {
    /// What the first group of steps prefetches: a part of the next panel, so that all tiles of this one together prefetch it
    /// while they compute. Without a next panel, it is these weights.
    #[inline(always)]
    fn prefetched(&self) -> *const u8 {
        let Some(part) = self.ahead else {
            return self.b;
        };
        let panel = self.k * WEIGHTS_STRIDE;
        let bytes = self.k / TILE_STEPS * PREFETCH_BYTES;
        self.b.wrapping_add(panel + part * bytes)
    }
}

impl Product {
    /// Adds all products to what sums begin with, and writes the sums.
    ///
    /// # Safety
    ///
    /// AMX must be available. `a` must have `rows` rows of `k` steps, `b` must have `k` steps of a panel, `first` the values
    /// of a panel, and `c` `rows` rows of a panel. There must be at least one row.
    #[inline(always)]
    pub(super) unsafe fn run(self, operands: Operands) {
        let whole = operands.k / TILE_STEPS * TILE_STEPS;
        // SAFETY: the caller guarantees it for all steps, of which each call multiplies some.
        unsafe {
            self.range(operands, 0, (whole / TILE_STEPS, TILE_STEPS));
            self.range(
                operands,
                whole,
                (usize::from(whole < operands.k), operands.k - whole),
            );
        }
    }

    /// Adds the products of `groups` groups of `steps` steps, beginning with step `begin`.
    ///
    /// # Safety
    ///
    /// As for [`Self::run`], for these steps.
    #[inline(always)]
    unsafe fn range(self, operands: Operands, begin: usize, (groups, steps): (usize, usize)) {
        if groups == 0 {
            return;
        }
        let is_first = begin == 0;
        let part = Steps {
            start: if is_first { operands.first } else { operands.c },
            start_stride: if is_first { 0 } else { operands.c_stride },
            groups,
            prefetch: operands.prefetched(),
            operands: Operands {
                a: operands.a.wrapping_add(begin * STEP_BYTES),
                b: operands.b.wrapping_add(begin * WEIGHTS_STRIDE),
                ..operands
            },
        };
        // SAFETY: the tile registers are configured for the operands. Only a tile of more than sixteen rows has lower rows.
        unsafe {
            configure(operands.rows, steps);
            if operands.rows > TILE_ROWS {
                (self.both)(part);
            } else {
                (self.upper)(part);
            }
        }
    }
}

/// Defines the products of an instruction.
macro_rules! product {
    ($name:ident, $instruction:literal) => {
        pub(super) const $name: Product = {
            /// The sums are registers 0 to 3.
            ///
            /// # Safety
            ///
            /// As for [`Product::run`], with rows beyond the sixteenth. The tile registers must be configured.
            #[inline(always)]
            unsafe fn both(steps: Steps) {
                let Operands {
                    a,
                    a_stride,
                    b,
                    c,
                    c_stride,
                    ..
                } = steps.operands;
                // SAFETY: the block reads states, weights and first sums, and writes sums, all of which the caller has
                // checked. It jumps only to its own label, and declares all registers that it changes.
                unsafe {
                    asm!(
                        "tileloadd tmm0, [{start} + {start_stride}]",
                        "tileloadd tmm1, [{start} + {start_stride} + 64]",
                        "add {start}, {start_lower}",
                        "tileloadd tmm2, [{start} + {start_stride}]",
                        "tileloadd tmm3, [{start} + {start_stride} + 64]",
                        "2:",
                        "tileloadd tmm6, [{b} + {b_stride}]",
                        "tileloadd tmm4, [{a} + {a_stride}]",
                        "tileloadd tmm7, [{b} + {b_stride} + 64]",
                        concat!($instruction, " tmm0, tmm4, tmm6"),
                        "prefetcht1 [{prefetch}]",
                        "prefetcht1 [{prefetch} + 64]",
                        "prefetcht1 [{prefetch} + 128]",
                        "prefetcht1 [{prefetch} + 192]",
                        "tileloadd tmm5, [{a_lower} + {a_stride}]",
                        concat!($instruction, " tmm1, tmm4, tmm7"),
                        "prefetcht1 [{prefetch} + 256]",
                        "prefetcht1 [{prefetch} + 320]",
                        "prefetcht1 [{prefetch} + 384]",
                        "prefetcht1 [{prefetch} + 448]",
                        "add {prefetch}, {prefetch_bytes}",
                        concat!($instruction, " tmm2, tmm5, tmm6"),
                        concat!($instruction, " tmm3, tmm5, tmm7"),
                        "add {a}, 64",
                        "add {a_lower}, 64",
                        "add {b}, {b_group}",
                        "dec {groups}",
                        "jnz 2b",
                        "tilestored [{c} + {c_stride}], tmm0",
                        "tilestored [{c} + {c_stride} + 64], tmm1",
                        // The lower rows of the sums.
                        "mov {start}, {c_stride}",
                        "shl {start}, 4",
                        "add {start}, {c}",
                        "tilestored [{start} + {c_stride}], tmm2",
                        "tilestored [{start} + {c_stride} + 64], tmm3",
                        start = inout(reg) steps.start => _,
                        start_stride = in(reg) steps.start_stride,
                        start_lower = in(reg) TILE_ROWS * steps.start_stride,
                        prefetch = inout(reg) steps.prefetch => _,
                        prefetch_bytes = const PREFETCH_BYTES,
                        a = inout(reg) a => _,
                        a_lower = inout(reg) a.wrapping_add(TILE_ROWS * a_stride) => _,
                        a_stride = in(reg) a_stride,
                        b = inout(reg) b => _,
                        b_stride = in(reg) WEIGHTS_STRIDE,
                        b_group = const TILE_STEPS * WEIGHTS_STRIDE,
                        c = in(reg) c,
                        c_stride = in(reg) c_stride,
                        groups = inout(reg) steps.groups => _,
                        out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                        out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                        options(nostack),
                    );
                }
            }

            /// The sums are registers 0 and 1.
            ///
            /// # Safety
            ///
            /// As for [`Product::run`]. The tile registers must be configured.
            #[inline(always)]
            unsafe fn upper(steps: Steps) {
                let Operands {
                    a,
                    a_stride,
                    b,
                    c,
                    c_stride,
                    ..
                } = steps.operands;
                // SAFETY: as for `both`.
                unsafe {
                    asm!(
                        "tileloadd tmm0, [{start} + {start_stride}]",
                        "tileloadd tmm1, [{start} + {start_stride} + 64]",
                        "2:",
                        "tileloadd tmm6, [{b} + {b_stride}]",
                        "tileloadd tmm4, [{a} + {a_stride}]",
                        "tileloadd tmm7, [{b} + {b_stride} + 64]",
                        concat!($instruction, " tmm0, tmm4, tmm6"),
                        concat!($instruction, " tmm1, tmm4, tmm7"),
                        "add {a}, 64",
                        "add {b}, {b_group}",
                        "dec {groups}",
                        "jnz 2b",
                        "tilestored [{c} + {c_stride}], tmm0",
                        "tilestored [{c} + {c_stride} + 64], tmm1",
                        start = in(reg) steps.start,
                        start_stride = in(reg) steps.start_stride,
                        a = inout(reg) a => _,
                        a_stride = in(reg) a_stride,
                        b = inout(reg) b => _,
                        b_stride = in(reg) WEIGHTS_STRIDE,
                        b_group = const TILE_STEPS * WEIGHTS_STRIDE,
                        c = in(reg) c,
                        c_stride = in(reg) c_stride,
                        groups = inout(reg) steps.groups => _,
                        out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                        out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                        options(nostack),
                    );
                }
            }

            Product { both, upper }
        };
    };
}

// Products of pairs of bf16, with sums in 32-bit floats.
product!(BF16, "tdpbf16ps");
// Products of four unsigned integers (states) and four signed ones (weights), with sums in 32-bit integers.
product!(INT8, "tdpbusd");

/// Multiplies the same rows by several panels of at most [`TILE_STEPS`] steps of bf16. Sums begin with zeros, and those of one panel
/// lie beside those of the next.
///
/// # Safety
///
/// As for [`Product::run`], for each panel. There must be at least one panel and one step.
pub(super) unsafe fn panels_bf16(operands: Operands, panels: usize) {
    // SAFETY: the tile registers are configured for the operands.
    unsafe {
        configure(operands.rows, operands.k);
        if operands.rows > TILE_ROWS {
            panels_both(operands, panels);
        } else {
            panels_upper(operands, panels);
        }
    }
}

/// [`panels_bf16`] for more than sixteen rows.
///
/// # Safety
///
/// As for [`panels_bf16`]. The tile registers must be configured.
#[inline(always)]
unsafe fn panels_both(operands: Operands, panels: usize) {
    // SAFETY: the block reads states and weights, and writes sums, all of which the caller has checked. It jumps only to its
    // own label, and declares all registers that it changes.
    unsafe {
        asm!(
            "tileloadd tmm4, [{a} + {a_stride}]",
            "tileloadd tmm5, [{a_lower} + {a_stride}]",
            "2:",
            "tileloadd tmm6, [{b} + {b_stride}]",
            "tileloadd tmm7, [{b} + {b_stride} + 64]",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tilestored [{c} + {c_stride}], tmm0",
            "tilestored [{c_lower} + {c_stride}], tmm2",
            "tilestored [{c} + {c_stride} + 64], tmm1",
            "tilestored [{c_lower} + {c_stride} + 64], tmm3",
            "add {b}, {panel}",
            "add {c}, 128",
            "add {c_lower}, 128",
            "dec {panels}",
            "jnz 2b",
            a = in(reg) operands.a,
            a_lower = in(reg) operands.a.wrapping_add(TILE_ROWS * operands.a_stride),
            a_stride = in(reg) operands.a_stride,
            b = inout(reg) operands.b => _,
            b_stride = in(reg) WEIGHTS_STRIDE,
            panel = in(reg) operands.k * WEIGHTS_STRIDE,
            c = inout(reg) operands.c => _,
            c_lower = inout(reg) operands.c.wrapping_add(TILE_ROWS * operands.c_stride) => _,
            c_stride = in(reg) operands.c_stride,
            panels = inout(reg) panels => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

/// [`panels_bf16`] for up to sixteen rows.
///
/// # Safety
///
/// As for [`panels_bf16`]. The tile registers must be configured.
#[inline(always)]
unsafe fn panels_upper(operands: Operands, panels: usize) {
    // SAFETY: as for `panels_both`.
    unsafe {
        asm!(
            "tileloadd tmm4, [{a} + {a_stride}]",
            "2:",
            "tileloadd tmm6, [{b} + {b_stride}]",
            "tileloadd tmm7, [{b} + {b_stride} + 64]",
            "tilezero tmm0",
            "tilezero tmm1",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tilestored [{c} + {c_stride}], tmm0",
            "tilestored [{c} + {c_stride} + 64], tmm1",
            "add {b}, {panel}",
            "add {c}, 128",
            "dec {panels}",
            "jnz 2b",
            a = in(reg) operands.a,
            a_stride = in(reg) operands.a_stride,
            b = inout(reg) operands.b => _,
            b_stride = in(reg) WEIGHTS_STRIDE,
            panel = in(reg) operands.k * WEIGHTS_STRIDE,
            c = inout(reg) operands.c => _,
            c_stride = in(reg) operands.c_stride,
            panels = inout(reg) panels => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
