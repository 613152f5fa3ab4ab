//! Tiles of bf16 with AMX: 32 rows by 32 columns are four of its tiles of sums, and each step of sixteen
//! pairs loads two tiles of states and two of weights for four products.
//!
//! The instructions are written in assembly, because the compiler's own names for them are not stable. The
//! panels of [`crate::Packed`] are laid out as `tdpbf16ps` reads them: a row of a tile of weights is one
//! step of sixteen outputs.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::tile::{PANEL, Tile};

/// Rows of a tile: two of AMX's.
pub(crate) const ROWS: usize = 32;

/// Rows of one of AMX's tiles.
const TILE_ROWS: usize = 16;
/// Pairs of bf16 in one of its rows.
const TILE_PAIRS: usize = 16;
/// Bytes of one of its rows.
const ROW_BYTES: u16 = 64;

/// What `ldtilecfg` reads.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

thread_local! {
    /// What the tiles of this thread are configured for: rows, and pairs of a step. `None`: they are not.
    static CONFIGURED: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Whether somebody does what the processor cannot.
static IS_EMULATED: AtomicBool = AtomicBool::new(false);

/// For tests on machines without AMX: from now on it counts as one of the instruction sets that are here, if those
/// below it are.
///
/// # Safety
///
/// Whoever calls this has seen to it that in this process AMX's instructions for tiles of bf16 do what they should.
pub unsafe fn assume_amx() {
    IS_EMULATED.store(true, Ordering::Relaxed);
}

/// Whether the machine has AMX with bf16, and the system lets this process use it.
pub(crate) fn is_allowed() -> bool {
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    if IS_EMULATED.load(Ordering::Relaxed) {
        return true;
    }
    let leaves = __cpuid(0).eax;
    leaves >= 7 && __cpuid_count(7, 0).edx & (BF16 | TILE) == BF16 | TILE && permission()
}

/// Asks the system to save the tiles with the rest of this process's registers.
#[cfg(target_os = "linux")]
fn permission() -> bool {
    const ARCH_PRCTL: usize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let result: isize;
    // SAFETY: the call changes nothing but a permission of this process, and writes no memory; `rcx` and
    // `r11` are what the instruction itself overwrites.
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
fn permission() -> bool {
    false
}

/// A tile of up to [`ROWS`] rows.
///
/// # Safety
///
/// [`is_allowed`] said so, and the tile has been checked.
pub(crate) unsafe fn rounded(tile: &mut Tile<'_, u16>) {
    let whole = tile.k / TILE_PAIRS * TILE_PAIRS;
    start(tile);
    // SAFETY: what is asked of the caller; the steps are those that were checked.
    unsafe {
        if whole > 0 {
            configure(tile.rows, TILE_PAIRS);
            multiply(tile, 0..whole);
        }
        if whole < tile.k {
            configure(tile.rows, tile.k - whole);
            multiply(tile, whole..tile.k);
        }
    }
}

/// Gives the tiles back: until then, each switch of threads saves eight kilobytes more.
pub(crate) fn release() {
    if CONFIGURED.take().is_some() {
        // SAFETY: this thread has configured its tiles, so the instruction is there and allowed.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// The sums begin with the bias.
fn start(tile: &mut Tile<'_, u16>) {
    for row in 0..tile.rows {
        tile.c[row * tile.c_stride..][..PANEL].copy_from_slice(tile.bias);
    }
}

/// Tiles 0 to 3 hold sums, 4 and 5 states, 6 and 7 weights; the first of two has the first sixteen rows.
///
/// # Safety
///
/// [`is_allowed`] said so.
unsafe fn configure(rows: usize, pairs: usize) {
    if CONFIGURED.replace(Some((rows, pairs))) == Some((rows, pairs)) {
        return;
    }
    let upper = rows.min(TILE_ROWS) as u8;
    // A tile without rows cannot be; it has one that nobody asks for.
    let lower = rows.saturating_sub(TILE_ROWS).max(1) as u8;
    let mut config = Config {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        row_bytes: [0; 16],
        rows: [0; 16],
    };
    let states = (upper, lower, pairs as u16 * 4);
    config.rows[..8].copy_from_slice(&[
        upper,
        upper,
        lower,
        lower,
        states.0,
        states.1,
        pairs as u8,
        pairs as u8,
    ]);
    config.row_bytes[..8].copy_from_slice(&[
        ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, states.2, states.2, ROW_BYTES, ROW_BYTES,
    ]);
    // SAFETY: the instruction reads the 64 bytes of `config`, which describe eight tiles within palette 1.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const config, options(nostack, readonly)) };
}

/// Adds the products of these steps to the sums.
///
/// # Safety
///
/// The tiles are configured for the tile's rows and for as many pairs as divide the steps; the steps are
/// within those that were checked.
unsafe fn multiply(tile: &mut Tile<'_, u16>, steps: std::ops::Range<usize>) {
    let has_lower = tile.rows > TILE_ROWS;
    let (a, b) = (tile.a.as_ptr(), tile.b.as_ptr());
    let (a_bytes, b_bytes) = (tile.a_stride * 2, tile.b_stride * 2);
    let a_lower = a.wrapping_add(if has_lower {
        TILE_ROWS * tile.a_stride
    } else {
        0
    });
    let c = tile.c.as_mut_ptr();
    let c_bytes = tile.c_stride * 4;
    let c_lower = c.wrapping_add(TILE_ROWS * tile.c_stride);
    // SAFETY: rows and pairs of the configured tiles are those that `Tile::check` found in `a`, `b` and `c`;
    // the lower tiles of sums are touched only if there are such rows, and the lower tile of states is the
    // upper one's first row otherwise, whose products nobody reads.
    unsafe {
        load_sums(c, c_bytes);
        if has_lower {
            asm!(
                "tileloadd tmm2, [{c} + {stride}]",
                "tileloadd tmm3, [{c} + {stride} + 64]",
                c = in(reg) c_lower, stride = in(reg) c_bytes,
                options(nostack, readonly),
            );
        }
        for step in steps.step_by(TILE_PAIRS) {
            let (a, a_lower) = (a.add(2 * step), a_lower.add(2 * step));
            let b = b.add(step * tile.b_stride);
            multiply_step([a.cast(), a_lower.cast(), b.cast()], a_bytes, b_bytes);
        }
        store_sums(c, c_bytes);
        if has_lower {
            asm!(
                "tilestored [{c} + {stride}], tmm2",
                "tilestored [{c} + {stride} + 64], tmm3",
                c = in(reg) c_lower, stride = in(reg) c_bytes,
                options(nostack),
            );
        }
    }
}

/// The upper tiles of sums, from memory.
///
/// # Safety
///
/// As for [`multiply`].
unsafe fn load_sums(c: *const f32, stride: usize) {
    // SAFETY: what is asked of the caller.
    unsafe {
        asm!(
            "tileloadd tmm0, [{c} + {stride}]",
            "tileloadd tmm1, [{c} + {stride} + 64]",
            c = in(reg) c, stride = in(reg) stride,
            options(nostack, readonly),
        );
    }
}

/// The upper tiles of sums, to memory.
///
/// # Safety
///
/// As for [`multiply`].
unsafe fn store_sums(c: *mut f32, stride: usize) {
    // SAFETY: what is asked of the caller.
    unsafe {
        asm!(
            "tilestored [{c} + {stride}], tmm0",
            "tilestored [{c} + {stride} + 64], tmm1",
            c = in(reg) c, stride = in(reg) stride,
            options(nostack),
        );
    }
}

/// One step: states of the upper and the lower rows, and the weights, with the strides of both in bytes.
///
/// # Safety
///
/// As for [`multiply`].
#[inline]
unsafe fn multiply_step([a, a_lower, b]: [*const u8; 3], a_stride: usize, b_stride: usize) {
    // SAFETY: what is asked of the caller.
    unsafe {
        asm!(
            "tileloadd tmm6, [{b} + {b_stride}]",
            "tileloadd tmm4, [{a} + {a_stride}]",
            "tileloadd tmm7, [{b} + {b_stride} + 64]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{a_lower} + {a_stride}]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            a = in(reg) a, a_lower = in(reg) a_lower, b = in(reg) b,
            a_stride = in(reg) a_stride, b_stride = in(reg) b_stride,
            options(nostack, readonly),
        );
    }
}
