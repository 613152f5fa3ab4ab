//! Decodes AMX's instructions.
//!
//! All of them have a three-byte VEX prefix, an opcode of map 0F38, and VEX.W = 0.

/// The first byte of a three-byte VEX prefix.
const VEX3: u8 = 0xc4;

/// An emulated instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// `ldtilecfg [memory]`
    Configure(MemoryOperand),
    /// `sttilecfg [memory]`
    StoreConfiguration(MemoryOperand),
    /// `tilerelease`
    Release,
    /// `tilezero tile`
    Zero(usize),
    /// `tileloadd tile, [memory]`, and `tileloaddt1`.
    Load(usize, MemoryOperand),
    /// `tilestored [memory], tile`
    Store(MemoryOperand, usize),
    /// `tdpbf16ps sums, a, b`
    MultiplyBf16 {
        /// The tile of sums.
        sums: usize,
        /// The first factor.
        a: usize,
        /// The second factor.
        b: usize,
    },
    /// `tdpbusd sums, a, b`
    MultiplyInt8 {
        /// The tile of sums.
        sums: usize,
        /// The first factor, which is unsigned.
        a: usize,
        /// The second factor, which is signed.
        b: usize,
    },
}

/// A memory operand. Row `n` of a tile is at `base + displacement + n * (index << scale)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryOperand {
    /// The number of a register. `None` means the address of the next instruction.
    pub(crate) base: Option<usize>,
    /// The number of the register that holds the stride of a tile's rows.
    pub(crate) index: Option<usize>,
    pub(crate) scale: u8,
    pub(crate) displacement: i32,
}

/// The prefixes of VEX.pp, which distinguish instructions with the same opcode.
const NONE: u8 = 0;
const X66: u8 = 1;
const XF3: u8 = 2;
const XF2: u8 = 3;

/// Opcodes: configuration and clearing, loads and stores, products of bf16, and products of 8-bit integers.
const CONFIGURATION: u8 = 0x49;
const MEMORY: u8 = 0x4b;
const PRODUCT_BF16: u8 = 0x5c;
const PRODUCT_INT8: u8 = 0x5e;

/// The register number that means that a SIB byte follows.
const SIB: usize = 4;

/// Whether these bytes can be the beginning of an emulated instruction.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let is_known =
        |opcode: &u8| [CONFIGURATION, MEMORY, PRODUCT_BF16, PRODUCT_INT8].contains(opcode);
    bytes.first() == Some(&VEX3) && bytes.get(3).is_none_or(is_known)
}

/// Decodes the instruction at the beginning of `bytes`, and returns it with its length. `None` for any other instruction.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Instruction, usize)> {
    let [VEX3, first, second, opcode, modrm, rest @ ..] = bytes else {
        return None;
    };
    let is_map_0f38 = first & 0x1f == 2;
    let is_narrow = second & 0x84 == 0;
    let is_register = modrm >> 6 == 3;
    // Bits R, X and B are inverted, as is the third register in the second byte. They extend register numbers beyond 7,
    // but there are only eight tiles.
    let extended = |bit: u8| usize::from(!first >> bit & 1) << 3;
    let (r, x, b) = (extended(7), extended(6), extended(5));
    let (prefix, third) = (second & 3, usize::from(!second >> 3 & 0xf));
    let is_product = [PRODUCT_BF16, PRODUCT_INT8].contains(opcode);
    let names_no_tile = r != 0 || is_register && b != 0 || third != 0 && !is_product;
    if !is_map_0f38 || !is_narrow || names_no_tile {
        return None;
    }
    let (middle, low) = (usize::from(modrm >> 3 & 7), usize::from(modrm & 7));
    let with_memory = |make: &dyn Fn(MemoryOperand) -> Instruction| {
        let (memory, length) = memory_operand(*modrm, rest, (x, b))?;
        Some((make(memory), 5 + length))
    };
    match (*opcode, prefix, is_register) {
        (CONFIGURATION, NONE, true) if *modrm == 0xc0 => Some((Instruction::Release, 5)),
        (CONFIGURATION, XF2, true) if low == 0 => Some((Instruction::Zero(middle), 5)),
        (CONFIGURATION, NONE, false) if middle == 0 => with_memory(&Instruction::Configure),
        (CONFIGURATION, X66, false) if middle == 0 => with_memory(&Instruction::StoreConfiguration),
        (MEMORY, XF2 | X66, false) if low == SIB => {
            with_memory(&|memory| Instruction::Load(middle, memory))
        }
        (MEMORY, XF3, false) if low == SIB => {
            with_memory(&|memory| Instruction::Store(memory, middle))
        }
        (PRODUCT_BF16, XF3, true) => Some((
            Instruction::MultiplyBf16 {
                sums: middle,
                a: low,
                b: third,
            },
            5,
        )),
        (PRODUCT_INT8, X66, true) => Some((
            Instruction::MultiplyInt8 {
                sums: middle,
                a: low,
                b: third,
            },
            5,
        )),
        _ => None,
    }
}

/// Decodes the memory operand that follows `modrm`, and returns it with its length.
fn memory_operand(
    modrm: u8,
    rest: &[u8],
    (x, b): (usize, usize),
) -> Option<(MemoryOperand, usize)> {
    let (mode, low) = (modrm >> 6, usize::from(modrm & 7));
    let has_sib = low == SIB;
    let (mut memory, rest, mut length) = if has_sib {
        let (sib, rest) = rest.split_first()?;
        let index = usize::from(sib >> 3 & 7) | x;
        let memory = MemoryOperand {
            base: Some(usize::from(sib & 7) | b),
            // The number of the stack pointer means no index.
            index: (index != 4).then_some(index),
            scale: sib >> 6,
            displacement: 0,
        };
        (memory, rest, 1)
    } else {
        let memory = MemoryOperand {
            base: Some(low | b),
            index: None,
            scale: 0,
            displacement: 0,
        };
        (memory, rest, 0)
    };
    let has_no_base = mode == 0 && memory.base.is_some_and(|base| base & 7 == 5);
    if mode == 2 || has_no_base {
        memory.displacement = i32::from_le_bytes(*rest.first_chunk()?);
        length += 4;
    } else if mode == 1 {
        memory.displacement = i32::from(*rest.first()? as i8);
        length += 1;
    }
    if has_no_base {
        // With a SIB byte, this is an address without a base, which compilers do not emit for tiles.
        if has_sib {
            return None;
        }
        memory.base = None;
    }
    Some((memory, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_RAX: MemoryOperand = MemoryOperand {
        base: Some(0),
        index: None,
        scale: 0,
        displacement: 0,
    };

    #[track_caller]
    fn check(bytes: &[u8], expected: Instruction) {
        assert_eq!(decode(bytes), Some((expected, bytes.len())), "{bytes:02x?}");
        let more = [bytes, &[0x90, 0x90]].concat();
        assert_eq!(decode(&more), Some((expected, bytes.len())), "{more:02x?}");
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "truncated to {length}");
        }
    }

    // The bytes are the output of LLVM's assembler.

    #[test]
    fn instructions_on_registers_are_decoded() {
        check(&[0xc4, 0xe2, 0x78, 0x49, 0xc0], Instruction::Release);
        check(&[0xc4, 0xe2, 0x7b, 0x49, 0xd8], Instruction::Zero(3));
        let (sums, a, b) = (3, 2, 1);
        let multiply = Instruction::MultiplyBf16 { sums, a, b };
        check(&[0xc4, 0xe2, 0x72, 0x5c, 0xda], multiply);
        let multiply = Instruction::MultiplyInt8 { sums, a, b };
        check(&[0xc4, 0xe2, 0x71, 0x5e, 0xda], multiply);
    }

    #[test]
    fn every_form_of_a_memory_operand_is_decoded() {
        check(
            &[0xc4, 0xe2, 0x78, 0x49, 0x00],
            Instruction::Configure(AT_RAX),
        );
        check(
            &[0xc4, 0xe2, 0x79, 0x49, 0x40, 0xf0],
            Instruction::StoreConfiguration(MemoryOperand {
                displacement: -16,
                ..AT_RAX
            }),
        );
        // ldtilecfg [rip + 256]
        check(
            &[0xc4, 0xe2, 0x78, 0x49, 0x05, 0x00, 0x01, 0x00, 0x00],
            Instruction::Configure(MemoryOperand {
                base: None,
                displacement: 256,
                ..AT_RAX
            }),
        );
        // tileloadd tmm6, [rsi + rdx]
        check(
            &[0xc4, 0xe2, 0x7b, 0x4b, 0x34, 0x16],
            Instruction::Load(
                6,
                MemoryOperand {
                    base: Some(6),
                    index: Some(2),
                    ..AT_RAX
                },
            ),
        );
        // tileloadd tmm7, [r13 + r12*4 + 64]
        check(
            &[0xc4, 0x82, 0x7b, 0x4b, 0x7c, 0xa5, 0x40],
            Instruction::Load(
                7,
                MemoryOperand {
                    base: Some(13),
                    index: Some(12),
                    scale: 2,
                    displacement: 64,
                },
            ),
        );
        // tilestored [rbp + r9 + 1024], tmm1
        check(
            &[0xc4, 0xa2, 0x7a, 0x4b, 0x8c, 0x0d, 0x00, 0x04, 0x00, 0x00],
            Instruction::Store(
                MemoryOperand {
                    base: Some(5),
                    index: Some(9),
                    scale: 0,
                    displacement: 1024,
                },
                1,
            ),
        );
        // tileloadd tmm0, [rsp], without an index
        check(
            &[0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x24],
            Instruction::Load(
                0,
                MemoryOperand {
                    base: Some(4),
                    ..AT_RAX
                },
            ),
        );
    }

    #[test]
    fn the_beginning_of_an_instruction_is_recognized() {
        let load = [0xc4, 0xe2, 0x7b, 0x4b, 0x34, 0x16];
        assert!((1..=6).all(|length| may_begin(&load[..length])));
        assert!(!may_begin(&[0xc4, 0xe2, 0x75, 0xb8]));
        assert!(!may_begin(&[0x0f, 0x0b]) && !may_begin(&[]));
    }

    #[test]
    fn other_instructions_are_not_decoded() {
        let others: [&[u8]; 9] = [
            // ud2
            &[0x0f, 0x0b, 0x90, 0x90, 0x90, 0x90],
            // vfmadd231ps ymm0, ymm1, ymm2
            &[0xc4, 0xe2, 0x75, 0xb8, 0xc2, 0x90],
            // tdpbf16ps with a vector length of 256 bits.
            &[0xc4, 0xe2, 0x76, 0x5c, 0xda, 0x90],
            // tileloadd without a SIB byte, and of a ninth tile.
            &[0xc4, 0xe2, 0x7b, 0x4b, 0x06, 0x90],
            &[0xc4, 0x62, 0x7b, 0x4b, 0x04, 0x16],
            // tilezero with a third register, and tilerelease with one.
            &[0xc4, 0xe2, 0x73, 0x49, 0xd8, 0x90],
            &[0xc4, 0xe2, 0x78, 0x49, 0xc8, 0x90],
            // tdpbssd tmm3, tmm2, tmm1: a product of two signed factors, which is not emulated.
            &[0xc4, 0xe2, 0x73, 0x5e, 0xda, 0x90],
            &[],
        ];
        for bytes in others {
            assert_eq!(decode(bytes), None, "{bytes:02x?}");
        }
    }
}
