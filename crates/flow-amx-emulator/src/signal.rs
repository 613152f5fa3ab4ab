//! Handles SIGILL by emulating AMX's instructions.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use flow_kernels::InstructionSet;
use libc::{c_int, c_void, siginfo_t, ucontext_t};

use crate::decode::{Instruction, MemoryOperand, decode, may_begin};
use crate::tiles::{CONFIGURATION_BYTES, TileFault, Tiles};

thread_local! {
    // Initialized at compile time and never dropped, so that a signal handler may access it.
    static TILES: UnsafeCell<Tiles> = const { UnsafeCell::new(Tiles::NEW) };
}

/// Maximum length of an x86 instruction.
const INSTRUCTION_BYTES_MAX: usize = 15;

/// Maximum length of an emulated instruction: prefix, opcode, ModRM, and five bytes of address.
const AMX_INSTRUCTION_BYTES_MAX: usize = 10;

/// Size of a memory page.
const PAGE: usize = 4096;

/// Indices of registers in the signal context, by the processor's register numbers.
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

/// Installs the emulator in this process.
///
/// From then on, AMX's instructions work in every thread, and `flow-kernels` counts AMX as available if the instruction sets
/// below it are. On a machine with AMX, the processor executes them.
///
/// # Errors
///
/// If the operating system refuses to install the signal handler.
pub fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Option<i32>> = OnceLock::new();
    let code = INSTALLED.get_or_init(|| {
        // SAFETY: the structure is fully initialized, and a zeroed mask is empty. The handler has the signature that
        // SA_SIGINFO requires, and lives as long as the program.
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
        // SAFETY: the handler is installed.
        unsafe { flow_kernels::assume_amx() };
    }
    Ok(())
}

extern "C" fn on_illegal_instruction(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the operating system passes the thread's registers, which nothing else accesses while the handler runs.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let address = registers[libc::REG_RIP as usize] as *const u8;
    // SAFETY: the thread has just tried to execute the instruction at this address.
    let Some((instruction, length)) = (unsafe { read(address) }) else {
        return report_and_restore("not an instruction of AMX");
    };
    registers[libc::REG_RIP as usize] += length as i64;
    let address = |memory: MemoryOperand| {
        let base = memory.base.map_or(libc::REG_RIP, |base| REGISTERS[base]);
        registers[base as usize].wrapping_add(i64::from(memory.displacement))
    };
    let stride = |memory: MemoryOperand| {
        let index = memory
            .index
            .map_or(0, |index| registers[REGISTERS[index] as usize]);
        index << memory.scale
    };
    let run = |tiles: &UnsafeCell<Tiles>| {
        // SAFETY: only this thread's handler accesses this thread's tiles, and it does not interrupt itself. The addresses
        // are those of an instruction that the thread was about to execute.
        unsafe {
            run(&mut *tiles.get(), instruction, |memory| {
                (address(memory), stride(memory))
            })
        }
    };
    let result = TILES.with(run);
    if let Err(fault) = result {
        registers[libc::REG_RIP as usize] -= length as i64;
        report_and_restore(fault.text());
    }
}

/// Reads the instruction at an address, and returns it with its length. `None` for an instruction that is not emulated.
///
/// # Safety
///
/// There must be an instruction at the address.
unsafe fn read(address: *const u8) -> Option<(Instruction, usize)> {
    let mut bytes = [0; INSTRUCTION_BYTES_MAX];
    let mut count = INSTRUCTION_BYTES_MAX.min(PAGE - address.addr() % PAGE);
    // SAFETY: the rest of the page of the first byte is readable.
    unsafe { ptr::copy_nonoverlapping(address, bytes.as_mut_ptr(), count) };
    while count < AMX_INSTRUCTION_BYTES_MAX
        && may_begin(&bytes[..count])
        && decode(&bytes[..count]).is_none()
    {
        // SAFETY: an incomplete instruction continues in the next page, so that page is mapped as well.
        bytes[count] = unsafe { *address.add(count) };
        count += 1;
    }
    decode(&bytes[..count])
}

/// Executes an instruction. `resolve` returns the address and the stride of a memory operand.
///
/// # Safety
///
/// The program must be allowed to execute the instruction on a machine with AMX, with these addresses.
unsafe fn run(
    tiles: &mut Tiles,
    instruction: Instruction,
    resolve: impl Fn(MemoryOperand) -> (i64, i64),
) -> Result<(), TileFault> {
    let rows = |memory| {
        let (start, stride) = resolve(memory);
        (0..).map(move |row: i64| start.wrapping_add(row.wrapping_mul(stride)))
    };
    match instruction {
        Instruction::Configure(memory) => {
            let configuration = resolve(memory).0 as *const [u8; CONFIGURATION_BYTES];
            // SAFETY: guaranteed by the caller.
            tiles.configure(&unsafe { configuration.read_unaligned() })?;
        }
        Instruction::StoreConfiguration(memory) => {
            let bytes = tiles.configuration();
            // SAFETY: guaranteed by the caller.
            unsafe { (resolve(memory).0 as *mut [u8; CONFIGURATION_BYTES]).write_unaligned(bytes) };
        }
        Instruction::Release => tiles.release(),
        Instruction::Zero(tile) => tiles.zero(tile)?,
        Instruction::Load(tile, memory) => {
            for (row, from) in tiles.rows(tile)?.zip(rows(memory)) {
                // SAFETY: guaranteed by the caller.
                unsafe { ptr::copy(from as *const u8, row.as_mut_ptr(), row.len()) };
            }
        }
        Instruction::Store(memory, tile) => {
            for (row, to) in tiles.rows(tile)?.zip(rows(memory)) {
                // SAFETY: guaranteed by the caller.
                unsafe { ptr::copy(row.as_ptr(), to as *mut u8, row.len()) };
            }
        }
        Instruction::MultiplyBf16 { sums, a, b } => tiles.multiply_bf16(sums, a, b)?,
        Instruction::MultiplyInt8 { sums, a, b } => tiles.multiply_int8(sums, a, b)?,
    }
    Ok(())
}

/// Prints the reason, and restores the default action of the signal, so that the instruction ends the process.
fn report_and_restore(reason: &str) {
    for part in ["illegal instruction: ", reason, "\n"] {
        // SAFETY: `write` is allowed in a signal handler, and the text lives as long as the call.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: `signal` is allowed in a signal handler.
    unsafe { libc::signal(libc::SIGILL, libc::SIG_DFL) };
}
