//! Tiles with AMX: four tile registers hold 32 rows by 32 columns of sums. Each group of sixteen steps loads two tiles of
//! states and two of weights, and multiplies them in four instructions.
//!
//! A step is four bytes of a row of states: two values of bf16, or four 8-bit integers. The panels of
//! [`crate::PackedWeights`] are laid out as the instructions read them: a row of a tile of weights is one step of sixteen
//! outputs. So both formats differ in one instruction only, and share everything else.
//!
//! - `mod.rs`: whether AMX may be used, and the configuration of the tile registers.
//! - `multiply.rs`: the products. They are inline assembly because Rust's intrinsics for AMX are unstable.
//! - `bf16.rs`, `int8.rs`: the tiles of each format.
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

mod bf16;
mod int8;
mod multiply;

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use bf16::{panels_bf16, tile_bf16};
pub(crate) use int8::tile_int8;

/// Maximum rows of a tile: two tile registers.
pub(crate) const ROWS: usize = 32;

/// Rows of a tile register.
pub(crate) const TILE_ROWS: usize = 16;
/// Steps in a row of a tile register.
pub(crate) const TILE_STEPS: usize = 16;
/// Bytes of a step in a row of states.
const STEP_BYTES: usize = 4;
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
    /// The rows and steps that this thread's tiles are configured for. `None` means not configured.
    static CONFIGURED: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Whether something in this process emulates AMX.
static IS_EMULATED: AtomicBool = AtomicBool::new(false);

/// Makes AMX count as available on a machine without it, if the instruction sets below it are available. For tests
/// that emulate AMX.
///
/// # Safety
///
/// AMX's instructions for tiles of bf16 and of 8-bit integers must work in this process from now on.
pub unsafe fn assume_amx() {
    IS_EMULATED.store(true, Ordering::Relaxed);
}

/// Whether the machine has AMX with bf16 and 8-bit integers, and the operating system lets this process use it.
pub(crate) fn is_allowed() -> bool {
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    const ALL: u32 = BF16 | TILE | INT8;
    if IS_EMULATED.load(Ordering::Relaxed) {
        return true;
    }
    let leaves = __cpuid(0).eax;
    leaves >= 7 && __cpuid_count(7, 0).edx & ALL == ALL && request_permission()
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

/// Configures the tile registers for `rows` rows of states and `steps` steps, unless they are so already.
///
/// Registers 0 to 3 hold sums, 4 and 5 states, 6 and 7 weights. Of two registers for the same columns, the first holds
/// the upper sixteen rows, the second the lower ones.
///
/// # Safety
///
/// [`is_allowed`] must have returned true.
unsafe fn configure(rows: usize, steps: usize) {
    if CONFIGURED.replace(Some((rows, steps))) == Some((rows, steps)) {
        return;
    }
    let upper = rows.min(TILE_ROWS) as u8;
    // A configured register has at least one row. `multiply::upper` does not use this one.
    let lower = rows.saturating_sub(TILE_ROWS).max(1) as u8;
    let (steps, state_bytes) = (steps as u8, (steps * STEP_BYTES) as u16);
    let mut config = TileConfig {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        row_bytes: [0; 16],
        rows: [0; 16],
    };
    config.rows[..8].copy_from_slice(&[upper, upper, lower, lower, upper, lower, steps, steps]);
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

#[cfg(all(test, target_os = "linux"))]
mod tests;
