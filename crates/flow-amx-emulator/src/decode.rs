//! From bytes to an instruction.
//!
//! All of AMX's instructions have a VEX prefix of three bytes, opcodes of the map 0F38, and no width bit.

/// What all of them begin with.
const PREFIX: u8 = 0xc4;

/// One of AMX's instructions that we use, or might.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// `ldtilecfg [place]`
    Configure(Place),
    /// `sttilecfg [place]`
    StoreConfiguration(Place),
    /// `tilerelease`
    Release,
    /// `tilezero tile`
    Zero(usize),
    /// `tileloadd tile, [place]`, and its twin that does without the cache.
    Load(usize, Place),
    /// `tilestored [place], tile`
    Store(Place, usize),
    /// `tdpbf16ps sums, a, b`
    MultiplyBf16 {
        /// The tile of sums.
        sums: usize,
        /// The first factor.
        a: usize,
        /// The second factor.
        b: usize,
    },
}

/// How an address is made: `base + displacement`, and for rows of a tile `+ row * (index << scale)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// A register's number; none: the address behind the instruction.
    pub(crate) base: Option<usize>,
    pub(crate) index: Option<usize>,
    pub(crate) scale: u8,
    pub(crate) displacement: i32,
}

/// The prefixes that tell instructions of one opcode apart.
const NONE: u8 = 0;
const X66: u8 = 1;
const XF3: u8 = 2;
const XF2: u8 = 3;

/// Opcodes: what concerns all tiles or clears one, what moves one, and products of bf16.
const CONFIGURATION: u8 = 0x49;
const MEMORY: u8 = 0x4b;
const PRODUCT: u8 = 0x5c;

/// What stands for a register where another byte says more.
const SIB: usize = 4;

/// Whether these bytes can be the beginning of one.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let is_ours = |opcode: &u8| [CONFIGURATION, MEMORY, PRODUCT].contains(opcode);
    bytes.first() == Some(&PREFIX) && bytes.get(3).is_none_or(is_ours)
}

/// The instruction that these bytes begin with, and its length; `None` for whatever is not AMX's.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Instruction, usize)> {
    let [PREFIX, first, second, opcode, modrm, rest @ ..] = bytes else {
        return None;
    };
    let is_map_0f38 = first & 0x1f == 2;
    let is_narrow = second & 0x84 == 0;
    let is_register = modrm >> 6 == 3;
    // Bits R, X and B stand inverted, as does the third register in the second byte. They are for registers beyond the
    // eighth, and there are eight tiles.
    let extended = |bit: u8| usize::from(!first >> bit & 1) << 3;
    let (r, x, b) = (extended(7), extended(6), extended(5));
    let (prefix, third) = (second & 3, usize::from(!second >> 3 & 0xf));
    let names_no_tile = r != 0 || is_register && b != 0 || third != 0 && *opcode != PRODUCT;
    if !is_map_0f38 || !is_narrow || names_no_tile {
        return None;
    }
    let (middle, low) = (usize::from(modrm >> 3 & 7), usize::from(modrm & 7));
    let place = || place(*modrm, rest, (x, b));
    let with_place = |make: &dyn Fn(Place) -> Instruction| {
        let (place, length) = place()?;
        Some((make(place), 5 + length))
    };
    match (*opcode, prefix, is_register) {
        (CONFIGURATION, NONE, true) if *modrm == 0xc0 => Some((Instruction::Release, 5)),
        (CONFIGURATION, XF2, true) if low == 0 => Some((Instruction::Zero(middle), 5)),
        (CONFIGURATION, NONE, false) if middle == 0 => with_place(&Instruction::Configure),
        (CONFIGURATION, X66, false) if middle == 0 => with_place(&Instruction::StoreConfiguration),
        (MEMORY, XF2 | X66, false) if low == SIB => {
            with_place(&|place| Instruction::Load(middle, place))
        }
        (MEMORY, XF3, false) if low == SIB => {
            with_place(&|place| Instruction::Store(place, middle))
        }
        (PRODUCT, XF3, true) => Some((
            Instruction::MultiplyBf16 {
                sums: middle,
                a: low,
                b: third,
            },
            5,
        )),
        _ => None,
    }
}

/// The address behind `modrm`, and how many bytes it takes there.
fn place(modrm: u8, rest: &[u8], (x, b): (usize, usize)) -> Option<(Place, usize)> {
    let (mode, low) = (modrm >> 6, usize::from(modrm & 7));
    let has_sib = low == SIB;
    let (mut place, rest, mut length) = if has_sib {
        let (sib, rest) = rest.split_first()?;
        let index = usize::from(sib >> 3 & 7) | x;
        let place = Place {
            base: Some(usize::from(sib & 7) | b),
            // The stack pointer's number stands for no index.
            index: (index != 4).then_some(index),
            scale: sib >> 6,
            displacement: 0,
        };
        (place, rest, 1)
    } else {
        let place = Place {
            base: Some(low | b),
            index: None,
            scale: 0,
            displacement: 0,
        };
        (place, rest, 0)
    };
    let stands_alone = mode == 0 && place.base.is_some_and(|base| base & 7 == 5);
    if mode == 2 || stands_alone {
        place.displacement = i32::from_le_bytes(*rest.first_chunk()?);
        length += 4;
    } else if mode == 1 {
        place.displacement = i32::from(*rest.first()? as i8);
        length += 1;
    }
    if stands_alone {
        // With an index this is an address without a base, which nobody writes.
        if has_sib {
            return None;
        }
        place.base = None;
    }
    Some((place, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_RAX: Place = Place {
        base: Some(0),
        index: None,
        scale: 0,
        displacement: 0,
    };

    #[track_caller]
    fn expect(bytes: &[u8], wanted: Instruction) {
        assert_eq!(decode(bytes), Some((wanted, bytes.len())), "{bytes:02x?}");
        let more = [bytes, &[0x90, 0x90]].concat();
        assert_eq!(decode(&more), Some((wanted, bytes.len())), "{more:02x?}");
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "cut to {length}");
        }
    }

    // Bytes as LLVM's assembler writes them.

    #[test]
    fn instructions_on_registers_are_read() {
        expect(&[0xc4, 0xe2, 0x78, 0x49, 0xc0], Instruction::Release);
        expect(&[0xc4, 0xe2, 0x7b, 0x49, 0xd8], Instruction::Zero(3));
        let (sums, a, b) = (3, 2, 1);
        let multiply = Instruction::MultiplyBf16 { sums, a, b };
        expect(&[0xc4, 0xe2, 0x72, 0x5c, 0xda], multiply);
    }

    #[test]
    fn every_form_of_an_address_is_read() {
        expect(
            &[0xc4, 0xe2, 0x78, 0x49, 0x00],
            Instruction::Configure(AT_RAX),
        );
        expect(
            &[0xc4, 0xe2, 0x79, 0x49, 0x40, 0xf0],
            Instruction::StoreConfiguration(Place {
                displacement: -16,
                ..AT_RAX
            }),
        );
        // ldtilecfg [rip + 256]
        expect(
            &[0xc4, 0xe2, 0x78, 0x49, 0x05, 0x00, 0x01, 0x00, 0x00],
            Instruction::Configure(Place {
                base: None,
                displacement: 256,
                ..AT_RAX
            }),
        );
        // tileloadd tmm6, [rsi + rdx]
        expect(
            &[0xc4, 0xe2, 0x7b, 0x4b, 0x34, 0x16],
            Instruction::Load(
                6,
                Place {
                    base: Some(6),
                    index: Some(2),
                    ..AT_RAX
                },
            ),
        );
        // tileloadd tmm7, [r13 + r12*4 + 64]
        expect(
            &[0xc4, 0x82, 0x7b, 0x4b, 0x7c, 0xa5, 0x40],
            Instruction::Load(
                7,
                Place {
                    base: Some(13),
                    index: Some(12),
                    scale: 2,
                    displacement: 64,
                },
            ),
        );
        // tilestored [rbp + r9 + 1024], tmm1
        expect(
            &[0xc4, 0xa2, 0x7a, 0x4b, 0x8c, 0x0d, 0x00, 0x04, 0x00, 0x00],
            Instruction::Store(
                Place {
                    base: Some(5),
                    index: Some(9),
                    scale: 0,
                    displacement: 1024,
                },
                1,
            ),
        );
        // tileloadd tmm0, [rsp], without an index
        expect(
            &[0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x24],
            Instruction::Load(
                0,
                Place {
                    base: Some(4),
                    ..AT_RAX
                },
            ),
        );
    }

    #[test]
    fn what_may_go_on_is_known_by_its_opcode() {
        let load = [0xc4, 0xe2, 0x7b, 0x4b, 0x34, 0x16];
        assert!((1..=6).all(|length| may_begin(&load[..length])));
        assert!(!may_begin(&[0xc4, 0xe2, 0x75, 0xb8]));
        assert!(!may_begin(&[0x0f, 0x0b]) && !may_begin(&[]));
    }

    #[test]
    fn whatever_is_not_amx_is_left_alone() {
        let others: [&[u8]; 9] = [
            // ud2
            &[0x0f, 0x0b, 0x90, 0x90, 0x90, 0x90],
            // vfmadd231ps ymm0, ymm1, ymm2
            &[0xc4, 0xe2, 0x75, 0xb8, 0xc2, 0x90],
            // As tdpbf16ps, of 256 bits.
            &[0xc4, 0xe2, 0x76, 0x5c, 0xda, 0x90],
            // tileloadd without a second byte for its address, and of a ninth tile.
            &[0xc4, 0xe2, 0x7b, 0x4b, 0x06, 0x90],
            &[0xc4, 0x62, 0x7b, 0x4b, 0x04, 0x16],
            // tilezero with a third register, and tilerelease with one.
            &[0xc4, 0xe2, 0x73, 0x49, 0xd8, 0x90],
            &[0xc4, 0xe2, 0x78, 0x49, 0xc8, 0x90],
            // tdpbssd tmm3, tmm2, tmm1: whole numbers, which we do not use.
            &[0xc4, 0xe2, 0x73, 0x5e, 0xda, 0x90],
            &[],
        ];
        for bytes in others {
            assert_eq!(decode(bytes), None, "{bytes:02x?}");
        }
    }
}
