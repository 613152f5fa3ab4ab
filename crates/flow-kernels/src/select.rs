//! Who computes: the best that the machine has, or what is asked for.
//!
//! Two things are chosen apart. The [`Format`] decides what the results are; the [`InstructionSet`] only how
//! fast they come. A user who names a set gets that one and what lies below it, as if the machine had no
//! more.

use std::fmt;
use std::str::FromStr;

use crate::kernels::Kernels;
use crate::self_check;
use crate::dispatch::{self as table, Table};

/// The numbers that go into products; sums are 32-bit floats in either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// 32-bit floats.
    F32,
    /// bf16: eight bits of precision, and half the memory.
    Bf16,
}

/// Instructions that a machine may have, from the most common to the rarest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionSet {
    /// Those that the program was built for.
    Portable,
    /// ARM's vectors.
    Neon,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512 BF16.
    Avx512Bf16,
    /// AMX with bf16.
    Amx,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackEnd {
    instructions: InstructionSet,
    format: Format,
}

/// The text names no set of instructions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a back end: give `amx`, `avx512-bf16`, `avx512`, `avx2`, `neon` or `portable`"
)]
pub struct BadBackEnd(String);

/// The machine does not have the instructions that were asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("back end `{wanted}` cannot run here; this machine has `{}`", names(.here))]
pub struct NoBackEnd {
    wanted: InstructionSet,
    here: Vec<InstructionSet>,
}

/// Best first.
const SETS: [InstructionSet; 6] = [
    InstructionSet::Amx,
    InstructionSet::Avx512Bf16,
    InstructionSet::Avx512,
    InstructionSet::Avx2,
    InstructionSet::Neon,
    InstructionSet::Portable,
];

impl BackEnd {
    /// The best back end for numbers of this format, with no instructions above `most`.
    ///
    /// # Errors
    ///
    /// If the machine does not have the instructions that were named.
    pub fn choose(format: Format, most: Option<InstructionSet>) -> Result<Kernels, NoBackEnd> {
        if let Some(wanted) = most.filter(|most| !most.is_here()) {
            let here = InstructionSet::here().collect();
            return Err(NoBackEnd { wanted, here });
        }
        let most = most.unwrap_or(InstructionSet::Amx);
        let allowed = SETS.into_iter().filter(|set| *set <= most);
        let mut found = allowed.filter_map(|set| Self::of(format, set));
        // The portable one is always there.
        Ok(found.find(self_check::passes).unwrap_or(Kernels::new(
            Self::PORTABLE,
            format,
            &table::PORTABLE,
        )))
    }

    /// Every back end that this machine has, best first.
    pub fn all() -> impl Iterator<Item = Kernels> {
        [Format::Bf16, Format::F32].into_iter().flat_map(|format| {
            SETS.into_iter()
                .filter_map(move |set| Self::of(format, set))
        })
    }

    /// Which instructions it is made of.
    #[must_use]
    pub fn instructions(self) -> InstructionSet {
        self.instructions
    }

    const PORTABLE: Self = Self {
        instructions: InstructionSet::Portable,
        format: Format::F32,
    };

    /// The back end of these instructions for numbers of this format, if there is one and it can run here.
    fn of(format: Format, instructions: InstructionSet) -> Option<Kernels> {
        let table = table(format, instructions).filter(|_| instructions.is_here())?;
        let back_end = Self {
            instructions,
            format,
        };
        Some(Kernels::new(back_end, format, table))
    }
}

impl InstructionSet {
    /// Those that this machine has, best first.
    pub fn here() -> impl Iterator<Item = Self> {
        SETS.into_iter().filter(|set| set.is_here())
    }

    /// Whether it multiplies bf16 faster than 32-bit floats.
    #[must_use]
    pub fn has_bf16(self) -> bool {
        matches!(self, Self::Avx512Bf16 | Self::Amx)
    }

    #[cfg(target_arch = "x86_64")]
    fn is_here(self) -> bool {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = || {
            avx2 && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
        };
        match self {
            Self::Portable => true,
            Self::Neon => false,
            Self::Avx2 => avx2,
            Self::Avx512 => avx512(),
            Self::Avx512Bf16 => avx512() && is_x86_feature_detected!("avx512bf16"),
            Self::Amx => Self::Avx512Bf16.is_here() && crate::x86::amx::is_allowed(),
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn is_here(self) -> bool {
        match self {
            Self::Portable => true,
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Self::Avx2 | Self::Avx512 | Self::Avx512Bf16 | Self::Amx => false,
        }
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn is_here(self) -> bool {
        self == Self::Portable
    }
}

/// What each is made of. Where a set has nothing of its own for a format, the one below it has.
fn table(format: Format, instructions: InstructionSet) -> Option<&'static Table> {
    match (format, instructions) {
        (_, InstructionSet::Portable) => Some(&table::PORTABLE),
        #[cfg(target_arch = "aarch64")]
        (_, InstructionSet::Neon) => Some(&table::NEON),
        #[cfg(target_arch = "x86_64")]
        (_, InstructionSet::Avx2) => Some(&table::AVX2),
        #[cfg(target_arch = "x86_64")]
        (_, InstructionSet::Avx512) => Some(&table::AVX512),
        #[cfg(target_arch = "x86_64")]
        (Format::Bf16, InstructionSet::Avx512Bf16) => Some(&table::AVX512_BF16),
        #[cfg(target_arch = "x86_64")]
        (Format::Bf16, InstructionSet::Amx) => Some(&table::AMX),
        _ => None,
    }
}

fn names(sets: &[InstructionSet]) -> String {
    let names: Vec<String> = sets.iter().map(ToString::to_string).collect();
    names.join("`, `")
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512-bf16",
            Self::Amx => "amx",
        })
    }
}

impl fmt::Display for BackEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.instructions.fmt(f)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}

impl FromStr for InstructionSet {
    type Err = BadBackEnd;

    fn from_str(text: &str) -> Result<Self, BadBackEnd> {
        let found = SETS.into_iter().find(|set| set.to_string() == text);
        found.ok_or_else(|| BadBackEnd(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for set in SETS {
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        let error = "avx1024".parse::<InstructionSet>().unwrap_err().to_string();
        assert!(
            error.contains("`avx1024`") && error.contains("`avx2`"),
            "{error}"
        );
    }

    #[test]
    fn each_set_that_is_here_can_be_had_for_each_format() {
        for set in InstructionSet::here() {
            for format in [Format::F32, Format::Bf16] {
                let kernels = BackEnd::choose(format, Some(set)).unwrap();
                assert!(kernels.back_end().instructions() <= set);
                assert_eq!(kernels.format(), format);
            }
        }
    }

    #[test]
    fn a_set_that_is_not_here_is_refused_with_those_that_are() {
        let elsewhere = if cfg!(target_arch = "x86_64") {
            InstructionSet::Neon
        } else {
            InstructionSet::Avx2
        };
        let error = BackEnd::choose(Format::F32, Some(elsewhere)).unwrap_err();
        assert!(error.to_string().contains("`portable`"), "{error}");
    }
}
