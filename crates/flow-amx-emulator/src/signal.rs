//! Catches the signal for illegal instructions.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use flow_kernels::InstructionSet;
use libc::{c_int, c_void, siginfo_t, ucontext_t};

use crate::decode::{Instruction, Place, decode, may_begin};
use crate::tiles::{CONFIGURATION_BYTES, Fault, Tiles};

thread_local! {
    // Made at compile time and never dropped, so that a signal handler may touch it.
    static TILES: UnsafeCell<Tiles> = const { UnsafeCell::new(Tiles::NEW) };
}

/// No instruction is longer.
const LONGEST: usize = 15;

/// None of AMX's is: prefix, opcode, registers, and an address of five bytes.
const AMX_LONGEST: usize = 10;

/// What memory is mapped by.
const PAGE: usize = 4096;

/// The system's numbers of registers, by the processor's.
const REGISTERS: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// From now on AMX's instructions do what they should, in every thread of this process, and `flow-kernels` counts AMX
/// as one of the machine's instruction sets, if those below it are there. Where the machine has AMX, it computes.
///
/// # Errors
///
/// If the system does not let this process have signals.
pub fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Option<i32>> = OnceLock::new();
    let code = INSTALLED.get_or_init(|| {
        // SAFETY: all of the structure is set, zero being the empty mask; the handler has the signature that
        // SA_SIGINFO asks for, and lives as long as the program.
        let result = unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = on_illegal_instruction as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGILL, &raw const action, ptr::null_mut())
        };
        (result != 0).then(|| {
            io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or_default()
        })
    });
    if let Some(code) = code {
        return Err(io::Error::from_raw_os_error(*code));
    }
    if InstructionSet::available().all(|set| set != InstructionSet::Amx) {
        // SAFETY: the handler is in place.
        unsafe { flow_kernels::assume_amx() };
    }
    Ok(())
}

extern "C" fn on_illegal_instruction(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes the thread's registers, which nobody else touches while the handler runs.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize] as *const u8;
    // SAFETY: the thread has just failed to run the instruction there.
    let Some((instruction, length)) = (unsafe { read(at) }) else {
        return give_up("it is not one of AMX's");
    };
    registers[libc::REG_RIP as usize] += length as i64;
    let address = |place: Place| {
        let base = place.base.map_or(libc::REG_RIP, |base| REGISTERS[base]);
        registers[base as usize].wrapping_add(i64::from(place.displacement))
    };
    let stride = |place: Place| {
        let index = place
            .index
            .map_or(0, |index| registers[REGISTERS[index] as usize]);
        index << place.scale
    };
    let run = |tiles: &UnsafeCell<Tiles>| {
        // SAFETY: only this thread's handler touches this thread's tiles, and it is not interrupted by itself; the
        // addresses are those of an instruction that the thread was about to run.
        unsafe {
            run(&mut *tiles.get(), instruction, |place| {
                (address(place), stride(place))
            })
        }
    };
    let done = TILES.with(run);
    if let Err(fault) = done {
        registers[libc::REG_RIP as usize] -= length as i64;
        give_up(fault.text());
    }
}

/// The instruction at this place, and its length; `None` for whatever is not AMX's.
///
/// # Safety
///
/// There is an instruction.
unsafe fn read(at: *const u8) -> Option<(Instruction, usize)> {
    let mut bytes = [0; LONGEST];
    let mut count = LONGEST.min(PAGE - at.addr() % PAGE);
    // SAFETY: whatever lies in the page of its first byte can be read.
    unsafe { ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), count) };
    while count < AMX_LONGEST && may_begin(&bytes[..count]) && decode(&bytes[..count]).is_none() {
        // SAFETY: one of AMX's that is not whole goes on in the next page, so that is mapped as well.
        bytes[count] = unsafe { *at.add(count) };
        count += 1;
    }
    decode(&bytes[..count])
}

/// Does what the instruction asks for.
///
/// # Safety
///
/// The instruction's addresses are those of a program that may use them as a machine with AMX would.
unsafe fn run(
    tiles: &mut Tiles,
    instruction: Instruction,
    of: impl Fn(Place) -> (i64, i64),
) -> Result<(), Fault> {
    let rows = |place| {
        let (start, stride) = of(place);
        (0..).map(move |row: i64| start.wrapping_add(row.wrapping_mul(stride)))
    };
    match instruction {
        Instruction::Configure(place) => {
            let place = of(place).0 as *const [u8; CONFIGURATION_BYTES];
            // SAFETY: what is asked of the caller.
            tiles.configure(&unsafe { place.read_unaligned() })?;
        }
        Instruction::StoreConfiguration(place) => {
            let bytes = tiles.configuration();
            // SAFETY: what is asked of the caller.
            unsafe { (of(place).0 as *mut [u8; CONFIGURATION_BYTES]).write_unaligned(bytes) };
        }
        Instruction::Release => tiles.release(),
        Instruction::Zero(tile) => tiles.zero(tile)?,
        Instruction::Load(tile, place) => {
            for (row, from) in tiles.rows(tile)?.zip(rows(place)) {
                // SAFETY: what is asked of the caller.
                unsafe { ptr::copy(from as *const u8, row.as_mut_ptr(), row.len()) };
            }
        }
        Instruction::Store(place, tile) => {
            for (row, to) in tiles.rows(tile)?.zip(rows(place)) {
                // SAFETY: what is asked of the caller.
                unsafe { ptr::copy(row.as_ptr(), to as *mut u8, row.len()) };
            }
        }
        Instruction::MultiplyBf16 { sums, a, b } => tiles.multiply_bf16(sums, a, b)?,
    }
    Ok(())
}

/// Says why, and lets the instruction fail again, this time for good.
fn give_up(why: &str) {
    for part in ["illegal instruction: ", why, "\n"] {
        // SAFETY: writing to the standard error is allowed in a handler; what is written lives as long as the call.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: gives the signal its usual meaning, which is allowed in a handler.
    unsafe { libc::signal(libc::SIGILL, libc::SIG_DFL) };
}
