//! Tiles of bf16 with AMX: four tile registers hold 32 rows by 32 columns of sums. Each step of sixteen pairs loads
//! two tiles of states and two of weights, and multiplies them in four instructions.
//!
//! The instructions are inline assembly because Rust's intrinsics for AMX are unstable. The panels of
//! [`crate::PackedWeights`] are laid out as `tdpbf16ps` reads them: a row of a tile of weights is one step of sixteen
//! outputs.
//!
//! # Which state lives where
//!
//! Rust's rules for inline assembly say that a register holds an undefined value when a block begins, unless it is an
//! operand of that block, and that a block must declare every register that it changes. Tile registers can be declared
//! as clobbers only. Therefore:
//!
//! - Sums stay in tile registers only within one `asm!` block: it loads them, adds all products, and stores them.
//! - Every block that changes tile registers declares all eight as clobbers.
//!
//! The tile *configuration* does outlive a block, because loading it takes about 200 cycles, a quarter of the time of
//! a tile of 384 inputs. It is not a register that `asm!` can name; the System V ABI treats it as caller-saved, so
//! only code that uses AMX can change it. Between the first tile of a product and [`release`], a thread runs this
//! crate's code only, and only this file uses AMX.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::tile::{PANEL, Tile};

/// Maximum rows of a tile: two tile registers.
pub(crate) const ROWS: usize = 32;

/// Rows of a tile register.
const TILE_ROWS: usize = 16;
/// Pairs of bf16 in a row of a tile register.
const TILE_PAIRS: usize = 16;
/// Bytes in a row of a tile register.
const ROW_BYTES: u16 = 64;

/// The operand of `ldtilecfg`, as Intel's manual lays it out.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

thread_local! {
    /// The rows and pairs that this thread's tiles are configured for. `None` means not configured.
    static CONFIGURED: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Whether something in this process emulates AMX.
static IS_EMULATED: AtomicBool = AtomicBool::new(false);

/// Makes AMX count as available on a machine without it, if the instruction sets below it are available. For tests
/// that emulate AMX.
///
/// # Safety
///
/// AMX's instructions for tiles of bf16 must work in this process from now on.
pub unsafe fn assume_amx() {
    IS_EMULATED.store(true, Ordering::Relaxed);
}

/// Whether the machine has AMX with bf16 and the operating system lets this process use it.
pub(crate) fn is_allowed() -> bool {
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    if IS_EMULATED.load(Ordering::Relaxed) {
        return true;
    }
    let leaves = __cpuid(0).eax;
    leaves >= 7 && __cpuid_count(7, 0).edx & (BF16 | TILE) == BF16 | TILE && request_permission()
}

/// Asks the kernel to save the tile registers on a context switch. AMX is forbidden to a process until then.
#[cfg(target_os = "linux")]
fn request_permission() -> bool {
    const ARCH_PRCTL: usize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let result: isize;
    // SAFETY: the call changes a permission of this process and writes no memory. `syscall` overwrites `rcx` and
    // `r11`, which are declared.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn request_permission() -> bool {
    false
}

/// Computes a tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// [`is_allowed`] must have returned true, and [`Tile::check`] must have passed.
pub(crate) unsafe fn tile_bf16(tile: &mut Tile<'_, u16>) {
    let whole = tile.k / TILE_PAIRS * TILE_PAIRS;
    copy_bias(tile);
    // SAFETY: the caller guarantees that AMX is available and that the tile was checked. Both ranges of steps lie
    // within the tile's `k`, and each is configured for before it is multiplied.
    unsafe {
        if whole > 0 {
            configure(tile.rows, TILE_PAIRS);
            multiply(tile, 0, whole / TILE_PAIRS);
        }
        if whole < tile.k {
            configure(tile.rows, tile.k - whole);
            multiply(tile, whole, 1);
        }
    }
}

/// Releases this thread's tile registers. Until then, each context switch saves 8 KiB more.
pub(crate) fn release() {
    if CONFIGURED.take().is_some() {
        // SAFETY: this thread has configured its tiles, so AMX is available. The block declares the registers that
        // it clears.
        unsafe {
            asm!(
                "tilerelease",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, nomem),
            );
        }
    }
}

/// Writes the bias to every row of sums.
fn copy_bias(tile: &mut Tile<'_, u16>) {
    for row in 0..tile.rows {
        tile.c[row * tile.c_stride..][..PANEL].copy_from_slice(tile.bias);
    }
}

/// Configures the tile registers for `rows` rows of states and `pairs` pairs in a step, unless they are so already.
///
/// Registers 0 to 3 hold sums, 4 and 5 states, 6 and 7 weights. Of two registers for the same columns, the first holds
/// the upper sixteen rows, the second the lower ones.
///
/// # Safety
///
/// [`is_allowed`] must have returned true.
unsafe fn configure(rows: usize, pairs: usize) {
    if CONFIGURED.replace(Some((rows, pairs))) == Some((rows, pairs)) {
        return;
    }
    let upper = rows.min(TILE_ROWS) as u8;
    // A configured register has at least one row. `multiply_upper` does not use this one.
    let lower = rows.saturating_sub(TILE_ROWS).max(1) as u8;
    let (pairs, state_bytes) = (pairs as u8, pairs as u16 * 4);
    let mut config = TileConfig {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        row_bytes: [0; 16],
        rows: [0; 16],
    };
    config.rows[..8].copy_from_slice(&[upper, upper, lower, lower, upper, lower, pairs, pairs]);
    config.row_bytes[..8].copy_from_slice(&[
        ROW_BYTES,
        ROW_BYTES,
        ROW_BYTES,
        ROW_BYTES,
        state_bytes,
        state_bytes,
        ROW_BYTES,
        ROW_BYTES,
    ]);
    // SAFETY: the instruction reads the 64 bytes of `config`, which describe eight tiles of palette 1, and clears the
    // tile registers, which the block declares.
    unsafe {
        asm!(
            "ldtilecfg [{config}]",
            config = in(reg) &raw const config,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, readonly),
        );
    }
}

/// The memory that one call of [`multiply`] reads and writes. Strides are in bytes.
#[derive(Clone, Copy)]
struct Operands {
    /// States of the upper rows, at the first step.
    a: *const u8,
    a_stride: usize,
    /// Weights of the first step.
    b: *const u8,
    b_stride: usize,
    /// Sums of the upper rows.
    c: *mut u8,
    c_stride: usize,
    /// Number of steps; at least 1.
    steps: usize,
}

/// Adds the products of `steps` steps to the sums, beginning with pair `first`.
///
/// # Safety
///
/// The tile registers must be configured for the tile's rows and for the pairs of each step. The steps must lie within
/// those that [`Tile::check`] verified, and there must be at least one.
unsafe fn multiply(tile: &mut Tile<'_, u16>, first: usize, steps: usize) {
    let operands = Operands {
        a: tile.a.as_ptr().wrapping_add(2 * first).cast(),
        a_stride: tile.a_stride * size_of::<u16>(),
        b: tile.b.as_ptr().wrapping_add(first * tile.b_stride).cast(),
        b_stride: tile.b_stride * size_of::<u16>(),
        c: tile.c.as_mut_ptr().cast(),
        c_stride: tile.c_stride * size_of::<f32>(),
        steps,
    };
    // SAFETY: the configured rows and pairs are those that `Tile::check` found in `a`, `b` and `c`, so the tiles lie
    // within these slices. Only a tile of more than sixteen rows has lower rows.
    unsafe {
        if tile.rows > TILE_ROWS {
            multiply_both(operands);
        } else {
            multiply_upper(operands);
        }
    }
}

/// [`multiply`] for more than sixteen rows: the sums are registers 0 to 3.
///
/// # Safety
///
/// As for [`multiply`], with rows beyond the sixteenth.
unsafe fn multiply_both(operands: Operands) {
    let Operands { a, b, c, steps, .. } = operands;
    let a_lower = a.wrapping_add(TILE_ROWS * operands.a_stride);
    let c_lower = c.wrapping_add(TILE_ROWS * operands.c_stride);
    // SAFETY: the block reads states and weights and writes sums that the caller has checked, jumps only to its own
    // label, and declares all registers that it changes.
    unsafe {
        asm!(
            "tileloadd tmm0, [{c} + {c_stride}]",
            "tileloadd tmm1, [{c} + {c_stride} + 64]",
            "tileloadd tmm2, [{c_lower} + {c_stride}]",
            "tileloadd tmm3, [{c_lower} + {c_stride} + 64]",
            "2:",
            "tileloadd tmm6, [{b} + {b_stride}]",
            "tileloadd tmm4, [{a} + {a_stride}]",
            "tileloadd tmm7, [{b} + {b_stride} + 64]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{a_lower} + {a_stride}]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a}, 64",
            "add {a_lower}, 64",
            "add {b}, {b_step}",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{c} + {c_stride}], tmm0",
            "tilestored [{c} + {c_stride} + 64], tmm1",
            "tilestored [{c_lower} + {c_stride}], tmm2",
            "tilestored [{c_lower} + {c_stride} + 64], tmm3",
            a = inout(reg) a => _,
            a_lower = inout(reg) a_lower => _,
            a_stride = in(reg) operands.a_stride,
            b = inout(reg) b => _,
            b_stride = in(reg) operands.b_stride,
            b_step = in(reg) TILE_PAIRS * operands.b_stride,
            c = in(reg) c,
            c_lower = in(reg) c_lower,
            c_stride = in(reg) operands.c_stride,
            steps = inout(reg) steps => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

/// [`multiply`] for up to sixteen rows: the sums are registers 0 and 1.
///
/// # Safety
///
/// As for [`multiply`].
unsafe fn multiply_upper(operands: Operands) {
    let Operands { a, b, c, steps, .. } = operands;
    // SAFETY: as for `multiply_both`.
    unsafe {
        asm!(
            "tileloadd tmm0, [{c} + {c_stride}]",
            "tileloadd tmm1, [{c} + {c_stride} + 64]",
            "2:",
            "tileloadd tmm6, [{b} + {b_stride}]",
            "tileloadd tmm4, [{a} + {a_stride}]",
            "tileloadd tmm7, [{b} + {b_stride} + 64]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "add {a}, 64",
            "add {b}, {b_step}",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{c} + {c_stride}], tmm0",
            "tilestored [{c} + {c_stride} + 64], tmm1",
            a = inout(reg) a => _,
            a_stride = in(reg) operands.a_stride,
            b = inout(reg) b => _,
            b_stride = in(reg) operands.b_stride,
            b_step = in(reg) TILE_PAIRS * operands.b_stride,
            c = in(reg) c,
            c_stride = in(reg) operands.c_stride,
            steps = inout(reg) steps => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

// The emulator runs AMX on any x86-64 machine with Linux, so these tests need neither AMX nor AVX-512.
#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::{bf16, portable};

    const A_STRIDE: usize = 96;
    const C_STRIDE: usize = PANEL + 3;

    /// Pseudo-random bf16 values between -1 and 1.
    fn values(count: usize, seed: usize) -> Vec<u16> {
        let value = |n: usize| ((n * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0;
        (0..count).map(|n| bf16::from_f32(value(n))).collect()
    }

    /// Runs a kernel on a tile of `rows` rows and `k` steps, and returns its sums.
    fn sums(rows: usize, k: usize, kernel: impl FnOnce(&mut Tile<'_, u16>)) -> Vec<f32> {
        let (a, b) = (values(rows * A_STRIDE, 1), values(k * 2 * PANEL, 2));
        let bias = std::array::from_fn(|column| column as f32 / 8.0);
        let mut c = vec![f32::NAN; rows * C_STRIDE];
        let mut tile = Tile {
            rows,
            k,
            a: &a,
            a_stride: A_STRIDE,
            b: &b,
            b_stride: 2 * PANEL,
            b_half: PANEL,
            c: &mut c,
            c_stride: C_STRIDE,
            bias: &bias,
        };
        tile.check(2, ROWS);
        kernel(&mut tile);
        c
    }

    #[test]
    fn emulated_tiles_equal_portable_ones_and_write_nothing_else() {
        flow_amx_emulator::install().expect("the process may install signal handlers");
        for rows in [1, 2, 15, 16, 17, 31, 32] {
            for k in [1, 3, 15, 16, 17, 31, 32, 48] {
                // SAFETY: the emulator runs AMX's instructions, and `sums` has checked the tile.
                let actual = sums(rows, k, |tile| unsafe { tile_bf16(tile) });
                let expected = sums(rows, k, |tile| {
                    for row in 0..tile.rows {
                        portable::tile_bf16(&mut Tile {
                            rows: 1,
                            a: &tile.a[row * A_STRIDE..],
                            c: &mut tile.c[row * C_STRIDE..],
                            ..*tile
                        });
                    }
                });
                for (index, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
                    let is_padding = index % C_STRIDE >= PANEL;
                    let is_close = (actual - expected).abs() < 1e-4;
                    assert!(
                        if is_padding {
                            actual.is_nan()
                        } else {
                            is_close
                        },
                        "{rows} rows, {k} steps, value {index}: {actual}, expected {expected}"
                    );
                }
            }
        }
        release();
        assert_eq!(CONFIGURED.get(), None);
    }
}
